"""What a pod makes the console keep: writes to a mirror, and what is read back from it.

An input is a list of lines `STREAM CURSOR DATA`, and `gap STREAM JSON`. Nothing is written outside
the mirror's directory or over a ceiling, and what is read back are records.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from bs4_common.streams.segments import parse
from bs4_console import ceilings
from bs4_console.pods import mirror as mirrors
from tests.fuzz import healthy
from tests.fuzz.ceilings import lowered
from tests.fuzz.scratch import scratch

_KIB = 1024
#: Low ceilings, so that a small input can go over them.
_CEILINGS = {
    "DISK_BYTES": 64 * _KIB,
    "JOURNAL_BYTES": 16 * _KIB,
    "STEPS_BYTES": 16 * _KIB,
    "GAPS_BYTES": 512,
    "RECORD_FILE_BYTES": 8 * _KIB,
}
#: The gate of pods/channel.py for the cursors of a reply.
_CURSOR = re.compile(r"[0-9]{1,12}:[0-9]{1,18}")

SEEDS = [
    b"journal 1:0 " + healthy.JOURNAL[0] + b"journal 1:120 " + healthy.JOURNAL[15],
    b"telemetry 1:0 " + healthy.TELEMETRY + b'gap telemetry {"generation": 1, "from": 0}\n',
    b"log/r/trainer 1:0 12:00:00 INFO x\nlog/r/trainer 2:100 12:00:01 INFO y\n",
    b"steps/r 1:0 " + healthy.STEPS[0] + b"steps/r 1:200 " + healthy.STEPS[1],
    b'gap journal {"generation": 1, "from": 0, "to": 5, "reason": "full"}\n' * 4,
]


def feed(data: bytes) -> None:
    """Keep the chunks of an input, then open the mirror again and read all of it."""
    with scratch() as directory, lowered(_CEILINGS):
        root = directory / "pod"
        kept = mirrors.Mirror(root)
        kept.use("home1")
        streams = set()
        for line in data.split(b"\n"):
            word, stream, rest = _words(line)
            streams.add(stream)
            _keep(kept, word, stream, rest)
        _check(directory, root)
        again = mirrors.Mirror(root, write=False)
        for stream in streams:
            for record in again.records(stream):
                assert isinstance(record, dict)
            again.tail(stream, 5)
            again.cursor(stream)


def _words(line: bytes) -> tuple[str, str, bytes]:
    """Return the kind of a line, its stream and the rest."""
    first, _, rest = line.partition(b" ")
    if first == b"gap":
        name, _, rest = rest.partition(b" ")
        return "gap", name.decode("utf-8", "replace"), rest
    return "keep", first.decode("utf-8", "replace"), rest


def _keep(kept: mirrors.Mirror, word: str, stream: str, rest: bytes) -> None:
    if word == "gap":
        gap = parse(rest)
        if gap is not None:
            kept.note_gap(stream, gap)
        return
    cursor, _, data = rest.partition(b" ")
    start = cursor.decode("ascii", "replace")
    if _CURSOR.fullmatch(start):
        kept.append(stream, start, start, data + b"\n")


def _check(directory: Path, root: Path) -> None:
    files = list(_files(directory))
    assert all(path.is_relative_to(root) for path in files), "a file lies outside the mirror"
    counted = _size(path for path in files if path.suffix != ".spans")
    assert counted <= ceilings.DISK_BYTES + 100, "more is kept than the ceiling allows"
    for stream, most in (("journal", ceilings.JOURNAL_BYTES), ("steps", ceilings.STEPS_BYTES)):
        held = _size(path for path in files if stream in path.parts and path.suffix == ".data")
        assert held <= most, f"more of {stream} is kept than its ceiling allows"
    gaps = _size(path for path in files if path.name == "gaps.ndjson")
    assert gaps <= ceilings.GAPS_BYTES, "more gaps are kept than the ceiling allows"
    for path in files:
        if path.suffix == ".data" and "log" not in path.parts:
            assert path.stat().st_size <= ceilings.RECORD_FILE_BYTES, "a file of records is huge"


def _size(files: Iterable[Path]) -> int:
    return sum(path.stat().st_size for path in files)


def _files(directory: Path) -> Iterator[Path]:
    for path in directory.rglob("*"):
        if path.is_file():
            yield path
