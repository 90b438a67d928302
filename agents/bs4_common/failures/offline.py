"""Making facts from finished files: a run's output directory, loose logs, or standard input. The
engine that receives them is the same as on a live pod.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import BinaryIO

from bs4_common.failures import environment_probes, wandb_files
from bs4_common.failures.engine import Engine
from bs4_common.failures.facts import Facts, RunFacts, Side, Stop
from bs4_common.failures.opening import open_log
from bs4_common.failures.reading import Log, Read, Reader
from bs4_common.failures.stepfiles import step_files
from bs4_common.runs.runlog import RunLog
from bs4_common.trainers import registry
from bs4_common.trainers.base import LaunchSpec, LogSource, RunLayout, Trainer
from bs4_common.trainers.settings import UNKNOWN_CONFIG
from bs4_common.trainers.steps import records_of

#: The trainer that parses a log of an unknown generation. It reads the lines of all generations.
UNKNOWN = "prime-rl"
ALL_COVERAGE = ("kernel log", "processes", "GPU memory", "inference server")
#: Seconds. A smaller time is none, or counts from the boot.
_UPTIMES = 1e8
#: Logs that every run has. Those that are missing are part of the verdict.
EXPECTED = ("launcher", "trainer", "orchestrator", "inference")


@dataclass(frozen=True)
class Loose:
    """A log file that a person gave by itself, outside any run directory. `source` says which log
    it is, for example "trainer". `name` is its path as the person gave it, or "-" for standard
    input.
    """

    source: str
    name: str
    path: Path


def guess_trainer(directory: Path) -> str | None:
    """Return the id of the trainer that wrote the run directory `directory`, or None if its
    files do not show that.
    """
    for id_ in registry.ids():
        if registry.get(id_).traits.wrote(directory):
            return id_
    return None


def directory_logs(directory: Path, trainer_id: str) -> dict[int, list[LogSource]]:
    """Return the existing logs of a run directory by attempt number. For a trainer that keeps only
    the last attempt's logs (prime-rl's version of January 2026), that attempt has the number 1. An
    attempt whose logs are gone has an empty list. Raises BadRequest if there is no such trainer.
    """
    found: dict[int, list[LogSource]] = {}
    trainer = registry.get(trainer_id)
    if trainer.traits.attempt_logs is not None:
        found = trainer.traits.attempt_logs(directory)
    if not found:
        found[1] = trainer.log_sources(spec_of(directory, trainer_id))
    for number, logs in found.items():
        found[number] = [log for log in logs if log.path.is_file()]
    return found


def directory_facts(
    directory: Path,
    trainer_id: str,
    engine: Engine,
    extra: Sequence[Loose] = (),
    *,
    thorough: bool = False,
) -> RunFacts:
    """Read a finished run's directory and return the facts of its newest attempt. `directory` is
    the output_dir for prime-rl's version of January 2026, and the run's own directory in output_dir
    for the other trainers.

    The logs of all attempts are matched by `engine`. `extra` are further logs, which are read as
    logs of the newest attempt. With `thorough`, every line is parsed, not only those that may
    matter. Raises OSError if a log cannot be read. Raises BadRequest if there is no such trainer.
    """
    trainer = registry.get(trainer_id)
    spec = spec_of(directory, trainer_id)
    attempts = directory_logs(directory, trainer_id)
    newest = max(attempts, default=1)
    logs: list[tuple[Path, Log]] = []
    for number, sources in attempts.items():
        for source in sources:
            inside = source.path.is_relative_to(directory)
            name = str(source.path.relative_to(directory) if inside else source.path)
            logs.append((source.path, Log(source.source, name, number)))
    for loose in (*extra, *_wandb_logs(directory, trainer.layout(spec))):
        logs.append((loose.path, Log(loose.source, loose.name, newest)))
    reads: dict[int, list[Read]] = {number: [] for number in (*attempts, newest)}
    for path, log in logs:
        with open_log(path) as handle:
            read = _read(handle, log, trainer, engine, spec.run, known=True, thorough=thorough)
        reads[log.attempt].append(read)
    facts = _facts(trainer, spec, reads[newest], newest, _started(directory, trainer, spec))
    written = [path.stat().st_mtime for path, _ in logs]
    for checkpoint in facts.checkpoints:
        written.append(checkpoint.newest_mtime)
    untouched_s = time.time() - max(written) if written else None
    stops = {}
    for number in attempts:
        if (stop := _stop(reads[number])) is not None:
            stops[number] = stop
    return replace(
        facts,
        stops=stops,
        stop_requested=newest in stops and stops[newest].ordered,
        untouched_s=untouched_s,
    )


def _wandb_logs(directory: Path, layout: RunLayout) -> list[Loose]:
    """Return the logs that W&B's client wrote beside the newest attempt, if they are below the
    given directory. The working directory may belong to other programs.
    """
    roots = []
    for root in dict.fromkeys((layout.output_dir / "wandb", layout.run_dir / "wandb")):
        if root.is_relative_to(directory):
            roots.append(root)
    found = []
    for one in wandb_files.together(wandb_files.directories(roots)):
        for path in wandb_files.logs(one.path):
            found.append(Loose("wandb", str(path.relative_to(directory)), path))
    return found


def _stop(reads: Iterable[Read]) -> Stop | None:
    """Return when the launcher was signalled, or else when the orchestrator was, or None if neither
    was. A server's message about its own end carries no time. A line that shows no valid time tells
    that there was a stop and not when.
    """
    signalled, interrupted = [], []
    for event in chain.from_iterable(read.events for read in reads):
        if event.event.kind != "terminating":
            continue
        if event.event.side == "launcher" and "signal" in event.event.values:
            signalled.append(event.m)
        elif event.event.side == "orchestrator":
            interrupted.append(event.m)
    if not signalled and not interrupted:
        return None
    # The orchestrator is interrupted after the launcher has its signal.
    for times in (signalled, interrupted):
        if known := [t for t in times if t > _UPTIMES]:
            return Stop(min(known), ordered=bool(signalled))
    return Stop(None, ordered=bool(signalled))


def loose_facts(
    logs: Iterable[Loose], trainer_id: str, engine: Engine, *, thorough: bool = False
) -> RunFacts:
    """Read single log files as the logs of one attempt, match their lines with `engine`, and return
    the facts. `trainer_id` is "" if it is unknown which trainer wrote them. With `thorough`, every
    line is parsed, not only those that may matter. Raises OSError if a log cannot be read.
    """
    trainer = registry.get(trainer_id or UNKNOWN)
    reads = []
    for loose in logs:
        log = Log(loose.source, loose.name)
        with open_log(loose.path) as handle:
            read = _read(
                handle, log, trainer, engine, "", known=trainer_id != "", thorough=thorough
            )
        reads.append(read)
    return _facts(trainer, _nobody(trainer.id), reads, 1, 0.0)


def log_facts(
    handle: BinaryIO,
    name: str,
    source: str,
    trainer_id: str,
    engine: Engine,
    *,
    thorough: bool = False,
) -> RunFacts:
    """Read one log from `handle` (a file or standard input), match its lines with `engine`, and
    return the facts. `name` is its name in evidence, `source` says which log it is, and
    `trainer_id` is "" if it is unknown which trainer wrote it. With `thorough`, every line is
    parsed. Raises OSError if it cannot be read.
    """
    trainer = registry.get(trainer_id or UNKNOWN)
    read = _read(
        handle, Log(source, name), trainer, engine, "", known=trainer_id != "", thorough=thorough
    )
    return _facts(trainer, _nobody(trainer.id), [read], 1, 0.0)


def spec_of(directory: Path, trainer_id: str) -> LaunchSpec:
    """Return a launch spec for a finished run's directory: its name and its paths. Its config is
    not read and counts as unknown. Raises BadRequest if there is no such trainer.
    """
    output_dir = directory
    if registry.get(trainer_id).traits.own_directory:
        output_dir = directory.parent
    return LaunchSpec(
        run=directory.name,
        trainer=trainer_id,
        config=UNKNOWN_CONFIG,
        cwd=directory.parent,
        output_dir=output_dir,
    )


def _nobody(trainer_id: str) -> LaunchSpec:
    """Return a launch spec for logs that belong to no known run."""
    return LaunchSpec(
        run="", trainer=trainer_id, config=UNKNOWN_CONFIG, cwd=Path(), output_dir=Path()
    )


def _started(directory: Path, trainer: Trainer, spec: LaunchSpec) -> float:
    """Return the Unix time at which the attempt began, as far as files show it: orch.toml (2026-01)
    or the resolved configs (current generation) are written at start.
    """
    for candidate in (
        directory / "run_default" / "configs" / "orch.toml",
        directory / "configs" / "trainer.json",
        directory / "configs",
    ):
        if candidate.exists():
            return candidate.stat().st_mtime
    logs = (log.path for log in trainer.log_sources(spec))
    return min((path.stat().st_mtime for path in logs if path.exists()), default=time.time())


def _read(
    handle: BinaryIO,
    log: Log,
    trainer: Trainer,
    engine: Engine,
    run: str,
    *,
    known: bool,
    thorough: bool,
) -> Read:
    """Read a log. `known` is True if the trainer generation is known; otherwise the signatures of
    all generations apply.
    """
    # The file was last written within half a day of its lines, which dates lines with a time of day
    # only. A pipe is being written now.
    matcher = engine.matcher(
        run, log.attempt, trainer.id if known else "", log.source, anchor=_written(handle)
    )
    return Reader(trainer, matcher, log, thorough=thorough).read(handle)


def _written(handle: BinaryIO) -> float:
    """Return the Unix time at which the file was last written, or now for a pipe."""
    try:
        return os.fstat(handle.fileno()).st_mtime
    except OSError:
        return time.time()  # there is no file behind it


def _facts(
    trainer: Trainer, spec: LaunchSpec, reads: Sequence[Read], attempt: int, started_t: float
) -> RunFacts:
    """Return the same facts that the follower of a live run makes of these lines: the last events
    of every kind, the steps, and the numbers of the steps.
    """
    log = RunLog(run=spec.run, attempt=attempt)
    events = [event for read in reads for event in read.events]
    # Events of one log keep the order of their lines.
    for event in sorted(events, key=lambda event: event.m):
        log.add(event)
        if event.event.kind == "step" and event.event.step is not None:
            for record in records_of(event.event):
                log.record(record)
    ended = max((read.t for read in reads if read.t is not None), default=None)
    layout = trainer.layout(spec)
    config, surroundings = environment_probes.of_files(spec, layout) if spec.run else (None, None)
    return RunFacts(
        name=spec.run,
        spec=spec,
        layout=layout,
        attempt=attempt,
        state="files",
        # An event whose line shows no time has 0.
        started_m=min((event.m for event in events if event.m), default=ended or 0.0),
        started_t=started_t,
        trainer_side=_side(log, "trainer", reads),
        orchestrator_side=_side(log, "orchestrator", reads),
        median_step_s=log.median_step_s(),
        last_activity_m=ended,
        events=log.events,
        checkpoints=trainer.checkpoints(spec) if spec.run else (),
        files=step_files(layout),
        good_end=trainer.good_end([e.event for e in events]),
        history=log.history.records(),
        config=config,
        environment=surroundings,
    )


def _side(log: RunLog, name: str, reads: Sequence[Read]) -> Side:
    """Return the progress of one side, including the steps that were only counted."""
    side = log.side(name)
    return Side(
        side.last_step,
        side.last_step_m,
        side.steps + sum(read.steps for read in reads if read.log.source == name),
    )


def as_facts(runs: Sequence[RunFacts], engine: Engine | None = None, idle_s: float = 0.0) -> Facts:
    """Return the facts of finished runs in the form of one scan, for `Engine.evaluate`. `idle_s` is
    how many seconds ago the last line of their logs was written. `coverage` of the result names
    what was not looked at: what only a live pod has, such as its GPU memory, and with `engine` also
    the logs that a run usually has but of which the engine has got no line.
    """
    now = (
        max((run.last_activity_m for run in runs if run.last_activity_m is not None), default=0.0)
        + idle_s
    )
    known: set[str] = set()
    if engine is not None:
        for run in runs:
            known.update(engine.seen(run.name, run.attempt))
    coverage = list(ALL_COVERAGE)
    if "kernel" in known:
        coverage.remove("kernel log")
    # verl's driver prints one log for all sides.
    expected = EXPECTED if any(run.layout.own_log == "launcher" for run in runs) else ("trainer",)
    for source in expected if engine is not None and runs else ():
        if source not in known:
            coverage.append(f"{source} log (never seen)")
    return Facts(
        now_m=now, now_t=now if now > _UPTIMES else time.time(), runs=runs, coverage=coverage
    )
