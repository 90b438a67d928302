"""A log for a person: places to go to, bookmarks, and the entry of a line, over a window that is
filled from the pod.
"""

from __future__ import annotations

from bisect import bisect_right

from bs4_console import secret
from bs4_console.errors import ConsoleError
from bs4_console.logs.detail import entry, spell_out
from bs4_console.logs.feed import LogFeed
from bs4_console.logs.jump import parse, resolve
from bs4_console.logs.private_keys import shown_line
from bs4_console.logs.store import LINE_BYTES, Place
from bs4_console.logs.text import clock_of, plain, size_of
from bs4_console.logs.written import written_at
from bs4_console.tui import formatting
from bs4_console.tui.styled_text import Line, cut, spread, width_of
from bs4_console.tui.views.run import short
from bs4_console.tui.widgets.log_detail import PAGE_BYTES, LogDetail, part
from bs4_console.tui.widgets.log_finding import LogFinding

#: Most bytes of a line that the dialog shows in full. Parts of a longer line are read from the pod.
LONG_BYTES = 32 * 1024
#: Bytes of a long line that are shown before a match.
LEAD_BYTES = 400


def _in_source(place: Place) -> tuple[int, int]:
    return place[1:]


class LogPane(LogFinding):
    """A log with a title line, bookmarks, and places to go to. It is the lower half of a run's
    screen, or the whole log screen.
    """

    def pulse(self) -> None:
        """Paint what has changed in the log and in its title line. The screen calls this at every
        repaint, several times a second.
        """
        super().pulse()
        self._head.show([self._title()])

    def _title(self) -> Line:
        """Return the title line: what is shown of the log, how, and what it waits for."""
        feed, view, store, names = self._feed, self.view, self._store, self.streams()
        what = self.source or (short(names[0]) if len(names) == 1 else f"all {len(names)} sources")
        # What a person must know first is not cut off at 80 columns, above all what hides lines.
        left: Line = [(f" {self.NOUN}", "head"), (f"  {what}", "bold"), *view.sifting()]
        if not self._broken:
            left += [(" · ", "dim"), *view.state(feed.unread if feed else 0)]
        left += self._found()
        first = width_of(left)
        if self._moment is not None:
            left += [
                (" · ", "dim"),
                (f"at {formatting.of_day(self._moment, seconds=True)}", "accent"),
            ]
        if self._at is not None:
            left.append((" · at the evidence", "accent"))
        left += view.title()
        if view.bookmarks:
            left.append((f" · ◆ {len(view.bookmarks)}", "warn"))
        if feed is not None and feed.left_out:
            left.append((f" · {feed.left_out / 1e6:,.0f} MB passed over to keep up", "dim"))
        left += self._hindrance()
        if store.repeats is not None and store.repeats.dropped:
            left.append((f" · {store.repeats.dropped:,} repeated left out", "dim"))
        held = "lines loaded" if feed and not feed.at_start else "lines"
        right: Line = [(f"{len(store):,} {held} ", "dim")]
        width = self.size.width
        if first + width_of(right) + 3 > width:
            right = []  # what is found is told before how much is loaded
        return spread(cut(left, max(10, width - width_of(right) - 1)), right, width)

    def _found(self) -> Line:
        """Return what is searched for, in how many lines it was found, and which of them is pointed
        at, where that is known.
        """
        if not self.view.find_text:
            return []
        line: Line = [(" · ", "dim"), (f"find {self.view.find_text}", "accent")]
        if (place := self.place_of_match()) is not None:
            line.append((" {:,} of {:,}".format(*place), "bold"))
        elif self.search is not None:
            more = "" if self.search.finished else "…"
            line.append((f" {formatting.count(self.search.total, 'line')}{more}", "dim"))
            # The pod counts in the files, and so counts lines that are not shown here.
            repeats = self._store.repeats
            if self.view.lens.filter.sifts:
                line.append((" without the filter", "dim"))
            elif repeats is not None and repeats.dropped and self.search.total:
                line.append((" with repeats", "dim"))
        return line

    def _hindrance(self) -> Line:
        """Return what the log waits for, or why nothing comes."""
        feed, dot = self._feed, (" · ", "dim")
        line: Line = []
        if self._busy:
            line += [dot, (self._busy, "warn")]
        elif feed is not None and feed.paging and self.view.lens.filter.sifts:
            line += [dot, (f"sifting older lines {feed.reached}", "dim")]
        if self._broken:
            fault = f"ended with a fault, {self._app.keys['messages']} tells it"
            line += [dot, (fault, "bad bold")]
        elif feed is None or not feed.loaded:
            line += [dot, ((feed and feed.waiting) or "reading…", "warn")]
        elif feed.waiting:
            line += [dot, (f"stands still: {feed.waiting}", "warn bold")]
        return line

    # -- going somewhere

    def go(self, text: str) -> None:
        """Go to the place of the log in `text`, as a person typed it: the number of a line (12345),
        a percentage (50%) or a time (21:14:05, or -5m from the current line). If the text names no
        place, or the place is not in this log, a message says so.
        """
        try:
            target = parse(text)
        except ConsoleError as error:
            self._app.say(f"{error.message} {error.next_step}", severity="warning")
            return
        feed = self._feed
        if feed is None:
            return
        clock = self._clock_at(self.view.current)

        async def work() -> None:
            try:
                places = await resolve(
                    target, feed.pages, self._here(), clock, at_end=self.view.following
                )
            except ConsoleError as error:
                self._app.say(f"{error.message} {error.next_step}", severity="warning")
                return
            self.go_to(places)

        self._app.spawn(f"go in {self.run}", work(), self._failed)

    async def time_here(self, begin: float, end: float) -> float | None:
        """Find out when the current line (the one pointed at, or else the last on the screen) was
        written. Return that as a Unix time in seconds by the pod's clock, or None if it cannot be
        told. As a log line has only a time of day, the caller says with `begin` and `end`, in the
        same unit, between which times the line must have been written.
        """
        feed, place = self._feed, self.current_place()
        if feed is None or place is None:
            return None
        clock, (source, generation, offset) = self._clock_at(self.view.current), place
        return await written_at(
            feed.pages, feed.streams[source], f"{generation}:{offset}", clock, begin, end
        )

    def _clock_at(self, number: int | None) -> int | None:
        """Return the clock of the line, or of the nearest one of the 200 above it that has one."""
        if number is None:
            return None
        for n in range(number, max(self._store.first, number - 200) - 1, -1):
            if (clock := clock_of(self._store.line(n)[1])) is not None:
                return clock
        return None

    # -- bookmarks, entries

    def bookmark(self) -> None:
        """Set a bookmark on the current line, or remove it. Without a line, a message says so."""
        view, number, place = self.view, self.view.current, self.current_place()
        if number is None or place is None:
            self._app.say("There is no line of a log here to mark.", severity="warning")
            return
        if view.bookmarks.pop(place, None) is None:
            view.bookmarks[place] = plain(shown_line(self._store, number)[1], 200)
        view.forget()

    def to_bookmark(self, direction: int) -> None:
        """Go to the next bookmark in the log, down if `direction` is 1 and up if it is -1. Beyond
        the last one it goes on at the other end. A message says so if there are no bookmarks.
        """
        view = self.view
        marks = sorted(view.bookmarks, key=_in_source)
        if not marks:
            self._app.say(
                f"No line is marked; {self._app.keys['bookmark']} marks the one pointed at."
            )
            return
        here = None if view.following else self.current_place()
        if here is None:
            target = marks[0 if direction > 0 else -1]
        elif here in view.bookmarks:
            target = marks[(marks.index(here) + direction) % len(marks)]
        else:
            # The first mark below, or the last one above; beyond the ends, round to the other one.
            below = bisect_right(marks, _in_source(here), key=_in_source)
            target = marks[(below if direction > 0 else below - 1) % len(marks)]
        held = self._store.number_at(target)
        if held is not None:
            view.point_at(held)
        elif self._feed is not None:
            places = {**self._here(), self._feed.streams[target[0]]: f"{target[1]}:{target[2]}"}
            self.go_to(places, target)

    def open_entry(self) -> None:
        """Open the dialog with the entry of the current line: the line with its traceback or its
        JSON. A very long line is read from the pod in parts. Do nothing if there is no line.
        """
        number = self.view.current
        if number is None:
            return
        source, line = self._store.line(number)
        place, size = self._store.place(number), size_of(line)
        names = self._names()
        title = f"{names[source] if source < len(names) else self.source or ''} line".strip()
        if (
            (len(line) > LONG_BYTES or size > len(line))
            and place is not None
            and self._feed is not None
        ):
            self._app.spawn(
                f"line of {self.run}",
                self._open_parts(self._feed, title, place, size),
                self._failed,
            )
        else:
            self._app.push_screen(
                LogDetail(title, self.entry_text(LONG_BYTES), marks=self.view.marks)
            )

    async def _open_parts(self, feed: LogFeed, title: str, place: Place, size: int) -> None:
        """Open the dialog with a line that is too long to be shown at once, a little before the
        first match in it.
        """
        source, generation, begin = place

        async def fetch(offset: int) -> bytes:
            # More is read on both sides, because a secret may lie across the borders of the part.
            lead = min(offset, secret.LOOK_BACK_BYTES)
            chunk = await feed.pages.read(
                feed.streams[source],
                f"{generation}:{begin + offset - lead}",
                lead + PAGE_BYTES + LEAD_BYTES,
                0.0,
            )
            whole = secret.redacted_bytes(chunk.data.split(b"\n")[0])
            return whole[lead : lead + PAGE_BYTES]

        text = self.view.find_text or self.view.filtered_text
        match = await self.match_in(feed, place, text) if text else None
        at = max(0, (match or 0) - LEAD_BYTES)
        first, marks = [part(await fetch(at))], self.view.marks
        self._app.push_screen(LogDetail(title, first, fetch, begin=at, size=size, marks=marks))

    def _entry(self) -> list[bytes]:
        number = self.view.current
        if number is None:
            return []
        return entry(self._store, number)

    def entry_text(self, limit: int = LINE_BYTES) -> list[str]:
        """Return the entry of the current line (the line with its traceback or its JSON) as lines
        of text. A line longer than `limit` characters is cut there, and a note at its end says how
        long it is in all. The result is empty if there is no current line.
        """
        shown = []
        redactor = secret.redactor()
        for text in spell_out(self._entry()):
            text = redactor.feed(text) + redactor.end()
            more = f" … {len(text):,} characters in all" if len(text) > limit else ""
            shown.append(plain(text.encode("utf-8", "replace"), limit) + more)
        return shown

    def entry_missing(self) -> int:
        """Return how many bytes of the current line's entry are not in memory and only on the pod.
        Return 0 if the entry is complete.
        """
        return sum(max(0, size_of(line) - len(line)) for line in self._entry())
