"""The screen with the newest rollouts of one run: what its model was asked and wrote."""

from __future__ import annotations

import asyncio
import importlib
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from bs4_console.errors import ConsoleError
from bs4_console.pods.state import PodState, RunState
from bs4_console.tui import commands
from bs4_console.tui.screens.base import PageScreen, Subject
from bs4_console.tui.styled_text import Line, fold
from bs4_console.tui.views import rollouts as view

if TYPE_CHECKING:
    from bs4_console.pods.session import PodSession
    from bs4_console.run_log.rollout_lines import Shown


class RolloutsScreen(PageScreen):
    """The screen with the last rollouts of a training step of the run `run` on `pod`. `asked` is
    the number of the step, the path of a file of the pod, or "" for the newest step. They are read
    once, so that nothing moves while a person reads them.
    """

    place: ClassVar[str] = commands.ROLLOUTS
    DEFAULT_CSS = (
        "RolloutsScreen VerticalScroll { height: 1fr; scrollbar-size-vertical: 1; "
        "scrollbar-gutter: stable; padding: 1 2 0 2; }"
    )

    def __init__(self, pod: PodState, run: RunState, asked: str = "") -> None:
        super().__init__()
        self.pod, self._run, self._asked = pod, run, asked
        self._path = ""
        self._found: list[Shown] | None = None
        self._trouble = ""
        self._drawn: tuple[object, ...] = ()

    def on_mount(self) -> None:
        """Begin to read the rollouts."""
        self.do_rollouts(self._asked)

    def trail(self) -> Sequence[str]:
        """Return the names on the way to this screen, which the top bar shows: fleet, pod, run and
        "rollouts".
        """
        return ("fleet", self.pod.name, self._run.name, "rollouts")

    def subject(self) -> Subject:
        """Return the pod and the run of the rollouts. If the run was removed from the pod, the run
        is returned as it was last.
        """
        self._run = self.pod.runs.get(self._run.name, self._run)
        return Subject(self.pod, self._run)

    def draw(self) -> None:
        """Show the rollouts that were read, or why there are none."""
        width = max(40, self.size.width - 6)
        shown = (self._path, id(self._found), self._trouble, width)
        if shown == self._drawn:
            return
        self._drawn = shown
        self.text.show(self._lines(width))

    def _lines(self, width: int) -> list[Line]:
        if self._trouble:
            return [*fold(self._trouble, width, "warn"), [], *fold(view.AGAIN, width, "dim")]
        if self._found is None:
            return [[("… ", "accent bold"), (f"{self.pod.name} is asked for them", "accent")]]
        words = ["bs4-console", "runs", "rollouts", self._run.name, "--pod", self.pod.name]
        words += ["--file", self._path, "--full"]
        return view.page(self._path, self._found, shlex.join(words), width)

    # -- commands

    def do_rollouts(self, args: str) -> None:
        """Read the rollouts again. `args` is the number of a step, the path of a file of the pod,
        or "" for the newest step. The page shows them when the pod has answered.
        """
        self._asked, self._found, self._trouble = args, None, ""
        session = self.session()
        if session is None:
            self._trouble = f"{self.pod.name} cannot be asked now."
        else:
            self.console_app.spawn(f"rollouts of {self._run.name}", self._read(session, args))
        self.redraw()

    async def _read(self, session: PodSession, asked: str) -> None:
        # Importing takes time. The thread that answers keys must not wait for it.
        await asyncio.to_thread(importlib.import_module, "bs4_console.run_log.pod_rollouts")
        from bs4_console.run_log import pod_rollouts

        found: list[Shown] | None = None
        path = trouble = ""
        try:
            if not asked:
                path = pod_rollouts.path_of(self._run)
            elif asked.isdecimal():
                path = pod_rollouts.path_of(self._run, int(asked))
            else:
                path = asked
            found = await pod_rollouts.read(session, path, pod_rollouts.NEWEST)
        except ConsoleError as error:
            trouble = str(error)
        if asked == self._asked:
            self._path, self._found, self._trouble = path, found, trouble
            self.redraw()
