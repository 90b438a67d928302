"""Finds a text in a log: in the lines that are held, then in those on the pod, and counts all
matches.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Sequence
from functools import cached_property

from textual.worker import Worker

from bs4_console.logs.feed import LogFeed
from bs4_console.logs.filter import LogFilter
from bs4_console.logs.search import LogSearch, beside, edges_of
from bs4_console.logs.store import Place
from bs4_console.tui.widgets.log_view import LogView
from bs4_console.tui.widgets.log_window import LogWindow

#: A log of fewer lines in memory is fetched up to its start, so that its matches can be numbered.
SHORT_LINES = 5_000
#: Seconds in which a paint may collect matches.
STEP_S = 0.005


class MatchList:
    """Finds out which match of the searched text the line pointed at is. It keeps the numbers of
    all visible lines in memory that match, ascending, as the LogStore counts lines. They are
    collected in steps, so that a long log does not stop the screen.
    """

    def __init__(self) -> None:
        self._of: object = None
        """What the numbers were collected for: the store, the filter and the searched text."""
        self._numbers: list[int] = []
        self._next = 0
        """The number of the first line that was not examined yet."""

    def place(self, view: LogView) -> tuple[int, int] | None:
        """Return (number of the match at the line pointed at, number of all matches) in the log
        widget `view`, counted from 1. Return None if no match is pointed at, or if not all lines
        are examined yet; a later call goes on with them.
        """
        pattern, lens, store = view.pattern, view.lens, view.store
        if pattern is None or lens.pending or not len(lens):
            return None
        of = (id(store), store.first, lens.filter, pattern)
        if of != self._of:
            self._of, self._numbers, self._next = of, [], store.first
        deadline = time.perf_counter() + STEP_S
        while self._next < store.end:
            if time.perf_counter() > deadline:
                return None
            position = lens.position(self._next)
            if lens.number(position) >= self._next:
                position -= 1
            found = lens.find(pattern, position, 1)
            if found is None or lens.number(found) >= store.end:
                self._next = store.end
            else:
                self._numbers.append(lens.number(found))
                self._next = self._numbers[-1] + 1
        at = bisect_left(self._numbers, view.spot) if view.spot is not None else 0
        if at < len(self._numbers) and self._numbers[at] == view.spot:
            return at + 1, len(self._numbers)
        return None


class LogFinding(LogWindow):
    """A log in which a person can search for a regular expression. `search` counts all lines of the
    log that match. It is None while nothing is searched for, and after Enter until the first match
    was found.
    """

    search: LogSearch | None = None

    @cached_property
    def _matches(self) -> MatchList:
        return MatchList()

    _counter: Worker[None] | None = None

    def place_of_match(self) -> tuple[int, int] | None:
        """Return (number of the match at the line pointed at, number of all matches), counted from
        1, for example (3, 86). Return None if no match is pointed at, or if the log is not in
        memory from its start on. If the log is short, its older lines are then fetched, so that a
        later call can tell.
        """
        feed = self._feed
        if feed is None or not feed.loaded or self.search is None or not self.search.finished:
            return None
        if feed.at_start:
            return self._matches.place(self.view)
        if len(self._store) < SHORT_LINES and self.view.spot is not None:
            self._fetch_older(feed)
        return None

    def on_unmount(self) -> None:
        """Stop counting matches, because the log is closed."""
        self._stop_counting()

    def moved(self) -> None:
        """Count the matches of the searched text again. The log calls this when its lines in memory
        were replaced by those of another part of the log.
        """
        self._count_again()

    def find(self, text: str, *, final: bool) -> None:
        """Mark all matches of the regular expression `text` in the log, or none if it is "". With
        `final` (after Enter) also go to the nearest line above that matches, or else to the nearest
        below, and begin to count all matching lines. The pod searches the lines that are not in
        memory. If no line matches, a message says so. Without `final` nothing is sent to the pod,
        and what was counted for an earlier text is not shown any more.
        """
        view = self.view
        view.set_find(text, final=final)
        self._stop_counting()
        self.search = None
        if not final:
            return
        if text and not view.find_back():
            # First find the match, then count all: both at once would share the pod's time.
            self._find_further(-1, turn=True)
        else:
            self._count_again()

    def next_match(self, direction: int) -> None:
        """Go to the next match of the text that is looked for: down if `direction` is 1, up if it
        is -1. If the lines in memory have no match in that direction, the pod searches the others
        in the background. If there is none at all, a message says so.
        """
        if not self.view.next_match(direction):
            self._find_further(direction)

    def _count_again(self) -> None:
        self._stop_counting()
        text, feed = self.view.sought, self._feed
        self.search = None
        # While another text is typed, the count of the last one is not wanted any more.
        if text and feed is not None and text == self.view.find_text:
            self.search = LogSearch(feed.pages, self._wanted_streams(), text, self.view.wanted)
            self._counter = self._app.spawn(f"count in {self.run}", self.search.count(self.pulse))

    def _stop_counting(self) -> None:
        if self._counter is not None:
            self._counter.cancel()
        self._counter = None

    def _find_further(self, direction: int, *, turn: bool = False) -> None:
        """Let the pod look beyond what is held. `turn` looks in the other direction if there is
        nothing.
        """
        feed, cut = self._feed, self._cut_lines(direction)
        whole = feed is not None and (
            feed.at_start if direction < 0 else feed.live and not feed.unread
        )
        if feed is None or (whole and not cut):
            self._nothing(direction, turn=turn)
            return
        self._busy = "searching…"
        self._app.spawn(
            f"find in {self.run}",
            self._seek(feed, direction, cut, turn=turn, further=not whole),
            self._failed,
        )

    def _cut_lines(self, direction: int) -> list[int]:
        """Return the held lines in this direction of which a part is only on the pod, the nearest
        first.
        """
        view = self.view
        here, at = None, view.from_here(direction)
        if 0 <= at < len(view.lens):
            here = view.lens.number(at)
        cut = []
        for n in self._store.cut_lines():
            if view.seen(n) and (here is None or (n - here) * direction > 0):
                cut.append(n)
        return cut[::direction]

    def _nothing(self, direction: int, *, turn: bool) -> None:
        text = self.view.sought
        where, other = ("above", "below") if direction < 0 else ("below", "above")
        if turn and self.view.next_match(-direction):
            self.say_here(f"{text} does not occur {where}: this is the next one {other}.")
        elif turn:
            self._find_further(-direction)
            return
        else:
            said = f"{text} does not occur {where}."
            if self.view.json:
                said += " Lines of JSON are searched as the file has them, not as painted."
            self.say_here(said, severity="warning")
        if self.search is None:
            self._count_again()

    async def match_in(self, feed: LogFeed, place: Place, text: str) -> int | None:
        """Have the pod search one line of a log for the regular expression `text`, also the parts
        of a very long line that are not in memory. Return how many bytes of the line are before the
        first match, or None if the line has no match. `place` is the line's place: (index of its
        source in `feed.streams`, number of the log file, byte offset in it). `feed` reads the log
        from the pod. Raises RemoteError if the agent refuses the query, and EndlessAnswer if it
        does not come to an end.
        """
        source, generation, begin = place
        stream, cursor = feed.streams[source], f"{generation}:{begin}"
        arguments = LogSearch(feed.pages, [stream], text, LogFilter()).arguments
        hits = (await feed.pages.ask(stream, "search", cursor=cursor, limit=1, **arguments))["hits"]
        if hits and hits[0]["cursor"] == cursor:
            return int(hits[0].get("at", 0))
        return None

    async def _seek(
        self, feed: LogFeed, direction: int, cut: Sequence[int], *, turn: bool, further: bool
    ) -> None:
        text = self.view.sought
        for number in cut:
            place = self._store.place(number) if self.view.held(number) else None
            if place is not None and await self.match_in(feed, place, text) is not None:
                self._busy, self._spot = "", place
                self.pulse()
                if self.search is None:
                    self._count_again()
                return
        if not further:
            self._busy = ""
            self._nothing(direction, turn=turn)
            return
        edges, clocks = edges_of(self._store, len(feed.streams), direction)
        match = await LogSearch(feed.pages, feed.streams, text, self.view.wanted).nearest(
            edges, clocks, direction
        )
        self._busy = ""
        if match is None:
            self._nothing(direction, turn=turn)
            return
        places = await beside(feed.pages, feed.streams, match, edges, clocks, direction)
        self.go_to(places, match.place)
