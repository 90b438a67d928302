"""The bar at the top (the path to this screen, and what needs a person) and the bar at the bottom
(the keys that work here).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, cast

from bs4_console.tui import commands, status, words
from bs4_console.tui.ink import Line, spread, width_of
from bs4_console.tui.widgets.panel import Panel

if TYPE_CHECKING:
    from bs4_console.pods.state import PodState
    from bs4_console.tui.app import ConsoleApp
    from bs4_console.tui.clock import Clock
    from bs4_console.tui.views.fleet import Row


class TopBar(Panel):
    """The bar at the top of every screen."""

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
        """Show the path on the left and a tally of the rows on the right. `pod` adds the quality of
        its link and the age of its data. `quiet` says that alerts are off.
        """
        left: Line = [(" bs4-console", "accent bold @fleet")]
        for i, part in enumerate(trail):
            left += [(" › ", "dim"), (part, "bold" if i == len(trail) - 1 else "")]
        state: Line = self._moment()
        if read_only:
            state += [("  read-only", "warn")]
        if quiet:
            state += [("  alerts off", "warn")]
        state += [(f"  {words.of_day(clock.wall())} ", "dim")]
        link, signs = _link(pod, clock)
        room = self.size.width - width_of(left) - 1
        few = tally(rows, short=True)
        choices: list[Line] = [
            [*link, *tally(rows), *state],
            [*link, *few, *state],
            [*signs, *few, *state],
            [*signs, *few[:-1], *state],
        ]
        right = [*few, *state]
        for line in choices:
            if width_of(line) <= room:
                right = line
                break
        self.show([spread(left, right, self.size.width)])

    def _moment(self) -> Line:
        """Return where the time cursor is, on a screen that follows it."""
        at = cast("ConsoleApp", self.app).time.at
        if at is None or not getattr(self.screen, "shows_moment", False):
            return []
        return [(f"  ◷ {words.of_day(at, seconds=True)}", "warn bold @moment")]


def _link(pod: PodState | None, clock: Clock) -> tuple[Line, Line]:
    """Return the link and the age of the data, for example "▂▄▆█ 12ms data now", and the same in
    short.
    """
    if pod is None:
        return [], []
    seen = status.age(pod, clock)
    age: Line = [
        (words.old(seen), "warn" if seen is None or seen > words.FRESH_S else "dim"),
        ("  ", ""),
    ]
    link = status.link_line(pod)
    return [*link, ("  data ", "dim"), *age], [link[0], (" ", ""), *age]


def tally(rows: Iterable[Row], *, short: bool = False) -> Line:
    """Return how many rows are critical, unknown or a warning, and how many pods and running runs
    there are. `short` leaves out the words.
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
            line += [
                (f"{sign} {ranks[rank]}  " if short else f"{sign} {ranks[rank]} {word}  ", role)
            ]
    if not line:
        line = []
        if running:
            line = [("✔  " if short else "✔ nothing needs you  ", "good")]
    if short:
        return [*line, (words.count(pods, "pod"), "dim")]
    return [*line, (f"{words.count(pods, 'pod')} · {running} running", "dim")]


class KeyBar(Panel):
    """The bar with the keys at the bottom of every screen."""

    DEFAULT_CSS = "KeyBar { height: 1; }"

    def __init__(self) -> None:
        super().__init__(fill="bar")

    def tell(self, hints: Iterable[tuple[str, str, commands.Command]], width: int) -> None:
        """Show the hints (key, title, command), given in order of importance, as far as they fit.
        Help, back and the command line are always shown.
        """
        line: Line = [(" ", "")]
        entries = list(hints)
        always = []
        for e in entries:
            if e[2].id in ("help", "back", "command"):
                always.append(e)
        room = width - sum(len(k) + len(t) + 4 for k, t, _ in always)
        for key, title, command in [*(e for e in entries if e not in always), *always]:
            cells = len(key) + len(title) + 4
            if command.id not in ("help", "back", "command"):
                if cells > room:
                    continue
                room -= cells
            line += [(key, f"key @{command.id}"), (f" {title}", f"@{command.id}"), ("   ", "")]
        while width_of(line) > width and line and not line[-1][0].strip():
            line.pop()
        self.show([line])
