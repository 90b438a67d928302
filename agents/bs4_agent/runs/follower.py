"""Follow the logs of all runs: make them streams, and turn their lines into step records, events
for the detectors and input for the signatures.
"""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Callable

from bs4_agent.runs.followed_run import FollowedRun, OnLine
from bs4_agent.runs.registry import Runs
from bs4_agent.streams.registry import Streams
from bs4_common.errors import SpoolFull
from bs4_common.runs.runlog import RunLog

#: Seconds that one poll may take. With the pause of 0.5 s after it, a flood of lines costs a sixth
#: of a core at most, and the rest is read later.
_BUDGET_S = 0.1
#: Seconds between two polls while lines come, and while no log has brought any for some time. An
#: idle wake-up costs as much as the poll.
_BUSY_PAUSE_S, _QUIET_PAUSE_S = 0.5, 0.8
#: Seconds between two polls at least, also if a log grows at once.
_LEAST_PAUSE_S = 0.1
#: Polls a second that may come early, because a log has grown, in the long run; and how many of
#: them are saved up while the logs are quiet. So a failure after a quiet time is read at once, and
#: a flood of lines costs what it costs at the pace above: an early poll takes about 1 ms.
_EARLY_A_SECOND, _EARLY_SAVED = 0.25, 60.0


class RunFollower:
    """The reader of the logs of every run, including ended runs. Call `poll` several times a
    second.

    It adds the streams `log/<run>/<source>` and `steps/<run>` to the agent's streams, so that
    consoles can read them. The place up to which each log was read is saved on disk, so a restarted
    agent continues there and records no step twice.
    """

    def __init__(
        self,
        streams: Streams,
        runs: Runs,
        *,
        on_line: OnLine | None = None,
        on_fault: Callable[[str], None] | None = None,
    ) -> None:
        """Follow the runs of `runs` and add their streams to `streams`.

        `on_line` is called for every line: with the run, its attempt, the id of its trainer, the
        source (for example "trainer"), the parsed line, and the line as evidence. `on_fault` is
        called with a sentence if one run cannot be followed for an unforeseen reason.
        """
        self.on_line = on_line
        self.on_fault = on_fault
        self._streams = streams
        self._runs = runs
        self._lock = threading.Lock()
        self._followed: dict[str, FollowedRun] = {}
        self._faults: dict[str, str] = {}
        self._early = _EARLY_SAVED
        """How many polls may still come early, as it was at `_early_m`."""
        self._early_m = time.monotonic()
        self._polled_m = float("-inf")
        """When the last poll ended."""

    @property
    def pause_s(self) -> float:
        """Return the number of seconds to wait between the end of one poll and the next poll: 0.5,
        or 0.8 while the logs of all runs are quiet (see `FollowedRun.quiet`).
        """
        if all(followed.quiet for followed in self._followed.copy().values()):
            return _QUIET_PAUSE_S
        return _BUSY_PAUSE_S

    @property
    def least_pause_s(self) -> float:
        """Return the number of seconds that must pass between the end of one poll and the next one
        even if a log has grown: 0.1, or 0.5 if lines have come for so long that polls at that pace
        would cost too much of a core.
        """
        if self._early_left() >= 1.0:
            return _LEAST_PAUSE_S
        return _BUSY_PAUSE_S

    def _early_left(self) -> float:
        """Return how many polls may come early now."""
        saved = (time.monotonic() - self._early_m) * _EARLY_A_SECOND
        return min(self._early + saved, _EARLY_SAVED)

    def growing(self) -> list[str]:
        """Return paths that lead to the files which may get new lines, for the object that waits
        until one of them grows. The paths are valid until the next poll.
        """
        found = []
        with self._lock:
            for followed in self._followed.values():
                found += followed.growing()
        return found

    def poll(self, *, grown: bool = False) -> None:
        """Read the new lines of the logs of all runs, for about 0.1 s at most. Raises SpoolFull if
        a step record found no room on the disk; the record is kept in memory, and a later poll
        writes it. With `grown`, which says that a log has grown since the last poll, quiet logs
        are read too.

        Any other error while one run's logs are read does not stop the reading of the other runs. A
        sentence about it is passed to `on_fault` and printed, only once while the error stays the
        same, and the next poll tries that run again.
        """
        deadline = time.monotonic() + _BUDGET_S
        with self._lock:
            if grown and time.monotonic() - self._polled_m < _BUSY_PAUSE_S:
                self._early, self._early_m = max(self._early_left() - 1.0, 0.0), time.monotonic()
            for run in self._runs.all():
                try:
                    if run.name not in self._followed:
                        self._followed[run.name] = FollowedRun(self._streams, self._runs, run)
                    self._followed[run.name].poll(deadline, self.on_line, grown=grown)
                except SpoolFull:
                    raise
                except Exception as error:  # noqa: BLE001
                    # An error in one run must not stop the others. It is journalled.
                    self._report(run.name, error)
            self._polled_m = time.monotonic()

    def _report(self, run: str, error: Exception) -> None:
        """Report a fault of one run, unless the same sentence was its last one."""
        sentence = f"{run} cannot be followed: {type(error).__name__}: {error}"[:500]
        if self._faults.get(run) == sentence:
            return
        self._faults[run] = sentence
        traceback.print_exception(error)
        if self.on_fault is not None:
            self.on_fault(sentence)

    def recent(self, run: str, attempt: int | None = None) -> RunLog:
        """Return a copy of what the logs of one attempt of the run have said so far. With `attempt`
        None, it is the newest attempt whose logs were read.

        Only the contents of that newest attempt's logs are remembered. For any other attempt, and
        for an unknown run, the returned RunLog is empty.
        """
        with self._lock:
            followed = self._followed.get(run)
            if followed is None or (attempt is not None and followed.log.attempt != attempt):
                return RunLog(run=run, attempt=attempt or 0)
            return followed.log.copy()

    def close(self) -> None:
        """Save to disk the place up to which every log was read, so that the next agent continues
        from there.
        """
        with self._lock:
            for followed in self._followed.values():
                followed.save(now=True)
