"""What really happened on a practice pod: finished training steps and lost files, read from what
lies on its disk.

It imports no product code and not the miniature, and has its own idea of what a step line looks
like: it is the one that may say `recovered`, `steps_before`, `steps_after` and `data_lost`.
"""

from __future__ import annotations

import fnmatch
import hashlib
import json
import os
import re
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_COLOUR = re.compile(rb"\x1b\[[0-9;]*m")
_VERL_METRICS = re.compile(r"metrics\.\d+\.jsonl")
_STEP_LINE = re.compile(
    rb"(?m)^(?:\[default0\]:)?(\d\d):(\d\d):(\d\d) SUCCESS Step (\d+) \| Time: [^\n]*\| "
    rb"Loss: [^\n]*\| Peak Mem"
)
_BATCH_LINE = re.compile(
    rb"(?m)^(\d\d):(\d\d):(\d\d) SUCCESS Step (\d+) \| Time: [^\n]*\| Throughput: ([\d.]+) "
    rb"tokens/s \| Seq[^\n]*\| Async Level: (\d+)"
)
_THROUGHPUT = re.compile(rb"\| Throughput: ([\d.]+) tokens/s")
_CHUNK = 1 << 20
#: Log lines of 2026-01 have whole seconds, and two programs write theirs in their own time.
_SLACK_S = 1.0


@dataclass(frozen=True)
class FileFacts:
    """The path, the size in bytes and the SHA-256 of one file at one time."""

    path: str
    size: int
    sha256: str


@dataclass(frozen=True)
class Snapshot:
    """Every regular file below some directories, with the hash of its content. Symbolic links are
    not followed and not counted.
    """

    files: tuple[FileFacts, ...]

    @classmethod
    def take(cls, directories: Iterable[Path], ignore: Iterable[str] = ()) -> Snapshot:
        """Return a snapshot of all files that lie below `directories` now. Files whose absolute
        path matches one of the shell patterns in `ignore` are left out; they are for files that the
        trainer itself deletes or replaces.
        """
        patterns = tuple(ignore)
        facts = (
            _facts(path)
            for path in _walk(directories)
            if not any(fnmatch.fnmatch(str(path), pattern) for pattern in patterns)
        )
        return cls(tuple(fact for fact in facts if fact is not None))


def lost_files(before: Snapshot, after: Iterable[Path]) -> list[str]:
    """Return the paths of the files of `before` that are lost: their bytes are in no file below the
    directories `after`. A file that was moved is not lost, nor is one that has only grown, such as
    a log.
    """
    now = Snapshot.take(after).files
    hashes = {fact.sha256 for fact in now}
    missing = [fact for fact in before.files if fact.sha256 not in hashes]
    return [
        fact.path
        for fact in missing
        if not any(_begins_with(other, fact) for other in now if other.size > fact.size)
    ]


def lost(before: Snapshot, after: Iterable[Path]) -> int:
    """Return how many files of the snapshot `before` are lost: their bytes are in no file below the
    directories `after`. A fix must lose none.
    """
    return len(lost_files(before, after))


def steps(output_dir: Path, generation: str, run: str = "") -> list[tuple[float, int]]:
    """Return every finished step of a run's trainer as (seconds since the epoch, step), oldest
    first, over all attempts. `generation` is "2026-01", "current" or "verl". The steps are read
    from the trainer's files in `output_dir`, the output directory or the directory of the run, and
    in the `.bs4` directories beside and above it, to which the agent moves old files. `run` is the
    run's name: then only this run's part of `.bs4` is read; "" reads all.

    In January's prime-rl the steps are lines of rank 0's logs, one file for each attempt below
    `torchrun/`. Their times are whole seconds, and the date comes from when the file was changed
    last. In current prime-rl they are rows of `metrics.jsonl`. In verl they are rows of the
    `metrics.N.jsonl` of each attempt; their times are computed back from when the file was changed
    last, by how long each step took.
    """
    places = _places(output_dir, run)
    if generation == "2026-01":
        logs = _named(places, "stdout.log", "trainer.stdout", "rank_0.log")
        found = {(float(int(at)), step) for path in logs for at, step in _log_steps(path)}
    elif generation == "verl":
        found = {
            pair
            for path in _walk(places)
            if _VERL_METRICS.fullmatch(path.name)
            for pair in _verl_steps(path)
        }
    else:
        found = {pair for path in _named(places, "metrics.jsonl") for pair in _metric_steps(path)}
    return sorted(found)


def trained_steps(output_dir: Path, generation: str, run: str = "") -> list[tuple[float, int]]:
    """Return those finished steps that were of use, as (seconds since the epoch, step), oldest
    first. `output_dir`, `generation` and `run` say where to look, as in `steps`.

    A step counts if its batch had tokens, if the trainer reported a throughput for it (the first
    step of a process needs none), and if the inference server has taken the weights that came of
    it. A failing run goes on printing steps for which that is not true. In verl every finished step
    counts.
    """
    finished = steps(output_dir, generation, run)
    if generation == "verl":
        return finished
    places = _places(output_dir, run)
    old = generation == "2026-01"
    idle = _idle_steps(places) if old else set()
    batches = list(_old_batches(places) if old else _batches(places))
    return [
        (t, step)
        for t, step in finished
        if (t, step) not in idle and _was_used(t, step, batches, generation)
    ]


@dataclass(frozen=True)
class _Batch:
    """A batch that the orchestrator shipped at wall second `t`. `policy`: the newest one that
    inference has for certain.
    """

    t: float
    step: int
    tokens: float
    policy: int


def _was_used(t: float, step: int, batches: list[_Batch], generation: str) -> bool:
    own = [batch for batch in batches if batch.step == step and batch.t <= t + _SLACK_S]
    if not own or max(own, key=lambda batch: batch.t).tokens == 0:
        return False
    policy = step + 1 if generation == "2026-01" else step
    return any(batch.policy >= policy and batch.t >= t - _SLACK_S for batch in batches)


def _idle_steps(places: Iterable[Path]) -> set[tuple[float, int]]:
    """Return the steps of 2026-01 without a throughput, but for the first of each process, which
    has nothing to measure it from.
    """
    idle: set[tuple[float, int]] = set()
    for path in _named(places, "stdout.log", "trainer.stdout", "rank_0.log"):
        own = sorted(_lines(path, _STEP_LINE))
        for at, step, line in own[1:]:
            match = _THROUGHPUT.search(line)
            if match is not None and float(match[1]) == 0:
                idle.add((float(int(at)), step))
    return idle


def _old_batches(places: Iterable[Path]) -> Iterator[_Batch]:
    for path in _named(places, "orchestrator.stdout"):
        for t, step, line in _lines(path, _BATCH_LINE):
            if (match := _BATCH_LINE.match(line)) is not None:
                yield _Batch(t, step, float(match[5]), step - int(match[6]))


def _batches(places: Iterable[Path]) -> Iterator[_Batch]:
    for path in _named(places, "metrics.jsonl"):
        for row in _rows(path):
            if "off_policy/max" in row:
                step = int(row["step"])
                yield _Batch(
                    float(row["time"]),
                    step,
                    float(row["progress/tokens"]),
                    step - 1 - int(row["off_policy/max"]),
                )


def last_step(output_dir: Path, generation: str, run: str = "") -> int | None:
    """Return the number of the training step that was finished last, over all attempts, or None if
    none was. It is read from the trainer's files in `output_dir`, the output directory or that of
    the run. `generation` is "2026-01" or "current" for prime-rl, or "verl". `run` is the run's
    name, or "" for all runs; see `steps`.
    """
    finished = steps(output_dir, generation, run)
    return finished[-1][1] if finished else None


def _places(output_dir: Path, run: str) -> list[Path]:
    return [
        output_dir,
        *(above / ".bs4" / run for above in (output_dir.parent, output_dir.parent.parent)),
    ]


def _named(places: Iterable[Path], *names: str) -> Iterator[Path]:
    """Files by name, each inode once: an archived log is often a hard link of the one that is still
    written.
    """
    seen = set()
    for path in _walk(places):
        if any(path.name == name or path.name.startswith(f"{name}.") for name in names):
            try:
                status = path.stat()
            except FileNotFoundError:
                continue
            if (status.st_dev, status.st_ino) not in seen:
                seen.add((status.st_dev, status.st_ino))
                yield path


def _log_steps(path: Path) -> Iterator[tuple[float, int]]:
    yield from ((t, step) for t, step, _ in _lines(path, _STEP_LINE))


def _lines(path: Path, pattern: re.Pattern[bytes]) -> Iterator[tuple[float, int, bytes]]:
    """(wall second, step, line) of the lines that match, the last one first."""
    try:
        text, changed = _COLOUR.sub(b"", path.read_bytes()), path.stat().st_mtime
    except FileNotFoundError:
        return
    day = time.localtime(changed)
    midnight = time.mktime((day.tm_year, day.tm_mon, day.tm_mday, 0, 0, 0, 0, 0, -1))
    later = changed - midnight + 1
    for match in reversed(list(pattern.finditer(text))):
        hours, minutes, seconds, step = (int(group) for group in match.groups()[:4])
        clock = hours * 3600 + minutes * 60 + seconds
        if clock > later:  # going back in the file, the clock went up: that was the day before
            midnight -= 86400
        later = clock
        end = text.find(b"\n", match.end())
        yield midnight + clock, step, text[match.start() : end if end >= 0 else len(text)]


def _metric_steps(path: Path) -> Iterator[tuple[float, int]]:
    yield from (
        (float(row["time"]), int(row["step"])) for row in _rows(path) if "perf/throughput" in row
    )


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    try:
        lines = path.read_bytes().splitlines()
    except FileNotFoundError:
        return
    for line in lines:
        try:
            yield json.loads(line)
        except ValueError:
            continue  # the line being written


def _verl_steps(path: Path) -> Iterator[tuple[float, int]]:
    try:
        rows, ended = path.read_bytes().splitlines(), path.stat().st_mtime
    except FileNotFoundError:
        return
    for raw in reversed(rows):
        try:
            row = json.loads(raw)
        except ValueError:
            continue  # the line being written
        if "timing_s/step" in row["data"]:  # a validation is no step
            yield ended, int(row["step"])
            ended -= float(row["data"]["timing_s/step"])


def _walk(directories: Iterable[Path]) -> Iterator[Path]:
    for directory in directories:
        for base, _, names in os.walk(directory, onerror=_raise_unless_gone):
            yield from (
                path for name in sorted(names) if not (path := Path(base, name)).is_symlink()
            )


def _raise_unless_gone(error: OSError) -> None:
    """Raise what keeps a directory from being listed, or its files would count as lost. A directory
    that has just been removed has none.
    """
    if not isinstance(error, FileNotFoundError):
        raise error


def _facts(path: Path) -> FileFacts | None:
    digest = hashlib.sha256()
    size = 0
    try:
        with path.open("rb") as source:
            while chunk := source.read(_CHUNK):
                digest.update(chunk)
                size += len(chunk)
    except FileNotFoundError:
        return None
    return FileFacts(str(path), size, digest.hexdigest())


def _begins_with(longer: FileFacts, shorter: FileFacts) -> bool:
    try:
        with Path(longer.path).open("rb") as source:
            return hashlib.sha256(source.read(shorter.size)).hexdigest() == shorter.sha256
    except FileNotFoundError:
        return False
