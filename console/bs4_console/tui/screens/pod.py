"""The page of a pod: liveness, link, runs, GPUs, actions, store, agent and external observers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from bs4_console.pods.state import PodState, RunState
from bs4_console.tui import commands, formatting, status
from bs4_console.tui.screens.base import PageScreen, Subject
from bs4_console.tui.styled_text import Line, cut, fold, hanging, spread, text_of
from bs4_console.tui.views import beside, doing, gpus, lost, observers, store
from bs4_console.tui.views.fleet import step_line
from bs4_console.tui.views.moment import moment_line
from bs4_console.tui.views.run import host_line, host_line_then
from bs4_console.tui.widgets.moment_commands import MomentCommands


def _words(name: object) -> str:
    return str(name).replace("_", " ")


#: How something is seen -> the remark behind its name. Pids are the usual way, so they get none.
_HOW = {
    "visible": "",
    "by-pid": "",
    "by-open-device": " (by which processes hold the device open, because pids are hidden)",
}
#: Rows of the bars above and below the page, and of a message.
BARS = 4
#: Most actions and runs that are listed.
MOST = 4


class PodScreen(MomentCommands, PageScreen):
    """The page of `pod`, as the pod is now or as it was at the time cursor (the past moment that
    all screens show).
    """

    place: ClassVar[str] = commands.POD
    panel: ClassVar[str] = "facts"
    DEFAULT_CSS = "PodScreen VerticalScroll { height: 1fr; scrollbar-size-vertical: 1; }"

    def __init__(self, pod: PodState) -> None:
        super().__init__()
        self.pod = pod
        self._curves, self._actions = beside.RunCurves(), beside.NewestActions()

    def trail(self) -> Sequence[str]:
        """Return the breadcrumb of this page for the top bar: fleet and the pod."""
        return ("fleet", self.pod.name)

    def subject(self) -> Subject:
        """Return the pod of the page. The run is None."""
        return Subject(self.pod)

    def draw(self) -> None:
        """Redraw the page."""
        app, pod, width = self.console_app, self.pod, self.size.width - 1
        # The status of a pod with runs is that of the worst run. Each run has its own line below.
        how = max(
            (status.status_of(pod, run) for run in pod.runs.values()),
            key=lambda one: one.rank,
            default=status.status_of(pod, None),
        )
        seen = status.age(pod, app.clock)
        age = (formatting.old(seen), "warn" if status.is_old(seen) else "good")
        left = [(" ", ""), *how.line(), ("  ", ""), (pod.name, "bold"), (f"  {pod.address}", "dim")]
        right = [*status.link_line(pod), ("  data ", "dim"), age, (" ", "")]
        margin: Line = [("       ", "")]
        lines: list[Line] = [
            spread(left, right, width),
            [(" link  ", "head"), (status.link_words(pod, app.clock), "")],
        ]
        if pod.link.detail:
            lines += hanging(margin, fold(pod.link.detail, width - 8, "warn"))
        if pod.link.next_step and pod.lost is None:
            lines += hanging(margin, fold(pod.link.next_step, width - 8, "bold"))
        lines += [
            *lost.lines(pod, app.clock, app.keys, width),
            *self._runs(pod, width),
            [],
            *self._machine(pod, width),
            *doing.lines(pod, None, app.clock, width, MOST),
        ]
        for name in pod.runs:
            if line := store.line(pod, name, app.clock, width, named=True):
                lines.append(line)
        recent = list(pod.runs.values())[-MOST:]
        seen_outside = observers.lines(pod, recent, app.clock, width - 2, link=False)
        lines += [[], *self._agent(pod), [], *hanging([(" ", "")], seen_outside)]
        if not pod.runs:
            lines += [
                [],
                [
                    (" No run is known here. Start one: ", ""),
                    (f"bs4-console launch --pod {pod.name} CONFIG", "accent"),
                ],
                [
                    (" One that was started by hand is adopted: ", "dim"),
                    (f"bs4-console runs adopt --pod {pod.name}", "accent"),
                ],
            ]
        self.text.show([*lines, *self._beside(width, self.size.height - BARS - len(lines))])

    def _beside(self, width: int, room: int) -> list[Line]:
        """Return what fills the `room` rows that the page leaves free: the curves of the run that
        needs a person most, and what was done last on the pod.
        """
        app, pod = self.console_app, self.pod
        lines: list[Line] = []
        rows, most = beside.share(room)
        stepped = [run for run in self._by_need() if run.trainer_steps]
        if stepped and room > rows + 2 and self.cursor.at is None:
            lines += [[], [(" curves", "head"), (f"  {stepped[0].name}", "bold")]]
            for line in self._curves.lines(stepped[0], width - 2, rows):
                lines.append([(" ", ""), *line])
        room -= len(lines)
        if room > beside.RECENT + 2:
            done = self._actions.lines([pod], app.clock, app.keys, width, min(most, room - 2))
            if done:
                lines += [[], *done]
        return lines

    def _by_need(self) -> list[RunState]:
        """Return the pod's runs, the worst first, and of these the newest."""
        newest = reversed(self.pod.runs.values())
        return sorted(newest, key=lambda run: -status.status_of(self.pod, run).rank)

    def _runs(self, pod: PodState, width: int) -> list[Line]:
        """Return a line for each run with its status and step, the worst first."""
        found = sorted(pod.runs.values(), key=lambda run: -status.status_of(pod, run).rank)
        lines: list[Line] = []
        for number, run in enumerate(found[:MOST]):
            line: Line = [
                (" runs  " if number == 0 else "       ", "head"),
                *status.status_of(pod, run).line(),
                (f"  {run.name}", "bold"),
                ("  step ", "dim"),
                *step_line(run),
            ]
            if pod.link.up and (problems := status.wrong(pod, run, self.console_app.clock)):
                line.append((f"  {problems[0][0]}", "warn"))
            lines.append(cut(line, width))
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
        """If the screens show a past moment, show the present; otherwise close the page. `args` is
        ignored.
        """
        if self.cursor.at is not None:
            self.move_cursor(None)
        else:
            self.console_app.do_back("")

    def _agent(self, pod: PodState) -> list[Line]:
        hello = pod.hello
        if not hello:
            return [[(" agent ", "head"), ("not reached yet", "dim")]]
        where = (
            f"  python {hello.get('python', '?')}  on {hello.get('host', '?')}  "
            f"bundle {hello.get('bundle', '?')}"
        )
        lines: list[Line] = [
            [(" agent ", "head"), (str(hello.get("agent", "")), ""), (where, "dim")]
        ]
        if pod.looks_only:
            lines.append([("       ◌ ", "warn"), ("the key of this login may only look", "warn")])
        coverage = {**(hello.get("coverage") or {}), **(pod.latest.get("coverage") or {})}
        seen: list[str] = []
        dark: list[Line] = []
        for name, how in sorted(coverage.items()):
            if how in ("hidden", "unknown", "partial"):
                told = "not visible" if how == "hidden" else how
                dark.append(
                    [
                        ("       ◌ ", "warn"),
                        (f"{_words(name)} {told}", "warn"),
                        (": what is written there is no evidence here", "dim"),
                    ]
                )
            else:
                seen.append(f"{_words(name)}{_HOW.get(how, f' ({_words(how)})')}")
        if seen:
            lines.append([("       sees ", "dim"), (", ".join(seen), "")])
        lines += dark
        for gap in pod.ledger.watch_gaps[-3:]:
            lines.append(
                [
                    ("       nobody watched for ", "warn"),
                    (formatting.duration(float(gap.get("gap_s") or 0)), "warn bold"),
                    (f" before {formatting.of_day(gap['t'])}", "dim"),
                ]
            )
        return lines

    def hints(self, command: commands.Command) -> bool:
        """Return True if the key bar at the bottom may offer `command` now. The command that
        reconnects is offered only while the link is down, the one that launches a run only while it
        is not.
        """
        down = status.link_down(self.pod)
        return {"retry": down, "launch": not down, "pod": False}.get(command.id, True)

    def do_copy(self, args: str) -> None:
        """Copy the page to the clipboard as text. `args` is ignored."""
        self.console_app.copy("\n".join(map(text_of, self.text.lines)), "Copied this page.")
