"""The bar at the top (the path to this screen, and what needs a person) and the bar at the bottom
(the keys that work here).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, cast

from bs4_console.tui import commands, formatting, status
from bs4_console.tui.styled_text import Line, cut, fold, hanging, spread, text_of, width_of
from bs4_console.tui.widgets.panel import Panel

if TYPE_CHECKING:
    from bs4_console.pods.state import PodState
    from bs4_console.tui.app import ConsoleApp
    from bs4_console.tui.clock import Clock
    from bs4_console.tui.notifications import News
    from bs4_console.tui.views.fleet import Row

#: Most rows of a message above the key bar. The list of messages has the whole of it.
NEWS_ROWS = 2


class TopBar(Panel):
    """The bar at the top of every screen. On the left it shows the breadcrumb of the screen, such
    as fleet, pod and run, and on the right how many rows of the fleet's table have a problem.
    """

    DEFAULT_CSS = "TopBar { height: 1; }"

    def __init__(self) -> None:
        super().__init__(fill="bar")

    def tell(
        self,
        trail: Sequence[str],
        rows: Sequence[Row],
        clock: Clock,
        read_only: bool,
        quiet: bool = False,
        pod: PodState | None = None,
    ) -> None:
        """Show `trail`, the breadcrumb of the screen, on the left, and on the right how many of
        `rows`, the rows of the fleet's table, have a problem. With `pod` the bar also shows the
        quality of the link to this pod and the age of its data. With `read_only` it says that
        nothing can be changed, and with `quiet` that alerts are off.
        """
        left: Line = [(" bs4-console", "accent bold @fleet")]
        for i, part in enumerate(trail):
            left += [(" › ", "dim"), (part, "bold" if i == len(trail) - 1 else "")]
        state: Line = self._moment()
        if read_only:
            state.append(("  read-only", "warn"))
        if quiet:
            state.append(("  alerts off", "warn"))
        state.append((f"  {formatting.of_day(clock.wall())} ", "dim"))
        link, signs = _link(pod, clock)
        few = tally(rows, short=True)
        room = self.size.width - width_of(left) - width_of(state) - 1
        choices = (link + tally(rows), link + few, signs + few, signs + few[:-1])
        right = next((line for line in choices if width_of(line) <= room), few)
        self.show([spread(left, right + state, self.size.width)])

    def _moment(self) -> Line:
        """Return where the time cursor is, on a screen that follows it."""
        at = cast("ConsoleApp", self.app).time.at
        if at is None or not getattr(self.screen, "shows_moment", False):
            return []
        return [(f"  ◷ {formatting.of_day(at, seconds=True)}", "warn bold @moment")]


def _link(pod: PodState | None, clock: Clock) -> tuple[Line, Line]:
    """Return the link and the age of the data, for example "▂▄▆█ 12ms data now", and the same in
    short.
    """
    if pod is None:
        return [], []
    seen, link = status.age(pod, clock), status.link_line(pod)
    age: Line = [(formatting.old(seen), "warn" if status.is_old(seen) else "dim"), ("  ", "")]
    return [*link, ("  data ", "dim"), *age], [link[0], (" ", ""), *age]


def tally(rows: Iterable[Row], *, short: bool = False) -> Line:
    """Return, as a styled line, how many of `rows`, the rows of the fleet's table, are critical,
    unknown or warnings, how many pods there are, and how many runs are running. If no run is known
    to run while the console is still connecting to a pod, the line says "connecting" in place of
    the number of runs. With `short` only the number of pods and the number of rows with a problem
    are given, with signs in place of words.
    """
    rows = list(rows)
    ranks = Counter(row.rank for row in rows)
    running, pods = sum(row.running for row in rows), len({row.key[0] for row in rows})
    line: Line = []
    for rank, sign, word, role in (
        (4, "✖", "critical", "bad bold"),
        (3, "?", "unknown", "warn bold"),
        (2, "▲", "warning", "warn"),
    ):
        if ranks[rank]:
            text = f"{sign} {ranks[rank]}" if short else f"{sign} {ranks[rank]} {word}"
            line.append((f"{text}  ", role))
    if running and not line:
        line.append(("✔  " if short else "✔ all good  ", "good"))
    known = formatting.count(pods, "pod")
    if short:
        return [*line, (known, "dim")]
    runs = f"{running} running"
    if not running and any(row.connecting for row in rows):
        runs = "connecting"
    return [*line, (f"{known} · {runs}", "dim")]


class NewsLine(Panel):
    """The line above the key bar with the newest message. It is hidden while there is none."""

    DEFAULT_CSS = "NewsLine { height: auto; max-height: 2; display: none; }"

    def tell(self, news: News | None, width: int) -> None:
        """Show the message `news` in at most two lines of `width` cells, or hide the line if it is
        None.
        """
        self.display = news is not None
        if news is None:
            return
        sign, role = "·", "dim"
        if news.severity == "warning":
            sign, role = "▲", "warn"
        elif news.severity == "error":
            sign, role = "✖", "bad bold"
        lines = list(hanging([(f" {sign} ", role)], fold(news.text, width - 4)))
        if len(lines) > NEWS_ROWS:
            rest = " ".join(text_of(line).strip() for line in lines[1:])
            lines = [lines[0], cut([("   ", ""), (rest, "")], width - 1)]
        self.show(lines)


class KeyBar(Panel):
    """The bar at the bottom of every screen, with the keys that are useful now."""

    DEFAULT_CSS = "KeyBar { height: 1; }"

    def __init__(self) -> None:
        super().__init__(fill="bar")

    def tell(self, hints: Iterable[tuple[str, str, commands.Command]], width: int) -> None:
        """Show as many of `hints` as fit into `width` cells, the first ones first. A hint is (key,
        title, command). The hints for help, back and the command line are shown even if others must
        be left out for them.
        """
        line: Line = [(" ", "")]
        always: Line = []
        room = width
        offered = []
        for key, title, command in hints:
            hint = [(key, f"key @{command.id}"), (f" {title}", f"@{command.id}"), ("   ", "")]
            if command.id in ("help", "back", "command"):
                always += hint
                room -= len(key) + len(title) + 4
            else:
                offered.append(hint)
        for hint in offered:
            cells = len(text_of(hint))
            if cells <= room:
                room -= cells
                line += hint
        line += always
        while width_of(line) > width and line and not line[-1][0].strip():
            line.pop()
        self.show([line])
