"""The line at the top (where am I, is anything wrong) and the line at the bottom (which keys work
here).
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
        """bs4-console › pod › run, and on the right how many of what; of `pod` how good the link is
        and how old what is known of it.
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
        """Where the time cursor stands, on a screen that follows it: what is there is not of
        now.
        """
        at = cast("ConsoleApp", self.app).time.at
        if at is None or not getattr(self.screen, "shows_moment", False):
            return []
        return [(f"  ◷ {words.of_day(at, seconds=True)}", "warn bold @moment")]


def _link(pod: PodState | None, clock: Clock) -> tuple[Line, Line]:
    """(▂▄▆█ 12ms data now, the same with signs alone)."""
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
    """✖ 1 critical  ? 1 unknown  ▲ 0 ...: only what is not nothing, then how many pods and runs;
    `short` leaves the words away.
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
    DEFAULT_CSS = "KeyBar { height: 1; }"

    def __init__(self) -> None:
        super().__init__(fill="bar")

    def tell(self, hints: Iterable[tuple[str, str, commands.Command]], width: int) -> None:
        """(key, title, command) in order of importance; whole hints only, help and back always."""
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
