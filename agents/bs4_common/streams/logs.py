"""A log of a run as one stream: its files one after the other, read by cursor while they are
written, renamed, truncated and deleted.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bs4_common.errors import BadCursor
from bs4_common.streams.chain import Chain
from bs4_common.streams.cursor import END, START, Chunk, Cursor, Gap
from bs4_common.streams.generations import Generation
from bs4_common.streams.lines import line_start
from bs4_common.streams.stream import GenerationRow, Piece, Stat
from bs4_common.wire import PAYLOAD_LIMIT

#: Seconds after which an unfinished last line is shown, and between two deliveries of the same line
#: while it grows.
PARTIAL_S = 1.0
#: An unfinished line longer than this (a progress bar without end) is delivered in pieces, and not
#: again from its start each time.
PARTIAL_BYTES = 16 * 1024
#: Generations described by `stat`, newest last; a frame's header has room for about 200.
DESCRIBED = 8


@dataclass
class _Tail:
    """The unfinished last line of a live file. What readers see of it changes once a second at
    most, and is the same for all of them.
    """

    start: int
    since: float
    shown: int = 0
    shown_at: float = -PARTIAL_S


class LogStream:
    """A log as a stream of its raw bytes. `follow` sets where the log of an attempt is, `poll`
    checks the log's files, and `read` returns bytes. Each file that the log has had is one
    generation, which a cursor names by its number.

    A reader that continues at `Chunk.next` gets each whole line once and in order; Chunk says what
    happens to a last line without LF. Each file is hard-linked into the directory `archive` when it
    is found, so that nothing is lost if the file is deleted. The files are remembered in the JSON
    file `state`, so cursors stay valid after a restart of the agent. Where bytes cannot be read any
    more, a reader gets a chunk with a `gap`, and the function `on_gap` is called once with the gap
    {"generation", "from", "to", "reason"}: number of the file, byte offsets, and a text.
    """

    def __init__(
        self,
        name: str,
        archive: Path | None,
        state: Path | None,
        *,
        timestamp: Callable[[bytes], float | None] | None = None,
        on_gap: Callable[[Gap], None] | None = None,
    ) -> None:
        """Open the stream `name`. `timestamp` returns the Unix time of a line, for seek-time, or
        None. With `state` None, cursors end with this object.
        """
        self.name = name
        self.timestamp = timestamp
        self._on_gap = on_gap
        self._lock = threading.RLock()
        self._chain = Chain(archive, state)
        self._tails: dict[int, _Tail] = {}

    def follow(self, path: Path, attempt: int) -> None:
        """Set the path at which the log of attempt number `attempt` is, or will be, and check at
        once if the file is there. Do nothing if the attempt that is set already has a higher
        number.
        """
        with self._lock:
            news = self._chain.expect(str(path), attempt)
        if news:
            self.poll()

    def poll(self) -> bool:
        """Find out if the log's files have grown or were replaced. Return True if readers can read
        something new. If nothing has changed, a call takes 4 microseconds, so this can be called
        often.
        """
        with self._lock:
            news = self._chain.scan()
            news = (bool(self._tails) and self._tail_due()) or news
        self._tell()
        return news

    def read(self, cursor: str, limit: int) -> Chunk:
        """Return the chunk of at most `limit` bytes at `cursor`, which is a place in the stream as
        text, or "start" or "end". The call does not wait, so the chunk is empty if nothing is there
        yet. Raises BadCursor if the stream has no such place.
        """
        with self._lock:
            chunk = self._chunk_at(cursor, min(max(limit, 1), PAYLOAD_LIMIT))
        self._tell()
        return chunk

    def noticed(self) -> Cursor:
        """Return the cursor of the end of the log as the last poll found it: the number of the
        newest file, and its size in bytes.
        """
        with self._lock:
            watch = self._chain.newest
            if watch is None:
                return Cursor(self._chain.next, 0)
            return Cursor(watch.generation.number, watch.noticed)

    def growing(self) -> str | None:
        """Return a path that leads to the newest file of the log, also if that was renamed or
        deleted, while this stream has it open. Return None if the log has no open file.
        """
        with self._lock:
            watch = self._chain.newest
            if watch is None:
                return None
            return f"/proc/self/fd/{watch.fd}"

    def stat(self) -> Stat:
        """Return the state of the stream as a dictionary: `kind` "log", the cursors (places as
        text) `start` and `end`, `bytes` (the size of all files that can be read), the `path` and
        the `attempt` number of the log, `problem` (a sentence that says why a file cannot be read,
        or ""), and `generations`, a list of dictionaries that describe the newest files.
        """
        with self._lock:
            pieces, end = self.pieces(), Cursor(self._chain.next, 0)
            if pieces:
                end = Cursor(pieces[-1].generation, pieces[-1].size)
            return {
                "kind": "log",
                "start": str(Cursor(self._chain.first, 0)),
                "end": str(end),
                "bytes": sum(piece.size for piece in pieces),
                "path": self._chain.path,
                "attempt": self._chain.attempt,
                "problem": self._chain.problem,
                "generations": [
                    _describe(generation) for generation in self._chain.generations[-DESCRIBED:]
                ],
            }

    def pieces(self) -> list[Piece]:
        """Return the files of the log that can be read now, oldest first. The list is empty if
        there are none.
        """
        with self._lock:
            for generation in list(self._chain.generations):
                if generation.live:
                    self._chain.intact(generation)
            found = []
            for g in self._chain.generations:
                if not g.lost:
                    found.append(Piece(g.number, _size(g), self._opener(g)))
            return found

    def place_at(self, t: float) -> str | None:
        """Return the cursor (the place, as text) of the beginning of the last line that the log had
        at `t`, a Unix time in seconds. Return the start of the log if `t` is before the log's first
        file. Return None if the log has no file yet.
        """
        with self._lock:
            for generation in reversed(self._chain.generations):
                size = None if generation.lost else generation.trail.size_at(t)
                if size is None or (fd := self._chain.open(generation)) < 0:
                    continue
                try:
                    return str(Cursor(generation.number, line_start(fd, size)))
                finally:
                    os.close(fd)
            if self._chain.generations:
                return str(Cursor(self._chain.first, 0))
            return None

    def close(self) -> None:
        """Save what is known of the log's files to the state file, and close the files. The stream
        cannot be read afterwards.
        """
        with self._lock:
            self._chain.close()

    def _chunk_at(self, cursor: str, limit: int) -> Chunk:
        """Return the chunk at a cursor of the chain."""
        place = self._place(cursor)
        if place.generation < self._chain.first:
            gap = place.gap(None, "too many files ago")
            return Chunk(str(place), str(Cursor(self._chain.first, 0)), gap=gap, more=True)
        while (generation := self._chain.get(place.generation)) is not None:
            chunk = self._read(generation, place, limit)
            if chunk is not None:
                return chunk
            place = Cursor(place.generation + 1, 0)
        return Chunk(str(place), str(place))

    def _place(self, cursor: str) -> Cursor:
        """Return the cursor in a text, also for "start" and "end". Raises BadCursor."""
        if cursor == START:
            return Cursor(self._chain.first, 0)
        if cursor == END:
            return self._end()
        place = Cursor.parse(cursor)
        if place > Cursor(self._chain.next, 0):
            raise BadCursor(
                f"Cursor {cursor} is behind the end of {self.name}; read again from 'start' "
                "or 'end'."
            )
        return place

    def _end(self) -> Cursor:
        """Return the place at which the next line begins, or the unfinished last one. A reader that
        starts there gets whole lines.
        """
        watch = self._chain.newest
        if watch is None or not self._chain.intact(watch.generation):
            return Cursor(self._chain.next, 0)
        return Cursor(watch.generation.number, line_start(watch.fd, watch.size))

    def _read(self, generation: Generation, place: Cursor, limit: int) -> Chunk | None:
        """Return a chunk of one generation, or None if it is finished and `place` is its end."""
        if not generation.lost:
            window = self._window(generation, place, limit)
            if window is not None:
                return self._chunk(generation, place, *window)
        end = generation.end
        if end is not None and place.offset >= end:
            return None
        following = Cursor(generation.number + 1, 0)
        return Chunk(
            str(place),
            str(following),
            gap=place.gap(end, generation.lost),
            more=following.generation < self._chain.next,
        )

    def _window(
        self, generation: Generation, place: Cursor, limit: int
    ) -> tuple[bytes, int] | None:
        """Return the bytes from `place` on and the size of the file when they were read. None if
        they are lost, which is then noted.

        A live file is checked again after the read, because a rewrite in between would pass for the
        old content.
        """
        if generation.live and not self._chain.intact(generation):
            return None
        size = _size(generation)
        if place.offset > size:
            raise BadCursor(
                f"Cursor {place} is behind the end of its file in {self.name}, {size}; read "
                "again from 'start' or 'end'."
            )
        wanted = min(limit, size - place.offset)
        watch = self._chain.watch(generation)
        fd = watch.fd if watch else generation.open()
        if fd < 0:
            self._chain.lose(generation, "the file was deleted")
            return None
        try:
            data = os.pread(fd, wanted, place.offset)
        finally:
            if not watch:
                os.close(fd)
        if generation.live:
            if self._chain.intact(generation):
                return (data, size)
            return None
        if len(data) < wanted:
            self._chain.lose(generation, "the file was cut after it was finished")
            return None
        return data, size

    def _chunk(self, generation: Generation, place: Cursor, data: bytes, size: int) -> Chunk | None:
        """Return the chunk made of these bytes, or None at the end of a finished generation."""
        end, finished = place.offset + len(data), not generation.live
        rest = size - end
        another = finished and generation.number + 1 < self._chain.next
        whole = data.rfind(b"\n") + 1
        if whole:
            self._forget_tail(generation, place.offset + whole)
            return Chunk(
                str(place),
                str(Cursor(place.generation, place.offset + whole)),
                data[:whole],
                more=rest > 0 or (finished and whole < len(data)) or another,
            )
        if data and (rest > 0 or finished):
            return Chunk(
                str(place),
                str(Cursor(place.generation, end)),
                data,
                partial=True,
                more=rest > 0 or another,
            )
        if data:
            return self._unfinished(generation, place, data)
        if finished:
            return None
        return Chunk(str(place), str(place))

    def _unfinished(self, generation: Generation, place: Cursor, data: bytes) -> Chunk:
        """Return the last line of a live file, which has no LF yet. It is empty until the line is a
        second old.
        """
        watch, now = self._chain.watch(generation), time.monotonic()
        if watch is None:
            return Chunk(str(place), str(place))
        start = line_start(watch.fd, place.offset)
        tail = self._tails.get(generation.number)
        if tail is None or tail.start != start:
            tail = self._tails[generation.number] = _Tail(start, watch.grown_at)
        if now - tail.since >= PARTIAL_S and now - tail.shown_at >= PARTIAL_S:
            tail.shown, tail.shown_at = place.offset + len(data), now
        visible = data[: max(0, tail.shown - place.offset)]
        following = place
        if len(visible) > PARTIAL_BYTES:
            following = Cursor(place.generation, place.offset + len(visible))
        return Chunk(str(place), str(following), visible, partial=bool(visible))

    def _forget_tail(self, generation: Generation, complete: int) -> None:
        """Forget the unfinished line, because every line before offset `complete` has its LF."""
        tail = self._tails.get(generation.number)
        if tail is not None and tail.start < complete:
            del self._tails[generation.number]

    def _tail_due(self) -> bool:
        """Return True if readers would be shown more of an unfinished line than before."""
        now = time.monotonic()
        due = False
        for number, tail in list(self._tails.items()):
            generation = self._chain.get(number)
            if generation is None or not generation.live:
                del self._tails[number]
            elif tail.shown < generation.seen and now - max(tail.since, tail.shown_at) >= PARTIAL_S:
                due = True
        return due

    def _opener(self, generation: Generation) -> Callable[[], int]:
        """Return a function that opens the generation."""

        def opener() -> int:
            with self._lock:
                return self._chain.open(generation)

        return opener

    def _tell(self) -> None:
        """Report what was lost. The lock is released before, because the listener may write to
        another stream.
        """
        if self._chain.lost:
            with self._lock:
                untold, self._chain.lost = self._chain.lost, []
            if self._on_gap is not None:
                for gap in untold:
                    self._on_gap(gap)


def _size(generation: Generation) -> int:
    """Return the size of a generation in bytes, as far as it is known."""
    if generation.end is None:
        return generation.seen
    return generation.end


def _describe(generation: Generation) -> GenerationRow:
    """Return a generation in the form of `stat`."""
    return {
        "generation": generation.number,
        "path": generation.path,
        "attempt": generation.attempt,
        "device": generation.device,
        "inode": generation.inode,
        "fingerprint": generation.fingerprint,
        "first_seen": generation.first_seen,
        "bytes": _size(generation),
        "state": generation.state,
        "reason": generation.lost,
        "linked": bool(generation.link),
    }
