"""The line about a run's checkpoints. The pod is queried for it now and then while somebody looks
at the run.
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from bs4_console.errors import ConsoleError
from bs4_console.tui import formatting
from bs4_console.tui.styled_text import Line, whole
from bs4_console.tui.views import checkpoints as views

if TYPE_CHECKING:
    from bs4_console.checkpoints.listing import CheckpointReport
    from bs4_console.pods.session import PodSession
    from bs4_console.pods.state import PodState
    from bs4_console.tui.app import ConsoleApp

#: Seconds between two queries, for which the pod scans its checkpoint directories: in general, and
#: while the first checkpoint that can be resumed is waited for.
LOOK_S, FIRST_S = 60.0, 10.0
#: A disk that will be full within this many seconds is a warning.
SOON_S = 6 * 3600.0

#: A checkpoint of which nothing was written for so many seconds is no longer said to be written.
QUIET_S = 60.0


class CheckpointLine:
    """Queries `pod` now and then for the checkpoint report of the run `run`, and makes one line of
    text of it: from which step the run can be resumed, how many checkpoints there are, when the
    disk will be full, and which checkpoints stay, if a person has ordered that old ones are
    deleted.

    The line is empty until the pod has answered for the first time, and after a query that failed,
    for example because the pod's agent is too old for it. For a recording of a pod it is always
    empty. `answered` is called after each answer, and `every_s` are the seconds between two
    queries.
    """

    def __init__(
        self,
        app: ConsoleApp,
        pod: PodState,
        run: str,
        answered: Callable[[], None] | None = None,
        *,
        every_s: float = LOOK_S,
    ) -> None:
        """Begin without a report. `answered` is called when the pod has answered a query, also with
        an error; None if nobody waits for that. `every_s` are the seconds between two queries.
        """
        self._every_s = every_s
        self._app, self._pod, self._run = app, pod, run
        self._answered = answered
        self._found: CheckpointReport | None = None
        self._found_at = 0.0
        self.trouble = ""
        """Why the pod's last answer was no report, or ""."""
        self._next = float("-inf")
        self._asking = False
        self._stood: tuple[str, int] | None = None
        """The run's state and attempt at the last query."""

    def line(self, width: int) -> Line:
        """Return the line about the checkpoints, of at most `width` cells, as a list of (text,
        style role), from the pod's last answer, or [] if there is none. On a narrow terminal its
        less important parts are left out. Also query the pod in the background if that is due, as
        the method `report` does.
        """
        found = self.report()
        if found is None:
            return []
        from bs4_console.checkpoints import listing  # imported already, for the answer

        full, now = found["forecast"]["full_t"], self._app.clock.wall()
        wrong = full is not None and full - now < SOON_S
        told = listing.line(found).split("; ")
        if found["checkpoints"] and not any(one["complete"] for one in found["checkpoints"]):
            calm = _first(found, views.begun(self._pod, self._run))
            told, wrong = calm or told, wrong or not calm
        if wrong:
            # When the disk is full counts more than how large a checkpoint is.
            told[1:] = reversed(told[1:])
        if self.age > self._every_s + FIRST_S:
            told.insert(1, f"seen {formatting.age(self.age)} ago")
        return _parts(told, listing.standing(self._pod, self._run), width, wrong=wrong)

    def report(self) -> CheckpointReport | None:
        """Return the checkpoint report of the pod's last answer, with the ages of checkpoints as
        they are now, or None if there is no answer.

        Also query the pod in the background if the answer is older than LOOK_S (60) seconds, or
        FIRST_S (10) while no checkpoint can be resumed or one is being written. The pod is also
        queried if the next checkpoint should be there by now, or if the run has started or ended
        since the last query. A later call returns the new answer.
        """
        session, stands = self._app.fleet.sessions.get(self._pod.name), self._stands()
        due = self._app.clock.mono() >= self._next or stands != self._stood
        if session is not None and not self._asking and self._pod.link.up and due:
            self._asking, self._stood = True, stands
            self._app.spawn(f"checkpoints of {self._run}", self._ask(session), self._ended)
        if self._found is None:
            return None
        from bs4_console.checkpoints import listing  # imported already, for the answer

        return listing.aged(self._found, self.age)

    @property
    def age(self) -> float:
        """Return how many seconds ago the pod answered with the report that `report` returns. The
        number means nothing while `report` returns None.
        """
        return max(0.0, self._app.clock.mono() - self._found_at)

    def look_again(self) -> None:
        """Make the next call of `report` query the pod, because a person has just ordered something
        that changes the checkpoints.
        """
        self._next = float("-inf")

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
        pause = self._every_s
        offset = self._pod.link.clock_offset or 0.0
        try:
            found = await checkpoints.of_pod(session, self._run)
            if found["resumable"] is None or self._writes(found):
                pause = min(pause, FIRST_S)
            elif (due := found["forecast"].get("next_t")) is not None and found["live"]:
                # The next one is looked for when it should be there, not up to a minute later.
                least = min(FIRST_S, self._every_s / 5)
                pause = min(pause, max(least, due - self._app.clock.wall() - offset))
            self._found, self._found_at, self.trouble = found, self._app.clock.mono(), ""
        except ConsoleError as error:
            # The line is empty then, because errors of the link or the run are shown elsewhere. The
            # screen of the checkpoints says it.
            self._found, self.trouble = None, f"{error.message} {error.next_step}".strip()
        finally:
            self._next = self._app.clock.mono() + pause
            self._asking = False
            if self._answered is not None:
                self._answered()

    def _writes(self, found: CheckpointReport) -> bool:
        """Return True if the newest checkpoint is being written."""
        newest = max(found["checkpoints"], key=lambda one: int(one["step"]), default=None)
        if newest is None or newest["complete"] or newest["age_s"] is None:
            return False
        return views.being_written(newest, found, views.begun(self._pod, self._run))


def _first(found: CheckpointReport, since: float) -> list[str]:
    """Return what is to be said of a run without any complete checkpoint, in parts, if that is no
    reason to worry: its attempt, which began at `since`, has no checkpoint yet or is writing its
    first one. Return [] if it is neither.
    """
    if not found["live"]:
        return []
    own = [one for one in found["checkpoints"] if not views.is_leftover(one, since)]
    if not own:
        left = len(found["checkpoints"])
        return ["no checkpoint yet", f"{left} incomplete of an earlier attempt"]
    # Every first checkpoint is incomplete while it is being written.
    if not all(views.being_written(one, found, since) for one in own):
        return []
    ages = [one["age_s"] or 0.0 for one in own]
    # Each file that is written makes it younger, so in a run that hangs nothing is written.
    if (age := min(ages)) >= QUIET_S:
        when = formatting.age(age)
        return [f"the first checkpoint is not whole, last written {when} ago"]
    return ["the first checkpoint is being written"]


def _parts(told: Sequence[str], order: str, width: int, *, wrong: bool) -> Line:
    """Return the line with the parts in `told` and the standing `order`, or "", in `width` cells.
    The first part is always there.
    """
    role = "warn bold" if wrong else ""
    line: Line = [(" ckpts  ", "head")]
    if wrong:
        line.append(("▲ ", role))
    parts: list[Line] = [[*line, (told[0], role)]]
    for text in told[1:]:
        parts.append([(f"; {text}", role)])
    if order:
        parts.append([(f"   {order}", "dim")])
    return whole(parts, width)
