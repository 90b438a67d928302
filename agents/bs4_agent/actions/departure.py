"""Handing the pod over to a newer agent, between two steps of the actions and never in the middle
of one.
"""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable, Mapping
from typing import Any

from bs4_agent.actions.executor import ActionExecutor
from bs4_common.errors import AgentError, Busy

#: Seconds that a newer agent waits for the end of the step that is under way. After that, it is
#: refused.
BOUNDARY_S = 60.0


class Departure:
    """Ends this agent when a newer one asks for its place. There is one such object for a pod. As
    soon as no action is in the middle of a step, it calls `hand_over(body)`, which ends this agent;
    `body` is the newer agent's request.
    """

    def __init__(
        self, executor: ActionExecutor, hand_over: Callable[[Mapping[str, Any]], None]
    ) -> None:
        self._executor, self._hand_over = executor, hand_over
        self._leaving = threading.Lock()

    def accept(self, key: str, body: Mapping[str, Any], who: str, payload: bytes) -> None:
        """Accept the request `body` of a newer agent to replace this one, as the action `key` that
        `who` has submitted. This agent ends at once, or as soon as no action is in the middle of a
        step. If that takes longer than 60 seconds, this agent stays, and the journal says so.
        Raises Busy if another request to replace this agent is under way. `payload` is not used.
        """
        if not self._leaving.acquire(blocking=False):
            raise Busy("Another console is replacing this agent already; wait a minute.")
        at_once = self._executor.safe_points.hold(0.0)
        try:
            self._executor.accept(key, body, who, "")
            if at_once:
                self._leave(key, body)
            else:
                threading.Thread(
                    target=self._leave_at_boundary, args=(key, body), name="handover", daemon=True
                ).start()
        except BaseException:
            self._stay()
            raise

    def _leave(self, key: str, body: Mapping[str, Any]) -> None:
        """Hand over. No step is under way and none begins; the newer agent finds in the journal
        what is unfinished.
        """
        self._executor.event(key, "", "done")
        self._hand_over(body)

    def _leave_at_boundary(self, key: str, body: Mapping[str, Any]) -> None:
        """Wait for a safe point and leave there, or journal that this agent stays."""
        try:
            self._executor.event(
                key, "", "started", detail="waiting for the end of the step that is under way"
            )
            if self._executor.safe_points.hold(BOUNDARY_S):
                self._leave(key, body)
                return
            self._executor.event(
                key,
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
