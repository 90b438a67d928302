"""Completes paths of a pod with Tab. The pod's agent is queried, so that an answer comes a moment
later.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from bs4_console.errors import ConsoleError
from bs4_console.pods.paths import Paths, ask_paths
from bs4_console.tui.screens.base import ConsoleScreen

if TYPE_CHECKING:
    from bs4_console.pods.state import PodState
    from bs4_console.tui.app import ConsoleApp

#: Seconds for which an answer is valid, because files come and go.
HOLDS_S = 10.0


class PathOffers:
    """Completes paths on pods for the prompts of `app` by querying the pods' agents, one query at a
    time. When an answer comes, the prompt that is open completes its text again. If the person has
    typed more meanwhile, that completion sends the next query.
    """

    def __init__(self, app: ConsoleApp) -> None:
        self._app = app
        self._known: dict[tuple[str, str], tuple[float, Paths]] = {}
        self._asking = False

    def of(self, pod: PodState, beginning: str) -> Sequence[str]:
        """Return the paths on the pod that begin with `beginning`, from an answer of the pod's
        agent that is at most HOLDS_S (10) seconds old. If there is no such answer, return () and
        query the agent in the background, unless another query is under way.
        """
        found = self._held(pod, beginning)
        if found is None:
            self._ask(pod, beginning)
            return ()
        return [path for path in found.names if path.startswith(beginning)]

    def _held(self, pod: PodState, beginning: str) -> Paths | None:
        """Return the answer for this beginning, or a complete answer for a shorter beginning in the
        same directory. Return None if there is none from the last HOLDS_S seconds.
        """
        now = self._app.clock.mono()
        for length in range(len(beginning), beginning.rfind("/"), -1):
            asked, found = self._known.get((pod.name, beginning[:length]), (0.0, None))
            # The pod names a hidden file only if its dot was typed.
            dot = beginning[:length].endswith("/") and beginning[length : length + 1] == "."
            if found is None or dot or now - asked > HOLDS_S:
                continue
            if length == len(beginning) or not found.more:
                return found
        return None

    def _ask(self, pod: PodState, beginning: str) -> None:
        if not self._asking:
            self._asking = True
            self._app.spawn(f"files of {pod.name}", self._answered(pod, beginning))

    async def _answered(self, pod: PodState, beginning: str) -> None:
        session = self._app.fleet.sessions.get(pod.name)
        found, complaint = Paths(), ""
        try:
            if session is not None:
                found = await ask_paths(session, beginning)
        except ConsoleError as error:
            complaint = f"{error.message} {error.next_step}".strip()
        finally:
            self._asking = False
        self._known = {(pod.name, beginning): (self._app.clock.mono(), found)} | dict(
            list(self._known.items())[:50]
        )
        screen = self._app.screen
        if isinstance(screen, ConsoleScreen) and screen.ready and screen.prompt.is_open:
            screen.prompt.known(complaint)
