"""A log with its title line and what feeds it: the lower half of a run, or the whole of the log screen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, cast

from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.worker import Worker

from bs4_console.core.errors import ConsoleError
from bs4_console.core.log_detail import entry, spell_out
from bs4_console.core.log_feed import LogFeed
from bs4_console.core.log_jump import near, parse, resolve
from bs4_console.core.log_moment import written_at
from bs4_console.core.log_search import LogSearch, beside, edges_of
from bs4_console.core.log_store import LogStore, Place, Repeats
from bs4_console.core.log_text import clock_of, plain
from bs4_console.tui import words
from bs4_console.tui.ink import Line, cut, spread, width_of
from bs4_console.tui.views.run import short, sources
from bs4_console.tui.widgets.log_detail import PAGE_BYTES, LogDetail
from bs4_console.tui.widgets.log_view import LogView
from bs4_console.tui.widgets.panel import Panel
from bs4_console.tui.words import count

if TYPE_CHECKING:
    from bs4_console.core.session import PodSession
    from bs4_console.core.state import PodState
    from bs4_console.tui.app import ConsoleApp

#: Lines read ahead of what is looked at while it is not the end: more stay on the pod until somebody goes there.
AHEAD_LINES = 20_000
#: A line longer than this is not shown whole by the detail; its parts are read from the pod.
LONG_BYTES = 32 * 1024


class LogPane(Vertical):
    """`source` None shows all sources of the run merged. `at` opens one source at the cursor of a piece of evidence."""

    DEFAULT_CSS = """
    LogPane { height: 1fr; }
    LogPane > Panel { height: 1; }
    """

    NOUN: ClassVar[str] = "logs"

    def __init__(self, pod: PodState, run: str, source: str | None = None, at: str | None = None) -> None:
        super().__init__()
        self.pod, self.run, self.source, self._at = pod, run, source, at
        self.search: LogSearch | None = None
        self._store = LogStore()
        self._feed: LogFeed | None = None
        self._worker: Worker[None] | None = None
        self._counter: Worker[None] | None = None
        self._resting = self._broken = False
        self._moment: float | None = None
        self._busy = ""

    def compose(self) -> ComposeResult:
        yield Panel()
        yield LogView(self._store, self._names)

    @property
    def view(self) -> LogView:
        return self.query_one(LogView)

    @property
    def _app(self) -> ConsoleApp:
        return cast("ConsoleApp", self.app)

    @property
    def _session(self) -> PodSession | None:
        return self._app.fleet.sessions.get(self.pod.name)

    def on_mount(self) -> None:
        self.open(self.source, self._at)

    def on_unmount(self) -> None:
        self._stop()
        self._stop_counting()

    # -- which lines

    def open(self, source: str | None, at: str | None = None) -> None:
        """Start over with another source (or place)."""
        self._stop()
        self._resting = self._broken = False
        self.source, self._at, self._moment = source, at, None
        if self._session is None:
            return
        if source is not None and at is not None:
            self._start(self._from_here({self.stream_of(source): at}, at), "log")
            return
        feed = self._new_feed(self._session, following=True)
        streams = self._wanted_streams()
        discover = self.streams if source is None else None
        self._start(feed.run(streams, discover, self._wanted), "log")
        self._count_again()

    def rest(self) -> None:
        """Read nothing while nobody looks. A log that is paused at a line goes on: its lines would be gone after starting over."""
        if self.view.following and self._worker is not None:
            self._stop()
            self._resting = True

    def wake(self) -> None:
        if self._resting:
            self.open(self.source)

    def show_at(self, t: float) -> None:
        """The lines around a moment of the pod's clock; `open` goes back to the end."""
        self._stop()
        self._at, self._resting, self._broken, self._moment = None, False, False, t
        if self._session is not None:
            self._start(self._look_at(self._new_feed(self._session), t), "log")

    def go_to(self, places: Mapping[str, str], spot: Place | None = None) -> None:
        """The window around these cursors; `spot` is the line to point at, the first one there otherwise."""
        self._stop()
        self._resting = self._broken = False
        self._moment = None
        if self._session is not None:
            self._start(self._from_here(places, None, spot), "log")

    async def _look_at(self, feed: LogFeed, t: float) -> None:
        self.view.hold_at(await feed.show_at(self._wanted_streams(), t))

    async def _from_here(self, places: Mapping[str, str], at: str | None, spot: Place | None = None) -> None:
        """What lies before the place is loaded before the screen changes, so that it changes once."""
        session = self._session
        if session is None:
            return
        store = LogStore(repeats=Repeats() if len(places) > 1 else None)
        feed = LogFeed(session, store, lambda: None, lambda: self.view.following)
        feed.filter = self.view.wanted
        anchor = await feed.go_to(places)
        self._store, self._feed, self._at, self._busy = store, feed, at, ""
        self.view.set_store(store)
        self.view.hold_at(anchor, above=max(4, self.view.size.height // 3))
        self._spot = spot
        self._count_again()
        await feed.go_on(self._wanted)

    _spot: Place | None = None
    """A line to point at as soon as it is held."""

    def _new_feed(self, session: PodSession, *, following: bool = False) -> LogFeed:
        self._store = LogStore(repeats=Repeats() if self.source is None else None)
        self._feed = LogFeed(session, self._store, lambda: None, lambda: self.view.following)
        self._feed.filter = self.view.wanted
        self._spot = None
        self.view.set_store(self._store)
        self.view.following = following or self.view.following
        return self._feed

    def _start(self, work: object, what: str) -> None:
        self._worker = self._app.spawn(f"{what} of {self.run}", work, self._failed)  # type: ignore[arg-type]

    def _stop(self) -> None:
        if self._worker is not None:
            self._worker.cancel()
        self._worker = None

    def _failed(self) -> None:
        self._broken = True
        self._busy = ""

    def stream_of(self, source: str) -> str:
        return f"log/{self.run}/{source}"

    def streams(self) -> list[str]:
        return sources(self.pod, self.run)

    def _wanted_streams(self) -> list[str]:
        return self.streams() if self.source is None else [self.stream_of(self.source)]

    def _names(self) -> Sequence[str]:
        return [short(stream) for stream in self._feed.streams] if self._feed and self.source is None else []

    def _wanted(self) -> bool:
        """Whether more lines may come: at the end always, elsewhere only some pages ahead."""
        view = self.view
        if view.following:
            return True
        here = view.lens.number(view.position) if len(view.lens) else self._store.first
        return self._store.end - here < AHEAD_LINES

    # -- drawing

    def pulse(self) -> None:
        """One repaint: the log, and its title when that changed."""
        view, feed = self.view, self._feed
        view.tick()
        if self._spot is not None and (number := self._store.number_at(self._spot)) is not None:
            self._spot = None
            view.point_at(number)
        if feed is not None and feed.loaded and self._lacks_older(view):
            self._fetch_older(feed)
        self.query_one(Panel).show([self._title()])

    def _lacks_older(self, view: LogView) -> bool:
        """Whether a filter leaves so little that the screen is not full, or the top of what is held is near."""
        if view.lens.pending:
            return False
        return (view.lens.filter.active and len(view.lens) < view.size.height) or (not view.following and view.position < view.size.height)

    def _fetch_older(self, feed: LogFeed) -> None:
        if self._store.full and not self.view.following and (number := self.view.current) is not None:
            # The window is as large as it may be: it moves.
            if (place := self._store.place(number)) is not None:
                self.go_to(self._here(), place)
        elif not feed.at_start and not feed.paging:
            self._app.spawn(f"older lines of {self.run}", self._older(feed))

    def _title(self) -> Line:
        feed, view = self._feed, self.view
        names = self.streams()
        what = self.source or (f"all {len(names)} sources" if len(names) != 1 else short(names[0]))
        left: Line = [(f" {self.NOUN}", "head"), (f"  {what}", "bold")]
        if self._moment is not None:
            left += [(" · ", "dim"), (f"at {words.of_day(self._moment, seconds=True)}", "accent")]
        if self._at is not None:
            left += [(" · at the evidence", "accent")]
        if self._store.repeats is not None and self._store.repeats.dropped:
            left += [(f" · {self._store.repeats.dropped:,} repeated left out", "dim")]
        left += view.title(feed.unread if feed else 0)
        left += self._search_title()
        if view.bookmarks:
            left += [(f" · ◆ {len(view.bookmarks)}", "warn")]
        if feed is not None and feed.left_out:
            left += [(f" · {feed.left_out / 1e6:,.0f} MB passed over to keep up", "dim")]
        if self._busy:
            left += [(" · ", "dim"), (self._busy, "warn")]
        elif feed is not None and feed.paging and view.lens.filter.active:
            left += [(" · ", "dim"), (f"sifting older lines {feed.reached}", "dim")]
        if self._broken:
            left += [(" · ", "dim"), (f"ended with a fault, {self._app.keys['messages']} tells it", "bad bold")]
        elif feed is None or not feed.loaded:
            left += [(" · ", "dim"), (feed.waiting if feed and feed.waiting else "reading…", "warn")]
        elif feed.waiting:
            left += [(" · ", "dim"), (f"stands still: {feed.waiting}", "warn bold")]
        width = self.size.width
        right: Line = [(f"{len(self._store):,} lines held " if feed and not feed.at_start else f"{len(self._store):,} lines ", "dim")]
        return spread(cut(left, max(10, width - width_of(right) - 1)), right, width)

    def _search_title(self) -> Line:
        if not self.view.find_text:
            return []
        line: Line = [(" · ", "dim"), (f"find {self.view.find_text}", "accent")]
        if self.search is not None:
            line += [(f" {count(self.search.total, 'line')}{'' if self.search.finished else '…'}", "dim")]
        return line

    @on(LogView.Told)
    def _told(self, event: LogView.Told) -> None:
        event.stop()
        moved = self._at is not None or self._moment is not None or (self._feed is not None and self._feed.loaded and not self._feed.live)
        if self.view.following and (moved or (self._feed is not None and self._feed.unread > AHEAD_LINES)):
            # The end may be gigabytes away from here: begin again with the tail.
            self.open(self.source)
        self.pulse()

    @on(LogView.AtTop)
    def _at_top(self, event: LogView.AtTop) -> None:
        event.stop()
        if self._feed is not None and self._feed.loaded:
            self._fetch_older(self._feed)

    @on(LogView.FirstWanted)
    def _first_wanted(self, event: LogView.FirstWanted) -> None:
        event.stop()
        if self._feed is None or self._feed.at_start or self._session is None:
            self.view.to_first()
        else:
            self._app.spawn(f"start of {self.run}", self._to_start(self._feed), self._failed)

    async def _to_start(self, feed: LogFeed) -> None:
        self.go_to({stream: str((await feed.pages.ask(stream, "seek-line", line=0))["cursor"]) for stream in feed.streams})

    @staticmethod
    async def _older(feed: LogFeed) -> None:
        await feed.older()

    # -- filters

    def set_filter(self, text: str | None = None, floor: int | None = None, *, fold: bool | None = None) -> None:
        """At once among the lines that are held; older and newer ones come through the pod's filter."""
        before = self.view.wanted
        self.view.set_filter(text, floor, fold=fold)
        wanted, feed = self.view.wanted, self._feed
        if feed is None or wanted.key == before.key:
            return
        feed.filter = wanted
        if feed.sifted:
            # What is held came through another filter: the window is made anew around the same line.
            number = self.view.current
            place = self._store.place(number) if number is not None else None
            if self.view.following or place is None:
                self.open(self.source)
            else:
                self.go_to(self._here(), place)

    # -- going somewhere

    def _here(self) -> dict[str, str]:
        """Each stream's cursor near the current line."""
        feed = self._feed
        return {} if feed is None else near(self._store, self.view.current, feed.streams)

    def go(self, text: str) -> None:
        try:
            target = parse(text)
        except ConsoleError as error:
            self._app.say(f"{error.message} {error.next_step}", severity="warning")
            return
        feed, number = self._feed, self.view.current
        if feed is None:
            return
        clock = next((c for c in self._clocks(number) if c is not None), None)

        async def work() -> None:
            try:
                places = await resolve(target, feed.pages, self._here(), clock, at_end=self.view.following)
            except ConsoleError as error:
                self._app.say(f"{error.message} {error.next_step}", severity="warning")
                return
            self.go_to(places)

        self._app.spawn(f"go in {self.run}", work(), self._failed)

    async def time_here(self, begin: float, end: float) -> float | None:
        """When the line pointed at was written, by the pod's clock; None when there is none."""
        feed, number = self._feed, self.view.current
        place = self._store.place(number) if number is not None else None
        if feed is None or place is None:
            return None
        clock = next((c for c in self._clocks(number) if c is not None), None)
        return await written_at(feed.pages, feed.streams[place[0]], f"{place[1]}:{place[2]}", clock, begin, end)

    def _clocks(self, number: int | None) -> Sequence[int | None]:
        if number is None:
            return []
        return [clock_of(self._store.line(n)[1]) for n in range(number, max(self._store.first, number - 200) - 1, -1)]

    # -- finding

    def find(self, text: str, *, final: bool) -> None:
        """Marks on every letter; on Enter goes to the nearest above, or else below, here or on the pod, and counts all."""
        view = self.view
        view.set_find(text)
        if not final:
            return
        self._stop_counting()
        self.search = None
        if text and not view.find_back():
            self._find_further(-1, turn=True)  # first the way there, then the number of all: the two would share the pod's time
        else:
            self._count_again()

    def _count_again(self) -> None:
        self._stop_counting()
        text, feed = self.view.find_text, self._feed
        self.search = None
        if text and feed is not None:
            self.search = LogSearch(feed.pages, self._wanted_streams(), text, self.view.wanted)
            self._counter = self._app.spawn(f"count in {self.run}", self.search.count(self.pulse))

    def _stop_counting(self) -> None:
        if self._counter is not None:
            self._counter.cancel()
        self._counter = None

    def next_match(self, direction: int) -> None:
        if not self.view.next_match(direction):
            self._find_further(direction)

    def _find_further(self, direction: int, *, turn: bool = False) -> None:
        """Beyond what is held: the pod looks. `turn`: where there is nothing, look the other way."""
        feed = self._feed
        if feed is None or (direction < 0 and feed.at_start) or (direction > 0 and feed.live and not feed.unread):
            self._nothing(direction, turn=turn)
            return
        self._busy = "searching…"
        self._app.spawn(f"find in {self.run}", self._seek(feed, direction, turn=turn), self._failed)

    def _nothing(self, direction: int, *, turn: bool) -> None:
        text, where = self.view.find_text, "above" if direction < 0 else "below"
        if turn and self.view.next_match(-direction):
            self._app.say(f"{text} does not occur {where}: this is the next one {'below' if direction < 0 else 'above'}.")
        elif turn:
            self._find_further(-direction)
            return
        else:
            self._app.say(f"{text} does not occur {where}.", severity="warning")
        if self.search is None:
            self._count_again()

    async def _seek(self, feed: LogFeed, direction: int, *, turn: bool) -> None:
        text = self.view.find_text
        edges, clocks = edges_of(self._store, len(feed.streams), direction)
        match = await LogSearch(feed.pages, feed.streams, text, self.view.wanted).nearest(edges, clocks, direction)
        self._busy = ""
        if match is None:
            self._nothing(direction, turn=turn)
            return
        places = await beside(feed.pages, feed.streams, match, edges, clocks, direction)
        self.go_to(places, match.place)

    # -- bookmarks, entries

    def bookmark(self) -> None:
        view, number = self.view, self.view.current
        place = self._store.place(number) if number is not None else None
        if number is None or place is None:
            self._app.say("There is no line of a log here to mark.", severity="warning")
            return
        if view.bookmarks.pop(place, None) is None:
            view.bookmarks[place] = plain(self._store.line(number)[1], 200)
        view.forget()

    def to_bookmark(self, direction: int) -> None:
        """The next one in the order of the log, round and round."""
        view, number = self.view, self.view.current
        marks = sorted(view.bookmarks, key=lambda place: place[1:])
        if not marks:
            self._app.say(f"No line is marked; {self._app.keys['bookmark']} marks the one pointed at.")
            return
        here = self._store.place(number) if number is not None and not view.following else None
        if here in view.bookmarks:
            target = marks[(marks.index(here) + direction) % len(marks)]
        else:
            beyond = [mark for mark in marks if here is not None and (mark[1:] > here[1:]) == (direction > 0)]
            target = (beyond[0] if direction > 0 else beyond[-1]) if beyond else marks[0 if direction > 0 else -1]
        held = self._store.number_at(target)
        if held is not None:
            view.point_at(held)
        elif self._feed is not None:
            places = {**self._here(), self._feed.streams[target[0]]: f"{target[1]}:{target[2]}"}
            self.go_to(places, target)

    def open_entry(self) -> None:
        """The entry of the current line at full length."""
        number = self.view.current
        if number is None:
            return
        source, line = self._store.line(number)
        place = self._store.place(number)
        names = self._names()
        title = f"{names[source] if source < len(names) else self.source or ''} line".strip()
        if len(line) > LONG_BYTES and place is not None and self._feed is not None:
            feed, (_, generation, begin) = self._feed, place

            async def fetch(offset: int) -> bytes:
                chunk = await feed.pages.read(feed.streams[source], f"{generation}:{begin + offset}", PAGE_BYTES, 0.0)
                data: bytes = chunk.data
                return data.split(b"\n")[0]

            self._app.push_screen(LogDetail(title, [plain(line, PAGE_BYTES)], fetch))
        else:
            self._app.push_screen(LogDetail(title, self.entry_text()))

    def entry_text(self) -> list[str]:
        number = self.view.current
        if number is None:
            return []
        return [plain(text.encode("utf-8", "replace"), LONG_BYTES) for text in spell_out(entry(self._store, number))]
