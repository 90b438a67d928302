"""Read old telemetry from the segments in the mirror: one moment, or a thinned-out time range.

Nothing here reads more than it needs, because a day of eight GPUs is 140 MB and a person waits. The
functions block, so they belong into a thread.
"""

from __future__ import annotations

import contextlib
import os
import re
from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path

from bs4_common.streams.segments import parse, record_time
from bs4_console.pods.gate import records, rules
from bs4_console.pods.links import KEPT_S, Links
from bs4_console.pods.samples import Telemetry
from bs4_console.pods.state import STALE_S

#: The beginning of a record's line (every record begins with its time stamp): at the start of a
#: line or behind a hole.
_RECORD = re.compile(rb'(?:^|(?<=[\n\0]))\{"t":', re.MULTILINE)
_NAME = re.compile(r"([0-9]{1,12})\.data")
#: Bytes that are read at once to find one record. A record of eight GPUs with their processes has 4
#: to 8 KiB.
_BLOCK = 32 * 1024
#: Bytes. A record is never longer than a frame's payload.
_LONGEST = 256 * 1024


class History:
    """Reads old telemetry of one pod that was saved on this machine. `directory` has a file
    `<generation>.data` for each file of the pod's telemetry, with holes where nothing was saved.
    The files may grow while they are read, and the directory need not exist.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._begins: dict[Path, float] = {}

    def near(self, t: float) -> Telemetry | None:
        """Return the telemetry record nearest to the time `t` (Unix time in seconds of the pod), or
        None if none lies within 5 seconds (STALE_S) of it. PCIe and NVLink readings that the record
        leaves out are filled in from the last record before it that has them, if that is at most 60
        seconds (PCIe) or 180 seconds (NVLink) older.
        """
        files = self._files()
        at = bisect_right([begin for begin, _ in files], t) - 1
        links = Links()
        best: Telemetry | None = None
        for _, path in files[max(0, at) : at + 2]:
            for record in _records(path, t - max(KEPT_S.values()), t + STALE_S):
                links.fill(record)
                if abs(record["t"] - t) <= STALE_S and (
                    best is None or abs(record["t"] - t) < abs(best["t"] - t)
                ):
                    best = record
        return best

    def between(self, begin: float, end: float, most: int) -> list[Telemetry]:
        """Return at most `most` telemetry records from `begin` to `end` (Unix time in seconds),
        oldest first. If there are more, only some of them are returned, evenly spread over the
        files. The list is empty if there are none.
        """
        files = self._files()
        first = max(0, bisect_right([b for b, _ in files], begin) - 1)
        touched = [path for b, path in files[first:] if b <= end]
        # A file that is only partly in the range gives less than its share. Asking each file for a
        # little more makes up for it.
        each = max(1, -(-most // max(1, len(touched))))
        found = []
        for path in touched:
            for record in _spread(path, each):
                if begin <= record["t"] <= end:
                    found.append(record)
        return found[:: max(1, -(-len(found) // max(1, most)))]

    def _files(self) -> list[tuple[float, Path]]:
        """Return (time of the first record, path) of each file, oldest first."""
        found = []
        with contextlib.suppress(FileNotFoundError):
            for path in self._directory.iterdir():
                if not _NAME.fullmatch(path.name):
                    continue
                if path not in self._begins:
                    for record in _spread(path, 1):
                        self._begins[path] = record["t"]
                if path in self._begins:
                    found.append((self._begins[path], path))
        return sorted(found)


def _records(path: Path, begin: float, end: float) -> Iterator[Telemetry]:
    """Yield the records of one file in a time range. Of the other records only the time stamps are
    read. A file that was deleted for newer ones yields nothing.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return
    for match in _RECORD.finditer(data):
        stop = data.find(b"\n", match.start())
        t = record_time(data[match.start() : match.start() + 48])
        if stop >= 0 and t is not None and begin <= t <= end:
            yield from _checked(data[match.start() : stop])


def _spread(path: Path, count: int) -> Iterator[Telemetry]:
    """Yield about `count` records at even distances of the file's bytes, the first record among
    them, and none twice.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        size = os.fstat(fd).st_size
        behind = 0
        for i in range(count):
            place = _record_at(fd, max(behind, size * i // count))
            if place is None:
                return
            begin, line = place
            behind = begin + len(line)
            yield from _checked(line)
    finally:
        os.close(fd)


def _checked(line: bytes) -> Iterator[Telemetry]:
    """Yield the record in a line, or nothing if an agent would not write such a record."""
    with contextlib.suppress(rules.RecordRefused):
        yield records.telemetry(parse(line))


def _record_at(fd: int, offset: int) -> tuple[int, bytes] | None:
    """Return (offset, line) of the first whole record that begins at or behind `offset`, or None if
    there is none. Bytes that were never read from the pod are a hole and are passed over.
    """
    try:
        offset = max(offset, os.lseek(fd, offset, os.SEEK_DATA))
    except OSError:
        return None  # nothing but a hole up to the end
    begin = max(0, offset - 1)  # with the byte before, to see whether a record begins just here
    data = b""
    while True:
        more = os.pread(fd, _BLOCK, begin + len(data))
        data += more
        match = _RECORD.search(data)
        if match and (stop := data.find(b"\n", match.start())) >= 0:
            return begin + match.start(), data[match.start() : stop + 1]
        if not more or len(data) > 2 * _LONGEST:
            return None
