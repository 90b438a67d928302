"""List a pod's crash reports, bring one here, and open it when the pod is gone. The agent's
recorder/ writes them.
"""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import io
import json
import os
import re
import tarfile
import zlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import IO, Any, TypedDict

from bs4_common.errors import BadCursor
from bs4_common.foreign_json import loads
from bs4_common.ledger import NOT_FOLDED, IncidentView, JournalRecord, Ledger
from bs4_common.streams.cursor import START, Cursor
from bs4_common.streams.segments import parse
from bs4_console import ceilings, files
from bs4_console.errors import RemoteError, UsageError
from bs4_console.pods import mirror
from bs4_console.pods.gate import records, rules
from bs4_console.pods.session import PodSession

SUFFIX = files.REPORT_SUFFIX
SCHEMA = "bs4.report/1"
_HEAD = rules.Shape(
    {
        "schema": rules.text,
        "home": rules.text,
        "host": rules.text,
        "run": rules.name,
        "attempt": rules.attempt,
        "trainer": rules.text,
        "t": rules.wall,
    },
    {"missing": rules.texts},
)
_NAME = r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}"
_RECORDS = re.compile(rf"records/(journal|telemetry|steps/{_NAME})/([0-9]{{1,12}})")
_LOG = re.compile(rf"log/{_NAME}/({_NAME})/([0-9]{{1,12}})\.([0-9]{{1,15}})")
_BESIDE = re.compile(rf"dmesg\.log|(?:attempt|config)/{_NAME}")
_ANSWER_S = 60.0
_TIMES = 3
#: Seconds before a report is read again whose hash the journal does not tell.
_PAUSES_S = (0.5, 2.0)


@dataclass(frozen=True, kw_only=True)
class Listed:
    """A crash report that lies on a pod and can be fetched. It is about the attempt (life of the
    processes) number `attempt` of the run `run`. `stream` is the name of the stream under which it
    is read from the pod, `t` the time at which it was written as a Unix time in seconds, `bytes`
    its size, and `sha256` its hash. `missing` are phrases that say what the report could not
    include.
    """

    stream: str
    run: str
    attempt: int
    t: float
    bytes: int
    sha256: str
    missing: tuple[str, ...]

    @property
    def file_name(self) -> str:
        """Return the file name that the report gets on this machine by default."""
        return self.stream.removeprefix("report/") + SUFFIX


class Head(TypedDict, total=False):
    """The contents of report.json, the file of a crash report that says what the report is about:
    the `attempt` (number of a life of the processes) of the run `run` of `trainer`, on the machine
    with the name `host`. `schema` names the form of the file.
    """

    schema: str
    home: str
    """The id of the agent's home directory."""
    host: str
    run: str
    attempt: int
    trainer: str
    t: float
    """Wall seconds since 1970 at which the report was written."""
    missing: Sequence[str]
    """Phrases that say what the report could not include."""


@dataclass(frozen=True)
class Report:
    """The contents of a crash report file.

    `head` is its report.json. `logs` has one tuple for each piece of a log: (source such as
    "trainer", generation, which is the number of the log's file, offset of the piece's first byte
    in that file on the pod, bytes). `records` maps the name of each record stream ("journal",
    "telemetry", "steps/RUN") to (segment number, bytes) pairs. `beside` maps names to the bytes of
    further files: dmesg.log, and files of the attempt and the config.
    """

    head: Head
    logs: tuple[tuple[str, int, int, bytes], ...]
    records: Mapping[str, tuple[tuple[int, bytes], ...]]
    beside: Mapping[str, bytes]

    @property
    def run(self) -> str:
        """Return the name of the run that the report is about."""
        return self.head["run"]


def listed(session: PodSession) -> list[Listed]:
    """Return the crash reports that the pod's journal (the agent's log of actions and incidents)
    lists and whose data is still on the pod, newest first. The list is empty if there are none.
    """
    there = set(session.state.streams)
    found = []
    for record in session.state.ledger.reports.values():
        if record.get("report") in there:
            found.append(_listed(record))
    return sorted((one for one in found if one is not None), key=lambda one: one.t, reverse=True)


def _listed(record: JournalRecord) -> Listed | None:
    """Return a report that the journal names. Return None if its name cannot be a file's name here,
    or if its record is incomplete.
    """
    stream, digest, size = record.get("report"), record.get("sha256"), record.get("bytes")
    if not isinstance(stream, str) or not isinstance(digest, str) or not isinstance(size, int):
        return None
    if not stream.startswith("report/") or not files.is_component(stream.removeprefix("report/")):
        return None
    missing = tuple(record.get("missing") or ())
    return Listed(
        stream=stream,
        run=record["run"],
        attempt=record["attempt"],
        t=record["t"],
        bytes=size,
        sha256=digest,
        missing=missing,
    )


async def fetch(session: PodSession, one: Listed, target: Path) -> Path:
    """Fetch the crash report `one` from its pod into the file `target` on this machine, and return
    that path. A report that is written anew lies on its pod a moment before the pod's journal (the
    agent's log of actions and incidents) tells its hash, so it is read up to three times. Raises
    UsageError if `target` exists already, or if the hash of the content differs from the hash in
    the journal each time. Raises OSError if the file cannot be written.
    """
    if target.exists():
        raise UsageError(
            f"{target} is there already.", "Name another file with --to, or open this one."
        )
    for pause in (*_PAUSES_S, None):
        data = await _read(session, one.stream)
        known = next((entry for entry in listed(session) if entry.stream == one.stream), one)
        if sha256(data).hexdigest() == known.sha256:
            files.replace(target, data)
            return target
        if pause is not None:
            await asyncio.sleep(pause)
    raise UsageError(
        f"{one.stream} is not what the journal says of it.",
        "It was written anew meanwhile, or changed; fetch it once more.",
    )


def load(path: Path) -> Report:
    """Read a crash report file on this machine and return its contents. The file is not trusted:
    sizes and names are checked. Raises UsageError if it cannot be read or is not a crash report.
    """
    wrong = UsageError(
        f"{path} is no crash report.",
        f"Give a file that `bs4-console reports fetch` brought (*{SUFFIX}).",
    )
    try:
        members = dict(_members(path))
        head = loads(members.pop("report.json"))
    except (
        gzip.BadGzipFile,
        tarfile.TarError,
        EOFError,
        zlib.error,
        KeyError,
        ValueError,
    ) as error:
        raise wrong from error
    except OSError as error:
        raise UsageError(
            f"{path} cannot be read: {error.strerror or error}.", "Give another file."
        ) from error
    try:
        _HEAD.check(head)
    except rules.RecordRefused as error:
        raise wrong from error
    if head["schema"] != SCHEMA or not files.is_component(head["run"]):
        raise wrong
    logs: dict[tuple[str, int], tuple[int, bytes]] = {}
    streams: dict[str, dict[int, bytes]] = defaultdict(dict)
    beside = {}
    for name, data in members.items():
        if found := _LOG.fullmatch(name):
            if (found[1], int(found[2])) in logs:
                raise wrong
            logs[found[1], int(found[2])] = (int(found[3]), data)
        elif found := _RECORDS.fullmatch(name):
            if int(found[2]) in streams[found[1]]:
                raise wrong
            streams[found[1]][int(found[2])] = data
        elif _BESIDE.fullmatch(name):
            beside[name] = data
    return Report(
        head,
        tuple((source, generation, *part) for (source, generation), part in logs.items()),
        {name: tuple(sorted(parts.items())) for name, parts in streams.items()},
        beside,
    )


def unpack(report: Report, root: Path) -> None:
    """Write the crash report below the directory `root` in the form in which a pod's data is saved
    on this machine (see Mirror), so that RecordedSession can open it.

    A report holds only the end of each log. Below `root` those bytes begin at offset 0, and every
    cursor in the records that points into a log is moved to match.
    """
    home = root / mirror.directory_name(report.head["home"])
    begins = {
        (f"log/{report.run}/{source}", generation): begin
        for source, generation, begin, _ in report.logs
    }
    for source, generation, _, data in report.logs:
        _put(home / "log" / report.run / source, generation, data)
    for stream, parts in report.records.items():
        for segment, data in parts:
            _put(
                home / stream,
                segment,
                b"".join(_moved(line, begins) for line in data.splitlines(keepends=True)),
            )
    (root / "home").write_text(home.name)


def incidents(report: Report) -> list[IncidentView]:
    """Return the incidents of the report's attempt that were open when the report was written, root
    causes first.
    """
    ledger, _ = _journal(report)
    attempt = report.head["attempt"]
    rows = []
    for found in ledger.open_incidents(report.run):
        if found.attempt == attempt:
            rows.append(found)
    return rows


def not_seen(report: Report) -> list[str]:
    """Return phrases that say what the crash report does not contain and what the agent could not
    observe when it wrote the report. The list is empty if nothing is missing.
    """
    phrases = list(report.head.get("missing") or ())
    for incident in incidents(report):
        phrases += incident.coverage
    _, refused = _journal(report)
    if refused:
        phrases.append(
            f"{len(refused)} records of its journal, which no agent writes; the first: {refused[0]}"
        )
    return list(dict.fromkeys(phrases))


def _journal(report: Report) -> tuple[Ledger, list[str]]:
    """Return the report's journal, and for each record that was left out what is wrong with it."""
    ledger, refused = Ledger(), []
    for _, data in report.records.get("journal", ()):
        for line in data.splitlines():
            record = parse(line)
            if record is None:
                continue
            try:
                ledger.apply(records.journal(record))
            except rules.RecordRefused as error:
                refused.append(str(error))
            except NOT_FOLDED as error:
                # What the check lets pass and the fold cannot take.
                refused.append(f"{type(error).__name__}: {error}")
    return ledger, refused


async def _read(session: PodSession, stream: str) -> bytes:
    for _ in range(_TIMES):
        parts: list[bytes] = []
        cursor = START
        try:
            channel = await session.connected(_ANSWER_S)
            size = 0
            while True:
                chunk = await channel.read(stream, cursor)
                parts.append(chunk.data)
                size += len(chunk.data)
                if size > ceilings.REPORT_BYTES:
                    raise UsageError(
                        f"{stream} has more than {ceilings.REPORT_BYTES // ceilings.MIB} "
                        "MiB, which no crash report has.",
                        "Nothing was kept of it; look at the pod.",
                    )
                cursor = chunk.next
                if not chunk.more:
                    return b"".join(parts)
        except RemoteError as error:
            if error.type != "bad-cursor":
                raise
    raise UsageError(
        f"{stream} is being written anew all the time.", "Fetch it once more in a minute."
    )


def _members(path: Path) -> Iterator[tuple[str, bytes]]:
    with (
        gzip.open(path) as unpacked,
        tarfile.open(fileobj=_Bounded(unpacked), mode="r:") as archive,
    ):
        for member in archive:
            handle = None
            if member.isreg():
                handle = archive.extractfile(member)
            if handle is None:
                raise tarfile.ReadError(f"{member.name[:80]}: not a plain file")
            yield member.name, _content(handle)


def _content(member: IO[bytes]) -> bytes:
    parts = []
    while part := member.read(ceilings.MIB):
        parts.append(part)
    return b"".join(parts)


class _Bounded(io.BufferedIOBase):
    """The unpacked bytes of an archive, with limits on the size of one read and on the total."""

    def __init__(self, unpacked: gzip.GzipFile) -> None:
        self._unpacked = unpacked

    def read(self, size: int | None = -1, /) -> bytes:
        """Return the next `size` bytes. Raises ReadError if the read or archive is too large."""
        if size is None or not 0 <= size <= ceilings.REPORT_READ_BYTES:
            raise tarfile.ReadError("a header is too large")
        data = self._unpacked.read(size)
        self._check(self._unpacked.tell())
        return data

    def seek(self, position: int, whence: int = os.SEEK_SET, /) -> int:
        """Move to a position and return it. Raises ReadError if it is beyond the limit of an
        archive.
        """
        self._check(position)
        return self._unpacked.seek(position, whence)

    def tell(self) -> int:
        """Return the current position in bytes."""
        return self._unpacked.tell()

    @staticmethod
    def _check(position: int) -> None:
        if position > ceilings.REPORT_UNPACKED_BYTES:
            raise tarfile.ReadError("it unpacks to too much")


def _put(directory: Path, generation: int, data: bytes) -> None:
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    fd = os.open(
        directory / f"{generation}.data", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600
    )
    with open(fd, "wb") as handle:
        handle.write(data)


def _moved(line: bytes, begins: Mapping[tuple[str, int], int]) -> bytes:
    """Return a record's line with its cursors as they are in the unpacked report. A line that is no
    record is returned unchanged.
    """
    if not any(begins.values()) or b'"cursor"' not in line:
        return line
    try:
        record = loads(line)
    except ValueError:
        return line
    return json.dumps(_walk(record, begins), separators=(",", ":")).encode() + b"\n"


def _walk(value: Any, begins: Mapping[tuple[str, int], int]) -> Any:
    if isinstance(value, list):
        return [_walk(item, begins) for item in value]
    if not isinstance(value, dict):
        return value
    moved = {}
    for key, item in value.items():
        moved[key] = _walk(item, begins)
    stream, cursor = value.get("stream"), value.get("cursor")
    if isinstance(stream, str) and isinstance(cursor, str) and ":" in cursor:
        with contextlib.suppress(BadCursor):  # what is no cursor stays as it is
            place = Cursor.parse(cursor)
            moved["cursor"] = str(
                Cursor(
                    place.generation,
                    max(0, place.offset - begins.get((stream, place.generation), 0)),
                )
            )
    return moved
