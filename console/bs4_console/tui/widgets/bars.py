"""The line at the top (where am I, is anything wrong) and the line at the bottom (which keys work here)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from bs4_console.tui import commands, status, words
from bs4_console.tui.ink import Line, spread, width_of
from bs4_console.tui.widgets.panel import Panel

if TYPE_CHECKING:
    from bs4_console.core.state import PodState, RunState
    from bs4_console.tui.clock import Clock


class TopBar(Panel):
    DEFAULT_CSS = "TopBar { height: 1; }"

    def __init__(self) -> None:
        super().__init__(fill="bar")

    def tell(self, trail: Sequence[str], pods: Iterable[PodState], clock: Clock, read_only: bool, quiet: bool = False) -> None:
        """bs4-console › pod › run, and on the right how many of what."""
        left: Line = [(" bs4-console", "accent bold @fleet")]
        for i, part in enumerate(trail):
            left += [(" › ", "dim"), (part, "bold" if i == len(trail) - 1 else "")]
        pods = list(pods)
        state: Line = []
        if read_only:
            state += [("  read-only", "warn")]
        if quiet:
            state += [("  alerts off", "warn")]
        state += [(f"  {words.of_day(clock.wall())} ", "dim")]
        right = [*tally(pods), *state]
        if width_of(left) + width_of(right) >= self.size.width:
            right = [*tally(pods, short=True), *state]
        self.show([spread(left, right, self.size.width)])


def tally(pods: Iterable[PodState], *, short: bool = False) -> Line:
    """✖ 1 critical  ? 1 unknown  ▲ 0 ...: only what is not nothing, then how many pods and runs; `short` leaves the words away."""
    pods = list(pods)
    counts = {4: 0, 3: 0, 2: 0}
    running = 0
    for pod in pods:
        runs: list[RunState | None] = [*pod.runs.values()]
        for run in runs or [None]:
            how = status.of(pod, run)
            if how.rank in counts:
                counts[how.rank] += 1
            running += run is not None and run.word == "running" and not status.link_down(pod)
    line: Line = []
    for rank, sign, word, role in ((4, "✖", "critical", "bad bold"), (3, "?", "unknown", "warn bold"), (2, "▲", "warning", "warn")):
        if counts[rank]:
            line += [(f"{sign} {counts[rank]}  " if short else f"{sign} {counts[rank]} {word}  ", role)]
    if not line:
        line = [("✔  " if short else "✔ nothing needs you  ", "good")] if running else []
    if short:
        return [*line, (words.count(len(pods), "pod"), "dim")]
    return [*line, (f"{words.count(len(pods), 'pod')} · {running} running", "dim")]


class KeyBar(Panel):
    DEFAULT_CSS = "KeyBar { height: 1; }"

    def __init__(self) -> None:
        super().__init__(fill="bar")

    def tell(self, hints: Iterable[tuple[str, str, commands.Command]], width: int) -> None:
        """(key, title, command) in order of importance; whole hints only, help and back always."""
        line: Line = [(" ", "")]
        entries = list(hints)
        always = [e for e in entries if e[2].id in ("help", "back", "command")]
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
