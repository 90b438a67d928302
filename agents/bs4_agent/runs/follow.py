"""The logs of all runs as streams, and what is made of their lines: step records, events for the
detectors, lines for the signatures.
"""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Callable

from bs4_agent.errors import SpoolFull
from bs4_agent.runs.followed import Followed, OnLine
from bs4_agent.runs.registry import Runs
from bs4_agent.runs.runlog import RunLog
from bs4_agent.streams.registry import Streams

#: Of each poll: with one every 0.2 s a flood of lines costs a third of a core at most, and the rest
#: of it is read later.
_BUDGET_S = 0.1
#: Seconds between two polls while lines come, and while no log has brought one for a while: an idle
#: wake-up costs as much as the look.
_BUSY_PAUSE_S, _QUIET_PAUSE_S = 0.5, 0.8


class RunFollower:
    """Call `poll` several times a second. Makes `log/<run>/<source>` and `steps/<run>` readable for
    every run, ended ones too.

    Where it is in each log is kept on disk: after a restart it goes on there, and no step is
    recorded twice.
    """

    def __init__(
        self,
        streams: Streams,
        runs: Runs,
        *,
        on_line: OnLine | None = None,
        on_fault: Callable[[str], None] | None = None,
    ) -> None:
        """`on_fault` is called with a sentence when one run cannot be followed for a reason that
        nobody foresaw.
        """
        self.on_line = on_line
        self.on_fault = on_fault
        self._streams = streams
        self._runs = runs
        self._lock = threading.Lock()
        self._followed: dict[str, Followed] = {}
        self._faults: dict[str, str] = {}

    @property
    def pause_s(self) -> float:
        """Seconds until the next poll is due."""
        if all(followed.quiet for followed in self._followed.copy().values()):
            return _QUIET_PAUSE_S
        return _BUSY_PAUSE_S

    def poll(self) -> None:
        """Read what is new. SpoolFull when a step could not be recorded; it is kept and recorded by
        a later poll.

        A run that cannot be read stops no other run: it is reported once for each reason and read
        again by the next poll.
        """
        deadline = time.monotonic() + _BUDGET_S
        with self._lock:
            for run in self._runs.all():
                try:
                    if run.name not in self._followed:
                        self._followed[run.name] = Followed(self._streams, self._runs, run)
                    self._followed[run.name].poll(deadline, self.on_line)
                except SpoolFull:
                    raise
                except Exception as error:  # noqa: BLE001
                    # Whatever one run holds must not stop the others; it is journalled.
                    self._report(run.name, error)

    def _report(self, run: str, error: Exception) -> None:
        sentence = f"{run} cannot be followed: {type(error).__name__}: {error}"[:500]
        if self._faults.get(run) == sentence:
            return
        self._faults[run] = sentence
        traceback.print_exception(error)
        if self.on_fault is not None:
            self.on_fault(sentence)

    def recent(self, run: str, attempt: int | None = None) -> RunLog:
        """What the logs of `attempt` (the newest) have said; an empty log where nothing was read of
        it. A copy that does not change.
        """
        with self._lock:
            followed = self._followed.get(run)
            if followed is None or (attempt is not None and followed.log.attempt != attempt):
                return RunLog(run=run, attempt=attempt or 0)
            return followed.log.copy()

    def close(self) -> None:
        """Write down where we are."""
        with self._lock:
            for followed in self._followed.values():
                followed.save(now=True)
