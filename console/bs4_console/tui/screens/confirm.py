"""The last question before something is done: what it touches, and a confirmation as strong as the danger."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, cast

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import Input

from bs4_console.core.state import PlanView, PodState
from bs4_console.tui import words
from bs4_console.tui.ink import Line, fold
from bs4_console.tui.screens.base import Question
from bs4_console.tui.views import plan as plans
from bs4_console.tui.widgets.panel import Panel

if TYPE_CHECKING:
    from bs4_console.tui.app import ConsoleApp


#: Rows of the terminal from which each step's command stands below it; the plan behind the question shows them at any size.
ROOMY = 36


class Confirmation(Question[bool]):
    """Answers True only after `y`, or after `wanted` was typed where `typed` says so. A subclass gives `asked`."""

    DEFAULT_CSS = """
    Confirmation { align: center middle; background: $background 60%; }
    Confirmation > Vertical {
        width: 76; max-width: 96%; height: auto; max-height: 90%; border: round $error; padding: 0 1; background: $surface;
    }
    Confirmation Input { height: 1; border: none; padding: 0 1; background: $panel; }
    Confirmation Input:focus { border: none; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,n", "answer(False)", "No", show=False, id="confirm.no"),
        Binding("y", "answer(True)", "Yes", show=False, id="confirm.yes"),
    ]
    AUTO_FOCUS = "Input"

    def __init__(self, wanted: str, *, typed: bool, yes: str = "run it") -> None:
        super().__init__()
        self.wanted, self.typed, self._yes = wanted, typed, yes
        self._complaint = ""

    def asked(self, width: int, *, commands: bool) -> list[Line]:
        """What is asked, with the exact commands where there is room for them."""
        raise NotImplementedError

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Panel(id="question")
            if self.typed:
                yield Input(id="name", compact=True)
            yield Panel(id="answer")

    def tell(self) -> None:
        if not self.query(Panel):
            return
        width = max(30, min(76, int(self.app.size.width * 0.96)) - 4)
        self.query_one("#question", Panel).show(self._question(width))
        key, no = ("⏎", "esc") if self.typed else ("y", "n")
        answer: Line = [(key, "key"), (f" {self._yes}    ", "bold"), (no, "key"), (" leave everything as it is", "dim")]
        self.query_one("#answer", Panel).show([[(self._complaint, "bad bold")], answer])

    def _question(self, width: int) -> list[Line]:
        """With the commands where all of it fits: the answer's line must never be pushed off the screen."""
        whole = self._asked(width, commands=self.app.size.height >= ROOMY)
        return whole if len(whole) + 6 <= self.app.size.height * 0.9 else self._asked(width, commands=False)

    def _asked(self, width: int, *, commands: bool) -> list[Line]:
        lines = self.asked(width, commands=commands)
        return [*lines, [], *fold(f"To confirm, type {self.wanted}", width, "bold")] if self.typed else lines

    def action_answer(self, yes: bool) -> None:
        if yes and self.typed:
            return
        self.dismiss(yes)

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        if event.value.strip() == self.wanted:
            self.dismiss(True)
        else:
            self._complaint = f"That is not {self.wanted}; nothing was done."
            self.tell()


class ConfirmScreen(Confirmation):
    """Before a plan is carried out: `y` (danger none or restart) or the run's name (everything else)."""

    def __init__(self, plan: PlanView, pod: PodState) -> None:
        super().__init__(plan.run or pod.name, typed=plans.must_type(plan.plan))
        self.plan, self.pod = plan, pod

    def asked(self, width: int, *, commands: bool) -> list[Line]:
        does, role = plans.danger(self.plan.plan)
        lines: list[Line] = [[(f"Run {self.plan.playbook} on {self.pod.name}?", "bold")], [("It ", ""), (does, role), (".", "")], []]
        for text, command in zip(blast(self.plan.plan), commands_of(self.plan.plan), strict=True):
            folded = fold(text, width, "", 2)
            lines += [[("· ", "dim"), (folded[0][0][0].lstrip(), "")], *folded[1:]]
            if command and commands:
                lines += fold(f"$ {command}", width, "accent", 4)
        lines += [[], [("plan ", "dim"), (self.plan.plan_hash[:16], "accent")]]
        left = plans.expiry(self.plan, self.pod, cast("ConsoleApp", self.app).clock)
        if left is not None:
            lines[-1].append((f"  expires in {words.duration(left)}", "dim"))
        return lines


def commands_of(plan: dict[str, Any]) -> list[str]:
    """The exact command of each step; empty where the agent does it without one."""
    return [str(step.get("command") or "") for step in plan.get("steps", [])]


def blast(plan: dict[str, Any]) -> list[str]:
    """What the plan touches, a phrase a step."""
    found: list[str] = []
    for step in plan.get("steps", []):
        shown = step.get("shown") or {}
        processes = shown.get("processes") or step.get("targets") or []
        directories = shown.get("directories") or []
        title = str(step.get("title", step.get("kind", "")))
        if directories:
            total = sum(d.get("bytes") or 0 for d in directories)
            title += f" ({words.size(total)}, nothing is deleted)"
        elif processes and str(len(processes)) not in title:
            title += f" ({words.count(len(processes), 'process')})"
        found.append(title)
    return found
