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
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from bs4_console.trainers.known import checked
from bs4_practice import disks, faults
from bs4_practice.person import aside, edit_config
from bs4_practice.stage import Stage, staged
from bs4_practice.tree import Process
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
    """The open incidents of the run, roots first."""
    ranks = {"root": 0}
    return [
        one.failure
        for one in sorted(stage.ledger.open_incidents(), key=lambda i: ranks.get(i.role, 1))
        if one.severity == "critical" and one.run == "demo"
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
        shutil.rmtree(shared / "run", ignore_errors=True)
        shutil.copytree(stage.pod.run_dir, shared / "run", symlinks=True)


Act = Callable[[Stage, Path], Awaitable[None]]


@dataclass(frozen=True)
class Fault:
    """What is done to a loop that trains, and what has to come of it.

    `root` is the failure that has to be named within `within_s` seconds, and `says` is a part of
    its summary or its evidence. `undo` takes the fault back, after which the run has to train on
    and the failure must not be open any more. After the last fault of a loop, `ends` says whether
    the run is then over by itself, or has to be stopped.
    """

    do: Act
    root: str
    says: str = ""
    undo: Act | None = None
    ends: bool = True
    within_s: float = 180.0


def one(stage: Stage, component: str) -> Process:
    """The first live process of a component of the run."""
    return faults.find(stage.pod, component)[0]


def send(signal: Callable[[Process], object], component: str) -> Act:
    async def act(stage: Stage, _: Path) -> None:
        signal(one(stage, component))

    return act


async def kill_environment_worker(stage: Stage, _: Path) -> None:
    """Kill what the environment server has started for its task. It has no title."""
    server = one(stage, "env-server")
    worker = next(
        process
        for process in stage.pod.processes()
        if process.ppid == server.pid and "spawn_main" in process.title
    )
    faults.kill(worker)


async def start_it_once_more(stage: Stage, _: Path) -> None:
    """Start by hand what runs already, into the same directory."""
    await stage.pod.spawn(stage.pod.launch_command(), log=stage.pod.home / "second.log")


async def see_it_refused(stage: Stage, _: Path) -> None:
    await stage.until(
        lambda: len(faults.find(stage.pod, "launcher")) == 1, START_S, "the end of the second"
    )
    assert "FileExistsError" in (stage.pod.home / "second.log").read_text()


async def break_reward(_: Stage, broken: Path) -> None:
    (broken / "reward").touch()


async def fill_the_disk(stage: Stage, _: Path) -> None:
    """Leave no room for the next checkpoint."""
    place = stage.pod.run_dir / "checkpoints"
    held = sum(path.stat().st_size for path in place.rglob("*") if path.is_file())
    disks.fill(disks.give_own_disk(stage, place, held // disks.MIB + 8), 1 << 14)


FAULTS = {
    "engine-killed": Fault(send(faults.kill, "engine"), "vllm-silent-death", within_s=60),
    "engine-stopped": Fault(
        send(faults.pause, "engine"), "vllm-silent-death", undo=send(faults.resume, "engine")
    ),
    "launcher-terminated": Fault(send(faults.terminate, "launcher"), "sigterm-received"),
    "launcher-hung-up": Fault(send(faults.hang_up, "launcher"), "launcher-orphans", ends=False),
    "launcher-killed": Fault(send(faults.kill, "launcher"), "launcher-orphans", ends=False),
    "second-launcher": Fault(start_it_once_more, "run-dir-collision", undo=see_it_refused),
    "reward-raises": Fault(break_reward, "reward-fn-crash", says="IndexError"),
    "environment-worker-killed": Fault(kill_environment_worker, "run-stalled", ends=False),
    "disk-full": Fault(fill_the_disk, "disk-full", says="No space left"),
}


@dataclass(frozen=True)
class Loop:
    """A run, and what is done to it in this order. A run that is started by hand writes plain text;
    a launched one writes JSON.
    """

    faults: tuple[str, ...]
    by_hand: bool = False


LOOPS = {
    "launched-1": Loop(("engine-stopped", "reward-raises")),
    "launched-2": Loop(("launcher-terminated",)),
    "launched-3": Loop(("disk-full",)),
    "launched-4": Loop(("engine-killed",)),
    "by-hand-1": Loop(("second-launcher", "launcher-killed"), by_hand=True),
    "by-hand-2": Loop(("environment-worker-killed", "launcher-hung-up"), by_hand=True),
}


def is_open(stage: Stage, failure: str) -> bool:
    return any((one.failure, one.run) == (failure, "demo") for one in stage.ledger.open_incidents())


def left(stage: Stage) -> list[str]:
    """The components of the run that still live."""
    return [name for one in stage.pod.processes() if (name := faults.component(one))]


@pytest.mark.parametrize("name", LOOPS)
async def test_what_goes_wrong_is_named_and_stays_named(
    shared: Path, tmp_path: Path, name: str
) -> None:
    loop = LOOPS[name]
    async with real(shared, tmp_path) as stage:
        if loop.by_hand:
            await stage.pod.spawn(stage.pod.launch_command())
            await stage.until(lambda: "demo" in stage.session.state.runs, START_S, "the adoption")
        else:
            await stage.launch(preflight=False)
        await reach(stage, 4)
        run = stage.session.state.runs["demo"]
        assert run.view.adopted == loop.by_hand
        assert named(stage) == []
        for fault in map(FAULTS.__getitem__, loop.faults):
            await suffers(stage, tmp_path, fault)
        if fault.ends:
            await stage.until(lambda: run.word == "failed", START_S, "the collapse")
            assert named(stage)[0] == fault.root, named(stage)
        else:
            await stage.must("stop", run="demo")
        await stage.until(lambda: not left(stage), 120, "the end of all processes")


async def suffers(stage: Stage, broken: Path, fault: Fault) -> None:
    """Do what is wrong to the run, and check that it is named for as long as it has to be."""
    run = stage.session.state.runs["demo"]
    await fault.do(stage, broken)
    found = await stage.incident(fault.root, fault.within_s)
    assert fault.says in f"{found.summary} {found.evidence}", found
    assert named(stage)[0] == fault.root, named(stage)
    if fault.undo is not None:
        await fault.undo(stage, broken)
        await reach(stage, (run.step or 0) + 2)
        await stage.until(lambda: not is_open(stage, fault.root), fault.within_s, "the all-clear")


@dataclass(frozen=True)
class Start:
    """What is done to a pod before a start that then fails, and the failure that has to be named.
    `resumes` starts by hand with a bare --resume where the run of the good end lies.
    """

    do: Callable[[Stage], Awaitable[None]]
    root: str
    resumes: bool = False


async def take(stage: Stage, port: int) -> None:
    await faults.hold_port(stage.pod, port)


async def report_without_a_key(stage: Stage) -> None:
    edit_config(stage, {"monitors.wandb.project": "practice"})


async def lose(stage: Stage, part: str) -> None:
    """Take a part out of the newest checkpoint. Nothing is deleted."""
    steps = (stage.pod.run_dir / "checkpoints").glob("step_*")
    newest = max(steps, key=lambda path: int(path.name.removeprefix("step_")))
    aside(newest / part).rename(stage.pod.home / "lost")


STARTS = {
    "inference-port-taken": Start(lambda stage: take(stage, stage.pod.api_port), "port-in-use"),
    "environment-port-taken": Start(
        lambda stage: take(stage, stage.pod.workspace.env_port), "zmq-address-in-use"
    ),
    "wandb-refuses": Start(report_without_a_key, "wandb-auth"),
    "newest-checkpoint-torn": Start(
        lambda stage: lose(stage, "trainer/.metadata"), "incomplete-resume-set", resumes=True
    ),
    "orchestrators-half-only": Start(
        lambda stage: lose(stage, "trainer"), "resume-latest-partial", resumes=True
    ),
}


@pytest.mark.parametrize("name", STARTS)
async def test_a_start_that_fails_is_named(shared: Path, tmp_path: Path, name: str) -> None:
    start = STARTS[name]
    kept = shared / "run"
    if start.resumes and not kept.exists():
        pytest.fail("It needs what test_a_start_is_watched_to_its_good_end leaves: run that first.")
    async with real(shared, tmp_path) as stage:
        if start.resumes:
            shutil.copytree(kept, stage.pod.run_dir, symlinks=True)
        await start.do(stage)
        if start.resumes:
            await stage.pod.spawn(stage.pod.launch_command("--resume"))
        else:
            await stage.launch(wait=False, preflight=False)
        runs = stage.session.state.runs
        await stage.incident(start.root, START_S)
        await stage.until(lambda: runs["demo"].word == "failed", START_S, "the end of the run")
        assert named(stage)[0] == start.root, named(stage)
        await stage.until(lambda: not left(stage), 120, "the end of all processes")
