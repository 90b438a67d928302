"""Fills a LogStore from the log streams of one pod, by pull: the tail of each, what comes after, older pages when they are asked for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Protocol, TypeVar

from bs4_console.core.errors import LinkError, RemoteError
from bs4_console.core.log_store import LogStore
from bs4_console.core.log_text import clean, clock_of

#: Lines fetched of each stream on opening: a few screens, and enough for the merge to be in order.
TAIL_LINES = 2000
MERGED_TAIL_LINES = 400
#: How long a read waits on the pod for more.
WAIT_S = 20.0
#: Queries at a time: an agent runs four of one connection, and the session needs one for itself.
QUERIES = 2
#: Reads that wait on the pod at a time: an agent lets sixteen of one connection wait. With more streams than this each waits only SHARED_S.
READS = 8
SHARED_S = 1.0
#: Pause after the agent said that too many calls are waiting.
BUSY_S = 0.2
#: Pause before asking again over a link that is down; the session itself does the reconnecting.
RETRY_S = 1.0
#: Pause while nobody wants more of a log that is being read from its middle.
IDLE_S = 0.2
#: One read.
PAGE_BYTES = 262144
#: Lines of one older page.
PAGE_LINES = 2000


_T = TypeVar("_T")


class LogReader(Protocol):
    """What a PodSession offers of its logs."""

    async def read_log(self, stream: str, cursor: str, limit: int = ..., wait: float = ..., *, seen: int = ...) -> Any: ...

    async def query(self, stream: str, op: str, **parameters: Any) -> dict[str, Any]: ...


class LogFeed:
    """One or more streams of one pod, followed into one store. Stream number k of `streams` is source k there.

    `waiting` says why nothing comes (the link is down); empty while all is well. A lost link loses no line: reading goes on at the
    cursor where it stopped.
    """

    def __init__(self, reader: LogReader, store: LogStore, changed: Callable[[], None]) -> None:
        self.streams: list[str] = []
        self.waiting = ""
        self.loaded = False
        self._reader = reader
        self._store = store
        self._changed = changed
        self._oldest: str | None = None
        self._paging = False
        self._asking = asyncio.Semaphore(QUERIES)
        self._reading = asyncio.Semaphore(READS)
        self._crowded = False

    async def run(self, streams: Sequence[str], discover: Callable[[], Sequence[str]] | None = None) -> None:
        """Follow `streams`, and those that `discover` names later, until cancelled."""
        self.streams = list(streams)
        cursors = await self._load(self.streams)
        self.loaded = True
        self._changed()
        async with asyncio.TaskGroup() as group:
            for stream in self.streams:
                group.create_task(self._follow(stream, cursors[stream]))
            while discover is not None:
                await asyncio.sleep(RETRY_S)
                for stream in discover():
                    if stream not in self.streams:
                        self.streams.append(stream)
                        group.create_task(self._follow(stream, "start"))

    async def run_from(self, stream: str, cursor: str, wanted: Callable[[], bool]) -> None:
        """Follow one stream from a cursor of interest (the evidence of an incident), one page before it included. Reads on only while
        `wanted()`: between the evidence and the end may lie gigabytes that nobody looks at."""
        self.streams = [stream]
        self._oldest = cursor
        await self.older()
        self.loaded = True
        await self._follow(stream, cursor, wanted)

    async def show_at(self, streams: Sequence[str], t: float) -> int:
        """Lines of all `streams` around the pod's wall time `t`, merged; returns the number of the first that is not before it. Reads
        nothing afterwards."""
        self.streams = list(streams)
        pages = await asyncio.gather(*(self._few(self._around(stream, t)) for stream in self.streams))
        left = [len(before) for before, _ in pages]
        anchor: int | None = None
        for source, line in merge([before + after for before, after in pages]):
            if left[source] <= 0 and anchor is None:
                anchor = self._store.end
            left[source] -= len(line)
            self._store.append(line, source)
        for source in range(len(pages)):
            self._store.finish(source)
        self.loaded = True
        self._changed()
        return self._store.end if anchor is None else anchor

    async def _around(self, stream: str, t: float) -> tuple[bytes, bytes]:
        """(lines before `t`, lines from it on), about a page each."""
        place = str((await self._ask(stream, "seek-time", t=t))["cursor"])
        begin = str((await self._ask(stream, "seek-line", line=-MERGED_TAIL_LINES, cursor=place))["cursor"])
        before = await self._between(stream, begin, place)
        after = (await self._patiently(stream, place, PAGE_BYTES, 0.0)).data
        return before, after[: after.rfind(b"\n") + 1]

    async def older(self) -> bool:
        """One page before what is held; False when there is none. Only with a single stream: older pages of several cannot be merged
        without reading all of each."""
        if self._oldest is None or len(self.streams) != 1 or self._paging or self._store.full:
            return False
        self._paging = True
        try:
            return await self._older(self.streams[0], self._oldest)
        finally:
            self._paging = False

    async def _older(self, stream: str, oldest: str) -> bool:
        begin = str((await self._ask(stream, "seek-line", line=-PAGE_LINES, cursor=oldest))["cursor"])
        page = await self._between(stream, begin, oldest)
        if not page:
            return False
        if not self._store.prepend(page if page.endswith(b"\n") else page + b"\n"):
            return False
        self._oldest = begin
        self._changed()
        return True

    async def _between(self, stream: str, begin: str, end: str) -> bytes:
        """The bytes from one cursor to another, over the ends of files."""
        data = bytearray()
        cursor, stop = begin, _split(end)
        while _split(cursor) < stop:
            generation, offset = _split(cursor)
            limit = min(PAGE_BYTES, stop[1] - offset) if generation == stop[0] else PAGE_BYTES
            chunk = await self._patiently(stream, cursor, limit, 0.0)
            if chunk.next == cursor or _split(chunk.start) >= stop:
                break
            start = _split(chunk.start)
            if data and not data.endswith(b"\n") and start[0] != generation:
                data += b"\n"
            # A read that went on into the next file did not know where to stop there.
            data += chunk.data[: stop[1] - start[1]] if start[0] == stop[0] else chunk.data
            cursor = chunk.next
        return bytes(data)

    async def _load(self, streams: Sequence[str]) -> dict[str, str]:
        """The tails, merged by the time of their lines; returns where each goes on."""
        count = TAIL_LINES if len(streams) == 1 else MERGED_TAIL_LINES
        tails = await asyncio.gather(*(self._few(self._tail(stream, count)) for stream in streams))
        if len(streams) == 1:
            self._store.append(tails[0][0])
            self._oldest = tails[0][2]
        else:
            for source, line in merge([data for data, _, _ in tails]):
                self._store.append(line, source)
        return {stream: tail[1] for stream, tail in zip(streams, tails, strict=True)}

    async def _few(self, work: Coroutine[Any, Any, _T]) -> _T:
        async with self._asking:
            return await work

    async def _tail(self, stream: str, count: int) -> tuple[bytes, str, str]:
        """(the newest `count` lines, where they end, where they begin)."""
        begin = cursor = str((await self._ask(stream, "seek-line", line=-count))["cursor"])
        data = bytearray()
        while True:
            chunk = await self._patiently(stream, cursor, PAGE_BYTES, 0.0)
            if not data:
                begin = chunk.start
            elif not data.endswith(b"\n") and _split(chunk.start)[0] != _split(cursor)[0]:
                data += b"\n"
            if not (chunk.partial and chunk.next == chunk.start):  # an unfinished last line comes with what follows
                data += chunk.data
            cursor = chunk.next
            if not chunk.more:
                return bytes(data), cursor, begin

    async def _follow(self, stream: str, cursor: str, wanted: Callable[[], bool] = lambda: True) -> None:
        source = self.streams.index(stream)
        held = 0  # bytes of an unfinished last line, which comes again from its start when it has grown
        while True:
            if not wanted():
                await asyncio.sleep(IDLE_S)
                continue
            try:
                async with self._reading:
                    wait = WAIT_S if len(self.streams) <= READS and not self._crowded else SHARED_S
                    chunk = await self._patiently(stream, cursor, PAGE_BYTES, wait, held)
            except RemoteError as error:
                self._store.mark(f"{stream}: {error.message}")
                self._changed()
                return
            if self._crowded and not chunk.data:
                await asyncio.sleep(2 * BUSY_S)
            if chunk.partial and chunk.next == chunk.start:
                if chunk.data:
                    held = len(chunk.data)
                    self._store.unfinished(chunk.data, source)
                    self._changed()
                continue
            if held and chunk.data:
                held = 0
                self._store.unfinished(b"", source)
            self._note_breaks(stream, source, _split(cursor)[0], chunk)
            if chunk.data:
                self._store.append(chunk.data, source)
            if chunk.data or chunk.gap:
                self._changed()
            cursor = chunk.next

    def _note_breaks(self, stream: str, source: int, generation: int, chunk: Any) -> None:
        """A line for a gap, and for the start of another file; a gap of the old file comes before that."""
        begun = _split(chunk.start)[0]
        marks = [gap_text(chunk.gap)] if chunk.gap else []
        if 0 <= generation != begun:
            name = f"{stream.rpartition('/')[2]}: a new file begins"
            marks.insert(0 if chunk.gap and chunk.gap.get("generation") == begun else len(marks), name)
        for mark in marks:
            self._store.finish(source)
            self._store.mark(mark)

    async def _ask(self, stream: str, op: str, **parameters: Any) -> dict[str, Any]:
        while True:
            try:
                return await self._reader.query(stream, op, **parameters)
            except LinkError as error:
                await self._wait_for_link(error)
            except RemoteError as error:
                await self._later(error)

    async def _patiently(self, stream: str, cursor: str, limit: int, wait: float, seen: int = 0) -> Any:
        while True:
            try:
                chunk = await self._reader.read_log(stream, cursor, limit, wait, seen=seen)
            except LinkError as error:
                await self._wait_for_link(error)
                continue
            except RemoteError as error:
                await self._later(error)
                continue
            if self.waiting:
                self.waiting = ""
                self._changed()
            return chunk

    async def _later(self, error: RemoteError) -> None:
        """The agent bounds the calls of a connection, and others make some too: a refusal for that is a pause, and from then on whoever
        has read leaves the place to others for a moment. Any other refusal is raised."""
        if error.type != "too-many-calls":
            raise error
        self._crowded = True
        await asyncio.sleep(BUSY_S)

    async def _wait_for_link(self, error: LinkError) -> None:
        if self.waiting != error.message:
            self.waiting = error.message
            self._changed()
        await asyncio.sleep(RETRY_S)


def _split(cursor: str) -> tuple[int, int]:
    """(generation, byte offset); "start" and "end" are no place: (-1, 0)."""
    generation, colon, offset = cursor.partition(":")
    return (int(generation), int(offset)) if colon else (-1, 0)


def gap_text(gap: dict[str, Any]) -> str:
    """A gap in words: how much is missing and why."""
    start, end = gap.get("from"), gap.get("to")
    size = f"{(end - start) / 1e6:,.1f} MB" if isinstance(start, int) and isinstance(end, int) else "an unknown number of bytes"
    return f"gap: {size} lost before they were read ({gap.get('reason', 'no reason given')})"


def merge(tails: Sequence[bytes]) -> list[tuple[int, bytes]]:
    """(source, line with LF) of several tails in the order of the clock in their lines; a line without one stays behind its predecessor.

    The lines have no date: a clock that jumps back by more than half a day has passed midnight. An unfinished last line comes last.
    """
    rows: list[tuple[int, int, int, bytes]] = []
    for source, data in enumerate(tails):
        now = days = 0
        for order, line in enumerate(data.splitlines(keepends=True)):
            clock = clock_of(clean(line))
            if clock is not None:
                if now and clock + days < now - 43200:
                    days += 86400
                now = clock + days
            rows.append((now, source, order, line))
    rows = _same_day(rows, len(tails))
    rows.sort(key=lambda row: (not row[3].endswith(b"\n"), row[0], row[1], row[2]))
    return [(source, line) for _, source, _, line in rows]


def _same_day(rows: list[tuple[int, int, int, bytes]], sources: int) -> list[tuple[int, int, int, bytes]]:
    """Tails end at about the same moment: one that never saw midnight while another did began after it."""
    last = [max((row[0] for row in rows if row[1] == source), default=0) for source in range(sources)]
    newest_day = max(last, default=0) // 86400
    return [(clock + (newest_day - last[source] // 86400) * 86400, source, order, line) for clock, source, order, line in rows]
