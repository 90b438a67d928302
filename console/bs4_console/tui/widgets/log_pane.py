"""A log with its title line and what feeds it: the lower half of a run, or the whole of the log screen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, cast

from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.worker import Worker

from bs4_console.core.log_feed import LogFeed
from bs4_console.core.log_store import LogStore, Repeats
from bs4_console.tui import words
from bs4_console.tui.ink import Line, cut, spread, width_of
from bs4_console.tui.views.run import short, sources
from bs4_console.tui.widgets.log_view import LogView
from bs4_console.tui.widgets.panel import Panel

if TYPE_CHECKING:
    from bs4_console.core.session import PodSession
    from bs4_console.core.state import PodState
    from bs4_console.tui.app import ConsoleApp

#: Lines read ahead of what is looked at, when a log is opened in its middle.
AHEAD_LINES = 20_000
LEVELS = {"all": 0, "info": 20, "warning": 30, "error": 40}


class LogPane(Vertical):
    """`source` None shows all sources of the run merged. `at` opens one source at the cursor of a piece of evidence."""

    DEFAULT_CSS = """
    LogPane { height: 1fr; }
    LogPane > Panel { height: 1; }
    """

    def __init__(self, pod: PodState, run: str, source: str | None = None, at: str | None = None) -> None:
        super().__init__()
        self.pod, self.run, self.source, self._at = pod, run, source, at
        self._store = LogStore()
        self._feed: LogFeed | None = None
        self._worker: Worker[None] | None = None
        self._resting = self._broken = False
        self._moment: float | None = None

    def compose(self) -> ComposeResult:
        yield Panel()
        yield LogView(self._store, self._names)

    @property
    def view(self) -> LogView:
        return self.query_one(LogView)

    @property
    def _app(self) -> ConsoleApp:
        return cast("ConsoleApp", self.app)

    def on_mount(self) -> None:
        self.open(self.source, self._at)

    def on_unmount(self) -> None:
        self._stop()

    def open(self, source: str | None, at: str | None = None) -> None:
        """Start over with another source (or place)."""
        self._stop()
        self._resting = self._broken = False
        self.source, self._at, self._moment = source, at, None
        self._store = LogStore(repeats=Repeats() if source is None else None)
        self.view.set_store(self._store)
        session = self._app.fleet.sessions.get(self.pod.name)
        if session is not None:
            self._worker = self._app.spawn(f"log of {self.run}", self._follow(session), self._failed)

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
        self._store = LogStore(repeats=Repeats())
        self.view.set_store(self._store)
        session = self._app.fleet.sessions.get(self.pod.name)
        if session is not None:
            self._worker = self._app.spawn(f"log of {self.run}", self._look_at(session, t), self._failed)

    async def _look_at(self, session: PodSession, t: float) -> None:
        feed = self._feed = LogFeed(session, self._store, lambda: None)
        streams = self.streams() if self.source is None else [f"log/{self.run}/{self.source}"]
        self.view.hold_at(await feed.show_at(streams, t))

    def _stop(self) -> None:
        if self._worker is not None:
            self._worker.cancel()
        self._worker = None

    async def _follow(self, session: PodSession) -> None:
        feed = self._feed = LogFeed(session, self._store, lambda: None)
        if self.source is not None and self._at is not None:
            self.view.hold_at(0)
            await feed.run_from(f"log/{self.run}/{self.source}", self._at, self._wanted)
        elif self.source is not None:
            await feed.run([f"log/{self.run}/{self.source}"])
        else:
            await feed.run(self.streams(), self.streams)

    def _failed(self) -> None:
        self._broken = True

    def streams(self) -> list[str]:
        return sources(self.pod, self.run)

    def _names(self) -> Sequence[str]:
        return [short(stream) for stream in self._feed.streams] if self._feed and self.source is None else []

    def _wanted(self) -> bool:
        return self._store.end - (self._store.first + self.view.position) < AHEAD_LINES

    def pulse(self) -> None:
        """One repaint: the log, and its title when that changed."""
        self.view.tick()
        self.query_one(Panel).show([self._title()])

    def _title(self) -> Line:
        names = self.streams()
        what = self.source or (f"all {len(names)} sources" if len(names) != 1 else short(names[0]))
        left: Line = [(" logs", "head"), (f"  {what}", "bold")]
        if self._moment is not None:
            left += [(" · ", "dim"), (f"at {words.of_day(self._moment, seconds=True)}", "accent")]
        if self._at is not None:
            left += [(" · at the evidence", "accent")]
        if self._store.repeats is not None and self._store.repeats.dropped:
            left += [(f" · {self._store.repeats.dropped:,} repeated left out", "dim")]
        left += self.view.title()
        if self._broken:
            left += [(" · ", "dim"), (f"ended with a fault, {self._app.keys['messages']} tells it", "bad bold")]
        elif self._feed is None or not self._feed.loaded:
            left += [(" · ", "dim"), (self._feed.waiting if self._feed and self._feed.waiting else "reading…", "warn")]
        elif self._feed.waiting:
            left += [(" · ", "dim"), (f"stands still: {self._feed.waiting}", "warn bold")]
        width = self.size.width
        right: Line = [(f"{len(self._store):,} lines ", "dim")]
        return spread(cut(left, max(10, width - width_of(right) - 1)), right, width)

    @on(LogView.Told)
    def _told(self, event: LogView.Told) -> None:
        event.stop()
        if self.view.following and (self._at is not None or self._moment is not None):
            # The end may be gigabytes away from the evidence: begin again with the tail.
            self.open(self.source)
        self.pulse()

    @on(LogView.AtTop)
    def _at_top(self, event: LogView.AtTop) -> None:
        event.stop()
        if self._feed is not None and self._feed.loaded:
            self._app.spawn(f"older lines of {self.run}", self._older(self._feed))

    @staticmethod
    async def _older(feed: LogFeed) -> None:
        await feed.older()


class LogCommands:
    """The commands of a screen that has a log; the screen gives `pane` and `ask`."""

    pane: LogPane
    ask: Callable[..., None]

    def prompted(self, kind: str, text: str, *, final: bool) -> None:
        view = self.pane.view
        if kind == "/":
            view.set_filter(text)
        elif final:
            view.set_find(text)
            if text and not view.find_back():
                cast("ConsoleApp", self.pane.app).say(f"{text} does not occur above.", severity="warning")
        self.pane.pulse()

    def do_filter(self, args: str) -> None:
        if args:
            self.prompted("/", args, final=True)
        else:
            self.ask("/", self.pane.view.filter_text)

    def do_find(self, args: str) -> None:
        if args:
            self.prompted("find ", args, final=True)
        else:
            self.ask("find ", self.pane.view.find_text)

    def do_next_match(self, args: str) -> None:
        self._jump(1)

    def do_previous_match(self, args: str) -> None:
        self._jump(-1)

    def _jump(self, direction: int) -> None:
        view = self.pane.view
        if not view.find_text:
            cast("ConsoleApp", self.pane.app).say("Nothing is being looked for; f starts.")
        elif not view.next_match(direction):
            cast("ConsoleApp", self.pane.app).say(f"No further match of {view.find_text}.")
        self.pane.pulse()

    def do_follow(self, args: str) -> None:
        self.pane.view.toggle_follow()
        self.pane.pulse()

    def do_level(self, args: str) -> None:
        names = list(LEVELS)
        now = next(i for i, name in enumerate(names) if LEVELS[name] == self.pane.view.floor)
        wanted = args if args in LEVELS else names[(now + 1) % len(names)]
        self.pane.view.set_filter(floor=LEVELS[wanted])
        self.pane.pulse()
