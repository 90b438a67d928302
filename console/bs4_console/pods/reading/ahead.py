"""Read a long log with several reads under way, so that a distant pod is read as fast as its link
allows. Every byte arrives once and in order.

The reads of one connection are ordinary reads at foretold cursors, so agents of every version
answer them. An agent ends a piece with a whole line, a little before its limit. So each foretold
read begins a little before the end of the one before it: what comes twice is cut off here, and a
hole behind a long line is asked for by a read of its own. A piece that does not continue the one
before it (the log ended there, was rotated or truncated, or has a gap) is thrown away, and the true
cursor is read as without this module.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Protocol

from bs4_common.streams.cursor import Chunk, Cursor
from bs4_console import ceilings
from bs4_console.errors import ChannelLost, RemoteError
from bs4_console.pods.reader import READ_BYTES
from bs4_console.pods.reading.window import ReadWindow

#: Bytes by which a foretold read overlaps the one before it, at least and at most. In between it is
#: twice the mean of what the last reads left behind their last line.
OVERLAP_LEAST, OVERLAP_MOST = 1024, READ_BYTES // 4
#: The weight of the newest read in that mean.
NEWEST = 0.125
#: The most pieces of one stream in memory. Beyond it no hole is closed ahead, so that a pod that
#: answers byte by byte fills nothing.
PIECES = 3 * ceilings.READS_AHEAD
#: A link on which one read takes longer than these seconds carries no more with several.
SLOW_S = 2.0
#: Seconds after which the pieces are thrown away that were read for a consumer who does not come.
UNUSED_S = 10.0


class Reads(Protocol):
    """An object that can read a pod's streams: the one method of Channel that ReadAhead needs."""

    async def read(
        self, stream: str, cursor: str, limit: int = ..., wait: float = ..., *, seen: int = ...
    ) -> Chunk:
        """Return the next chunk of `stream`, a name such as "log/RUN/trainer", from `cursor` on, at
        most `limit` bytes. If nothing has been written after `cursor`, wait at most `wait` seconds
        for new bytes. `seen` is the number of bytes that the caller already has of the unfinished
        last line; that line is sent again only if it has grown. Raises RemoteError if the agent
        refuses the read, and a LinkError if the link is lost.
        """


class ReadAhead:
    """Reads streams of a pod over one channel, some pieces in advance. If a caller reads on in a
    stream from where its last read ended, several further reads of that stream are sent before the
    caller asks for them.

    All streams together have at most ceilings.READS_AHEAD (16) reads under way and twice as many
    pieces in memory. They share these evenly, so that each makes progress.
    """

    def __init__(self, channel: Reads) -> None:
        self.channel = channel
        self._sequences: dict[tuple[str, str], _Sequence] = {}
        """The sequences for which nobody waits now, by stream and by the cursor of their next
        chunk.
        """
        self._alive: set[_Sequence] = set()
        """All sequences that are not dropped, so that one that joins gets its share although the
        others use all reads.
        """
        self._tasks: set[asyncio.Task[Chunk]] = set()

    async def read(self, stream: str, cursor: str, wait: float = 0.0, *, seen: int = 0) -> Chunk:
        """Return the next chunk of `stream`, a name such as "log/RUN/trainer", from `cursor` on. If
        nothing has been written after `cursor`, wait at most `wait` seconds for new bytes. `seen`
        is the number of bytes that the caller already has of the unfinished last line; that line is
        sent again only if it has grown. Raises RemoteError if the agent refuses the read, and a
        LinkError if the link is lost.
        """
        self.expire()
        sequence = self._sequences.pop((stream, cursor), None)
        chunk = None
        further = False
        try:
            if sequence is not None:
                chunk = await sequence.take()
            seconds = 0.0
            if chunk is None:
                began = time.monotonic()
                chunk = await self.channel.read(stream, cursor, READ_BYTES, wait, seen=seen)
                seconds = time.monotonic() - began
            further = chunk.more and seconds < SLOW_S
        finally:
            if sequence is not None and not further:
                sequence.drop()
        if further:
            if sequence is None or sequence.dropped:
                sequence = _Sequence(self, stream, seconds)
                self._alive.add(sequence)
            sequence.at = Cursor.parse(chunk.next)
            other = self._sequences.pop((stream, chunk.next), None)
            if other is not None:
                other.drop()  # two consumers at one place share what was read ahead
            self._sequences[stream, chunk.next] = sequence
        return chunk

    def expire(self) -> None:
        """Throw away the chunks that were read in advance for callers who have not read on for more
        than ten seconds.
        """
        now = time.monotonic()
        for place, sequence in list(self._sequences.items()):
            if now - sequence.used > UNUSED_S:
                del self._sequences[place]
                sequence.drop()

    async def close(self) -> None:
        """Throw away everything that was read ahead, and wait until no read is under way."""
        for sequence in list(self._alive):
            sequence.drop()
        self._sequences.clear()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def room(self, sequence: _Sequence) -> int:
        """Return how many reads `sequence`, one stream that is read in advance, may have under way
        now. That is an even share of READS_AHEAD (16), or less while other streams still have more
        than their share.
        """
        share = ceilings.READS_AHEAD // len(self._alive)
        free = ceilings.READS_AHEAD - len(self._tasks)
        return min(share, sequence.under_way + free)

    def send(self, sequence: _Sequence, offset: int, limit: int) -> _Reading:
        """Begin to read at most `limit` bytes of the stream of `sequence`, from the byte `offset`
        on, and return the read without waiting for its end. `sequence` is one stream that is read
        in advance. Its method `arrived` is called when the read has ended.
        """
        cursor = Cursor(sequence.at.generation, offset)
        task = asyncio.create_task(self.channel.read(sequence.stream, str(cursor), limit, 0.0))
        reading = _Reading(cursor, limit, task, time.monotonic())
        self._tasks.add(task)

        def ended(task: asyncio.Task[Chunk]) -> None:
            self._tasks.discard(task)
            sequence.arrived(reading, time.monotonic() - reading.sent)
            reading.heard.set()

        task.add_done_callback(ended)
        return reading

    def forget(self, sequence: _Sequence) -> None:
        """Stop counting `sequence`, a stream that is not read in advance any more. All such
        streams together may have only 16 reads under way (see `room`), and the others can now use
        the share of this one.
        """
        self._alive.discard(sequence)


@dataclass(frozen=True, eq=False)
class _Reading:
    """A foretold read: where it begins, the bytes that it asks for, its task, when it was sent
    (monotonic seconds), and an event that is set once its end was noted.
    """

    start: Cursor
    limit: int
    task: asyncio.Task[Chunk]
    sent: float
    heard: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def offset(self) -> int:
        """Return the offset of its first byte."""
        return self.start.offset

    def piece(self) -> Chunk | None:
        """Return the answer if it has data that begins where this read asked for them, and None if
        there is no answer or another one.
        """
        if not self.task.done() or self.task.cancelled() or self.task.exception() is not None:
            return None
        chunk = self.task.result()
        end = Cursor(self.start.generation, self.offset + len(chunk.data))
        places = (str(self.start), str(end))
        fits = 0 < len(chunk.data) <= self.limit and chunk.gap is None
        if fits and (chunk.start, chunk.next) == places:
            return chunk
        return None

    def check_link(self) -> None:
        """Raise the link's error if the read ended with it. What the agent refuses is asked again
        at the true cursor, and raises then.
        """
        error = self.task.exception()
        if error is not None and not isinstance(error, RemoteError):
            raise error


class _Sequence:
    """The foretold reads of one consumer who reads a stream on and on. `at` is the cursor of the
    next byte that the consumer gets, `used` the time at which it last came (monotonic seconds), and
    `under_way` the number of its reads that have no answer yet.
    """

    def __init__(self, ahead: ReadAhead, stream: str, seconds: float) -> None:
        """Begin a sequence behind a read that took `seconds`."""
        self.stream = stream
        self.at = Cursor(0, 0)
        self.used = time.monotonic()
        self.dropped = False
        self._ahead = ahead
        self._window = ReadWindow(ceilings.READS_AHEAD, seconds)
        self._readings: deque[_Reading] = deque()
        self.under_way = 0
        self._edge = 0
        """The offset at which the next foretold read begins."""
        self._left = 0.0
        """The mean number of bytes that reads leave between their last line and their limit."""
        self._ended = False
        """True if a reply has shown that nothing can be foretold behind it."""

    async def take(self) -> Chunk | None:
        """Return the next chunk. Return None if nothing was foretold, or what was foretold does not
        continue the log: it must then be read at its cursor. Raises the link's error if the link
        was lost.
        """
        # A consumer whose pieces are all here still lets others run between two of them.
        await asyncio.sleep(0)
        if not self._readings:
            self._ended = False
        while True:
            self._check_alive()
            self.used = time.monotonic()
            self._fill()
            if not self._readings:
                return None
            reading = self._readings[0]
            if not reading.heard.is_set():
                self._window.wait()
                await reading.heard.wait()
                self._check_alive()
            self._readings.popleft()
            reading.check_link()
            chunk = self._continuing(reading)
            if chunk is None:
                self.drop()
                return None
            if chunk.data:
                return chunk

    def _check_alive(self) -> None:
        """Raise ChannelLost if the sequence was dropped while its consumer waited, which happens
        only at the end of the connection.
        """
        if self.dropped:
            raise ChannelLost("The connection was closed here.", "Connect again.")

    def _continuing(self, reading: _Reading) -> Chunk | None:
        """Return what a read adds to what the consumer has: an empty chunk if it adds nothing, and
        None if it does not continue it.
        """
        chunk = reading.piece()
        if chunk is None or reading.offset > self.at.offset:
            return None
        new = chunk.data[self.at.offset - reading.offset :]
        start = str(self.at)
        return Chunk(start, chunk.next, new, partial=chunk.partial, more=chunk.more)

    def arrived(self, reading: _Reading, seconds: float) -> None:
        """Note that a read has ended after `seconds`, learn from it, and send more."""
        self.under_way -= 1
        chunk = reading.piece()
        if self.dropped:
            return
        if chunk is None or not chunk.more:
            self._ended = True
            return
        end = reading.offset + len(chunk.data)
        if reading.limit == READ_BYTES:
            self._window.arrive(seconds)
            self._left += NEWEST * (reading.offset + reading.limit - end - self._left)
        self._close_hole(reading, end)
        self._fill()

    def drop(self) -> None:
        """Throw away all reads. The sequence is not used any more."""
        self.dropped = True
        for reading in self._readings:
            reading.task.cancel()
        self._readings.clear()
        self._ahead.forget(self)

    def _fill(self) -> None:
        """Send as many foretold reads as the window and the share allow."""
        if self._ended:
            return
        most = min(self._window.size, self._ahead.room(self))
        if not self._readings:
            self._edge = self.at.offset
        overlap = int(min(max(OVERLAP_LEAST, 2 * self._left), OVERLAP_MOST))
        while self.under_way < most and len(self._readings) < 2 * most:
            self._readings.append(self._send(self._edge, READ_BYTES))
            self._edge += READ_BYTES - overlap

    def _close_hole(self, reading: _Reading, end: int) -> None:
        """Ask for the bytes between the end of a read's piece and the begin of the next read, if
        there are any.
        """
        following = self._readings.index(reading) + 1
        if following == len(self._readings):
            self._edge = min(self._edge, end)
        elif end < self._readings[following].offset and len(self._readings) < PIECES:
            hole = self._readings[following].offset - end
            self._readings.insert(following, self._send(end, min(hole, READ_BYTES)))

    def _send(self, offset: int, limit: int) -> _Reading:
        self.under_way += 1
        return self._ahead.send(self, offset, limit)
