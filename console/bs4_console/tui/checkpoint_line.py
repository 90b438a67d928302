"""The line about a run's checkpoints. The pod is queried for it now and then while somebody looks
at the run.
"""

from __future__ import annotations

import asyncio
import importlib
from typing import TYPE_CHECKING, Any

from bs4_console.errors import ConsoleError
from bs4_console.tui.styled_text import Line

if TYPE_CHECKING:
    from bs4_console.pods.session import PodSession
    from bs4_console.pods.state import PodState
    from bs4_console.tui.app import ConsoleApp

#: Seconds between two queries, for which the pod scans its checkpoint directories: in general, and
#: while the first checkpoint that can be resumed is waited for.
LOOK_S, FIRST_S = 60.0, 10.0
#: A disk that will be full within this many seconds is a warning.
SOON_S = 6 * 3600.0

#: A checkpoint younger than this, in seconds, may still be written.
WRITTEN_S = 900.0


class CheckpointLine:
    """The line about the checkpoints of the run `run` on `pod`: from which step the run can be
    resumed, how many checkpoints there are, when the disk will be full, and how many are kept, if a
    person has ordered that. The line is empty until the pod has answered a query for the first
    time, and after a query that failed, for example because the agent on the pod is too old for it.
    For a recorded pod it stays empty.
    """

    def __init__(self, app: ConsoleApp, pod: PodState, run: str) -> None:
        self._app, self._pod, self._run = app, pod, run
        self._text: Line = []
        self._next = float("-inf")
        self._asking = False
        self._stood: tuple[str, int] | None = None
        """The run's state and attempt at the last query."""

    def line(self) -> Line:
        """Return the line as a list of (text, style role), as of the pod's last answer, or [] if
        there is none. Also query the pod in the background if the answer is older than LOOK_S (60)
        seconds, or FIRST_S (10) while no checkpoint can be resumed, or if the run has started or
        ended since the last query. A later call returns the new answer.
        """
        session, stands = self._app.fleet.sessions.get(self._pod.name), self._stands()
        due = self._app.clock.mono() >= self._next or stands != self._stood
        if session is not None and not self._asking and self._pod.link.up and due:
            self._asking, self._stood = True, stands
            self._app.spawn(f"checkpoints of {self._run}", self._ask(session), self._ended)
        return self._text

    def _stands(self) -> tuple[str, int] | None:
        run = self._pod.runs.get(self._run)
        if run is None:
            return None
        attempt = run.view.attempt
        return run.word, 0 if attempt is None else attempt.number

    def _ended(self) -> None:
        self._asking = False

    async def _ask(self, session: PodSession) -> None:
        # These imports take 0.25 s. The thread that answers keys must not wait for them.
        checkpoints = await asyncio.to_thread(
            importlib.import_module, "bs4_console.checkpoints.listing"
        )
        pause = LOOK_S
        try:
            found = await checkpoints.of_pod(session, self._run)
            if found["resumable"] is None:
                pause = FIRST_S
            self._text = _told(
                checkpoints.line(found),
                checkpoints.standing(self._pod, self._run),
                found,
                self._app.clock.wall(),
            )
        except ConsoleError:
            # Errors of the link or the run are shown elsewhere.
            self._text = []
        finally:
            self._next = self._app.clock.mono() + pause
            self._asking = False


def _told(text: str, order: str, found: dict[str, Any], now: float) -> Line:
    full, sets = found["forecast"]["full_t"], found["checkpoints"]
    wrong = full is not None and full - now < SOON_S
    if sets and not any(one["complete"] for one in sets):
        # Every first checkpoint is incomplete while it is being written.
        ages = [one["age_s"] for one in sets]
        if None not in ages and max(ages) < WRITTEN_S:
            text = "the first checkpoint is being written"
        wrong = wrong or any(age is not None and age >= WRITTEN_S for age in ages)
    line: Line = [(" ckpts  ", "head")]
    line += [("▲ ", "warn bold"), (text, "warn bold")] if wrong else [(text, "")]
    if order:
        line.append((f"   {order}", "dim"))
    return line
