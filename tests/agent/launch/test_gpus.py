"""Which other runs hold a GPU that the next attempt of a run will use. No false alarm."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from bs4_agent.paths import Home
from bs4_agent.pod import Pod
from bs4_common.failures.facts import GpuFacts, Holder
from bs4_common.runs.model import Attempt, End, Run
from bs4_common.trainers import registry
from bs4_common.trainers.base import LaunchSpec
from tests.agent.facts import identity

OLD = "prime-rl-2026-01"
HELD = Holder(
    identity=identity(7),
    gpu=1,
    mem=40 << 30,
    cmdline=("python",),
    run="other",
    component="rank",
    dead_run=None,
    same_user=True,
)


def attempt(began: float, ended: float | None) -> Attempt:
    return Attempt(
        number=1,
        state="running" if ended is None else "ended",
        shim=None,
        launcher=None,
        started_t=began,
        started_m=began,
        resume=None,
        argv=(),
        end=None if ended is None else End(1, None, ended, good=False, detail=""),
    )


def rivals(
    root: Path,
    holder: Holder = HELD,
    config: str = "[inference]\nseed = 1\n",
    began: float = 300.0,
    **changes: Any,
) -> list[str | None]:
    """Return the runs that are in the way of `mine`, which lived from 100 to 200. `other` lives
    since `began`.
    """
    (root / "rl.toml").write_text(config)
    start = LaunchSpec(
        run="mine",
        trainer=changes.pop("trainer", OLD),
        config=Path("rl.toml"),
        cwd=root,
        output_dir=root / "outputs",
        **changes,
    )
    runs = {
        "mine": Run("mine", start, False, [attempt(100.0, 200.0)]),
        "other": Run("other", start, False, [attempt(began, None)]),
    }
    known = SimpleNamespace(
        get=runs.__getitem__,
        trainer=lambda run: registry.get(run.spec.trainer),
        home=Home(root / "home"),
    )
    pod = SimpleNamespace(runs=known, gpu_facts=lambda: GpuFacts(state="ok", holders=[holder]))
    return [found.run for found in Pod.gpu_rivals(cast(Pod, pod), "mine")]


@pytest.mark.parametrize("trainer", [OLD, "prime-rl"])
def test_a_live_run_on_a_gpu_that_the_next_attempt_uses_is_in_the_way(
    tmp_path: Path, trainer: str
) -> None:
    assert rivals(tmp_path, trainer=trainer) == ["other"]


@pytest.mark.parametrize(
    "change",
    [
        {"run": "mine"},  # the run's own
        {"run": None, "dead_run": "other"},
        {"run": None},
        {"mem": 400 << 20},  # a stray context
        {"mem": None},  # the device is open, which proves nothing
        {"gpu": 2},
    ],
)
def test_other_holders_are_not(tmp_path: Path, change: dict[str, Any]) -> None:
    assert rivals(tmp_path, dataclasses.replace(HELD, **change)) == []


def test_runs_that_lived_side_by_side_share_by_choice(tmp_path: Path) -> None:
    assert rivals(tmp_path, began=150.0) == []


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"trainer": "prime-rl", "env": {"CUDA_VISIBLE_DEVICES": "4,1"}}, ["other"]),
        ({"trainer": "prime-rl", "env": {"CUDA_VISIBLE_DEVICES": "4,5"}}, []),
        ({"trainer": "prime-rl", "env": {"CUDA_VISIBLE_DEVICES": "GPU-1b,GPU-1c"}}, []),
        ({"trainer": "prime-rl", "env": {"CUDA_VISIBLE_DEVICES": "1"}}, []),
        ({"env": {"CUDA_VISIBLE_DEVICES": "4,5"}}, ["other"]),  # overridden by trainer_gpu_ids
        ({"container": "box"}, []),
        ({"component": "inference"}, []),
        ({"config": "trainer_gpu_ids = [2]\n"}, []),
        ({"config": "trainer_gpu_ids = [\n"}, []),
        ({"trainer": "prime-rl", "config": '[deployment]\ntype = "multi_node"\n'}, []),
        ({"trainer": "prime-rl", "config": "max_steps = 1\n"}, []),  # without a server: GPU 0
        ({"trainer": "verl"}, []),
    ],
)
def test_only_gpus_that_are_certain_count(
    tmp_path: Path, changes: dict[str, Any], found: list[str]
) -> None:
    assert rivals(tmp_path, **changes) == found
