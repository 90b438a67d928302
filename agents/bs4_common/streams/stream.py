"""The interface of every stream, and the files that a stream consists of."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypedDict

from bs4_common.states import FileState
from bs4_common.streams.cursor import Chunk


@dataclass(frozen=True)
class Piece:
    """One file of a stream as a query sees it. `generation` is the file's number. `size` is the
    number of bytes, from the file's start, that the query may read; these do not change any more.

    The function `open` returns a new file descriptor, which the caller must close, or -1 if the
    file is gone by now.
    """

    generation: int
    size: int
    open: Callable[[], int]


def opened(pieces: Iterable[Piece]) -> Iterator[tuple[Piece, int]]:
    """Yield each piece (one file of a stream) with an open file descriptor of its file. The
    descriptor is closed when the next piece is taken from this iterator. Pieces whose file is gone
    are skipped.
    """
    for piece in pieces:
        fd = piece.open()
        if fd >= 0:
            try:
                yield piece, fd
            finally:
                os.close(fd)


class GenerationRow(TypedDict):
    """One file of a log, as the state of the log's stream lists it. A log has a new file (a new
    generation) after each rotation, truncation or restart.
    """

    generation: int
    """The number of the file, from 1."""
    path: str
    attempt: int | None
    """The attempt (the start of the run) to which the file belongs."""
    device: int
    inode: int
    fingerprint: str
    """A hash of the first bytes of the file."""
    first_seen: float
    """The time at which the file was found, as wall seconds since 1970."""
    bytes: int
    state: FileState
    """Whether the file may still grow ("live"), does not grow any more ("finished") or cannot be
    read any more ("lost").
    """
    reason: str
    """Why the file cannot be read, or ""."""
    linked: bool
    """True if the agent keeps the file by a link of its own."""


class Stat(TypedDict, total=False):
    """The state of a stream. A cursor is a place in the stream, as text. The fields from `path` on
    are only there for streams of some kinds.
    """

    kind: str
    """ "log", "records" or "file"."""
    start: str
    """The cursor of the oldest byte that can be read."""
    end: str
    """The cursor after the newest byte."""
    bytes: int
    """The size of what can be read, in bytes."""
    path: str
    """The path of the log."""
    attempt: int | None
    """The number of the attempt (the start of the run) that the log belongs to."""
    problem: str
    """Why a file of the log cannot be read, or ""."""
    generations: Sequence[GenerationRow]
    """The newest files of the log."""
    segments: int
    """How many files hold the records."""


class Stream(Protocol):
    """The interface of every stream: a log, a stream of records, or a finished file. Its methods
    may be called from several threads.
    """

    @property
    def timestamp(self) -> Callable[[bytes], float | None] | None:
        """Return a function that takes a line (its bytes without LF) and returns the line's time,
        as Unix time in seconds, or None if that line has no time. Return None in place of the
        function if times cannot be found in the lines of this stream.
        """

    def read(self, cursor: str, limit: int) -> Chunk:
        """Return the chunk of about `limit` bytes at `cursor`, which is a place in the stream as
        text, or "start" or "end". The call does not wait, so the chunk is empty if nothing is there
        yet. Raises BadCursor if the stream has no such place.
        """

    def stat(self) -> Stat:
        """Return the state of the stream as a dictionary. It has `kind` ("log", "records" or
        "file"), the cursors (places as text) `start` and `end`, `bytes` (the size of what can be
        read), and further keys that depend on the kind.
        """

    def pieces(self) -> list[Piece]:
        """Return the files in which the stream is stored and that can be read now, oldest first.
        Each is a Piece: the file's number, its size in bytes and a function that opens it. The list
        is empty if there is none.
        """

    def place_at(self, t: float) -> str | None:
        """Return the cursor (the place, as text) at which the stream ended at `t`, a Unix time in
        seconds. Return None if the stream does not record its sizes by time.
        """
