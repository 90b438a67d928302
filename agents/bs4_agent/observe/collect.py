"""Scanning, at long intervals, what surrounds every run: the fields of `RunEnvironment`, the
settings and the disks. It has a thread of its own, because a dead network volume never answers, and
a directory of ten thousand steps answers slowly.
"""

from __future__ import annotations

import time
import traceback
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bs4_agent.observe import surroundings
from bs4_agent.runs.registry import Runs
from bs4_agent.telemetry.background import Background
from bs4_common.checkpoints.inventory import (
    inventory,
    one_on_each_disk,
    size_of,
    step_directories,
    written_by,
)
from bs4_common.errors import AgentError
from bs4_common.failures import environment_probes
from bs4_common.failures.environment import Disk, Heap, RunEnvironment
from bs4_common.files import disk_usage
from bs4_common.runs.model import Attempt, Run
from bs4_common.trainers.base import Trainer
from bs4_common.trainers.settings import FlatSettings

#: Seconds between two rounds (disks, new attempts), and between two scans of the same run. A scan
#: of a run of the usual size takes 5 to 20 ms.
ROUND_S = 5.0
LOOK_S = 60.0
#: Seconds. A young attempt is scanned more often, because a refused or half configured run shows
#: itself in its first minutes.
YOUNG_S, YOUNG_LOOK_S = 300.0, 15.0
#: Seconds. Older readings of a disk are not used.
STALE_S = 60.0
#: Seconds over which the growth of a filesystem is measured.
GROWTH_S = 300.0
_SETTLED_S = 120.0


@dataclass
class _Look:
    """What one scan of an attempt found, at second `m` of the monotonic clock."""

    attempt: int
    m: float
    config: FlatSettings | None
    resume: int | None
    environment: RunEnvironment


@dataclass
class _Sizes:
    """The steps whose size is final, and the sizes of all steps at each new checkpoint."""

    settled: dict[Path, tuple[int, float]] = field(default_factory=dict)
    at_checkpoint: deque[tuple[int, Mapping[str, Heap]]] = field(
        default_factory=lambda: deque(maxlen=3)
    )


class Collector:
    """Scans on a background thread those facts that change slowly: the filesystems, and for each
    run its settings, directories, processes and caches. There is one object per pod. `of` and
    `disks` return the result of the last scan at once.
    """

    def __init__(self, runs: Runs) -> None:
        self._runs = runs
        self._looks: dict[str, _Look] = {}
        self._faults: dict[str, str] = {}
        self._sizes: dict[str, _Sizes] = {}
        self._used: dict[str, deque[tuple[float, int]]] = {}
        self._disks: tuple[float, list[Disk], Disk] | None = None
        self._oom_start = self._oom_last = surroundings.oom_kills()
        self._oom_m: float | None = None
        self._background: Background[None] | None = None

    def start(self) -> None:
        """Start the background thread, which calls `round` every 5 seconds. Do nothing if it runs
        already.
        """
        if self._background is None:
            self._background = Background("surroundings", self.round, ROUND_S)

    def stop(self) -> None:
        """Stop the background thread, if it was started."""
        if self._background is not None:
            self._background.stop()

    def round(self) -> None:
        """Measure the filesystems, and scan each run that is new or whose last scan is old enough:
        15 seconds in the first 5 minutes of an attempt, then 60. A run that cannot be read keeps
        the result of its last scan.
        """
        now = time.monotonic()
        runs = [(run, run.attempt) for run in self._runs.all()]
        self._look_at_disks(now, [run for run, _ in runs])
        for run, attempt in runs:
            if attempt is None or not self._due(run, attempt, now):
                continue
            try:
                self._looks[run.name] = self._look(run, attempt)
            except (OSError, AgentError):
                # A directory has gone meanwhile, or a config makes no sense. The result of the last
                # scan stays.
                continue
            except Exception as error:  # noqa: BLE001
                # A file that is odd in a way that nobody foresaw must not end the scans of all runs
                # and disks, which nobody would notice.
                self._report(run.name, error)

    def _report(self, run: str, error: Exception) -> None:
        """Print the error that has ended the scan of one run, unless it was the last one too."""
        sentence = f"{type(error).__name__}: {error}"
        if self._faults.get(run) != sentence:
            self._faults[run] = sentence
            traceback.print_exception(error)

    def of(
        self, run: str, attempt: int
    ) -> tuple[FlatSettings | None, int | None, RunEnvironment | None]:
        """Return three things from the last scan of one attempt: the run's settings by dotted key,
        the training step from which the attempt was to resume, and everything else (directories,
        processes, caches). All three are None until the attempt has been scanned. The settings are
        also None if the config is unknown, and the step is also None for a start afresh.
        """
        look = self._looks.get(run)
        if look is None or look.attempt != attempt:
            return None, None, None
        return look.config, look.resume, look.environment

    def disks(self) -> tuple[Sequence[Disk] | None, Disk | None]:
        """Return (the filesystems that hold the output of runs, the pod's shared memory). Both are
        None if they were not measured in the last 60 seconds.
        """
        if self._disks is None or time.monotonic() - self._disks[0] > STALE_S:
            return None, None
        return self._disks[1:]

    def oom_kills(self) -> tuple[int | None, float | None]:
        """Return two values. The first is how often the kernel's out-of-memory killer has acted in
        the agent's control group since this object was made, or None if the kernel does not show
        it. The second is the time at which a call of this method last saw that number grow, in
        seconds of the monotonic clock, or None if it has not grown.
        """
        count = surroundings.oom_kills()
        if count is not None and self._oom_last is not None and count > self._oom_last:
            self._oom_m = time.monotonic()
        self._oom_last = count
        return (
            None if count is None or self._oom_start is None else count - self._oom_start,
            self._oom_m,
        )

    def _due(self, run: Run, attempt: Attempt, now: float) -> bool:
        """Return True if the attempt is to be scanned now: it is new, or its last scan is old
        enough.
        """
        look = self._looks.get(run.name)
        if look is None or look.attempt != attempt.number:
            return True
        ended = attempt.end is not None and look.m > attempt.started_m and now - look.m < LOOK_S
        young = now - attempt.started_m < YOUNG_S
        return not ended and now - look.m >= (YOUNG_LOOK_S if young else LOOK_S)

    def _look(self, run: Run, attempt: Attempt) -> _Look:
        """Scan one attempt of a run and return what was found."""
        config = environment_probes.flat_settings(run.spec, attempt.argv)
        resume = attempt.resume
        if resume is None and attempt.adopted:
            resume = self._runs.trainer(run).resume_requested(run.spec)
        looked_m = time.monotonic()
        environment = self._surroundings(run, attempt, config)
        return _Look(attempt.number, looked_m, config, resume, environment)

    def _surroundings(
        self, run: Run, attempt: Attempt, config: FlatSettings | None
    ) -> RunEnvironment:
        """Return the environment of one attempt from a fresh scan."""
        trainer = self._runs.trainer(run)
        layout = trainer.layout(run.spec)
        seen = self._runs.membership.members(run.name, attempt.number)
        members = [member for member in seen if member.alive]
        logs = []
        for source in trainer.log_sources(run.spec):
            logs.append(source.path.exists())
        heaps, earlier = self._heaps(run, trainer)
        rejected, rejected_t = environment_probes.text_file(
            layout.run_dir / "configs" / "error.txt"
        )
        directory = self._runs.attempt_directory(run.name, attempt.number)
        lineage, before = surroundings.lineage(directory, config)
        return RunEnvironment(
            looked_t=time.time(),
            heaps=heaps,
            earlier_heaps=earlier,
            processes=surroundings.processes(members),
            wandb=environment_probes.wandb_directories(run.spec, layout),
            caches=surroundings.dataset_caches(members),
            environments=environment_probes.environment_versions(run.spec, config),
            adapters=environment_probes.adapters(run.spec, config),
            rejected=rejected,
            rejected_t=rejected_t,
            logs_kept=surroundings.logs_kept(run, attempt, trainer),
            logs_found=any(logs) if logs else None,
            lineage=lineage,
            lineage_before=before,
        )

    def _heaps(
        self, run: Run, trainer: Trainer
    ) -> tuple[Mapping[str, Heap], Mapping[str, Heap] | None]:
        """Return (the sizes of the step directories now, their sizes two checkpoints ago). The
        second is None until three different newest checkpoints were seen.
        """
        layout = trainer.layout(run.spec)
        sizes = self._sizes.setdefault(run.name, _Sizes())
        heaps = {}
        for name, root in (
            ("broadcasts", layout.broadcasts),
            ("rollouts", layout.rollouts),
            ("weights", layout.weights),
        ):
            if root is not None:
                heaps[name] = _heap(root, sizes.settled)
        newest = max((c.step for c in inventory(trainer, run.spec) if c.complete), default=-1)
        if not sizes.at_checkpoint or sizes.at_checkpoint[-1][0] != newest:
            sizes.at_checkpoint.append((newest, heaps))
        return heaps, sizes.at_checkpoint[0][1] if len(sizes.at_checkpoint) == 3 else None

    def _look_at_disks(self, now: float, runs: Sequence[Run]) -> None:
        """Measure each filesystem that a run writes to, and the shared memory."""
        by_device: dict[int, _Seen] = {}
        for run in runs:
            try:
                places = written_by(self._runs.trainer(run).layout(run.spec))
            except (OSError, AgentError):
                places = [run.spec.output_dir]  # a config that cannot be read
            output = one_on_each_disk([run.spec.output_dir])
            for device, place in one_on_each_disk(places).items():
                seen = by_device.setdefault(device, _Seen(place))
                if device in output:
                    seen.runs.append(run.name)
                else:
                    seen.others.append(run.name)
        disks = [self._disk(now, seen) for seen in by_device.values()]
        shm = self._disk(now, _Seen(self._runs.scope.dev / "shm"))
        self._disks = (time.monotonic(), disks, shm)

    def _disk(self, now: float, seen_at: _Seen) -> Disk:
        """Measure one filesystem. `growth` is bytes per second over the last five minutes, or None
        if the readings cover less than half of that.
        """
        path = seen_at.path
        usage = disk_usage(path)
        used = usage["used"]
        growth = None
        if used is not None:
            seen = self._used.setdefault(str(path), deque())
            seen.append((now, used))
            while now - seen[0][0] > GROWTH_S:
                seen.popleft()
            elapsed = now - seen[0][0]
            if elapsed >= GROWTH_S / 2:
                growth = (used - seen[0][1]) / elapsed
        return Disk(
            path=str(path),
            used=used,
            total=usage["total"],
            free=usage["free"],
            read_only=usage["read_only"],
            growth=growth,
            runs=tuple(seen_at.runs),
            others=tuple(seen_at.others),
        )


@dataclass
class _Seen:
    """A place on a filesystem, and the names of the runs that write their output there, and of the
    others that write something else there.
    """

    path: Path
    runs: list[str] = field(default_factory=list)
    others: list[str] = field(default_factory=list)


def _heap(root: Path, settled: dict[Path, tuple[int, float]]) -> Heap:
    """Return the size and time of each step's directory below `root`. A step whose newest file is
    older than two minutes is never measured again, so the ten thousand rollout directories of a
    long run cost one listing.
    """
    sizes: dict[int, int] = {}
    changed: dict[int, float] = {}
    now = time.time()
    found = step_directories(root)
    for step, directory in found.items():
        known = settled.get(directory)
        if known is None:
            known = size_of(directory)
            if known[1] and now - known[1] > _SETTLED_S:
                settled[directory] = known
        sizes[step], changed[step] = known
    present = set(found.values())
    for directory in [d for d in settled if d.parent == root and d not in present]:
        del settled[directory]
    return Heap(root, sizes, changed)
