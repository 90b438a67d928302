"""A program that a real sshd runs in place of every command of a login. It speaks the agent's
frames and lies in one way:

    python liar.py KIND DIRECTORY

It is well behaved but for the one lie. DIRECTORY holds what outlasts a connection. `KINDS` has what
each lie is and what the pod's row on the screen has to say of it.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import struct
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from bs4_common.wire import Decoder, encode

#: Bytes of the largest piece of a stream in one answer.
PIECE = 200_000
FAR = 10**17
YEAR_9999 = 253_402_210_800.0

#: What each kind does -> what is to be read in the row of its pod.
KINDS: dict[str, str] = {
    # frames that nobody asked for, without end
    "endless-frames": r"nobody asked for",
    # the length of a frame is 4 GB
    "giant-frame": r"over the limit",
    # records and a frame that nest 90,000 deep
    "deep-json": r"were refused",
    # texts for numbers, 1e400, null
    "odd-types": r"were refused",
    # 100,000 runs, and 100,000 incidents
    "many-runs": r"1,000 runs",
    "many-incidents": r"5,000 incidents|incident 0 \(\+4,?999\)",
    # names that a terminal acts on
    "escapes": r"were refused",
    # telemetry and a log of one line without an end, as fast as they are read
    "one-line": r"were refused",
    # a journal without an end, as fast as it is read
    "endless-journal": r"New journal records|journal were refused|no telemetry|telemetry is",
    # offsets near the end of what a number holds
    "far-offsets": r"no longer kept",
    # half an answer, and then nothing
    "half-answers": r"no telemetry|did not answer",
    # nothing after the greeting
    "no-answers": r"no telemetry|did not answer",
    # the connection ends after the first answer
    "disconnects": r"ended|closed",
    # the clock is in the year 9999
    "year-9999": r"in its greeting|wall seconds",
    # each connection has another past behind the same cursors
    "another-past": r"does not know what was read",
    # each connection is of another home
    "another-home": r"ended|closed",
    # each answer holds a gap
    "gaps": r"New gaps|records of|telemetry is",
    # a list of streams without an end
    "many-streams": r"streams",
}
_READY = re.compile(r"bs4-[0-9a-f]{12}")
_RUN = "rotten"


def stamped(**fields: Any) -> dict[str, Any]:
    return {"t": time.time(), "m": time.monotonic(), "b": "boot", **fields}


def lines(records: Iterable[dict[str, Any] | bytes]) -> bytes:
    return b"".join(
        (r if isinstance(r, bytes) else json.dumps(r).encode()) + b"\n" for r in records
    )


def registered(run: Any, **fields: Any) -> dict[str, Any]:
    about = {"trainer": "prime-rl", "output_dir": "/o", "cwd": "/c", "argv": ["x"]}
    return stamped(type="run", event="registered", run=run, **about, **fields)


def incident(name: str, **fields: Any) -> dict[str, Any]:
    about = {"run": _RUN, "attempt": 1, "failure": "f", "severity": "warning", "title": name}
    return stamped(type="incident", event="opened", incident=name, **about, **fields)


def odd_records() -> Iterator[dict[str, Any] | bytes]:
    yield stamped(type="run", event="registered", run=7)
    yield stamped(type="run", event="registered", run=None)
    yield stamped(type="run", event="attempt-started", run=_RUN, attempt="zz")
    yield stamped(type="action", action="A", event="intent", step=10**12, kind="stop", run=_RUN)
    yield b'{"t":1e400,"m":1,"b":"b","type":"note","run":"rotten"}'
    yield incident("i1", evidence=None) | {"t": "zz", "severity": ["x"]}


def escaping_names() -> Iterator[dict[str, Any]]:
    for name in (
        "\x1b[2Jgone",
        "\x1b]52;c;cm0=\x07",
        "a\nb",
        "\u202eevil",
        "\x9b31m",
        "\x1bP$q\x1b\\",
    ):
        yield registered(name)
        yield incident(name) | {"title": name}


class Liar:
    """One connection. `serve` ends with it."""

    def __init__(self, kind: str, directory: Path) -> None:
        self.kind = kind
        self._count = self._connections(directory)
        self._out = threading.Lock()
        self._answered = 0
        journal: list[dict[str, Any] | bytes] = [
            registered(_RUN),
            stamped(type="run", event="attempt-started", run=_RUN, attempt=1),
        ]
        telemetry: list[dict[str, Any] | bytes] = [self._telemetry()]
        if kind == "many-runs":
            journal += [registered(f"run{n}") for n in range(100_000)]
        elif kind == "many-incidents":
            journal += [incident(f"incident {n}") for n in range(100_000)]
        elif kind == "escapes":
            journal += escaping_names()
        elif kind == "odd-types":
            journal += odd_records()
            telemetry.append(stamped(gpus=[1, 2], host=5, runs={}))
        elif kind == "deep-json":
            journal.append(b'{"t":1,"type":"note","x":' + b"[" * 90_000 + b"]" * 90_000 + b"}")
        elif kind == "another-past":
            journal += [stamped(type="note", run=_RUN, text=f"{self._count}") for _ in range(2000)]
        elif kind == "another-home":
            journal.append(stamped(type="note", run=_RUN, text="x" * 60_000))
        elif kind == "year-9999":
            journal = [{**record, "t": YEAR_9999} for record in journal if isinstance(record, dict)]
        self.streams = {
            "journal": lines(journal),
            "telemetry": lines(telemetry),
            f"steps/{_RUN}": lines([stamped(attempt=1, side="trainer", step=1, time_s=1.0)]),
            f"log/{_RUN}/trainer": b"a line\n" * 1000,
        }
        if kind == "one-line":
            self._endless = {"telemetry": b"x" * PIECE, f"log/{_RUN}/trainer": b"x" * PIECE}
        elif kind == "endless-journal":
            self._endless = {
                "journal": lines(stamped(type="note", run=_RUN, n=n) for n in range(2000))
            }
        else:
            self._endless = {}

    @staticmethod
    def _connections(directory: Path) -> int:
        """Count the connections of this pod."""
        path = directory / "connections"
        number = int(path.read_text()) + 1 if path.exists() else 1
        path.write_text(str(number))
        return number

    def serve(self, token: str) -> None:
        """Answer until the console has gone."""
        self._write(f"\n{token} ready\n".encode())
        decoder = Decoder()
        while data := os.read(0, 65536):
            for frame in decoder.feed(data):
                if "hello" in frame.header:
                    self._write(encode({"hello": self._hello()}))
                    self._greeted()
                else:
                    self._take(frame.header)

    def _greeted(self) -> None:
        if self.kind == "endless-frames":
            threading.Thread(target=self._pour, daemon=True).start()
        elif self.kind == "giant-frame":
            self._write(struct.pack(">II", 2**32 - 1, 2**32 - 1) + b"x" * 1000)

    def _pour(self) -> None:
        frame = encode({"id": 10**9, "ok": True}, b"x" * 2000)
        while True:
            self._write(frame)

    def _take(self, asked: dict[str, Any]) -> None:
        if self.kind == "no-answers":
            return
        if self.kind == "half-answers" and asked["call"] == "read":
            self._write(encode({"id": asked["id"], "ok": True}, b"x" * 1000)[:500])
            time.sleep(1e6)
        if self.kind in ("disconnects", "another-past", "another-home") and self._answered > 6:
            os._exit(0)
        self._answered += 1
        if asked["call"] == "read":
            self._read(asked)
        elif asked["call"] == "query":
            self._say(asked, result=self._query(asked))
        elif asked["call"] == "ping":
            self._say(asked, t=self._now(), m=time.monotonic())
        elif asked["call"] == "submit":
            self._say(asked, action=asked["action"].get("key"), state="accepted")

    def _read(self, asked: dict[str, Any]) -> None:
        stream, cursor = asked["stream"], asked["cursor"]
        data = self.streams.get(stream, b"")
        offset = {"start": 0, "end": len(data)}.get(cursor)
        offset = int(cursor.split(":")[1]) if offset is None else offset
        if (
            self.kind == "another-past"
            and self._count > 1
            and cursor != "start"
            and stream == "journal"
        ):
            error = {"type": "bad-cursor", "message": "no such place"}
            self._write(encode({"id": asked["id"], "error": error}))
            return
        piece = self._endless.get(stream) or data[offset : offset + PIECE]
        if b"\n" in piece:
            piece = piece[: piece.rfind(b"\n") + 1]
        start, end, more = offset, offset + len(piece), offset + len(piece) < len(data)
        gap = None
        if self.kind == "far-offsets" and stream != "journal" and piece:
            start, end = FAR, FAR + len(piece)
        if self.kind == "gaps":
            gap = {"generation": 1, "from": offset, "to": offset + 1, "reason": "deleted " * 40}
            end += 1
        header = {"start": f"1:{start}", "next": f"1:{end}", "gap": gap, "partial": False}
        if piece or gap:
            self._say(asked, piece, **header, more=more)
            return
        # As an agent does: an answer without news waits as long as it was asked to.
        wait = min(asked.get("wait", 0.0), 20.0)
        timer = threading.Timer(wait, self._say, (asked,), {**header, "more": False})
        timer.daemon = True
        timer.start()

    def _query(self, asked: dict[str, Any]) -> dict[str, Any]:
        stream, op = asked["stream"], asked["op"]
        if op == "list":
            return self._list(str(asked.get("after") or ""))
        if op == "stat":
            size = len(self.streams.get(stream, b""))
            return {"kind": "records", "start": "1:0", "end": f"1:{size}", "bytes": size}
        return {"cursor": "1:0", "next": None}

    def _list(self, after: str) -> dict[str, Any]:
        names = [*self.streams]
        following = None
        if self.kind == "many-streams":
            first = int(after or 0)
            names += [f"log/{_RUN}/n{n}" for n in range(first, first + 400)]
            following = {"after": str(first + 400)}
        rows = [{"name": n, "kind": "log", "start": "1:0", "end": "1:0", "bytes": 0} for n in names]
        return {"streams": rows, "next": following}

    def _say(self, asked: dict[str, Any], payload: bytes = b"", **fields: Any) -> None:
        self._write(encode({"id": asked["id"], "ok": True, **fields}, payload))

    def _write(self, data: bytes) -> None:
        with self._out:
            view = memoryview(data)
            while view:
                try:
                    view = view[os.write(1, view) :]
                except BrokenPipeError:
                    os._exit(0)  # the console has gone

    def _now(self) -> float:
        return YEAR_9999 if self.kind == "year-9999" else time.time()

    def _telemetry(self) -> dict[str, Any]:
        host = {"cpu": 1.0, "cores": 4, "disks": []}
        runs = [{"run": _RUN, "alive": True, "components": []}]
        record = stamped(gpus={"state": "ok", "devices": []}, host=host, runs=runs)
        return {**record, "t": self._now()}

    def _hello(self) -> dict[str, Any]:
        home = f"home{self._count}" if self.kind == "another-home" else "rottenhome"
        about = {"agent": "0.1.0", "bundle": "x" * 16, "build": 1, "python": "3.11.7", "pid": 1}
        here = {"boot_id": "boot", "host": "rotten", "t": self._now(), "m": time.monotonic()}
        return {"protocol": 1, "home": home, **about, **here}


def main() -> None:
    token = _READY.search(os.environ.get("SSH_ORIGINAL_COMMAND", ""))
    if token is not None:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            Liar(sys.argv[1], Path(sys.argv[2])).serve(token.group())


if __name__ == "__main__":
    main()
