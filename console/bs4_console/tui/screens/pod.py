"""The page of a pod: liveness, link, runs, GPUs, actions, store, agent and external observers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

from textual.containers import VerticalScroll
from textual.widget import Widget

from bs4_console.pods.state import PodState
from bs4_console.tui import commands, status, words
from bs4_console.tui.ink import Line, cut, fold, spread
from bs4_console.tui.screens.base import ConsoleScreen, Subject
from bs4_console.tui.views import doing, gpus, lost, store, witnesses
from bs4_console.tui.views.fleet import step_line
from bs4_console.tui.views.moment import moment_line
from bs4_console.tui.views.run import host_line, host_line_then
from bs4_console.tui.widgets.moment_commands import MomentCommands
from bs4_console.tui.widgets.panel import Panel


def _words(name: object) -> str:
    return str(name).replace("_", " ")


#: Most actions and runs that are listed.
MOST = 4


class PodScreen(MomentCommands, ConsoleScreen):
    """The page of one pod, now or at the time cursor."""

    place: ClassVar[str] = commands.POD
    DEFAULT_CSS = "PodScreen VerticalScroll { height: 1fr; scrollbar-size-vertical: 1; }"

    def __init__(self, pod: PodState) -> None:
        super().__init__()
        self.pod = pod

    def body(self) -> Iterable[Widget]:
        """Yield the scrolled page."""
        with VerticalScroll():
            yield Panel(id="facts")

    def main(self) -> Widget:
        """Return the scrolled page, which has the focus."""
        return self.query_one(VerticalScroll)

    def trail(self) -> Sequence[str]:
        """Return the path to this screen, which the top bar shows."""
        return ("fleet", self.pod.name)

    def subject(self) -> Subject:
        """Return the pod, without a run."""
        return Subject(self.pod)

    def draw(self) -> None:
        """Bring the page up to date."""
        app, pod, width = self.console_app, self.pod, self.size.width - 1
        # The status of a pod with runs is that of the worst run. Each run has its own line below.
        how = max(
            (status.of(pod, run) for run in pod.runs.values()),
            key=lambda one: one.rank,
            default=status.of(pod, None),
        )
        seen = status.age(pod, app.clock)
        left: Line = [
            (" ", ""),
            *how.line(),
            ("  ", ""),
            (pod.name, "bold"),
            (f"  {pod.address}", "dim"),
        ]
        lines: list[Line] = [
            spread(
                left,
                [
                    *status.link_line(pod),
                    ("  data ", "dim"),
                    (words.old(seen), "warn" if seen is None or seen > words.FRESH_S else "good"),
                    (" ", ""),
                ],
                width,
            ),
            [(" link  ", "head"), (status.link_words(pod, app.clock), "")],
        ]
        if pod.link.detail:
            lines += [[("       ", ""), *line] for line in fold(pod.link.detail, width - 8, "warn")]
        if pod.link.next_step and pod.lost is None:
            lines += [
                [("       ", ""), *line] for line in fold(pod.link.next_step, width - 8, "bold")
            ]
        lines += lost.lines(pod, app.clock, app.keys, width)
        lines += self._runs(pod, width)
        lines += [[], *self._machine(pod, width)]
        lines += doing.lines(pod, None, app.clock, width, MOST)
        for name in pod.runs:
            if line := store.line(pod, name, app.clock, width, named=True):
                lines.append(line)
        lines += [[], *self._agent(pod), []]
        lines += [
            [(" ", ""), *line]
            for line in witnesses.lines(
                pod, list(pod.runs.values())[-MOST:], app.clock, width - 2, link=False
            )
        ]
        if not pod.runs:
            lines += [
                [],
                [
                    (" No run is known here. Start one: ", ""),
                    (f"bs4-console launch --pod {pod.name} CONFIG", "accent"),
                ],
            ]
            lines += [
                [
                    (" One that was started by hand is adopted: ", "dim"),
                    (f"bs4-console runs adopt --pod {pod.name}", "accent"),
                ]
            ]
        self.query_one("#facts", Panel).show(lines)

    def _runs(self, pod: PodState, width: int) -> list[Line]:
        """Return a line for each run with its status and step, the worst first."""
        found = sorted(pod.runs.values(), key=lambda run: -status.of(pod, run).rank)
        lines: list[Line] = []
        for number, run in enumerate(found[:MOST]):
            line: Line = [
                (" runs  " if number == 0 else "       ", "head"),
                *status.of(pod, run).line(),
                (f"  {run.name}", "bold"),
            ]
            line += [("  step ", "dim"), *step_line(run)]
            problems = []
            if pod.link.up:
                problems = [text for text, _ in status.wrong(pod, run, self.console_app.clock)]
            lines.append(cut([*line, (f"  {problems[0]}" if problems else "", "warn")], width))
        if len(found) > MOST:
            lines.append([(f"       and {len(found) - MOST} more, on the fleet", "dim")])
        return lines

    def _machine(self, pod: PodState, width: int) -> list[Line]:
        """Return the lines of GPUs and host, now or at the time cursor."""
        app, cursor = self.console_app, self.cursor
        if cursor.at is None:
            return [
                *gpus.lines(pod, app.clock, width, compact=width < 100),
                host_line(pod, app.clock, width),
            ]
        sample = cursor.sample(pod)
        shown = gpus.lines_then(sample, width, compact=width < 100, reading=cursor.waits(pod))
        return [
            moment_line(cursor.at, app.clock, app.keys, width),
            *shown,
            host_line_then(sample, width),
        ]

    def do_back(self, args: str) -> None:
        """Leave the time cursor, then the screen."""
        if self.cursor.at is not None:
            self.move_cursor(None)
        else:
            self.console_app.do_back("")

    def _agent(self, pod: PodState) -> list[Line]:
        hello = pod.hello
        if not hello:
            return [[(" agent ", "head"), ("not reached yet", "dim")]]
        lines: list[Line] = [
            [
                (" agent ", "head"),
                (str(hello.get("agent", "")), ""),
                (
                    (
                        f"  python {hello.get('python', '?')}  on {hello.get('host', '?')}  "
                        f"bundle {hello.get('bundle', '?')}"
                    ),
                    "dim",
                ),
            ]
        ]
        coverage = {**(hello.get("coverage") or {}), **(pod.latest.get("coverage") or {})}
        dark = {
            name: how for name, how in coverage.items() if how in ("hidden", "unknown", "partial")
        }
        seen = [
            f"{_words(name)}{'' if how == 'visible' else f' ({_words(how)})'}"
            for name, how in sorted(coverage.items())
            if name not in dark
        ]
        if seen:
            lines.append([("       sees ", "dim"), (", ".join(seen), "")])
        for name, how in sorted(dark.items()):
            told = "not visible" if how == "hidden" else str(how)
            lines.append(
                [
                    ("       ◌ ", "warn"),
                    (f"{_words(name)} {told}", "warn"),
                    (": what is written there is no evidence here", "dim"),
                ]
            )
        for gap in pod.ledger.watch_gaps[-3:]:
            lines.append(
                [
                    ("       nobody watched for ", "warn"),
                    (words.duration(float(gap.get("gap_s") or 0)), "warn bold"),
                    (f" before {words.of_day(gap['t'])}", "dim"),
                ]
            )
        return lines

    def hints(self, command: commands.Command) -> bool:
        """Return True if the key bar may show the command now."""
        down = status.link_down(self.pod)
        return {"retry": down, "launch": not down, "pod": False}.get(command.id, True)

    def do_copy(self, args: str) -> None:
        """Copy the page as text."""
        from bs4_console.tui.ink import text_of

        self.console_app.copy(
            "\n".join(text_of(line) for line in self.query_one("#facts", Panel).lines),
            "Copied this page.",
        )
