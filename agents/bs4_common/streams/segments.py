"""A stream of records on disk: NDJSON in numbered segment files, with a cap, read by cursor while
it is written.
"""

from __future__ import annotations

import errno
import json
import os
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from bs4_common.clock import boot_id
from bs4_common.errors import AgentError, BadCursor, SpoolFull
from bs4_common.files import sync_directory
from bs4_common.foreign_json import ForeignJsonError, loads
from bs4_common.streams.cursor import END, START, Chunk, Cursor, Gap
from bs4_common.streams.lines import line_start
from bs4_common.streams.stream import Piece, Stat
from bs4_common.wire import PAYLOAD_LIMIT

#: The most bytes of a record. It has to fit into one frame's payload, because a reader gets whole
#: lines only.
RECORD_LIMIT = PAYLOAD_LIMIT

_NAME = re.compile(r"([0-9]{8})\.ndjson")
#: Every record begins with its stamp (clock.stamp), so its time is found without parsing the line.
_TIME = re.compile(rb'\{"t":(-?[0-9.eE+]{1,24})')


class RecordTooLarge(AgentError):
    """Raised for a record of more than 256 KiB, which is too large for one message to a console."""

    type = "record-too-large"


class RecordNotJson(AgentError):
    """Raised for a record with a value that JSON cannot express, such as NaN."""

    type = "record-not-json"


class SegmentStream:
    """A stream of records, stored as one JSON object a line in numbered files, the segments
    `<directory>/NNNNNNNN.ndjson`. Only one process may write the stream, with any number of
    threads.

    If the stream would grow beyond `cap_bytes`, its oldest segment is deleted. A reader that had
    not yet read that segment then gets a Chunk whose `gap` says which bytes are lost. With
    `keep_unreleased`, which is used for the journal, a segment is deleted only after `release` was
    called for all of its records. If no segment may be deleted, `append` raises SpoolFull.

    If the machine stopped in the middle of a write, the incomplete last line is cut off when the
    stream is opened. `repaired` then says which bytes were cut off, as `{"generation", "from",
    "to", "reason"}`: the segment's number, byte offsets, and a text. It is None if nothing was cut
    off. After a reboot a new segment is begun, because the last bytes before the reboot may never
    have reached the disk, and a reader's cursor to these bytes must not come to mean other bytes.
    """

    def __init__(
        self,
        directory: Path,
        cap_bytes: int,
        segment_bytes: int = 1024 * 1024,
        *,
        keep_unreleased: bool = False,
        relief: Callable[[], bool] | None = None,
    ) -> None:
        """Open the stream, or begin it if the directory has no segment. `relief` is called when the
        disk is full and returns True if it has made room (the journal's deletes telemetry).
        """
        self.directory = directory
        self.repaired: Gap | None = None
        self.timestamp: Callable[[bytes], float | None] | None = record_time
        self.on_append: Callable[[], None] | None = None
        self._cap, self._segment_bytes = cap_bytes, segment_bytes
        self._keep_unreleased, self._relief = keep_unreleased, relief
        self._released = 0
        self._lock = threading.RLock()
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._sizes = {number: path.stat().st_size for number, path in segments(directory)}
        self._current = max(self._sizes, default=0)
        self._fd = -1
        if self._current:
            self._reopen()
        else:
            self._begin(1)

    def append(self, record: Mapping[str, Any], *, sync: bool = False) -> str:
        """Write one record at the end of the stream, and return the cursor (the place, as text)
        after it. With `sync` the record is on the disk when this returns.

        Raises SpoolFull if there is no room, RecordTooLarge if the record has more than 256 KiB,
        which is the most in one message to a console, or RecordNotJson if JSON cannot express it.
        In all three cases nothing is written.
        """
        try:
            line = json.dumps(record, separators=(",", ":"), allow_nan=False).encode()
        except ValueError as error:
            raise RecordNotJson(
                f"A record of {self.directory.name} cannot be written ({error}); report this "
                "as a bug."
            ) from None
        return self.append_line(line, sync=sync)

    def append_line(self, line: bytes, *, sync: bool = False) -> str:
        """Write one record, given as the bytes of a JSON object without LF, at the end of the
        stream, and return the cursor (the place, as text) after it. With `sync` the record is on
        the disk when this returns. Raises SpoolFull if there is no room, or RecordTooLarge if the
        record has more than 256 KiB; nothing is written then.
        """
        data = line + b"\n"
        if len(data) > RECORD_LIMIT:
            raise RecordTooLarge(
                f"A record of {len(data)} bytes is over the limit of {RECORD_LIMIT}; record "
                "less of it."
            )
        with self._lock:
            if (
                self._sizes[self._current]
                and self._sizes[self._current] + len(data) > self._segment_bytes
            ):
                self._begin(self._current + 1)
            self._make_room(len(data))
            self._write(data, sync)
            cursor = str(Cursor(self._current, self._sizes[self._current]))
        if self.on_append is not None:
            self.on_append()
        return cursor

    def release(self, cursor: str) -> None:
        """Record that a console has received all records before `cursor`, a place in the stream as
        text. Segments (files) whose records are all before it may from now on be deleted when room
        is needed. Raises BadCursor if the text is no cursor.
        """
        with self._lock:
            self._released = max(self._released, Cursor.parse(cursor).generation)

    @property
    def releasable_before(self) -> int:
        """Return the number of the oldest segment (one of the numbered files of the stream) that
        may not be deleted. All segments with a lower number may be deleted when room is needed.
        """
        if self._keep_unreleased:
            return self._released
        return self._current

    @property
    def oldest(self) -> int:
        """Return the number of the oldest segment (one of the numbered files in which the stream is
        stored) that was not deleted yet.
        """
        with self._lock:
            return min(self._sizes)

    def shed(self) -> bool:
        """Delete the oldest segment of this stream, to make room on the disk for another stream.
        Return True if one was deleted. Return False, and delete nothing, if the only segment left
        is the one that is being written.
        """
        with self._lock:
            return self._drop_oldest()

    def read(self, cursor: str, limit: int) -> Chunk:
        """Return the chunk of whole records that begins at `cursor`, all from one segment (file).
        `cursor` is a place in the stream as text, or "start" or "end". The chunk has at most
        `limit` bytes, or one record if that record alone is larger, and it is empty if there is
        nothing new. Raises BadCursor if the stream has no such place.
        """
        with self._lock:
            sizes = dict(self._sizes)
        place = self._place(cursor, sizes)
        first, last = min(sizes), max(sizes)
        if place.generation < first:
            gap = place.gap(None, "aged out before it was read")
            return Chunk(str(place), str(Cursor(first, 0)), gap=gap, more=True)
        while place.offset >= sizes[place.generation] and place.generation < last:
            place = Cursor(min(number for number in sizes if number > place.generation), 0)
        try:
            data = self._whole_lines(place, sizes[place.generation], limit)
        except FileNotFoundError:
            end = Cursor(place.generation, sizes[place.generation])
            gap = place.gap(end.offset, "the segment was removed")
            return Chunk(str(place), str(end), gap=gap, more=place.generation < last)
        end = Cursor(place.generation, place.offset + len(data))
        return Chunk(str(place), str(end), data, more=end < Cursor(last, sizes[last]))

    def records(self) -> Iterator[dict[str, Any]]:
        """Yield every record that the stream still has, oldest first. A line that is no JSON object
        is skipped; in the stream of the journal (the agent's log), `Journal.verify` reports such
        lines.
        """
        for _, line in self.lines():
            record = parse(line)
            if record is not None:
                yield record

    def lines(self) -> Iterator[tuple[Cursor, bytes]]:
        """Yield (cursor, line) for every line that the stream still has, oldest first. The cursor
        is the place at which the line begins, and the line is its bytes without LF.
        """
        for number, size in sorted(self._snapshot().items()):
            offset = 0
            try:
                with open(self._path(number), "rb") as handle:
                    while offset < size and (line := handle.readline()).endswith(b"\n"):
                        yield Cursor(number, offset), line[:-1]
                        offset += len(line)
            except FileNotFoundError:
                continue

    def last_line(self) -> bytes | None:
        """Return the bytes of the newest line without its LF, or None if the stream is empty."""
        for number, size in sorted(self._snapshot().items(), reverse=True):
            if size:
                fd = os.open(self._path(number), os.O_RDONLY | os.O_CLOEXEC)
                try:
                    start = line_start(fd, size - 1)
                    return os.pread(fd, size - 1 - start, start)
                finally:
                    os.close(fd)
        return None

    def stat(self) -> Stat:
        """Return the state of the stream as a dictionary: `kind` "records", the cursors (places)
        `start` and `end`, `bytes` (the size of all segments, which are its files), and `segments`,
        the number of them.
        """
        sizes = self._snapshot()
        last = max(sizes)
        return {
            "kind": "records",
            "start": str(Cursor(min(sizes), 0)),
            "end": str(Cursor(last, sizes[last])),
            "bytes": sum(sizes.values()),
            "segments": len(sizes),
        }

    def pieces(self) -> list[Piece]:
        """Return the stream's segments (the files in which it is stored), oldest first. Each is a
        Piece: the file's number, its size in bytes and a function that opens it.
        """
        rows = []
        for number, size in sorted(self._snapshot().items()):
            rows.append(Piece(number, size, self._opener(number)))
        return rows

    def place_at(self, t: float) -> str | None:
        """Return None always, whatever the time `t` is, because a stream of records keeps no list
        of its sizes by time. Search such a stream by the times in its records instead.
        """
        return None

    def close(self) -> None:
        """Close the segment (file) that is being written. Nothing may be appended afterwards."""
        with self._lock:
            if self._fd >= 0:
                os.close(self._fd)
                self._fd = -1

    def _snapshot(self) -> dict[int, int]:
        """Return a copy of the sizes of all segments by number."""
        with self._lock:
            return dict(self._sizes)

    def _path(self, number: int) -> Path:
        """Return the path of a segment."""
        return self.directory / f"{number:08d}.ndjson"

    def _opener(self, number: int) -> Callable[[], int]:
        """Return a function that opens a segment and returns -1 if it is gone."""

        def opener() -> int:
            try:
                return os.open(self._path(number), os.O_RDONLY | os.O_CLOEXEC)
            except FileNotFoundError:
                return -1

        return opener

    def _place(self, cursor: str, sizes: Mapping[int, int]) -> Cursor:
        """Return the cursor in a text, also for "start" and "end". Raises BadCursor."""
        last = max(sizes)
        if cursor == START:
            return Cursor(min(sizes), 0)
        if cursor == END:
            return Cursor(last, sizes[last])
        place = Cursor.parse(cursor)
        if place > Cursor(last, sizes[last]):
            raise BadCursor(
                f"Cursor {cursor} is behind the end of this stream, {last}:{sizes[last]}; "
                "read again from 'start'."
            )
        return place

    def _whole_lines(self, place: Cursor, size: int, limit: int) -> bytes:
        """Return the whole records from `place` on. Raises BadCursor if it lies within a record."""
        if place.offset >= size:
            return b""
        fd = os.open(self._path(place.generation), os.O_RDONLY | os.O_CLOEXEC)
        try:
            if place.offset and os.pread(fd, 1, place.offset - 1) != b"\n":
                raise BadCursor(
                    f"Cursor {place} lies within a record; read again from a cursor that a "
                    "read gave."
                )
            room = min(size - place.offset, PAYLOAD_LIMIT)
            data = os.pread(fd, min(room, max(limit, 1)), place.offset)
            cut = data.rfind(b"\n") + 1
            if cut == 0:
                data = os.pread(fd, room, place.offset)
                cut = data.find(b"\n") + 1
            return data[:cut]
        finally:
            os.close(fd)

    def _reopen(self) -> None:
        """Continue with the newest segment after cutting off a torn line, unless the machine has
        been rebooted since.
        """
        number, size = self._current, self._sizes[self._current]
        self._fd = os.open(self._path(number), os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
        whole = line_start(self._fd, size)
        if whole < size:
            os.ftruncate(self._fd, whole)
            self._sizes[number] = whole
            self.repaired = Cursor(number, whole).gap(size, "a torn last record was cut off")
        last = parse(self.last_line() or b"{}") or {}
        if self._sizes[number] and last.get("b") != boot_id():
            self._begin(number + 1)

    def _begin(self, number: int) -> None:
        """Begin a new segment."""
        fd = self._with_relief(
            lambda: os.open(
                self._path(number),
                os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC,
                0o600,
            )
        )
        self.close()
        self._fd, self._current = fd, number
        self._sizes[number] = 0
        if self._keep_unreleased:
            # The name of a new segment must be as durable as the intents in it.
            sync_directory(self.directory)

    def _make_room(self, length: int) -> None:
        """Delete segments until `length` more bytes fit below the cap. Raises SpoolFull."""
        while sum(self._sizes.values()) + length > self._cap:
            if min(self._sizes) < self.releasable_before and self._drop_oldest():
                continue
            if not self._keep_unreleased:
                return
            raise SpoolFull(
                f"The records in {self.directory} have reached their cap of {self._cap} bytes and "
                "no console holds the oldest; connect a console so that they can leave."
            )

    def _drop_oldest(self) -> bool:
        """Delete the oldest segment. Return False if it is the current one."""
        number = min(self._sizes)
        if number == self._current:
            return False
        self._path(number).unlink(missing_ok=True)
        del self._sizes[number]
        return True

    def _write(self, data: bytes, sync: bool) -> None:
        """Write to the current segment, all or nothing. Raises SpoolFull."""
        size = self._sizes[self._current]

        def attempt() -> int:
            try:
                if os.write(self._fd, data) < len(data):
                    raise OSError(errno.ENOSPC, "a short write")
                if sync:
                    os.fdatasync(self._fd)
            except OSError:
                os.ftruncate(self._fd, size)
                raise
            return size + len(data)

        self._sizes[self._current] = self._with_relief(attempt)

    def _with_relief(self, attempt: Callable[[], int]) -> int:
        """Return the result of `attempt`. It is repeated while the disk is full and `relief` makes
        room. Raises SpoolFull if nothing helps.
        """
        while True:
            try:
                return attempt()
            except OSError as error:
                if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                    raise
            if self._relief is None or not self._relief():
                raise SpoolFull(
                    f"The disk of {self.directory} is full; free some space there, nothing "
                    "can be recorded or done before."
                )


def segments(directory: Path) -> list[tuple[int, Path]]:
    """Return (number, path) for each segment file (one of the files of a stream of records) in
    `directory`, oldest first. The list is empty if there are none.
    """
    return sorted(
        (int(match[1]), path)
        for path in directory.iterdir()
        if (match := _NAME.fullmatch(path.name))
    )


def parse(line: bytes) -> dict[str, Any] | None:
    """Return the JSON object in a line, or None if the line is no JSON object."""
    try:
        record = loads(line)
    except ForeignJsonError:
        return None
    if isinstance(record, dict):
        return record
    return None


def record_time(line: bytes) -> float | None:
    """Return the value of the key `t`, a Unix time in seconds, with which the line of a record
    begins (`{"t": ...`). Return None if the line does not begin with that key.
    """
    match = _TIME.match(line)
    try:
        return float(match[1]) if match else None
    except ValueError:
        return None
