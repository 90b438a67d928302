"""A log with its title line and the window over it: the lines of the pod that are held here, and
the fetching of more.
"""

from __future__ import annotations

from collections.abc import Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, cast

from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.worker import Worker

from bs4_console.logs.feed import LogFeed
from bs4_console.logs.filter import Fold
from bs4_console.logs.jump import near
from bs4_console.logs.store import LogStore, Place, Repeats
from bs4_console.logs.text import size_of
from bs4_console.tui.views.run import short, sources
from bs4_console.tui.widgets.log_view import LogView
from bs4_console.tui.widgets.panel import Panel

if TYPE_CHECKING:
    from textual.notifications import SeverityLevel

    from bs4_console.pods.session import PodSession
    from bs4_console.pods.state import PodState
    from bs4_console.tui.app import ConsoleApp
    from bs4_console.tui.notifications import News

#: Most lines that are read ahead of the screen. More stay on the pod until somebody scrolls there.
AHEAD_LINES = 20_000
FAR_INSIDE = "The match is far inside of this line, in what is only on the pod; {} opens it there."


class LogWindow(Vertical):
    """A log of the run with the name `run` on `pod`, with its title line, which begins with `NOUN`.
    Only a part of the log's lines is in memory. `source` is the source that is shown, such as
    "trainer"; None merges all sources of the run. `at` is the place in the source's log at which it
    is opened, as the cursor "GENERATION:OFFSET" (the number of the log file, and a byte in it);
    None opens its end.

    If lines are to be shown that are not next to those in memory, the lines in memory are replaced,
    and the method `moved` is called.
    """

    DEFAULT_CSS = """
    LogWindow { height: 1fr; }
    LogWindow > Panel { height: 1; }
    """

    NOUN: ClassVar[str] = "logs"

    def __init__(
        self, pod: PodState, run: str, source: str | None = None, at: str | None = None
    ) -> None:
        super().__init__()
        self.pod, self.run, self.source, self._at = pod, run, source, at
        self._store = LogStore()
        # They are kept here, because a closing screen gives up its children before background work
        # of the log ends.
        self._head = Panel()
        self.view = LogView(self._store, self._names)
        """The widget with the log's lines."""
        self._feed: LogFeed | None = None
        self._worker: Worker[None] | None = None
        self._resting = self._broken = False
        self._moment: float | None = None
        self._busy = ""
        self._spot: Place | None = None
        """The line to point at as soon as it is held, or None."""
        self._said: News | None = None
        """The last message that is about one place in the log, or None."""
        self._said_at: object = None
        """That place, as `_standing` returns it."""

    def compose(self) -> ComposeResult:
        """Yield the title line and the widget with the lines."""
        yield self._head
        yield self.view

    @property
    def _app(self) -> ConsoleApp:
        return cast("ConsoleApp", self.app)

    @property
    def _session(self) -> PodSession | None:
        return self._app.fleet.sessions.get(self.pod.name)

    def on_mount(self) -> None:
        """Open the log, when the widget is first shown, with the source and at the place that were
        given to the constructor.
        """
        self.open(self.source, self._at)

    def on_unmount(self) -> None:
        """Stop reading from the pod, and release the lines in memory."""
        self._stop()
        self._store.clear()

    def moved(self) -> None:
        """Do nothing. A subclass overrides this to learn that the lines in memory were replaced by
        those of another part of the log.
        """

    def pulse(self) -> None:
        """Paint what has changed in the log. Also point at the line that the method `go_to` was
        given, once that line is in memory, and fetch older lines if too few are above the screen.
        """
        view, feed = self.view, self._feed
        view.tick()
        if self._spot is not None and (number := self._store.number_at(self._spot)) is not None:
            self._spot = None
            view.point_at(number)
            if not view.show_match() and size_of(line := self._store.line(number)[1]) > len(line):
                self.say_here(FAR_INSIDE.format(self._app.keys["expand"]))
        if feed is not None and feed.loaded and self._lacks_older(view):
            self._fetch_older(feed)
        if feed is not None and feed.end_known:
            view.know_end(feed.unread)
        if self._said is not None and self._said_at != self._standing:
            if self._app.news is self._said:
                self._app.forget_line()
            self._said = None

    def say_here(self, text: str, severity: SeverityLevel = "information") -> None:
        """Show a message that is true only of the place in the log that is looked at now. It goes
        as soon as the person moves from there. `severity` is that of the method `say` of the app.
        """
        self._app.say(text, severity=severity)
        self._said, self._said_at = self._app.news, self._standing

    @property
    def _standing(self) -> object:
        """Return a value that changes when the person moves in the log."""
        view = self.view
        return (id(self._store), view.following, view.spot)

    # -- where it lies

    def open(self, source: str | None, at: str | None = None) -> None:
        """Show the log of `source`, or of all sources merged if it is None, in place of the present
        lines. `at` is the place to begin at, as the cursor "GENERATION:OFFSET" (the number of the
        log file, and a byte in it); None shows the end and follows it. If there is no session with
        the pod, the present lines stay, but no more are read.
        """
        self._stop()
        self.source, self._at, self._moment = source, at, None
        if self._session is None:
            return
        if source is not None and at is not None:
            self._start(self._from_here({self.stream_of(source): at}, at))
            return
        feed = self._new_feed(self._session, following=True)
        discover = self.streams if source is None else None
        self._start(feed.run(self._wanted_streams(), discover, self._wanted))
        self.moved()

    def rest(self) -> None:
        """Stop reading from the pod, because nobody looks at the log. If the log is paused at a
        line, the reading goes on, because `wake` opens the log at its end and would lose that line.
        """
        if self.view.following and self._worker is not None:
            self._stop()
            self._resting = True

    def wake(self) -> None:
        """Read from the pod again if the method `rest` has stopped that, and show the end of the
        log. Do nothing if it has not.
        """
        if self._resting:
            self.open(self.source)

    def show_at(self, t: float) -> None:
        """Show the lines around the moment `t`, as a Unix time in seconds by the pod's clock, and
        pause there. To go back to the end of the log, call `open`.
        """
        self._stop()
        self._at, self._moment = None, t
        if self._session is not None:
            self._start(self._look_at(self._new_feed(self._session), t))

    def go_to(self, places: Mapping[str, str], spot: Place | None = None) -> None:
        """Show the log from certain places on, and pause there. `places` gives for each log stream,
        such as "log/math-7b/trainer", the cursor "GENERATION:OFFSET" (the number of the log file,
        and a byte in it) of its first line. `spot` is the place of the line to point at, as (index
        of its source, number of the log file, byte offset); None points at the first line.
        """
        self._stop()
        self._moment = None
        if self._session is not None:
            self._start(self._from_here(places, None, spot))

    async def _look_at(self, feed: LogFeed, t: float) -> None:
        self.view.hold_at(await feed.show_at(self._wanted_streams(), t))

    async def _from_here(
        self, places: Mapping[str, str], at: str | None, spot: Place | None = None
    ) -> None:
        """Show the window around these cursors and read on from there. What lies before the place
        is loaded first, so that the screen changes only once.
        """
        session = self._session
        if session is None:
            return
        store = LogStore(repeats=Repeats() if len(places) > 1 else None)
        store.json = self._store.json  # it is the same log
        feed = LogFeed(session, store, lambda: None, lambda: self.view.following)
        feed.filter = self.view.wanted
        anchor = await feed.go_to(places)
        self._at, self._busy = at, ""
        self._hold(store, feed)
        self.view.hold_at(anchor, above=max(4, self.view.size.height // 3))
        self._spot = spot
        self.moved()
        await feed.go_on(self._wanted)

    def _new_feed(self, session: PodSession, *, following: bool = False) -> LogFeed:
        store = LogStore(repeats=Repeats() if self.source is None else None)
        feed = LogFeed(session, store, lambda: None, lambda: self.view.following)
        feed.filter = self.view.wanted
        self._spot = None
        self._hold(store, feed)
        self.view.following = following or self.view.following
        return feed

    def _hold(self, store: LogStore, feed: LogFeed) -> None:
        """Replace the store and the feed, and release the old lines at once. A cancelled TaskGroup
        is in a reference cycle with the feed that it ran in (CPython 3.11), so that 64 MiB of lines
        would wait for the garbage collector.
        """
        before, self._store, self._feed = self._store, store, feed
        self.view.set_store(store)
        before.clear()

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        self._worker = self._app.spawn(f"log of {self.run}", work, self._failed)

    def _stop(self) -> None:
        if self._worker is not None:
            self._worker.cancel()
        self._worker, self._resting, self._broken = None, False, False

    def _failed(self) -> None:
        self._broken = True
        self._busy = ""

    def current_place(self) -> Place | None:
        """Return the place of the current line (the one pointed at, or else the last on the screen)
        as (index of its source, number of the log file, byte offset in it). Return None if there
        is no line or its place is not known.
        """
        number = self.view.current
        if number is None:
            return None
        return self._store.place(number)

    def _here(self) -> dict[str, str]:
        """Return each stream's cursor near the current line."""
        feed = self._feed
        if feed is None:
            return {}
        return near(self._store, self.view.current, feed.streams)

    # -- which streams

    def stream_of(self, source: str) -> str:
        """Return the name of the stream of one source of the run: "log/math-7b/trainer" for
        `source` "trainer" of the run math-7b.
        """
        return f"log/{self.run}/{source}"

    def streams(self) -> list[str]:
        """Return the names of all log streams of the run, for example "log/math-7b/trainer"."""
        return sources(self.pod, self.run)

    def sources(self) -> list[str]:
        """Return the names of the run's sources (the programs that write its logs), for example
        "trainer".
        """
        return [stream.rpartition("/")[2] for stream in self.streams()]

    def _wanted_streams(self) -> list[str]:
        if self.source is None:
            return self.streams()
        return [self.stream_of(self.source)]

    def _names(self) -> Sequence[str]:
        if self._feed and self.source is None:
            return [short(stream) for stream in self._feed.streams]
        return []

    # -- how far it reaches

    def _wanted(self) -> bool:
        """Return True if more lines may be read: at the end always, elsewhere only AHEAD_LINES
        lines ahead.
        """
        view = self.view
        if view.following:
            return True
        here = view.lens.number(view.position) if len(view.lens) else self._store.first
        return self._store.end - here < AHEAD_LINES

    def _lacks_older(self, view: LogView) -> bool:
        """Return True if older lines are needed: a filter leaves too few to fill the screen, or the
        oldest held line is near.
        """
        lens = view.lens
        if lens.pending:
            return False
        few = lens.filter.active and len(lens) < view.size.height
        if lens.filter.fold == "requests" and len(self._store) > AHEAD_LINES:
            few = False  # a server's log may hold nothing but requests, up to its beginning
        return few or (not view.following and view.position < view.size.height)

    def _fetch_older(self, feed: LogFeed) -> None:
        if self._store.full and not self.view.following and self.view.current is not None:
            # The window has its full size, so it has to move.
            if (place := self.current_place()) is not None:
                self.go_to(self._here(), place)
        elif not feed.at_start and not feed.paging:
            self._app.spawn(f"older lines of {self.run}", self._older(feed))

    @staticmethod
    async def _older(feed: LogFeed) -> None:
        await feed.older()

    @on(LogView.Told)
    def _told(self, event: LogView.Told) -> None:
        event.stop()
        feed, moved = self._feed, self._at is not None or self._moment is not None
        if feed is not None:
            moved = moved or feed.unread > AHEAD_LINES or (feed.loaded and not feed.live)
        if self.view.following and moved:
            # The end may be gigabytes away, so the log is opened again at its end.
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
        self.go_to(
            {
                stream: str((await feed.pages.ask(stream, "seek-line", line=0))["cursor"])
                for stream in feed.streams
            }
        )

    # -- filters

    def set_filter(
        self, text: str | None = None, floor: int | None = None, *, fold: Fold | None = None
    ) -> None:
        """Change the filter. `text` has its regular expressions, separated by " && "; one that
        begins with `!` hides the lines that match it. `floor` is the lowest level that is shown (a
        number as in Python's logging; 0 shows all), and `fold` says which neighbouring lines are
        shown as one. None leaves a part as it is. The lines in memory are filtered at
        once; lines that are read later are filtered on the pod.
        """
        before = self.view.wanted
        self.view.set_filter(text, floor, fold=fold)
        wanted, feed = self.view.wanted, self._feed
        if feed is None or wanted.key == before.key:
            return
        feed.filter = wanted
        if feed.sifted:
            # The held lines came through another filter, so the window is filled again around the
            # same line.
            place = self.current_place()
            if self.view.following or place is None:
                self.open(self.source)
            else:
                self.go_to(self._here(), place)
