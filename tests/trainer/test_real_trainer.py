"""A real prime-rl on this machine's CPUs, launched and watched by the product, and broken:
`make test-trainer CHECKOUT=DIR PYTHON=INTERPRETER`.

Real are the launcher, the orchestrator, the environment server and its workers, the task's
programs, the trainer with its optimizer, weights and checkpoints, and every line they write. Ours
are what stands for vLLM, its router and the GPU (tests/trainer/overlay).
"""

from __future__ import annotations

import os
import shutil
import string
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path

import pytest

from bs4_console.trainers.known import checked
from bs4_practice import faults
from bs4_practice.stage import Stage, staged
from tests.trainer import environment

CHECKOUT, PYTHON = (os.environ.get(f"BS4_TRAINER_{name}", "") for name in ("CHECKOUT", "PYTHON"))
#: Imports alone take a minute of two busy cores.
START_S = 900.0
#: Which config of ours a generation reads.
CONFIGS = {"prime-rl": "current.toml"}

pytestmark = [
    pytest.mark.trainer,
    pytest.mark.timeout(2400),
    pytest.mark.skipif(
        not (CHECKOUT and PYTHON),
        reason="no checkout: `make test-trainer CHECKOUT=DIR PYTHON=INTERPRETER`",
    ),
]


@cache
def trainer() -> str:
    """The generation of the checkout, as `trainers check` recognises it."""
    found = checked(Path(CHECKOUT)).trainer.id
    if found not in CONFIGS:
        pytest.skip(f"{CHECKOUT} is {found}, for which there is no conformance run")
    return found


@pytest.fixture(scope="session")
def shared() -> Path:
    """What every pod of these tests uses again: the model and what the interpreter has compiled."""
    place = Path(__file__).resolve().parents[2] / "build" / "trainer"
    if not (place / "model" / "config.json").exists():
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        environment.make_model(Path(PYTHON), place / "model")
    return place


@asynccontextmanager
async def real(shared: Path, broken: Path, max_steps: int = 10_000) -> AsyncIterator[Stage]:
    """A practice pod whose trainer is the real one of the checkout. `broken` is the directory that
    says what of the task is to go wrong. If a check fails, the ends of the run's logs are printed.
    """
    told = {
        "BS4_FAULTS": str(broken),
        "BS4_COMPILED": str(shared / "compiled"),
        "HF_HUB_OFFLINE": "1",
        "WANDB_MODE": "disabled",
    }
    async with staged(trainer(), env=told) as stage:
        pod = stage.pod
        environment.install(pod.project, Path(CHECKOUT), Path(PYTHON))
        values = {
            "max_steps": max_steps,
            "model": shared / "model",
            "port": pod.inference_port,
            "api_port": pod.api_port,
            "env_port": pod.workspace.env_port,
        }
        text = Path(__file__).with_name(CONFIGS[trainer()]).read_text()
        pod.config_path.write_text(string.Template(text).substitute(values))
        try:
            yield stage
        except BaseException:
            for log in sorted(pod.output_dir.rglob("*.log")):
                if not log.is_symlink():
                    print(f"== {log}\n{log.read_text(errors='replace')[-3000:]}")
            print(
                [(i.failure, i.state, i.role, i.summary) for i in stage.ledger.incidents.values()]
            )
            raise


async def reach(stage: Stage, step: int) -> None:
    run = stage.session.state.runs["demo"]
    await stage.until(lambda: (run.step or 0) >= step, START_S, f"step {step}")


def named(stage: Stage) -> list[str]:
    """The open incidents, roots first."""
    ranks = {"root": 0}
    return [
        one.failure
        for one in sorted(stage.ledger.open_incidents(), key=lambda i: ranks.get(i.role, 1))
        if one.severity == "critical"
    ]


def components(stage: Stage) -> set[str]:
    return {str(one.get("component")) for one in stage.session.state.runs["demo"].components}


async def test_a_start_is_watched_to_its_good_end(shared: Path, tmp_path: Path) -> None:
    async with real(shared, tmp_path, max_steps=6) as stage:
        await stage.launch(preflight=False)
        run = stage.session.state.runs["demo"]
        seen: set[str] = set()

        def ended() -> bool:
            seen.update(components(stage))
            return run.word in ("finished", "failed")

        await stage.until(ended, START_S, "the end of the run")
        assert run.word == "finished", run.view.attempt
        assert {
            "launcher",
            "inference",
            "engine",
            "router",
            "orchestrator",
            "env-server",
            "trainer",
            "rank",
        } <= seen, seen
        for key in ("loss", "grad_norm", "lr", "throughput", "reward", "off_policy"):
            assert len(run.series(key)) >= 5, (key, run.series(key))
        assert [step for _, step in stage.steps()] == [1, 2, 3, 4, 5, 6]
        assert named(stage) == []


def end_of_engine(stage: Stage) -> None:
    faults.kill(faults.find(stage.pod, "engine")[0])


@pytest.mark.parametrize(
    ("wrong", "root"), [(end_of_engine, "vllm-silent-death")], ids=["engine-killed"]
)
async def test_what_goes_wrong_is_named_and_stays_named(
    shared: Path, tmp_path: Path, wrong: Callable[[Stage], None], root: str
) -> None:
    async with real(shared, tmp_path) as stage:
        await stage.launch(preflight=False)
        await reach(stage, 4)
        wrong(stage)
        await stage.incident(root, 60)
        run = stage.session.state.runs["demo"]
        await stage.until(lambda: run.word == "failed", START_S, "the collapse")
        assert named(stage)[0] == root, named(stage)
