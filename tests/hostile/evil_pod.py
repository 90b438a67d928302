"""A pod that lies: a real SSH server whose agent speaks the real frames and says whatever a test
wants.

It is well behaved unless a field of `Lies` says otherwise. It listens on 127.0.0.1 only.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import asyncssh

from bs4_common.wire import Decoder, encode
from tests.console.cli.conftest import Console
from tests.support import keys

#: Bytes of a stream that one read gives at most.
PIECE = 200_000
_READY = re.compile(r"bs4-[0-9a-f]{12}")


def stamped(**fields: Any) -> dict[str, Any]:
    """Return a record with the three fields that each record begins with."""
    return {"t": time.time(), "m": time.monotonic(), "b": "boot", **fields}


def lines(*records: dict[str, Any] | bytes) -> bytes:
    """Return records as a stream holds them. Bytes stand for themselves, so that they need not be
    JSON.
    """
    return b"".join(
        (r if isinstance(r, bytes) else json.dumps(r).encode()) + b"\n" for r in records
    )


def healthy_journal(run: str = "r1") -> list[dict[str, Any]]:
    """Return the journal of one run that trains."""
    return [
        stamped(
            seq=0,
            type="run",
            event="registered",
            run=run,
            trainer="prime-rl",
            output_dir="/o",
            cwd="/c",
            argv=["x"],
        ),
        stamped(seq=1, type="run", event="attempt-started", run=run, attempt=1),
    ]


def healthy_telemetry(run: str = "r1") -> dict[str, Any]:
    host = {"cpu": 1.0, "cores": 4, "disks": []}
    return stamped(
        gpus={"state": "ok", "devices": []},
        host=host,
        runs=[{"run": run, "alive": True, "components": []}],
    )


@dataclass
class Lies:
    """What the pod sends. `pong` is what it answers to a ping, `logs` the bytes of each log
    stream, `source` its answer for the trainer's source.
    """

    journal: bytes = field(default_factory=lambda: lines(*healthy_journal()))
    telemetry: bytes = field(default_factory=lambda: lines(healthy_telemetry()))
    steps: dict[str, bytes] = field(
        default_factory=lambda: {
            "r1": lines(stamped(attempt=1, side="trainer", step=1, time_s=1.0))
        }
    )
    logs: dict[str, bytes] = field(default_factory=dict)
    pong: dict[str, Any] = field(default_factory=dict)
    source: dict[str, Any] = field(default_factory=dict)
    home: str = "evilhome1"

    def data(self, stream: str) -> bytes:
        if stream == "journal":
            return self.journal
        if stream == "telemetry":
            return self.telemetry
        if stream.startswith("steps/"):
            return self.steps.get(stream.removeprefix("steps/"), b"")
        return self.logs.get(stream, b"")

    @property
    def streams(self) -> list[str]:
        return ["journal", "telemetry", *(f"steps/{run}" for run in self.steps), *self.logs]


class EvilPod:
    """One server. `start` it, give its name to a Console with `join`, and `stop` it."""

    def __init__(self, lies: Lies, directory: Path) -> None:
        self.lies = lies
        directory.mkdir(parents=True, exist_ok=True)
        self.host_key = keys.private_key(directory / "host_key")
        self.user_key = keys.private_key(directory / "user_key")
        self.port = 0
        self._acceptor: asyncssh.SSHAcceptor | None = None
        self._connections: set[asyncssh.SSHServerConnection] = set()
        self._answers: set[asyncio.Task[None]] = set()

    async def start(self) -> EvilPod:
        self._acceptor = await asyncssh.create_server(
            lambda: _Server(self._connections),
            "127.0.0.1",
            0,
            server_host_keys=[str(self.host_key)],
            process_factory=self._serve,
            encoding=None,
            authorized_client_keys=f"{self.user_key}.pub",
        )
        self.port = self._acceptor.get_port()
        return self

    def join(self, console: Console, name: str) -> None:
        console.add(
            name, "127.0.0.1", self.port, "tester", self.user_key, keys.public_line(self.host_key)
        )

    async def stop(self) -> None:
        """Close the server and cut all connections."""
        if self._acceptor is not None:
            self._acceptor.close()
        for connection in list(self._connections):
            connection.abort()
        for answer in list(self._answers):
            answer.cancel()
        await asyncio.gather(*self._answers, return_exceptions=True)

    async def _serve(self, process: asyncssh.SSHServerProcess[bytes]) -> None:
        ready = _READY.search(process.command or "")
        if ready is None:
            process.exit(0)
            return
        process.stdout.write(f"\n{ready.group()} ready\n".encode())
        decoder = Decoder()
        try:
            while data := await process.stdin.read(65536):
                for frame in decoder.feed(data):
                    self._answer(process, frame.header)
        except (asyncssh.Error, OSError):
            pass  # the console has gone
        process.exit(0)

    def _answer(self, process: asyncssh.SSHServerProcess[bytes], asked: dict[str, Any]) -> None:
        if "hello" in asked:
            process.stdout.write(encode({"hello": self._hello()}))
            return
        task = asyncio.create_task(self._reply(process, asked))
        self._answers.add(task)
        task.add_done_callback(self._answers.discard)

    async def _reply(
        self, process: asyncssh.SSHServerProcess[bytes], asked: dict[str, Any]
    ) -> None:
        header: dict[str, Any] = {"id": asked["id"], "ok": True}
        payload = b""
        if asked["call"] == "read":
            more, payload = await self._read(asked)
            header |= more
        elif asked["call"] == "query":
            header["result"] = self._query(asked["stream"], asked["op"])
        elif asked["call"] == "ping":
            header |= {"t": time.time(), "m": time.monotonic(), **self.lies.pong}
        elif asked["call"] == "submit":
            header |= {"action": asked["action"].get("key"), "state": "accepted"}
        with contextlib.suppress(BrokenPipeError):  # the console has gone
            process.stdout.write(encode(header, payload))

    async def _read(self, asked: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
        data, cursor = self.lies.data(asked["stream"]), asked["cursor"]
        offset = (
            0 if cursor == "start" else len(data) if cursor == "end" else int(cursor.split(":")[1])
        )
        piece = data[offset : offset + PIECE]
        if b"\n" in piece:
            piece = piece[: piece.rfind(b"\n") + 1]
        if not piece:
            # As an agent does: an answer without news waits as long as it was asked to.
            await asyncio.sleep(min(asked.get("wait", 0.0), 20.0))
        end = offset + len(piece)
        return {
            "start": f"1:{offset}",
            "next": f"1:{end}",
            "gap": None,
            "partial": False,
            "more": end < len(data),
        }, piece

    def _query(self, stream: str, op: str) -> dict[str, Any]:
        if op == "list":
            rows = [
                {"name": name, "kind": "log", "start": "1:0", "end": "1:0", "bytes": 0}
                for name in self.lies.streams
            ]
            return {"streams": rows, "next": None}
        if op == "stat":
            size = len(self.lies.data(stream))
            return {"kind": "records", "start": "1:0", "end": f"1:{size}", "bytes": size}
        if op == "source":
            return self.lies.source
        return {"cursor": "1:0", "next": None}

    def _hello(self) -> dict[str, Any]:
        return {
            "protocol": 1,
            "agent": "0.1.0",
            "bundle": "x" * 16,
            "build": 1,
            "home": self.lies.home,
            "python": "3.11.7",
            "pid": 1,
            "boot_id": "boot",
            "host": "evil",
            "t": time.time(),
            "m": time.monotonic(),
        }


class _Server(asyncssh.SSHServer):
    def __init__(self, connections: set[asyncssh.SSHServerConnection]) -> None:
        self._connections = connections

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        self._connections.add(conn)


def odd_journals() -> Iterable[tuple[str, Lies]]:
    """Yield the journals, telemetry and steps that ended or blanked the screen, by a name for
    each.
    """
    huge = b"9" * 400
    step = b'{"t":%.1f,"m":1,"b":"x","attempt":1,"side":"trainer","step":%s}'

    def journal(*extra: dict[str, Any] | bytes) -> Lies:
        return Lies(journal=lines(*healthy_journal(), *extra))

    def steps(value: bytes) -> Lies:
        good = stamped(attempt=1, side="trainer", step=1, time_s=1.0)
        return Lies(steps={"r1": lines(good, step % (time.time(), value))})

    opened = {
        "type": "incident",
        "event": "opened",
        "run": "r1",
        "attempt": 1,
        "failure": "f",
        "severity": "critical",
    }
    yield (
        "an action's step is 1e12",
        journal(
            stamped(type="action", action="A", event="intent", step=10**12, kind="stop", run="r1")
        ),
    )
    yield (
        "an action's step is infinite",
        journal(
            b'{"t":1,"m":1,"b":"b","type":"action","action":"A","event":"intent","step":Infinity}'
        ),
    )
    yield "a time of 400 digits", journal(b'{"t":%s,"m":1,"b":"b","type":"note","run":"r1"}' % huge)
    yield (
        "two incidents, one with a text for its time",
        journal(stamped(**opened, incident="i1"), {**stamped(**opened, incident="i2"), "t": "zz"}),
    )
    yield (
        "an incident of objects",
        journal(
            stamped(**{**opened, "incident": "i1", "title": {"a": 1}, "severity": ["x"], "role": 5})
        ),
    )
    yield "a run whose name is a number", journal(stamped(type="run", event="registered", run=7))
    yield "a run whose name is null", journal(stamped(type="run", event="registered", run=None))
    yield (
        "an attempt that is a text",
        journal(stamped(type="run", event="attempt-started", run="r1", attempt="zz")),
    )
    yield (
        "a method's name for a type",
        journal(stamped(type="_init__"), stamped(type="sync", event="_init__", run="r1")),
    )
    yield (
        "a record nested 90,000 deep",
        journal(b'{"t":1,"type":"note","run":"r1","x":' + b"[" * 90_000 + b"]" * 90_000 + b"}"),
    )
    yield "a step that is a text", steps(b'"abc"')
    yield "a step that is NaN", steps(b"NaN")
    yield "a step that is a list", steps(b"[]")
    yield "a step of 1e30", steps(b"1" + b"0" * 30)
    yield "a step of 4,000 digits", steps(b"1" * 4000)
    yield (
        "telemetry of 400 digits",
        Lies(telemetry=lines(healthy_telemetry(), b'{"t":%s,"m":1,"b":"b"}' % huge)),
    )
    yield (
        "telemetry of lists",
        Lies(telemetry=lines(healthy_telemetry(), stamped(gpus=[1, 2], host=5, runs={}))),
    )
    yield (
        "GPUs of junk",
        Lies(
            telemetry=lines(
                healthy_telemetry(),
                stamped(gpus={"state": "ok", "devices": [1, None, {"index": "x"}]}),
            )
        ),
    )
