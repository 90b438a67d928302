"""Facts from finished files: a run's output directory, single logs, standard input. The engine above is the same as on a live pod."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from bs4_agent.detect.engine import Engine
from bs4_agent.detect.facts import Facts, LogEvent, RunFacts, Side
from bs4_agent.detect.stepfiles import step_files
from bs4_agent.trainers import registry
from bs4_agent.trainers.base import LaunchSpec, Trainer
from bs4_agent.trainers.settings import UNKNOWN_CONFIG

#: Lines longer than this are cut for parsing; the offsets of the file stay true.
LINE_CAP = 64 * 1024
#: Events kept of one directory: the last ones tell how it ended.
EVENTS_KEPT = 20_000

ALL_COVERAGE = ("kernel log", "processes", "GPU memory", "inference server")


@dataclass
class _Log:
    source: str
    path: Path
    name: str


@dataclass
class Collected:
    """What a directory or a log gave."""

    events: list[LogEvent] = field(default_factory=list)
    steps: dict[str, Side] = field(default_factory=dict)
    finished: list[Any] = field(default_factory=list)


def guess_trainer(directory: Path) -> str | None:
    """2026-01 has run_default or *.stdout logs; the current generation keeps logs/attempt_N and one flat run directory."""
    if (directory / "run_default").is_dir() or list((directory / "logs").glob("*.stdout")):
        return "prime-rl-2026-01"
    if (directory / "logs" / "latest").exists() or list((directory / "logs").glob("attempt_*")):
        return "prime-rl"
    return None


def directory_facts(directory: Path, trainer_id: str, engine: Engine) -> RunFacts:
    """Facts of one run directory: of 2026-01 its output_dir, of the current generation output_dir/<run name>."""
    trainer = registry.get(trainer_id)
    spec = _spec(directory, trainer_id)
    collected = Collected()
    started = _started(directory, trainer, spec)
    for source in trainer.log_sources(spec):
        if source.path.is_file():
            with source.path.open("rb") as handle:
                read_log(
                    handle, _Log(source.source, source.path, str(source.path.relative_to(directory))), trainer, engine, spec.run, collected
                )
    good = trainer.good_end([e.event for e in collected.events])
    return RunFacts(
        name=spec.run,
        spec=spec,
        layout=trainer.layout(spec),
        attempt=1,
        state="files",
        started_m=0.0,
        started_t=started,
        trainer_side=collected.steps.get("trainer", Side()),
        orchestrator_side=collected.steps.get("orchestrator", Side()),
        events=collected.events[-EVENTS_KEPT:],
        checkpoints=trainer.checkpoints(spec),
        files=step_files(trainer.layout(spec)),
        good_end=good,
    )


def _spec(directory: Path, trainer_id: str) -> LaunchSpec:
    output_dir, run = (directory, directory.name) if trainer_id == "prime-rl-2026-01" else (directory.parent, directory.name)
    return LaunchSpec(run=run, trainer=trainer_id, config=UNKNOWN_CONFIG, cwd=directory.parent, output_dir=output_dir)


def _started(directory: Path, trainer: Trainer, spec: LaunchSpec) -> float:
    """When the attempt began, as far as files tell: orch.toml (2026-01) or the resolved configs (current) are written at start."""
    for candidate in (directory / "run_default" / "configs" / "orch.toml", directory / "configs" / "trainer.json", directory / "configs"):
        if candidate.exists():
            return candidate.stat().st_mtime
    logs = [s.path.stat().st_mtime for s in trainer.log_sources(spec) if s.path.exists()]
    return min(logs, default=time.time())


def read_log(handle: BinaryIO, log: _Log, trainer: Trainer, engine: Engine, run: str, into: Collected) -> None:
    """Feed one log, line by line, to the engine's signatures and to the events."""
    for number, offset, raw in _lines(handle):
        line = trainer.parse_line(log.source, raw)
        place = {
            "source": log.source,
            "stream": "",
            "cursor": "",
            "file": log.name,
            "offset": offset,
            "line": number,
            "text": line.text[:2000],
        }
        engine.feed(run, 1, trainer.id, log.source, line, place)
        event = trainer.event(log.source, line)
        if event is None:
            continue
        into.events.append(LogEvent(event, float(number), line.text[:2000], log.source, file=log.name, offset=offset, line=number))
        if event.kind == "step":
            side = into.steps.get(event.side, Side())
            into.steps[event.side] = Side(event.step, float(number), side.steps + 1)


def log_facts(handle: BinaryIO, name: str, source: str, trainer_id: str, engine: Engine) -> RunFacts:
    """Facts of a single log (or standard input, name "-")."""
    trainer = registry.get(trainer_id)
    collected = Collected()
    read_log(handle, _Log(source, Path(name), name), trainer, engine, "", collected)
    spec = LaunchSpec(run="", trainer=trainer_id, config=UNKNOWN_CONFIG, cwd=Path(), output_dir=Path())
    return RunFacts(
        name="",
        spec=spec,
        layout=trainer.layout(spec),
        attempt=1,
        state="files",
        started_m=0.0,
        started_t=0.0,
        trainer_side=collected.steps.get("trainer", Side()),
        orchestrator_side=collected.steps.get("orchestrator", Side()),
        events=collected.events[-EVENTS_KEPT:],
        good_end=trainer.good_end([e.event for e in collected.events]),
    )


def _lines(handle: BinaryIO) -> Iterator[tuple[int, int, bytes]]:
    """(1-based number by LF, byte offset, the line without LF, cut at LINE_CAP)."""
    offset = number = 0
    while True:
        piece = handle.readline(LINE_CAP)
        if not piece:
            return
        number += 1
        length = len(piece)
        line = piece
        while not piece.endswith(b"\n") and (piece := handle.readline(LINE_CAP)):
            length += len(piece)
        yield number, offset, line.rstrip(b"\n")
        offset += length


def as_facts(runs: Sequence[RunFacts]) -> Facts:
    return Facts(now_m=time.monotonic(), now_t=time.time(), runs=runs, coverage=ALL_COVERAGE)
