"""The commands of the curves, for the screen that shows them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from textual.widgets.input import Selection

from bs4_console.errors import ConsoleError
from bs4_console.failures import health
from bs4_console.run_log.comparison import Row
from bs4_console.tui.styled_text import Line
from bs4_console.tui.views import compared
from bs4_console.tui.widgets.curve_data import MOST, TITLES, Band, Other, curves, overtaken_attempts
from bs4_console.tui.widgets.curve_view import WEIGHTS, CurveView
from bs4_console.tui.widgets.curves import span

if TYPE_CHECKING:
    from bs4_console.pods.state import PodState, RunState
    from bs4_console.tui.app import ConsoleApp
    from bs4_console.tui.widgets.prompt import Completer, Prompt

#: Commands that the key bar shows only while the curves are large.
OF_CURVES = frozenset({"log-scale", "smooth", "zoom-in", "zoom-out", "pan-left", "pan-right"})


class CurveCommands:
    """The commands of the training curves. A screen that shows curves inherits from this class and
    from ConsoleScreen, and has two properties: `run_state`, the run, and `moment`, the newest step
    at the time cursor (the past moment that all screens show) or None. `curve_view` says how the
    curves are drawn. `curves_large` is True while they are shown large in place of the log.
    """

    curve_view = CurveView()
    curves_large = False
    curves_only = ""
    """The title of the only curve that is shown, or "" for all."""
    _span: tuple[object, tuple[int, int]] = (None, (0, 0))
    compared: tuple[str, ...] = ()
    """What the curves are compared with: "2" for attempt 2 of the run itself (a relaunch of a run
    is its next attempt), "POD/RUN" for another run.
    """
    differences: Mapping[str, Sequence[Row]] = MappingProxyType({})
    """The settings in which this run differs from each run that it was compared with, by "POD/RUN".
    """

    if TYPE_CHECKING:
        pod: PodState
        run_name: str

        @property
        def moment(self) -> int | None:
            """Return the newest step at the time cursor, or None for now."""

        @property
        def console_app(self) -> ConsoleApp:
            """Return the app with its own type."""

        @property
        def run_state(self) -> RunState:
            """Return the run whose curves are shown."""

        def redraw(self) -> None:
            """Bring the whole screen up to date now."""

        @property
        def prompt(self) -> Prompt:
            """Return the prompt at the bottom of the screen."""

        def ask(self, kind: str, initial: str = "", complete: Completer | None = None) -> None:
            """Open the prompt. `kind` is what stands before the cursor, `initial` its text."""

    def load_bands(self) -> Mapping[str, Band]:
        """Return the healthy ranges of curves as {metric: (least, greatest)}, from
        configs/health.toml. Curves without a healthy range are missing. If the file cannot be read,
        return {} and show a message.
        """
        try:
            return health.bands()
        except ConsoleError as error:
            self.console_app.say(error.message, error.next_step, severity="warning")
            return {}

    def _steps(self) -> tuple[int, int]:
        """Return the first and last step of all curves, computed again only when a step came."""
        run, others = self.run_state, self.others()
        key = (
            id(run),
            len(run.trainer_steps),
            len(run.orchestrator_steps),
            run.step_seen,
            [(o.letter, o.name, o.steps) for o in others],
        )
        if self._span[0] != key:
            self._span = (key, span(curves(run, others=others)))
        return self._span[1]

    def _look(self, view: CurveView) -> None:
        self.curve_view = view
        self.redraw()

    # -- comparing

    def others(self) -> list[Other]:
        """Return the runs and attempts (lives of this run's processes) whose curves are drawn over
        those of this run, in the order of the letters that mark them. A run that no pod has any
        more is left out.
        """
        made: list[Other] = []
        for number, (letter, key) in enumerate(zip("BCDE", self.compared, strict=False)):
            name, slash, run = key.rpartition("/")
            if not slash:
                made.append(Other(letter, number, f"attempt {key}", self.run_state, int(key)))
                continue
            pod = self.console_app.fleet.pod(name)
            if pod is not None and run in pod.runs:
                title = run if pod.name == self.pod.name else f"{run} on {pod.name}"
                made.append(Other(letter, number, title, pod.runs[run]))
        return made

    def do_compare(self, args: str) -> None:
        """Compare the run's curves with what `args` names: another run ("RUN" or "POD/RUN"), or the
        number of an earlier attempt of this run (a relaunch is the next attempt). If they are
        compared with it already, end that comparison. "none" and "off" end all comparisons. If
        there is no such run or attempt, a message says so.

        An empty `args` opens the `:` prompt, in which a choice is filled in, so that Enter alone
        takes it. The choice is "none" if something is compared already. Otherwise it is the newest
        attempt some of whose steps were done again by a later attempt, or the first other run if
        there is no such attempt. If there is no other run either, a message says so.
        """
        if args in ("none", "off"):
            self.compared = ()
        elif not args:
            overtaken = overtaken_attempts(self.run_state)
            usual = ""
            if self.compared:
                usual = "none"
            elif overtaken:
                usual = str(overtaken[0])
            elif (other := self._other_run()) is not None:
                usual = other
            else:
                self.console_app.say(
                    "There is nothing to compare with: no other run, and no earlier attempt whose "
                    "steps were done again."
                )
                return
            self.ask(":", f"compare {usual}", self.console_app.complete)
            # A letter replaces what is offered, and an arrow keeps it.
            field = self.prompt.field
            field.selection = Selection(len("compare "), len(field.value))
            return
        elif (key := self._comparable(args)) is not None:
            self._toggle(key)
        self.redraw()

    def _other_run(self) -> str | None:
        """Return the first run that is not this one as "pod/run", or None if there is none."""
        for pod in self.console_app.fleet.pods:
            for run in sorted(pod.runs):
                if (pod.name, run) != (self.pod.name, self.run_name):
                    return f"{pod.name}/{run}"
        return None

    def _toggle(self, key: str) -> None:
        if key in self.compared:
            self.compared = tuple(other for other in self.compared if other != key)
        elif len(self.compared) == MOST:
            self.console_app.say(
                f"More than {MOST} lines beside the run's own cannot be told apart; :compare "
                "none ends it.",
                severity="warning",
            )
        else:
            self.compared = (*self.compared, key)
            self._read_settings(key)

    def _read_settings(self, key: str) -> None:
        """Find in which settings the run differs from the run with the key "pod/run"; an attempt of
        the run itself is left out.
        """
        name, slash, run = key.rpartition("/")
        pod = self.console_app.fleet.pod(name)
        if not slash or pod is None:
            return
        try:
            found = compared.changes(self.pod, self.run_state, pod, pod.runs[run])
        except OSError as error:
            self.console_app.say(f"A saved config cannot be read: {error}.", severity="warning")
            return
        self.differences = {**self.differences, key: found}

    def setting_lines(self, width: int) -> list[Line]:
        """Return a line of at most `width` cells for each run that this one is compared with, which
        says in which settings the two differ.
        """
        made = []
        for letter, key in zip("BCDE", self.compared, strict=False):
            if key in self.differences:
                made.append(compared.line(letter, self.differences[key], width))
        return made

    def _comparable(self, args: str) -> str | None:
        """Return the key of what can be compared, "2" for an attempt or "pod/run", or None, with a
        message, if it cannot be.
        """
        say = self.console_app.say
        if args.isdigit():
            attempts = overtaken_attempts(self.run_state)
            if int(args) in attempts:
                return args
            known = ", ".join(map(str, sorted(attempts))) or "none"
            say(
                f"Attempt {args} was not overtaken by a later one, so there is nothing of it "
                f"beside the curves; {known} was.",
                severity="warning",
            )
            return None
        wanted_pod, slash, wanted = args.rpartition("/")
        found = []
        for pod in self.console_app.fleet.pods:
            itself = (pod.name, wanted) == (self.pod.name, self.run_name)
            if wanted in pod.runs and not itself and (not slash or pod.name == wanted_pod):
                found.append(pod.name)
        if len(found) == 1:
            return f"{found[0]}/{wanted}"
        complaint = f"There is no run {args!r}; Tab shows those there are."
        if found:
            pods = ", ".join(found)
            complaint = f"{wanted} is on {pods}; say which: :compare {found[0]}/{wanted}"
        elif wanted == self.run_name and wanted_pod in ("", self.pod.name):
            complaint = "That is this run itself."
        say(complaint, severity="warning")
        return None

    # -- commands

    def do_curves(self, args: str) -> None:
        """Show only the curve whose title begins with `args`, large and in place of the log. If
        `args` is empty, show all curves large in place of the log, or, if curves are large already,
        make them small and show the log again. If there is no such curve, a message says so.
        """
        titles = TITLES if args else ("",)
        wanted = next((t for t in titles if t.lower().startswith(args.lower())), None)
        if wanted is None:
            self.console_app.say(
                f"There is no curve {args!r}; there are {', '.join(TITLES)}.", severity="warning"
            )
            return
        self.curves_large = bool(args) or not self.curves_large
        self.curves_only = wanted
        self.redraw()

    def do_log_scale(self, args: str) -> None:
        """Change the curves from a linear to a logarithmic scale, or back. `args` is ignored."""
        self._look(replace(self.curve_view, log=not self.curve_view.log))

    def do_smooth(self, args: str) -> None:
        """Draw the curves as a running mean. `args` is its weight, a number from 0 (no mean) to
        less than 1; if it is empty, take the next higher weight of WEIGHTS, and after the highest
        no mean. If `args` is not such a number, a message says so.
        """
        try:
            heavier = (weight for weight in WEIGHTS if weight > self.curve_view.weight)
            weight = float(args) if args else next(heavier, WEIGHTS[0])
        except ValueError:
            weight = -1.0
        if not 0 <= weight < 1:
            self.console_app.say(
                f"{args!r} is no weight; from 0 (as it is) to less than 1, :smooth 0.9 for "
                "example.",
                severity="warning",
            )
            return
        self._look(replace(self.curve_view, weight=weight))

    def do_zoom_in(self, args: str) -> None:
        """Show half as many training steps in the curves. `args` is ignored."""
        self._look(self.curve_view.zoomed(*self._steps(), self.moment, 0.5))

    def do_zoom_out(self, args: str) -> None:
        """Show twice as many training steps in the curves, or all steps if there are not that many.
        `args` is ignored.
        """
        self._look(self.curve_view.zoomed(*self._steps(), self.moment, 2.0))

    def do_pan_left(self, args: str) -> None:
        """Move the curves to earlier steps, by a quarter of the steps that they show. Do nothing
        if they show all steps. `args` is ignored.
        """
        self._look(self.curve_view.panned(*self._steps(), self.moment, -0.25))

    def do_pan_right(self, args: str) -> None:
        """Move the curves to later steps, by a quarter of the steps that they show. Do nothing if
        they show all steps. `args` is ignored.
        """
        self._look(self.curve_view.panned(*self._steps(), self.moment, 0.25))
