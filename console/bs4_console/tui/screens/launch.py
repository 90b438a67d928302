"""The launch dialog in three steps: the form, the plan, and the question. The run's own screen
shows the start.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, ClassVar, cast

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.widgets import Input

from bs4_console.errors import ConsoleError
from bs4_console.launch import config, guide
from bs4_console.launch.guide import AUTO, LaunchRequest
from bs4_console.pods.state import PlanView, PodState, RunState
from bs4_console.preflight.checks import Check
from bs4_console.trainers.registry import PRIME_RL, TRAINERS, homes
from bs4_console.tui.screens.base import Question
from bs4_console.tui.screens.confirm import MORE
from bs4_console.tui.styled_text import Line, cut, fold, hanging, spread, width_of
from bs4_console.tui.views import findings
from bs4_console.tui.views import plan as plans
from bs4_console.tui.widgets.field import Field
from bs4_console.tui.widgets.panel import Panel

if TYPE_CHECKING:
    from bs4_console.pods.session import PodSession
    from bs4_console.tui.app import ConsoleApp

#: Field -> its label.
FIELDS = {
    "config": "config on the pod",
    "run": "name of the run",
    "trainer": "trainer",
    "cwd": "installed in",
    "output": "output directory",
    "resume": "from step, or fresh",
    "container": "in container",
    "overrides": "further arguments",
}

#: The trainer to launch if neither the form nor the config names one.
USUAL = PRIME_RL.id
#: Field -> its placeholder.
UNSAID = {
    "config": "a path below the trainer's directory, or absolute",
    "trainer": f"as the config tells, else {USUAL}",
    "cwd": "where that trainer usually is: " + " or ".join(f"~/{home}" for home in homes()),
    "container": "none: on the pod itself",
    "overrides": "words for the trainer, quoted as in a shell",
}

#: Least rows of the plan that are shown on any terminal.
LEAST = 3


class LaunchScreen(Question[str]):
    """The dialog that launches a run on `pod`: first a form, then the agent's plan, which the
    person confirms. Its answer is the key of the launch action, or "" if nothing was started. The
    form begins with the config and the name in `args` ("CONFIG RUN", as a person has typed it) and
    with what `run`, the run under the cursor, was started with; `args` goes first.
    """

    DEFAULT_CSS = """
    LaunchScreen { align: center middle; background: $background 60%; }
    LaunchScreen > Vertical {
        width: 100; max-width: 96%; height: auto; max-height: 94%; border: round $accent;
        padding: 0 1; background: $surface;
    }
    LaunchScreen .field { height: 1; }
    LaunchScreen .field Panel { width: 20; height: 1; }
    LaunchScreen Input { height: 1; border: none; padding: 0 1; background: $panel; }
    LaunchScreen Input:focus { border: none; }
    LaunchScreen VerticalScroll { height: auto; scrollbar-size-vertical: 1; }
    LaunchScreen #form { height: auto; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "back", "Back", show=False, id="launch.back"),
        Binding("y", "yes", "Yes", show=False, id="launch.yes"),
        Binding("n", "back", "No", show=False, id="launch.no"),
        # With priority, like the app's own keys. Otherwise the text of a quick hand or a paste
        # would get into the previous field.
        Binding("tab", "app.focus_next", "Next field", show=False, priority=True, id="launch.next"),
        Binding(
            "shift+tab",
            "app.focus_previous",
            "Field before",
            show=False,
            priority=True,
            id="launch.previous",
        ),
        Binding("pagedown", "page(1)", "Down", show=False, id="launch.down"),
        Binding("pageup", "page(-1)", "Up", show=False, id="launch.up"),
    ]
    AUTO_FOCUS = "#config"

    def __init__(self, pod: PodState, run: RunState | None, args: str = "") -> None:
        super().__init__()
        self.pod = pod
        self._first = first_values(pod, run, args)
        self.plan: PlanView | None = None
        self.checks: list[Check] = []
        self.memory: list[str] = []
        self._room = 0
        self._price: float | None = None
        self._working = self._complaint = ""

    def compose(self) -> ComposeResult:
        """Yield the form, the plan, the field in which the run's name may have to be typed, and the
        line with the possible answers.
        """
        with Vertical():
            yield Panel(id="head")
            with Vertical(id="form"):
                for name in FIELDS:
                    with Horizontal(classes="field"):
                        yield Panel(id=f"label-{name}")
                        yield Field(
                            self._first[name],
                            UNSAID.get(name, ""),
                            id=name,
                            compact=True,
                            select_on_focus=False,
                        )
            with VerticalScroll(id="shown"):
                yield Panel(id="plan")
            yield Field(id="typed", compact=True)
            yield Panel(id="answer")

    @property
    def session(self) -> PodSession | None:
        """Return the session with the pod, or None if there is none."""
        return cast("ConsoleApp", self.app).fleet.sessions.get(self.pod.name)

    @property
    def typed_name(self) -> bool:
        """Return True if a plan is shown that is confirmed by typing the run's name."""
        return self.plan is not None and guide.must_type(self.plan)

    def asked(self) -> LaunchRequest:
        """Return what the form asks to launch. Raises ValueError, with a sentence for the person,
        if a field that must be filled is empty, or if a field has a value that cannot be used.
        """
        said = {name: self.query_one(f"#{name}", Input).value.strip() for name in FIELDS}
        for name in ("config", "run"):
            if not said[name]:
                raise ValueError(f"Say the {FIELDS[name]}.")
        if said["trainer"] not in ("", *TRAINERS):
            raise ValueError(
                f"The trainer is {' or '.join(TRAINERS)}; left empty, the one that the "
                "config tells."
            )
        whence = said["resume"] or AUTO
        if whence not in (AUTO, "fresh") and not whence.isdigit():
            raise ValueError("From which step: a number, auto (the newest complete one) or fresh.")
        try:
            overrides = tuple(shlex.split(said["overrides"]))
        except ValueError as error:
            raise ValueError(
                f"The further arguments cannot be taken apart: {error}. Quote them as in a shell."
            ) from None
        return LaunchRequest(
            run=said["run"],
            trainer=said["trainer"],
            config=said["config"],
            cwd=said["cwd"],
            output_dir=said["output"],
            resume=int(whence) if whence.isdigit() else AUTO,
            fresh=whence == "fresh",
            component="",
            overrides=overrides,
            container=said["container"],
        )

    def tell(self) -> None:
        """Show the form, or the plan if there is one, and the keys that a person can press next."""
        if not self.query("#answer"):
            return
        width = max(30, min(100, int(self.app.size.width * 0.96)) - 4)
        self.query_one("#form").display = self.plan is None
        self.query_one("#typed").display = self.typed_name
        for name, text in FIELDS.items():
            self.query_one(f"#label-{name}", Panel).show([[(text, "dim")]])
        head, shown = self._head(width), self._shown(width)
        answer = fold(self._complaint, width, "bad bold") if self._complaint else []
        # A long plan is scrolled between question and keys, because these must stay on the screen.
        fixed = (
            len(head)
            + len(answer)
            + 2
            + (len(FIELDS) if self.plan is None else 0)
            + self.typed_name
        )
        room = max(LEAST, int(self.app.size.height * 0.94) - 2 - fixed)
        self.query_one("#head", Panel).show(head)
        self.query_one("#plan", Panel).show(shown)
        scroll = self.query_one("#shown")
        scroll.display = bool(shown)
        if room != self._room:
            self._room = scroll.styles.max_height = room
        more: Line = []
        if len(shown) > room:
            more = spread([], MORE, width)
        self.query_one("#answer", Panel).show([more, *answer, cut(self._answer(), width)])

    def _head(self, width: int) -> list[Line]:
        """Return the question, and the result of the preflight in one line."""
        title = f"Start a run on {self.pod.name}"
        if self.plan is not None:
            title = f"{self.plan.plan['title']} on {self.pod.name}?"
        lines = fold(title, width, "bold")
        if found := findings.summary(self.checks, self.memory):
            lines.append(cut(found, width))
        name = self.query_one("#run", Input).value.strip()
        run = self.pod.runs.get(name)
        if self.plan is None and run is not None and run.alive:
            told = (
                f"{name} is running; it is not started a second time. Name another run, or stop it."
            )
            lines += fold(told, width, "warn")
        return [*lines, []]

    def _shown(self, width: int) -> list[Line]:
        """Return what forbade the start, beside the form. With a plan, return its steps, then the
        reasons and estimates.
        """
        width -= 2
        known = findings.lines(self.checks, width)
        if self.plan is None:
            return [[], *known] if known else []
        lines: list[Line] = []
        for number, step in enumerate(self.plan.plan["steps"], 1):
            head: Line = [(f"{number}. ", "dim")]
            lines += [
                *hanging(head, fold(str(step["title"]), width - width_of(head), "bold")),
                *plans.command_lines(str(step["command"]), width),
            ]
            lines += plans.moved_lines(step["shown"], width)
        # A blank line between, or it would read as if all this were of the last step.
        about = guide.plan_lines(self.plan, self.pod, self._price)
        lines += [[]] if about else []
        for text in about:
            lines += fold(text, width, "dim", 2)
        if self.checks:
            lines += [[], findings.heading(self.checks), *known]
        if self.memory:
            lines += [[], *findings.memory_lines(self.memory, width)]
        return [*lines, [], [("plan ", "dim"), (self.plan.plan_hash[:16], "accent")]]

    def _answer(self) -> Line:
        if self._working:
            return [("… ", "accent bold"), (self._working, "accent")]
        if self.plan is None:
            return [
                ("⏎", "key"),
                (" ", ""),
                ("show what would be done", "bold"),
                ("    ", ""),
                ("tab", "key"),
                (" ", ""),
                ("next field", ""),
                ("    ", ""),
                ("esc", "key"),
                (" ", ""),
                ("leave", "dim"),
            ]
        if self.typed_name:
            return [
                (f"checkpoints are moved aside: type {self.plan.run} and ", "warn"),
                ("⏎", "key"),
                ("    ", ""),
                ("esc", "key"),
                (" ", ""),
                ("change it", "dim"),
            ]
        return [
            ("y", "key"),
            (" ", ""),
            ("start it", "bold"),
            ("    ", ""),
            ("n", "key"),
            (" ", ""),
            ("change it", "dim"),
        ]

    def action_back(self) -> None:
        """Go back from the plan to the form, or from the form to the screen behind the dialog. A
        launch that the person has confirmed already is not stopped by this.
        """
        if self.plan is None:
            self.dismiss("")
            return
        self.plan, self.checks, self.memory, self._complaint = None, [], [], ""
        self.tell()
        self.query_one("#config", Input).focus()

    def action_yes(self) -> None:
        """Start the run as the plan says. Do nothing without a plan, or if the plan is confirmed
        by typing the run's name.
        """
        if self.plan is not None and not self.typed_name and not self._working:
            self._start(self.plan)

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self._complaint = ""
        if self._working:
            return
        if self.plan is None:
            try:
                asked = self.asked()
            except ValueError as error:
                self._complaint = str(error)
            else:
                self._working = f"{self.pod.name} is looked at, and makes the plan"
                cast("ConsoleApp", self.app).spawn("launch", self._make(asked))
        elif event.value.strip() == self.plan.run:
            self._start(self.plan)
        else:
            self._complaint = f"That is not {self.plan.run}; nothing was done."
        self.tell()

    async def _make(self, asked: LaunchRequest) -> None:
        try:
            if (session := self.session) is None:
                return
            asked = await config.resolved(session, asked, otherwise=USUAL)
            if (
                guide.under_way(self.pod, asked.run) is not None
                or guide.trains_already(self.pod, asked) is not None
            ):
                self._complaint = (
                    f"{asked.run} is started already; nothing is started twice. Its screen shows "
                    "how far it is."
                )
                return
            looked = await guide.prepare(session, asked)
            self.checks = [*looked.told, *looked.preflight.of("ok")]
            self.memory = list(looked.memory)
            if looked.blocking:
                self._complaint = "Nothing was started: first mend what is marked ✖."
                return
            self._price = guide.price_of(self.pod.name)
            self.plan = await guide.plan(session, asked, price=self._price, **looked.environment)
        except ConsoleError as error:
            self._complaint = str(error)
        finally:
            self._working = ""
            if self.is_attached:
                self.tell()
                if self.plan is not None:
                    (
                        self.query_one("#typed", Input)
                        if self.typed_name
                        else self.query_one("#shown")
                    ).focus()

    def _start(self, view: PlanView) -> None:
        self._working = "being started"
        cast("ConsoleApp", self.app).spawn("start", self._submit(view))
        self.tell()

    async def _submit(self, view: PlanView) -> None:
        try:
            if (session := self.session) is not None:
                key = await guide.start(session, view, confirmed=self.typed_name)
                self.dismiss(key)
        except ConsoleError as error:
            self._complaint, self.plan = str(error), None
        finally:
            self._working = ""
            if self.is_attached:
                self.tell()


def first_values(pod: PodState, run: RunState | None, args: str) -> dict[str, str]:
    """Return the values with which the form of the launch dialog begins, as {field: text}. The
    fields are config, run, trainer, cwd, output, resume, container and overrides (see FIELDS).
    `args` is "CONFIG RUN", "CONFIG" or "", and `run` the run under the cursor, or None. Config and
    run name come from `args`, or from `run` if `args` does not name them. Container and further
    arguments come from `run`. Trainer and directories come from `run`, or else from the newest run
    of `pod`.
    """
    newest = run or max(pod.runs.values(), key=lambda one: one.view.registered_t, default=None)
    words = args.split()
    values = dict.fromkeys(FIELDS, "") | {"output": "outputs", "resume": AUTO}
    if newest is not None and newest.view.trainer in TRAINERS:
        view = newest.view
        values |= {
            "trainer": view.trainer,
            "cwd": view.cwd or values["cwd"],
            "output": view.output_dir or values["output"],
        }
    if run is not None:
        values |= {"config": run.view.config, "run": run.name}
        attempt = run.view.attempt
        if attempt is not None:
            values |= {"overrides": shlex.join(attempt.overrides), "container": attempt.container}
    return values | dict(zip(("config", "run"), words, strict=False))
