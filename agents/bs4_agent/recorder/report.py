"""One crash report: a file that shows, without the pod, what the pod knew around the end of an
attempt.

The file is a gzipped tar of
* `report.json`: {"schema": "bs4.report/1", "home", "host", "run", "attempt", "trainer",
  "output_dir", "t", "end", "newest_complete_step", "incidents", "missing"};
* `records/<stream>/<segment>`: the journal, the steps and the last 15 minutes of telemetry, in the
  same segments as on the pod;
* `log/<run>/<source>/<generation>.<offset>`: the end of every log of the attempt, from the start of
  a line, with the line's offset in the log;
* `attempt/`: the processes that were started and how they ended; `config/`: the run's config;
  `dmesg.log` if the kernel log may be read.
All of it are copies without secrets: without the values that the pod holds, and without what has
the form of a credential. What stands in place of a secret is as long as the secret, so
that offsets stay right.
"""

from __future__ import annotations

import io
import json
import os
import re
import tarfile
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import TypedDict

from bs4_agent.pod import Pod
from bs4_agent.streams.registry import Streams
from bs4_agent.telemetry.kernel import KernelLog
from bs4_common.checkpoints.inventory import complete_steps, inventory
from bs4_common.credentials.redaction import LOOK_BACK_BYTES
from bs4_common.files import read_json
from bs4_common.states import Role
from bs4_common.streams.lines import line_start
from bs4_common.streams.logs import LogStream
from bs4_common.streams.segments import SegmentStream, record_time
from bs4_common.streams.stream import Piece

SCHEMA = "bs4.report/1"
#: The most bytes of each log, and of the journal and the steps. Their ends matter most.
LOG_BYTES = 1024 * 1024
RECORD_BYTES = 8 * 1024 * 1024
TELEMETRY_S = 900.0
#: A file of the report: its name, its content, and the whole lines before that content.
Member = tuple[str, bytes, bytes]
_ATTEMPT_FILES = (
    "spec.json",
    "shim.json",
    "exits.ndjson",
    "end.json",
    "launcher_end.json",
    "members.json",
)
#: Seconds of kernel log before the attempt. Earlier lines are left out, because the kernel of the
#: host reports on its other tenants too.
_BEFORE_S = 60.0
_CONFIG_BYTES = 1024 * 1024
#: The newest lines of the kernel that are kept.
LINES = 2000
#: The form of a kernel record: priority,sequence,microseconds,flags;text
_RECORD = re.compile(rb"\d+,\d+,(\d+),[^;]*;(.*)")
#: Matches a setting, such as `wandb_api_key = "..."`: what stands before its value, its name alone,
#: and its value. No part of it can begin with what the part before it may end with, and nothing
#: goes beyond a line. A pattern that tried each way to share out a megabyte of blanks would hold
#: the interpreter's lock, and with it the agent, for hours.
_SETTING = re.compile(rb"(?m)^([^\S\n]*([\w.\"'-]+)[^\S\n]*=[^\S\n]*)(.*)$")
#: What the last part of a name has, behind its last dot, if people keep a secret under it.
_SECRET_NAME = re.compile(rb"(?i)key|token|secret|password|passwd")
#: Values under such a name that are no secret.
_PLAIN = re.compile(rb"(?i)true|false|[0-9.]+")


class ReportIncident(TypedDict):
    """An incident (a detected failure) of the attempt, as a crash report lists it."""

    failure: str
    """The id of the known failure."""
    role: Role
    """How the incident is related to others, for example "root" (it explains them)."""
    title: str
    summary: str


class ReportHead(TypedDict):
    """The content of the file `report.json` in a crash report, which is about one attempt of a
    run.
    """

    schema: str
    """The name and version of this format."""
    home: str
    """The id of the agent's home."""
    host: str
    run: str
    attempt: int
    trainer: str
    """The id of the run's trainer."""
    output_dir: str
    t: float
    """The time of the report, as Unix time in seconds."""
    end: object
    """How the launcher ended: the content of end.json, which the shim (the process that started the
    launcher) has written. None if there is none.
    """
    newest_complete_step: int | None
    """The training step of the run's newest complete checkpoint, or None."""
    incidents: list[ReportIncident]
    missing: list[str]
    """A sentence for each part that could not be included."""


def write(
    pod: Pod, streams: Streams, run: str, attempt: int, target: Path, *, now: float | None = None
) -> ReportHead:
    """Write the crash report of attempt `attempt` of the run `run` to the file `target`, a
    compressed tar archive. Return the content of the file `report.json` in it. An existing `target`
    is replaced as a whole or not at all.

    `now` is the time of the report as a Unix time in seconds; None means the present time. Raises
    OSError if the disk is full. Raises UnknownRun if there is no such run.
    """
    t = time.time() if now is None else now
    secrets = pod.runs.secrets
    spec = pod.runs.get(run).spec
    secrets.learn(spec.env)
    secrets.learn_words([*spec.overrides, *spec.argv])
    partial = target.with_suffix(".partial")
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        with tarfile.open(partial, "w:gz", compresslevel=6) as archive:
            missing: list[str] = []
            for name, data, before in _contents(pod, streams, run, attempt, t, missing):
                _add(archive, name, secrets.redacted_bytes(data, before), t)
            head = _head(pod, run, attempt, t, missing)
            told = secrets.redacted_bytes(json.dumps(head, indent=1).encode())
            _add(archive, "report.json", told, t)
        partial.chmod(0o600)
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)
    return head


def without_secrets(config: bytes) -> bytes:
    """Return the text of a config in which the value of each key that looks like a secret is
    replaced by "(left out)".
    """
    return _SETTING.sub(_left_out, config)


def _left_out(setting: re.Match[bytes]) -> bytes:
    """Return a line of a config, without its value if its name is that of a secret."""
    before, name, value = setting.groups()
    last = name.rpartition(b".")[2]
    if _PLAIN.fullmatch(value.strip()) or not _SECRET_NAME.search(last):
        return setting[0]
    return before + b'"(left out)"'


def _contents(
    pod: Pod, streams: Streams, run: str, attempt: int, t: float, missing: list[str]
) -> Iterator[Member]:
    """Yield every file of the report except `report.json`. A sentence about each part that cannot
    be included is appended to `missing`.
    """
    for name in streams.names():
        stream = streams.get(name)
        if name in ("journal", "telemetry", f"steps/{run}") and isinstance(stream, SegmentStream):
            yield from _records(name, stream, t - TELEMETRY_S if name == "telemetry" else 0.0)
        elif name.startswith(f"log/{run}/") and isinstance(stream, LogStream):
            yield from _log(name, stream, attempt, missing)
    directory = pod.runs.home.attempt(run, attempt)
    for file in _ATTEMPT_FILES:
        if (directory / file).is_file():
            yield f"attempt/{file}", (directory / file).read_bytes(), b""
    yield from _config(pod, run, missing)
    started = {a.number: a.started_m for a in pod.runs.get(run).attempts}
    kernel = kernel_lines(pod.scope.dev, started.get(attempt, 0.0) - _BEFORE_S)
    if kernel is None:
        missing.append("the kernel log may not be read here")
    else:
        yield "dmesg.log", kernel, b""


def _records(name: str, stream: SegmentStream, since_t: float) -> Iterator[Member]:
    """Yield whole segments of a record stream, oldest first. They reach back to wall-clock time
    `since_t` (0 means no limit) or to `RECORD_BYTES`, whichever comes first.
    """
    chosen: list[tuple[int, bytes]] = []
    total = 0
    for piece in reversed(stream.pieces()):
        data = _read(piece, 0)
        chosen.append((piece.generation, data))
        total += len(data)
        begins = record_time(data.split(b"\n", 1)[0]) if data else None
        if total >= RECORD_BYTES or (since_t and begins is not None and begins <= since_t):
            break
    for generation, data in reversed(chosen):
        yield f"records/{name}/{generation}", data, b""


def _log(name: str, stream: LogStream, attempt: int, missing: list[str]) -> Iterator[Member]:
    """Yield the ends of the log files that belong to this attempt, oldest first. At most
    `LOG_BYTES` are taken, from the newest file first.
    """
    attempts = {}
    for g in stream.stat()["generations"]:
        attempts[g["generation"]] = g["attempt"]
    room = LOG_BYTES
    found: list[Member] = []
    for piece in reversed(stream.pieces()):
        if attempts.get(piece.generation) != attempt:
            continue
        begin = _line_near(piece, max(0, piece.size - room))
        data = _read(piece, begin)
        if begin:
            missing.append(
                f"{name}: {begin} bytes before the last {len(data)} of file {piece.generation}"
            )
        earlier = _line_near(piece, max(0, begin - LOOK_BACK_BYTES))
        before = _read(piece, earlier)[: begin - earlier]
        found.append((f"{name}/{piece.generation}.{begin}", data, before))
        room -= len(data)
        if room <= 0:
            break
    yield from reversed(found)


def _config(pod: Pod, run: str, missing: list[str]) -> Iterator[Member]:
    """Yield the run's config without its secrets."""
    path = pod.runs.get(run).spec.config_path
    try:
        with path.open("rb") as handle:
            yield f"config/{path.name}", without_secrets(handle.read(_CONFIG_BYTES)), b""
    except OSError as error:
        missing.append(f"the config {path}: {error.strerror}")


def _head(pod: Pod, run: str, attempt: int, t: float, missing: list[str]) -> ReportHead:
    """Return the contents of `report.json`."""
    subject = pod.runs.get(run)
    trainer = pod.runs.trainer(subject)
    return {
        "schema": SCHEMA,
        "home": pod.runs.home.id(),
        "host": os.uname().nodename,
        "run": run,
        "attempt": attempt,
        "trainer": subject.spec.trainer,
        "output_dir": str(subject.spec.output_dir),
        "t": t,
        "end": read_json(pod.runs.home.attempt(run, attempt) / "end.json"),
        "newest_complete_step": max(complete_steps(inventory(trainer, subject.spec)), default=None),
        "incidents": [
            {"failure": i.failure, "role": i.role, "title": i.title, "summary": i.summary}
            for i in pod.book.ledger.incidents.values()
            if (i.run, i.attempt) == (run, attempt)
        ],
        "missing": missing,
    }


def _line_near(piece: Piece, offset: int) -> int:
    """Return the offset of the start of the line that contains `offset`."""
    fd = piece.open()
    if fd < 0:
        return offset
    try:
        return line_start(fd, offset) if offset else 0
    finally:
        os.close(fd)


def kernel_lines(dev: Path, since_m: float = 0.0) -> bytes | None:
    """Return the newest lines of the kernel's log, at most 2,000, as dmesg prints them (`[
    1234.567890] text`). Lines older than `since_m` (seconds since the machine booted) are left out.
    Return None if the agent may not read `dev`/kmsg.
    """
    log = KernelLog(dev, past=True)
    lines: deque[bytes] = deque(maxlen=LINES)
    while records := log.read():
        for found in filter(None, map(_RECORD.match, records)):
            if int(found[1]) >= since_m * 1_000_000:
                lines.append(b"[%5d.%06d] %s\n" % (*divmod(int(found[1]), 1_000_000), found[2]))
    readable = log.state == "visible"
    log.close()
    return b"".join(lines) if readable else None


def _read(piece: Piece, begin: int) -> bytes:
    """Return the bytes of `piece` from offset `begin` on. Return b"" if the file is gone."""
    fd = piece.open()
    if fd < 0:
        return b""
    try:
        return os.pread(fd, max(0, piece.size - begin), begin)
    finally:
        os.close(fd)


def _add(archive: tarfile.TarFile, name: str, data: bytes, t: float) -> None:
    """Add `data` to the archive as the file `name`, modified at wall-clock time `t`."""
    member = tarfile.TarInfo(name)
    member.size, member.mtime, member.mode = len(data), int(t), 0o600
    archive.addfile(member, io.BytesIO(data))
