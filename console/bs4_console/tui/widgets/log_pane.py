"""A log as a person uses it: places to go to, marks, and the entry of a line, over a window that is filled from the pod."""

from __future__ import annotations

from collections.abc import Sequence

from bs4_console.core.errors import ConsoleError
from bs4_console.core.log_detail import entry, spell_out
from bs4_console.core.log_jump import parse, resolve
from bs4_console.core.log_moment import written_at
from bs4_console.core.log_text import clock_of, plain
from bs4_console.tui.ink import Line
from bs4_console.tui.widgets.log_detail import PAGE_BYTES, LogDetail
from bs4_console.tui.widgets.log_finding import LogFinding
from bs4_console.tui.widgets.log_title import title
from bs4_console.tui.widgets.panel import Panel

#: A line longer than this is not shown whole by the detail; its parts are read from the pod.
LONG_BYTES = 32 * 1024


class LogPane(LogFinding):
    """The lower half of a run, or the whole of the log screen."""

    def pulse(self) -> None:
        """One repaint: the log, and its title when that changed."""
        super().pulse()
        self.query_one(Panel).show([self._title()])

    def _title(self) -> Line:
        return title(self)

    # -- going somewhere

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
