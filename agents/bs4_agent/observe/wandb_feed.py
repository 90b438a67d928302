"""Feeding lines of W&B's client logs to the detection of the runs that they belong to, and
journalling once where W&B shows a run.

The client and its core write logs beside the run whose content the trainer's own logs never repeat:
a server that is lost in the middle of a run is reported nowhere else. They are read here in small
pieces and do not count as activity of the run, because the client continues to write while a
trainer hangs.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from bs4_agent.book import Book
from bs4_agent.observe.kernel_feed import living
from bs4_agent.runs.followed_run import OnLine
from bs4_agent.runs.records import start_by_clock
from bs4_agent.runs.registry import Runs
from bs4_common.errors import AgentError, SpoolFull
from bs4_common.failures import wandb_files
from bs4_common.failures.environment import Tracked
from bs4_common.failures.environment_probes import wandb_roots
from bs4_common.failures.evidence import Evidence
from bs4_common.files import open_regular
from bs4_common.runs.model import Attempt, Run
from bs4_common.trainers.base import LogSource

#: Seconds between two polls. Nothing that W&B writes is urgent.
EVERY_S = 5.0
#: Bytes of one log that are read in one poll.
_PIECE = 64 * 1024
#: Seconds for which a run's address is searched for. The client prints it when its W&B run begins,
#: at the latest after the model was loaded.
_ADDRESS_S = 3600.0
#: The programs that report to W&B, by the logs that they write.
_SIDES = ("trainer", "orchestrator")


@dataclass
class _Place:
    """How far one file has been read."""

    inode: int
    offset: int = 0
    line: int = 0


class WandbFeed:
    """Passes the lines of the logs that W&B's client writes to the detection of failures, for the
    live runs that the logs belong to. It also writes into the journal under which address W&B shows
    a run. There is one object per pod. Call `poll` several times a second.

    The function `feed` is called for each line with: the name of the run, the number of its
    attempt, the id of its trainer, the name of the log, the parsed line, and the line as evidence.
    """

    def __init__(
        self, runs: Runs, book: Book, feed: OnLine, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._runs, self._book, self._feed, self._clock = runs, book, feed, clock
        self._places: dict[Path, _Place] = {}
        self._looked_m = float("-inf")
        self._first = True
        """Content that exists at the first poll is history: an earlier agent has read it, or
        nobody.
        """

    def poll(self) -> None:
        """Read the new lines of the logs that W&B's client writes for the live runs, and pass them
        to `feed`. Do nothing if the last reading was less than 5 seconds ago. Raises SpoolFull if
        the address at which W&B shows a run could not be written into the journal, because the disk
        is full; a later call tries again.
        """
        now = self._clock()
        if now - self._looked_m < EVERY_S:
            return
        self._looked_m = now
        present: set[Path] = set()
        working = list(living(self._runs))
        places = Counter(run.spec.cwd for run, _ in working)
        for run, attempt in working:
            try:
                roots = self._roots(run, shared=places[run.spec.cwd] > 1)
                self._tell_addresses(run, attempt)
            except SpoolFull:
                raise
            except (OSError, AgentError):
                continue  # a config that makes no sense, or a directory that has gone meanwhile
            for path in _logs(roots, attempt):
                present.add(path)
                self._read(path, run, attempt)
        for path in self._places.keys() - present:
            del self._places[path]
        self._first = False

    def _roots(self, run: Run, *, shared: bool) -> list[Path]:
        """Return the directories that hold this run's W&B data, without a working directory that is
        `shared` with another living run.
        """
        roots = wandb_roots(run.spec, self._runs.trainer(run).layout(run.spec))
        if shared:
            roots.remove(run.spec.cwd / "wandb")
        return roots

    def _read(self, path: Path, run: Run, attempt: Attempt) -> None:
        """Feed the new whole lines of a log. A file that was replaced or cut short is read from its
        beginning.
        """
        try:
            with open_regular(path) as handle:
                status = os.fstat(handle.fileno())
                place = self._places.get(path)
                if place is None or place.inode != status.st_ino or status.st_size < place.offset:
                    # Of an earlier attempt, if the clock was set back since.
                    earlier = status.st_mtime < attempt.started_t - 1.0
                    known = place is None and (self._first or earlier)
                    begin = status.st_size if known else 0
                    place = self._places[path] = _Place(status.st_ino, begin)
                if status.st_size == place.offset:
                    return
                handle.seek(place.offset)
                data = handle.read(_PIECE)
        except OSError:
            return  # rotated away between the listing and now
        whole = data.rfind(b"\n") + 1 or (len(data) if len(data) == _PIECE else 0)
        trainer = self._runs.trainer(run)
        for raw in data[:whole].splitlines(keepends=True):
            place.line += 1
            line = trainer.parse_line("wandb", raw)
            evidence: Evidence = {
                "source": "wandb",
                "stream": "",
                "cursor": "",
                "file": str(path),
                "offset": place.offset,
                "line": place.line,
                "text": line.text[:2000],
            }
            self._feed(run.name, attempt.number, run.spec.trainer, "wandb", line, evidence)
            place.offset += len(raw)

    def _tell_addresses(self, run: Run, attempt: Attempt) -> None:
        """Journal where W&B shows the run, for the sides that are not journalled yet."""
        view = self._book.ledger.runs.get(run.name)
        before = []
        if view is not None and view.tracked_attempt == attempt.number:
            before = view.tracked
        known = {entry.get("side") for entry in before}
        if len(known) == len(_SIDES) or time.time() - attempt.started_t > _ADDRESS_S:
            return
        found = []
        for one in self._addresses(run, attempt):
            if one.side not in known:
                found.append(asdict(one))
        if found:
            self._book.append(
                "run",
                event="tracked",
                run=run.name,
                attempt=attempt.number,
                tracker="wandb",
                runs=[*before, *found],
            )

    def _addresses(self, run: Run, attempt: Attempt) -> Iterator[Tracked]:
        """Yield the places where W&B shows each side of the attempt, from its logs."""
        trainer = self._runs.trainer(run)
        own = LogSource(
            trainer.layout(run.spec).own_log,
            self._runs.attempt_directory(run.name, attempt.number) / "launcher.log",
        )
        for source in (*trainer.log_sources(run.spec), own):
            if source.source not in _SIDES:
                continue
            try:
                fresh = source.path.stat().st_mtime >= start_by_clock(attempt) - 1.0
            except OSError:
                continue
            if fresh and (found := wandb_files.address(source.path, source.source)) is not None:
                yield found


def _logs(roots: list[Path], attempt: Attempt) -> Iterator[Path]:
    """Yield the client logs that were written since the attempt began."""
    for directory in wandb_files.together(wandb_files.directories(roots)):
        for path in wandb_files.logs(directory.path):
            try:
                if path.stat().st_mtime >= start_by_clock(attempt) - 1.0:
                    yield path
            except OSError:
                continue
