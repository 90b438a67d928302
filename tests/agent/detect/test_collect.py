"""The collector over a run on disk: sizes by step, disks with their runs, and what it leaves
alone.
"""

from __future__ import annotations

import dataclasses
import os
import time
from pathlib import Path
from typing import Any

import pytest

from bs4_agent.observe import collect
from bs4_agent.observe.collect import Collector
from bs4_agent.runs.membership import Membership
from bs4_agent.scope import Scope
from bs4_common.runs.model import Attempt, Run
from bs4_common.trainers import registry
from bs4_common.trainers.base import LaunchSpec


class Runs:
    """As much of the registry as the collector asks for, with one run of January's prime-rl."""

    def __init__(self, root: Path) -> None:
        self.scope = dataclasses.replace(Scope.from_environment(), dev=root)
        self.membership = Membership()
        self.spec = LaunchSpec(
            run="demo",
            trainer="prime-rl-2026-01",
            config=Path("rl.toml"),
            cwd=root,
            output_dir=root / "outputs",
        )
        self.attempt = Attempt(
            number=1,
            state="running",
            shim=None,
            launcher=None,
            started_t=time.time() - 100,
            started_m=time.monotonic() - 100,
            resume=None,
            argv=(),
        )
        self._root = root

    def all(self) -> list[Run]:
        return [Run("demo", self.spec, adopted=False, attempts=[self.attempt])]

    def trainer(self, run: Run) -> Any:
        return registry.get(run.spec.trainer)

    def attempt_directory(self, run: str, number: int) -> Path:
        return self._root / "attempts" / str(number)


@pytest.fixture
def runs(tmp_path: Path) -> Runs:
    (tmp_path / "rl.toml").write_text("max_steps = 20\n[ckpt]\ninterval = 5\n")
    (tmp_path / "shm").mkdir()
    return Runs(tmp_path)


def put(runs: Runs, step: int, size: int, age: float = 0.0) -> Path:
    path = runs.spec.output_dir / "weights" / f"step_{step}" / "model.safetensors"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * size)
    os.utime(path, (time.time() - age, time.time() - age))
    return path


def test_nothing_is_known_before_the_first_round(runs: Runs) -> None:
    collector = Collector(runs)  # type: ignore[arg-type]
    assert collector.of("demo", 1) == (None, None, None)
    assert collector.disks() == (None, None)


def test_one_round(runs: Runs) -> None:
    put(runs, 0, 1000)
    put(runs, 1, 500)
    refused = runs.spec.output_dir / "run_default" / "configs" / "error.txt"
    refused.parent.mkdir(parents=True)
    refused.write_text("ValueError: no\n")
    collector = Collector(runs)  # type: ignore[arg-type]
    collector.round()
    config, resume, around = collector.of("demo", 1)
    assert (config, resume) == ({"max_steps": 20, "ckpt.interval": 5}, None)
    assert around is not None
    assert around.heaps is not None
    assert around.heaps["weights"].bytes == {0: 1000, 1: 500}
    assert around.rejected == "ValueError: no\n"
    disks, shm = collector.disks()
    assert disks is not None
    assert [disk.runs for disk in disks] == [("demo",)]
    assert disks[0].total
    assert shm is not None
    assert shm.path == str(runs.scope.dev / "shm")
    assert collector.of("demo", 2) == (None, None, None), "another attempt was not looked at yet"


def test_a_run_that_writes_no_log_of_its_own_misses_none(runs: Runs) -> None:
    """verl without the file logger prints everything: that nothing lies in its directory is no sign
    that it writes elsewhere.
    """
    found = []
    for trainer in ("prime-rl-2026-01", "verl"):
        runs.spec = dataclasses.replace(runs.spec, trainer=trainer)
        collector = Collector(runs)  # type: ignore[arg-type]
        collector.round()
        around = collector.of("demo", 1)[2]
        assert around is not None
        found.append(around.logs_found)
    assert found == [False, None]


def test_a_settled_step_is_measured_once_and_a_young_one_again(
    runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, young = put(runs, 0, 1000, age=600), put(runs, 1, 500)
    measured: list[str] = []
    real = collect.size_of
    monkeypatch.setattr(
        collect, "size_of", lambda path: (measured.append(path.name), real(path))[1]
    )
    settled: dict[Path, tuple[int, float]] = {}
    root = old.parents[1]
    collect._heap(root, settled)
    young.write_bytes(b"y" * 900)
    assert collect._heap(root, settled).bytes == {0: 1000, 1: 900}
    assert measured.count("step_0") == 1
    old.unlink()
    old.parent.rmdir()
    assert collect._heap(root, settled).bytes == {1: 900}
    assert not settled


def test_a_run_is_not_looked_at_again_at_once(runs: Runs) -> None:
    collector = Collector(runs)  # type: ignore[arg-type]
    collector.round()
    first = collector.of("demo", 1)[2]
    collector.round()
    assert collector.of("demo", 1)[2] is first


def test_readings_that_are_too_old_are_unknown(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    collector = Collector(runs)  # type: ignore[arg-type]
    collector.round()
    monkeypatch.setattr(collect, "STALE_S", -1.0)
    assert collector.disks() == (None, None)


def test_when_the_kernel_killed_in_our_group(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = iter([4, 4, 5, 5, None])
    monkeypatch.setattr("bs4_agent.observe.surroundings.oom_kills", lambda: next(counts))
    collector = Collector(runs)
    assert collector.oom_kills() == (0, None)
    kills, at = collector.oom_kills()
    assert kills == 1
    assert at is not None
    assert collector.oom_kills() == (1, at), "it is when it grew, not when it was looked at"
    assert collector.oom_kills() == (None, at)


class TwoRuns(Runs):
    """A run whose config names a directory that no system has, and beside it one that is well."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        (root / "odd.toml").write_text('[ckpt]\noutput_dir = "a\\u0000b"\n')
        self.odd = dataclasses.replace(
            self.spec,
            run="odd",
            trainer="prime-rl",
            config=Path("odd.toml"),
            output_dir=root / "odd",
        )

    def all(self) -> list[Run]:
        odd = Run("odd", self.odd, adopted=False, attempts=[self.attempt])
        return [odd, *super().all()]


def test_a_run_that_is_odd_in_an_unforeseen_way_keeps_no_other_from_being_scanned(
    tmp_path: Path,
) -> None:
    (tmp_path / "rl.toml").write_text("max_steps = 20\n")
    (tmp_path / "shm").mkdir()
    collector = Collector(TwoRuns(tmp_path))  # type: ignore[arg-type]
    collector.round()
    assert collector.of("odd", 1) == (None, None, None)
    assert collector.of("demo", 1)[2] is not None
