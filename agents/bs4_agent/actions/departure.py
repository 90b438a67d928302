"""Handing the pod over to a newer agent, between two steps of the actions and never in the middle
of one.
"""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable

from bs4_agent.actions.executor import ActionExecutor
from bs4_agent.actions.submission import Submission
from bs4_common.errors import AgentError, Busy

#: Seconds that a newer agent waits for the end of the step that is under way. After that, it is
#: refused.
BOUNDARY_S = 60.0


class Departure:
    """Lets this agent end so that a newer one takes its place; one object per pod. It waits until
    no action is in the middle of a step, and then calls the function `hand_over()`, which ends this
    agent.
    """

    def __init__(self, executor: ActionExecutor, hand_over: Callable[[], None]) -> None:
        self._executor, self._hand_over = executor, hand_over
        self._leaving = threading.Lock()

    def accept(self, asked: Submission) -> None:
        """Accept the request of a newer agent to replace this one: leave at once, or as soon as no
        action is in the middle of a step. If that takes longer than 60 seconds from now, this agent
        stays, and the journal says so. Raises Busy if another request to replace this agent is
        under way.
        """
        if not self._leaving.acquire(blocking=False):
            raise Busy("Another console is replacing this agent already; wait a minute.")
        at_once = self._executor.safe_points.hold(0.0)
        try:
            self._executor.accept(asked, "")
            if at_once:
                self._leave(asked)
            else:
                threading.Thread(
                    target=self._leave_at_boundary, args=(asked,), name="handover", daemon=True
                ).start()
        except BaseException:
            self._stay()
            raise

    def _leave(self, asked: Submission) -> None:
        """Hand over. No step is under way and none begins; the newer agent finds in the journal
        what is unfinished.
        """
        self._executor.event(asked.key, "", "done")
        self._hand_over()

    def _leave_at_boundary(self, asked: Submission) -> None:
        """Wait for a safe point and leave there, or journal that this agent stays."""
        try:
            self._executor.event(
                asked.key, "", "started", detail="waiting for the end of the step that is under way"
            )
            if self._executor.safe_points.hold(BOUNDARY_S):
                self._leave(asked)
                return
            self._executor.event(
                asked.key,
                "",
                "busy",
                detail=f"a step takes longer than {BOUNDARY_S:.0f} s; this agent stays",
            )
        except (AgentError, OSError, RuntimeError):
            # The journal cannot be written, so the newer agent that waits for this action gives up
            # by itself.
            traceback.print_exc()
        self._stay()

    def _stay(self) -> None:
        """Let steps begin again, and accept another handover."""
        self._executor.safe_points.release()
        self._leaving.release()
