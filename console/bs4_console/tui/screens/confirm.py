"""The last question before something is done: what it touches, and a confirmation as strong as the
danger.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, cast

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.widgets import Input

from bs4_console.pods.gate.plans import PlanStep, plan_of
from bs4_console.pods.state import PlanView, PodState
from bs4_console.tui import formatting
from bs4_console.tui.screens.base import Question
from bs4_console.tui.styled_text import Line, fold
from bs4_console.tui.views import plan as plans
from bs4_console.tui.widgets.field import Field
from bs4_console.tui.widgets.panel import Panel

if TYPE_CHECKING:
    from bs4_console.tui.app import ConsoleApp


#: Least rows of the terminal for showing each step's command, if the plan behind the question shows
#: the commands at any size.
ROOMY = 36
#: What stands below a text that goes on.
MORE: Line = [("PgDn", "key"), (" the rest", "dim")]
#: Least rows of the question that are shown on any terminal.
LEAST = 3


class Confirmation(Question[bool]):
    """A dialog that asks for a confirmation and answers True or False. The person says yes with the
    key `y`, or, if `typed`, by typing the name `wanted` (a run's or a pod's) and Enter.

    `yes` is the text beside the key that confirms, such as "stop it". `alone` means that no page
    behind the dialog shows the commands, so that the dialog shows them however small the terminal
    is. A subclass gives the question in `asked`.
    """

    DEFAULT_CSS = """
    Confirmation { align: center middle; background: $background 60%; }
    Confirmation > Vertical {
        width: 76; max-width: 96%; height: auto; max-height: 90%; border: round $error;
        padding: 0 1; background: $surface;
    }
    Confirmation VerticalScroll { height: auto; scrollbar-size-vertical: 1; }
    Confirmation Input { height: 1; border: none; padding: 0 1; background: $panel; }
    Confirmation Input:focus { border: none; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,n", "answer(False)", "No", show=False, id="confirm.no"),
        Binding("y", "answer(True)", "Yes", show=False, id="confirm.yes"),
        Binding("pagedown", "page(1)", "Down", show=False, id="confirm.down"),
        Binding("pageup", "page(-1)", "Up", show=False, id="confirm.up"),
    ]
    AUTO_FOCUS = "Input"

    def __init__(
        self, wanted: str, *, typed: bool, yes: str = "run it", alone: bool = False
    ) -> None:
        super().__init__()
        self.wanted, self.typed, self._yes, self._alone = wanted, typed, yes, alone
        self._complaint = ""

    def asked(self, width: int, *, commands: bool) -> list[Line]:
        """Return the question in lines of at most `width` cells. With `commands` they include the
        exact shell commands. A subclass must override this.
        """
        raise NotImplementedError

    def compose(self) -> ComposeResult:
        """Yield the question, the field for the name if it has to be typed, and the line with the
        possible answers.
        """
        with Vertical():
            with VerticalScroll(can_focus=False):
                yield Panel(id="question")
            if self.typed:
                yield Field(id="name", compact=True)
            yield Panel(id="answer")

    def tell(self) -> None:
        """Show the question and the keys that answer it. A question that is too long for the
        terminal can be scrolled.
        """
        if not self.query(Panel):
            return
        width = max(30, min(76, int(self.app.size.width * 0.96)) - 4)
        # A long question is scrolled, because the line of answers must stay on the screen.
        room = max(LEAST, int(self.app.size.height * 0.9) - 4 - self.typed)
        lines = self._question(width)
        if more := len(lines) > room:
            lines = self._question(width - 1)
        self.query_one(VerticalScroll).styles.max_height = room
        self.query_one("#question", Panel).show(lines)
        said: Line = [(self._complaint, "bad bold")]
        if more and not self._complaint:
            said = MORE
        key, no = ("⏎", "esc") if self.typed else ("y", "n")
        answer: Line = [
            (key, "key"),
            (f" {self._yes}    ", "bold"),
            (no, "key"),
            (" cancel", "dim"),
        ]
        self.query_one("#answer", Panel).show([said, answer])

    def _question(self, width: int) -> list[Line]:
        """Return the question, with the commands if everything fits or nothing else shows them."""
        whole = self._asked(width, commands=self._alone or self.app.size.height >= ROOMY)
        if self._alone or len(whole) + 6 <= self.app.size.height * 0.9:
            return whole
        return self._asked(width, commands=False)

    def _asked(self, width: int, *, commands: bool) -> list[Line]:
        lines = self.asked(width, commands=commands)
        if self.typed:
            return [*lines, [], *fold(f"To confirm, type {self.wanted}", width, "bold")]
        return lines

    def action_answer(self, yes: bool) -> None:
        """Close the dialog with the answer `yes`. If `yes` is True but the dialog is confirmed by
        typing a name, do nothing.
        """
        if yes and self.typed:
            return
        self.dismiss(yes)

    @on(Input.Changed)
    def _typed(self) -> None:
        """Take the complaint about an earlier answer away, because another one is typed."""
        if self._complaint:
            self._complaint = ""
            self.tell()

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        if event.value.strip() == self.wanted:
            self.dismiss(True)
        else:
            self._complaint = f"That is not {self.wanted}; nothing was done."
            self.tell()


class ConfirmScreen(Confirmation):
    """The dialog that asks before `plan` is carried out on `pod`. A plan that changes nothing, or
    only restarts the run, is confirmed with the key `y`, unless the plan itself demands the run's
    name. Every other plan is confirmed by typing that name.

    `beside` is None if a page behind the dialog shows the plan. Otherwise it has the lines, maybe
    none, that the dialog shows in addition to the plan's steps.
    """

    def __init__(self, plan: PlanView, pod: PodState, beside: Sequence[str] | None = None) -> None:
        """Make the dialog for a plan. `beside` are lines to show in addition to the steps, or None
        if a page behind the dialog shows the plan.
        """
        super().__init__(
            plan.run or pod.name, typed=plans.must_type(plan_of(plan)), alone=beside is not None
        )
        self.plan, self.pod, self._beside = plan, pod, beside or ()

    def asked(self, width: int, *, commands: bool) -> list[Line]:
        """Return the question in lines of at most `width` cells: what the plan does, what each step
        touches, the plan's hash and when the plan expires. With `commands` each step also has its
        shell command.
        """
        plan = plan_of(self.plan)
        _, role = plans.danger(plan)
        lines: list[Line] = [
            [(f"Run {self.plan.playbook} on {self.pod.name}?", "bold")],
            *fold(plans.effects(plan, self.pod.runs.get(self.plan.run)), width, role),
            [],
        ]
        for step in plan.get("steps") or ():
            folded = fold(touched(step), width, "", 2)
            lines += [[("· ", "dim"), (folded[0][0][0].lstrip(), "")], *folded[1:]]
            if commands and step.get("command"):
                lines += fold(f"$ {step['command']}", width, "accent", 4)
        for text in self._beside:
            lines += fold(text, width, "dim", 2)
        lines += [[], [("plan ", "dim"), (self.plan.plan_hash[:16], "accent")]]
        left = plans.expiry(self.plan, self.pod, cast("ConsoleApp", self.app).clock)
        if left is not None:
            lines[-1].append((f"  expires in {formatting.duration(left)}", "dim"))
        return lines


def touched(step: PlanStep) -> str:
    """Return in a phrase what a step of a plan touches: the step's title, followed by the total
    size of the directories that it moves or by the number of processes that it acts on.
    """
    shown = step.get("shown") or {}
    processes = shown.get("processes") or step.get("targets") or ()
    total = sum(count or 0 for _, count in plans.moved_entries(shown))
    title = step.get("title") or step.get("kind", "")
    if total:
        return f"{title} ({formatting.size(total)}, nothing is deleted)"
    if processes and str(len(processes)) not in title:
        return f"{title} ({formatting.count(len(processes), 'process')})"
    return title
