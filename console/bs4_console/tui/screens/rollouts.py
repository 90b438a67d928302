"""The screen with the newest rollouts of one run: what its model was asked and wrote."""

from __future__ import annotations

import asyncio
import importlib
import shlex
from collections.abc import Coroutine, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from bs4_console.errors import ConsoleError
from bs4_console.pods.state import PodState, RunState
from bs4_console.secret import redacted
from bs4_console.tui import commands
from bs4_console.tui.screens.base import PageScreen, Subject
from bs4_console.tui.styled_text import Line, fold
from bs4_console.tui.views import rollouts as view

if TYPE_CHECKING:
    from textual.worker import Worker

    from bs4_console.pods.session import PodSession
    from bs4_console.run_log.rollout_lines import Shown

#: The digits that the number of a step has at most.
_STEP_DIGITS = 9
#: The characters that are shown of a sentence about why there are no rollouts. It may name a path.
_TROUBLE = 200


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
        self._page: list[Line] = []
        self._page_width = 0
        """The width for which `_page` was made, or 0 while there is none."""
        self._trouble = ""
        self._work: Worker[None] | None = None
        self._works = 0
        """A number that grows when work is begun or given up. Work that fails after that counts for
        nothing.
        """
        self._drawn: tuple[object, ...] = ()

    def on_mount(self) -> None:
        """Begin to read the rollouts."""
        self.do_rollouts(self._asked)

    def on_unmount(self) -> None:
        """Give up what is being read, because nobody will see it."""
        self._stop()

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
        width = self._width()
        if self._found is not None and width != self._page_width:
            # Until the lines of another width are made, those that are there stay.
            self._page_width = width
            self._start(self._make_again(width))
        shown = (self._page, self._found is None, self._trouble, width)
        if shown == self._drawn:
            return
        self._drawn = shown
        self.text.show(self._lines(width))

    def _width(self) -> int:
        """Return how many cells a line may take."""
        return max(40, (self.size.width or self.app.size.width) - 6)

    def _lines(self, width: int) -> list[Line]:
        if self._trouble:
            return [*fold(self._trouble, width, "warn"), [], *fold(view.AGAIN, width, "dim")]
        if self._found is None:
            return [[("… ", "accent bold"), (f"{self.pod.name} is asked for them", "accent")]]
        return self._page

    # -- commands

    def do_rollouts(self, args: str) -> None:
        """Read the rollouts again. `args` is the number of a step, the path of a file of the pod,
        or "" for the newest step. The page shows them when the pod has answered. What was asked
        before is given up.
        """
        self._stop()
        self._found, self._page, self._page_width, self._trouble = None, [], 0, ""
        session = self.session()
        if args.isdecimal() and len(args) > _STEP_DIGITS:
            self._trouble = f"No step has more than {_STEP_DIGITS} digits."
        elif session is None:
            self._trouble = f"{self.pod.name} cannot be asked now."
        else:
            self._start(self._read(session, args))
        self.redraw()

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        """Begin `work` in place of what is under way."""
        self._stop()
        failed = partial(self._failed, self._works)
        self._work = self.console_app.spawn(f"rollouts of {self._run.name}", work, failed)

    def _stop(self) -> None:
        if self._work is not None:
            self._work.cancel()
        self._work = None
        self._works += 1

    def _failed(self, number: int) -> None:
        """Say that the work with this number failed, unless it was given up. A message says why."""
        if number == self._works:
            self._found, self._trouble = None, "The rollouts could not be read."
            self.redraw()

    async def _read(self, session: PodSession, asked: str) -> None:
        # Importing takes time. The thread that answers keys must not wait for it.
        await asyncio.to_thread(importlib.import_module, "bs4_console.run_log.pod_rollouts")
        from bs4_console.run_log import pod_rollouts

        try:
            if not asked:
                path = pod_rollouts.path_of(self._run)
            elif asked.isdecimal():
                path = pod_rollouts.path_of(self._run, int(asked))
            else:
                path = asked
            found = await pod_rollouts.read(session, path, pod_rollouts.NEWEST)
        except ConsoleError as error:
            said = redacted(error.message)
            if len(said) > _TROUBLE:
                said = f"{said[:_TROUBLE]}…"
            self._trouble = f"{said} {redacted(error.next_step)}".strip()
        else:
            self._path = path
            width = self._width()
            self._page = await self._made(found, width)
            self._found, self._page_width = found, width
        self.redraw()

    async def _make_again(self, width: int) -> None:
        """Make the lines for another width."""
        self._page = await self._made(self._found or (), width)
        self.redraw()

    async def _made(self, found: Sequence[Shown], width: int) -> list[Line]:
        """Return the lines of the rollouts `found`. A thread makes them, so that what answers keys
        does not wait for it.
        """
        words = ["bs4-console", "runs", "rollouts", self._run.name, "--pod", self.pod.name]
        words += ["--file", self._path, "--full"]
        return await asyncio.to_thread(view.page, self._path, found, shlex.join(words), width)
