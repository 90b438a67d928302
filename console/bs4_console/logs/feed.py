"""Fill a LogStore from the log streams of one pod. The console requests pages; the pod never
pushes. The store holds a window of the log that starts anywhere and grows to both sides.

The log itself stays on the pod. The store holds the lines near the place that a person looks at:
the tail and what follows it, or the lines around a place that the person went to. Pages before and
after are fetched when they are wanted. If a filter is set, they pass the pod's prefilter first.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence

from bs4_common.streams.cursor import Chunk, Gap
from bs4_console.errors import RemoteError
from bs4_console.logs.filter import LogFilter
from bs4_console.logs.merge import (
    Side,
    from_a_head,
    keyed,
    passed_by,
    same_day,
    take_newer,
    take_older,
)
from bs4_console.logs.pages import BUSY_S, INSIDE, PAGE_BYTES, Back, LogPages, LogReader, split
from bs4_console.logs.store import MARK, LogStore, Row

#: The number of lines of each stream that are fetched on opening: a few screens, and enough for a
#: merge in order.
TAIL_LINES = 2000
MERGED_TAIL_LINES = 400
#: Seconds that a read waits on the pod for more data.
WAIT_S = 20.0
#: The number of reads that wait on the pod at a time. An agent lets sixteen of one connection wait.
#: With more streams than this, each read waits only SHARED_S seconds.
READS = 8
SHARED_S = 1.0
#: Seconds between two polls for new streams.
DISCOVER_S = 1.0
#: Seconds of the pause while nobody wants more of a log that is being read from its middle, and
#: seconds between two counts of the unread lines.
IDLE_S = 0.2
COUNT_S = 1.0
#: Bytes that are read with the line that a person went to: a few screens.
FIRST_BYTES = 64 * 1024
#: Lines of one older page.
PAGE_LINES = 2000
#: Bytes. A reader that follows the end and is further behind skips the data in between, because
#: nobody could read it at that speed.
BEHIND_BYTES = 8 * 1024 * 1024
#: The number of full reads in a row after which the distance to the end is checked.
BEHIND_READS = 8


class LogFeed:
    """Fetches the lines of one or more logs of one pod into a LogStore, which holds lines in
    memory: the end of the logs as it grows, and pages of earlier lines on request. A log is named
    by its stream, such as "log/RUN/trainer". The LogStore knows the stream at index k in the list
    `streams` by the number k.

    If the connection to the pod is lost, no line is lost: reading goes on at the place where it
    stopped.
    """

    def __init__(
        self,
        reader: LogReader,
        store: LogStore,
        changed: Callable[[], None],
        following: Callable[[], bool] = lambda: True,
    ) -> None:
        """Keep the reader, the store and two callbacks. `changed` is called after each change of
        the store or of this feed. `following` returns True while the end of the log is on the
        screen: bytes before the end may then be skipped to keep up.
        """
        self.streams: list[str] = []
        self.loaded = False
        self.filter = LogFilter()
        """The filter for older and newer pages."""
        self.sifted = False
        """True if a page came through the filter. The window then does not fit another filter."""
        self.at_start = False
        """True if nothing older exists than the lines that are held."""
        self.live = False
        """True if the held lines reach the end, so that new lines are appended to them."""
        self.unread = 0
        """The number of lines on the pod behind the last one that was read, while nobody wants
        more.
        """
        self.left_out = 0
        """The number of bytes that were skipped to keep up with the end."""
        self.pages = LogPages(reader, changed)
        self._store = store
        self._changed, self._following = changed, following
        self._before: list[Side] = []
        self._next: dict[str, str] = {}
        self._unread: dict[int, int] = {}
        self.paging = False
        """True while an older page is being fetched."""
        self._reading = asyncio.Semaphore(READS)

    @property
    def waiting(self) -> str:
        """Return a sentence that says why no lines arrive (for example that the connection to the
        pod is down), or "" if nothing prevents them.
        """
        return self.pages.waiting

    @property
    def end_known(self) -> bool:
        """Return True if it is known how many lines there are up to the end of the logs: they were
        read (`live`), or those that were not are counted in `unread`.
        """
        return self.live or len(self._unread) == len(self.streams) > 0

    @property
    def reached(self) -> str:
        """Return how far back the search for earlier lines that pass the filter has come, such as
        "at 12 MB", counted from the log's start. With several logs it is the place in the first of
        them that was not yet searched to its start. Return "" if all were.
        """
        for side in self._before:
            if not side.ended:
                return f"at {split(side.cursor)[1] / 1e6:,.0f} MB"
        return ""

    # -- where reading starts

    async def run(
        self,
        streams: Sequence[str],
        discover: Callable[[], Sequence[str]] | None = None,
        wanted: Callable[[], bool] = lambda: True,
    ) -> None:
        """Put the newest lines of `streams` (names such as "log/RUN/trainer") into the LogStore,
        and then new lines as they are written on the pod, until this task is cancelled. `discover`
        is a function that returns the names of the streams that exist now, so that streams that
        begin later are read too; None means that only `streams` are read. While `wanted()` returns
        False, no new lines are fetched.
        """
        self.streams = list(streams)
        cursors = await self._load_tails()
        self.loaded = self.live = True
        self._changed()
        async with asyncio.TaskGroup() as group:
            for stream in self.streams:
                group.create_task(self._follow(stream, cursors[stream], wanted))
            while discover is not None:
                await asyncio.sleep(DISCOVER_S)
                for stream in discover():
                    if stream not in self.streams:
                        self.streams.append(stream)
                        self._before.append(Side("1:0", ended=True))
                        group.create_task(self._follow(stream, "start", wanted))

    async def go_to(self, places: Mapping[str, str]) -> int:
        """Move to another place in the logs. `places` maps each stream (such as "log/RUN/trainer")
        to its cursor there, GENERATION:OFFSET (the number of one of the log's files, and the byte
        in it). One page of lines before these cursors is put into the LogStore. Return the number
        that the first line after the cursors has, or will have, in the LogStore. Call `go_on` to
        read the lines after the cursors. Raises RemoteError if the agent refuses the read.
        """
        self.streams = list(places)
        self._before = [Side(cursor) for cursor in places.values()]
        anchor = self._store.end
        await self.older()
        self._next = dict(places)
        if len(places) == 1 and not self.filter.sifts:
            # The target line is held when the screen changes, and not one repaint later.
            ((stream, cursor),) = places.items()
            chunk = await self.pages.read(stream, cursor, FIRST_BYTES, 0.0)
            if (
                chunk.data
                and chunk.next != chunk.start
                and split(chunk.start)[0] == split(cursor)[0]
            ):
                self._store.append(chunk.data, 0, chunk.start)
                self._next[stream] = chunk.next
                self.live = not chunk.more
        return anchor

    async def go_on(self, wanted: Callable[[], bool]) -> None:
        """Read the lines after the place to which `go_to` has moved, up to the end of the logs,
        into the LogStore. Lines of several logs are merged by their clocks. Afterwards put new
        lines into it as they are written on the pod, until this task is cancelled. While `wanted()`
        returns False, nothing is fetched.
        """
        places = self._next
        if len(places) == 1 and not self.filter.sifts:
            ((stream, cursor),) = places.items()
            self.loaded = True
            await self._follow(stream, cursor, wanted)
        sides = self._after()
        self._reach(sides)
        while not all(side.ended for side in sides):
            if self.loaded and not wanted():
                await asyncio.sleep(IDLE_S)
                continue
            await self._newer(sides)
        self.live = True
        async with asyncio.TaskGroup() as group:
            for stream, side in zip(self.streams, sides, strict=True):
                group.create_task(self._follow(stream, side.cursor, wanted))

    async def show_at(self, streams: Sequence[str], t: float) -> int:
        """Put the lines of all logs in `streams` (names such as "log/RUN/trainer") around the time
        `t` into the LogStore, merged by their clocks. `t` is Unix time in seconds by the pod's
        clock. Return the number in the LogStore of the first line that was not written before `t`.
        Lines that are written later are not added; call `older` to fetch earlier ones. Raises
        RemoteError if the agent refuses the query, and EndlessAnswer if it does not come to an end.
        """
        places = {stream: await self.pages.place(stream, "seek-time", t=t) for stream in streams}
        anchor = await self.go_to(places)
        await self._newer(self._after())
        self.live = False
        return anchor

    def _after(self) -> list[Side]:
        """Return the sides behind the places given to `go_to`, with the times before them."""
        pairs = zip(self._next.values(), self._before, strict=True)
        return [Side(cursor, before.time) for cursor, before in pairs]

    async def _newer(self, sides: Sequence[Side]) -> None:
        """Fetch a page of each side that needs one, and append the lines that may be shown."""
        await self._fetch_all(self._fetch_newer, sides)
        passed = passed_by(sides)
        self._store.extend(take_newer(sides), passed)
        self.loaded = True
        self._changed()

    @staticmethod
    async def _fetch_all(
        fetch: Callable[[int, Side], Awaitable[None]], sides: Sequence[Side]
    ) -> None:
        """Call `fetch` for each side that has no line waiting and has not ended."""
        await asyncio.gather(
            *(fetch(n, side) for n, side in enumerate(sides) if not side.waiting and not side.ended)
        )

    async def _load_tails(self) -> dict[str, str]:
        """Load the tails of all streams, merged by the time of their lines. Return for each stream
        the cursor where reading continues.
        """
        if len(self.streams) == 1:
            stream = self.streams[0]
            begin, end = await self._load_tail(stream)
            self._before = [
                Side(begin.cursor, ended=len(self._store) < TAIL_LINES and not begin.cut)
            ]
            self.at_start = self._before[0].ended
            return {stream: end}
        tails = await asyncio.gather(
            *(self._tail(stream, source) for source, stream in enumerate(self.streams))
        )
        pages = same_day([keyed(rows) for rows, _, _, _ in tails])
        # Lines of one source that are older than the other tails wait until the other sources are
        # fetched that far, so that the window has no line out of order.
        self._before = [
            Side(begin, page[-1][0] if page else None, page, ended=whole)
            for page, (_, _, begin, whole) in zip(pages, tails, strict=True)
        ]
        self._store.extend(take_older(self._before))
        self.at_start = all(side.ended and not side.waiting for side in self._before)
        return {stream: end for stream, (_, end, _, _) in zip(self.streams, tails, strict=True)}

    async def _load_tail(self, stream: str) -> tuple[Back, str]:
        """Load the newest lines of the only stream in the order in which they come. Return where
        they begin and the cursor where they end.
        """
        begin = await self.pages.back(stream, TAIL_LINES)
        cursor = begin.cursor
        if begin.within:
            self._store.mark(INSIDE.decode())
        while True:
            chunk = await self.pages.read(stream, cursor, PAGE_BYTES, 0.0)
            if split(chunk.start)[0] != split(cursor)[0]:
                self._store.finish()
            # an unfinished last line comes with the next chunk
            if not (chunk.partial and chunk.next == chunk.start):
                self._store.append(chunk.data, 0, chunk.start)
            cursor = chunk.next
            if not chunk.more:
                return begin, cursor

    async def _tail(self, stream: str, source: int) -> tuple[list[Row], str, str, bool]:
        """Return the newest whole lines of one of several streams, the cursor where they end, the
        cursor where they begin, and True if the stream has no older lines.
        """
        begin = await self.pages.back(stream, MERGED_TAIL_LINES)
        cursor, rows = begin.cursor, [(MARK, 0, 0, INSIDE)] if begin.within else []
        while True:
            more, cursor, ended = await self.pages.after(stream, source, cursor)
            rows += more
            some = begin.cut or len(rows) >= MERGED_TAIL_LINES
            if ended and some and (kept := from_a_head(rows)) and kept[0][0] != MARK:
                return kept, cursor, f"{kept[0][1]}:{kept[0][2]}", False
            if ended:
                return rows, cursor, begin.cursor, not some

    # -- older and newer pages

    async def older(self) -> bool:
        """Fetch one page of the lines just before those in the LogStore, and put them at its start.
        Return True if that was possible. Return False if there are no earlier lines, if the
        LogStore is full, or if a page is already being fetched.
        """
        if self.paging or self._store.full or self.at_start or not self._before:
            return False
        self.paging = True
        try:
            return await self._older()
        finally:
            self.paging = False

    async def _older(self) -> bool:
        await self._fetch_all(self._fetch_older, self._before)
        if len(self._before) > 1 and all(side.time is None for side in self._before):
            for side, page in zip(
                self._before, same_day([side.waiting for side in self._before]), strict=True
            ):
                side.waiting = page
        passed = passed_by(self._before)
        rows = take_older(self._before)
        if rows and not self._store.prepend_rows(rows, passed):
            return False
        self.at_start = all(side.ended and not side.waiting for side in self._before)
        self._changed()
        return bool(rows) or not self.at_start

    async def _fetch_older(self, source: int, side: Side) -> None:
        """Fetch one older page of one source into `side.waiting`."""
        stream = self.streams[source]
        side.passed = self._passed
        if self.filter.sifts:
            self.sifted = True
            rows, side.cursor, side.ended = await self.pages.filter_lines(
                stream, source, side.cursor, self.filter, backwards=True
            )
        else:
            count = PAGE_LINES if len(self.streams) == 1 else MERGED_TAIL_LINES
            rows, begin = await self.pages.before(stream, source, side.cursor, count)
            side.ended = not rows or begin == side.cursor
            side.cursor = begin
        if (
            len(self.streams) > 1
            and not side.ended
            and (kept := from_a_head(rows))
            and kept[0][0] != MARK
        ):
            rows, side.cursor = kept, f"{kept[0][1]}:{kept[0][2]}"
        side.waiting = keyed(rows, before=side.time)

    async def _fetch_newer(self, source: int, side: Side) -> None:
        """Fetch one newer page of one source into `side.waiting`."""
        stream = self.streams[source]
        side.passed = self._passed
        if self.filter.sifts:
            self.sifted = True
            rows, side.cursor, side.ended = await self.pages.filter_lines(
                stream, source, side.cursor, self.filter, backwards=False
            )
        else:
            rows, side.cursor, side.ended = await self.pages.after(stream, source, side.cursor)
        side.waiting = keyed(rows, after=side.time)

    @property
    def _passed(self) -> object:
        """Return the key of the filter that pages have passed on the pod, or None if there is no
        filter.
        """
        if self.filter.sifts:
            return self.filter.key
        return None

    @staticmethod
    def _reach(sides: Sequence[Side]) -> None:
        """Give the latest known time to the sources whose time is not known yet."""
        known = [side.time for side in sides if side.time is not None]
        for side in sides:
            if side.time is None and known:
                side.time = max(known)

    # -- following the end

    async def _follow(
        self, stream: str, cursor: str, wanted: Callable[[], bool] = lambda: True
    ) -> None:
        """Read one stream from `cursor` on until cancelled. An error of the agent becomes a line of
        the view and ends the reading.
        """
        source = self.streams.index(stream)
        # The bytes of an unfinished last line, which comes again from its start after it has grown,
        # and the number of full reads in a row.
        held = full = 0
        counted = 0.0
        while True:
            if not wanted():
                counted = await self._count_unread(stream, source, cursor, counted)
                await asyncio.sleep(IDLE_S)
                continue
            self._read_again(source)
            try:
                async with self._reading:
                    shared = len(self.streams) > READS or self.pages.crowded
                    wait = SHARED_S if shared else WAIT_S
                    chunk = await self.pages.read(
                        stream, cursor, PAGE_BYTES, wait, held, ahead=True
                    )
            except RemoteError as error:
                self._store.mark(f"{stream}: {error.message}")
                self._changed()
                return
            if self.pages.crowded and not chunk.data:
                await asyncio.sleep(2 * BUSY_S)
            if chunk.partial and chunk.next == chunk.start:
                if chunk.data:
                    held = len(chunk.data)
                    self._store.unfinished(chunk.data, source, chunk.start)
                    self._changed()
                continue
            if held and chunk.data:
                held = 0
                self._store.unfinished(b"", source)
            self._note_breaks(stream, source, split(cursor)[0], chunk)
            if chunk.data:
                self._store.append(chunk.data, source, chunk.start)
            if chunk.data or chunk.gap:
                self._changed()
            cursor = chunk.next
            full = full + 1 if chunk.more else 0
            self.live = self.live or not chunk.more
            if full >= BEHIND_READS and self._following():
                cursor, full = await self._catch_up(stream, source, cursor), 0

    async def _count_unread(self, stream: str, source: int, cursor: str, counted: float) -> float:
        """Count the lines after `cursor` that were not read, at most once in COUNT_S seconds.
        Return the monotonic time of the last count; `counted` is that of the one before.
        """
        if time.monotonic() - counted < COUNT_S:
            return counted
        answer = await self.pages.ask(stream, "where", cursor=cursor)
        self._unread[source] = max(0, answer["lines"] - answer["line"])
        self.unread = sum(self._unread.values())
        self._changed()
        return time.monotonic()

    def _read_again(self, source: int) -> None:
        """Forget the number of unread lines of a source, because it is being read again."""
        if self._unread.pop(source, None) is not None:
            self.unread = sum(self._unread.values())

    async def _catch_up(self, stream: str, source: int, cursor: str) -> str:
        """Return the cursor where following goes on: the start of the tail if the end is more than
        BEHIND_BYTES away, else `cursor`. With a single stream the window then starts anew there and
        has no hole. With several streams a line says what was left out.
        """
        tail = (await self.pages.back(stream, TAIL_LINES)).cursor
        (generation, offset), (here, at) = split(tail), split(cursor)
        if generation != here or offset - at < BEHIND_BYTES:
            return cursor
        self.left_out += offset - at
        if len(self.streams) == 1:
            self._store.drop()
            self._before = [Side(tail)]
            self.at_start = False
        else:
            self._store.finish(source)
            name = stream.rpartition("/")[2]
            self._store.mark(
                f"{name}: {(offset - at) / 1e6:,.1f} MB passed over to keep up with the end; "
                "they are on the pod"
            )
        return tail

    def _note_breaks(self, stream: str, source: int, generation: int, chunk: Chunk) -> None:
        """Add a line for a gap and a line for the start of another file. A gap of the old file
        comes before the line about the new file.
        """
        begun = split(chunk.start)[0]
        marks = [gap_text(chunk.gap)] if chunk.gap else []
        if 0 <= generation != begun:
            marks.append(f"{stream.rpartition('/')[2]}: a new file begins")
            if chunk.gap and chunk.gap["generation"] == begun:
                marks.reverse()
        for mark in marks:
            self._store.finish(source)
            self._store.mark(mark)


def gap_text(gap: Gap) -> str:
    """Return a sentence about a part of a log that the pod no longer has: how many MB are missing
    and why. `gap` is the agent's report.
    """
    size = "an unknown number of bytes"
    if gap["to"] is not None:
        size = f"{(gap['to'] - gap['from']) / 1e6:,.1f} MB"
    return f"gap: {size} lost before they were read ({gap['reason']})"
