"""The first contact with a pod: its fingerprint, and the command that accepts it. Accepting is a
matter of the command line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, cast

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical

from bs4_console.pods.state import PodState
from bs4_console.tui.screens.base import Question
from bs4_console.tui.styled_text import Line, fold
from bs4_console.tui.widgets.panel import Panel

if TYPE_CHECKING:
    from bs4_console.tui.app import ConsoleApp


_COMPARE = (
    "Compare it with what the provider shows, or with `ssh-keyscan` from a place you trust. If it "
    "is the same, accept it in another terminal:"
)


class HostKeyScreen(Question[None]):
    """The dialog at the first contact with `pod`, which shows the pod's SSH host key for the person
    to compare. The dialog itself cannot accept the key; it shows the shell command that does.
    """

    DEFAULT_CSS = """
    HostKeyScreen { align: center middle; background: $background 60%; }
    HostKeyScreen > Vertical {
        width: 76; max-width: 96%; height: auto; border: round $warning; padding: 0 1;
        background: $surface;
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,n", "leave", "Later", show=False, id="host-key.leave"),
        Binding("y", "copy", "Copy", show=False, id="host-key.copy"),
        Binding("R", "retry", "Try again", show=False, id="host-key.retry"),
    ]

    def __init__(self, pod: PodState) -> None:
        super().__init__()
        self.pod = pod

    @property
    def command(self) -> str:
        """Return the shell command that accepts the pod's host key, for example "bs4-console pods
        test h100-a".
        """
        return f"bs4-console pods test {self.pod.name}"

    def compose(self) -> ComposeResult:
        """Yield the widget with the dialog's text."""
        with Vertical():
            yield Panel()

    def tell(self) -> None:
        """Show the fingerprint of the pod's host key, what the person should compare it with, and
        the shell command that accepts the key.
        """
        if not self.query(Panel):
            return
        width = max(30, min(76, int(self.app.size.width * 0.96)) - 4)
        lines: list[Line] = [
            [(f"First contact with {self.pod.name}", "bold"), (f"  {self.pod.address}", "dim")],
            [],
        ]
        lines += [
            *fold(self.pod.link.detail, width, "accent"),
            [],
            *fold(_COMPARE, width),
            [],
            [("  $ ", "dim"), (self.command, "accent bold")],
            [],
            [
                ("y", "key"),
                (" copy the command    ", ""),
                ("R", "key"),
                (" try again    ", ""),
                ("esc", "key"),
                (" later", "dim"),
            ],
        ]
        self.query_one(Panel).show(lines)

    def action_leave(self) -> None:
        """Close the dialog and change nothing."""
        self.dismiss(None)

    def action_copy(self) -> None:
        """Copy the shell command that accepts the host key to the clipboard."""
        cast("ConsoleApp", self.app).copy(self.command, f"Copied: {self.command}")

    def action_retry(self) -> None:
        """Start a new try to connect to the pod, and close the dialog without waiting for it."""
        session = cast("ConsoleApp", self.app).fleet.sessions.get(self.pod.name)
        if session is not None:
            session.retry_now()
        self.dismiss(None)
