"""The scenarios: which mechanism to use, on what, to break a practice pod. The failure they lead to
is for the agent to name.
"""

from __future__ import annotations

import asyncio
import random

from bs4_console.errors import NotApplicableError, UsageError
from bs4_console.suggest import nearest
from bs4_practice import faults
from bs4_practice.scenario import BOTH, WARM_UP, Scenario, advance, complete, stopped, train
from bs4_practice.stage import Stage, StageError

__all__ = ["BOTH", "SCENARIOS", "WARM_UP", "Scenario", "advance", "choose", "stopped", "train"]

#: A run that fails within seconds of a start by hand may be missed by the agent, which looks for
#: such starts every 3 s.
HAND_STARTS = 3


async def fresh_start_with_leftovers(stage: Stage) -> None:
    """Launch the run from its first step, although files of its earlier start still lie in its
    directory. Does not wait for the run's first step. Raises StageError if the run cannot be
    started.
    """
    await stage.launch(wait=False, preflight=False)


async def resume_below_leftovers(stage: Stage) -> None:
    """Write a checkpoint of the orchestrator alone, for a step that is 20 above the newest complete
    checkpoint, and launch the run to resume from the newest complete checkpoint. Does not wait for
    the run's first step. Raises ValueError if the run has no complete checkpoint. Raises StageError
    if the run cannot be started.
    """
    newest = complete(stage)
    faults.put_checkpoint(stage.pod, newest + 20, ["orchestrator"])
    await stage.launch(wait=False, preflight=False, resume=newest)


async def resume_latest(stage: Stage) -> None:
    """Write a checkpoint of the orchestrator alone, for a step that is two above the newest
    complete checkpoint, and start the run by hand with a bare `--resume`, which takes the newest
    checkpoint, complete or not. Returns when the agent has noticed the start. The start is repeated
    up to twice, because a run that fails at once may be gone before the agent looks; after that it
    returns anyway. Raises TimeoutError if a start that nobody noticed goes on for a minute. Raises
    ValueError if the run has no complete checkpoint.
    """
    newest = complete(stage)
    faults.put_checkpoint(stage.pod, newest + 2, ["orchestrator"])
    # By hand, as people do it: the console itself never passes a bare --resume.
    command = [
        "uv",
        "run",
        "rl",
        "@",
        "configs/rl.toml",
        "--output-dir",
        "outputs",
        "--run.name",
        "demo",
        "--resume",
    ]
    known = len(stage.session.state.runs["demo"].view.attempts)
    for _ in range(HAND_STARTS):
        launcher = await stage.pod.spawn(command)
        try:
            await stage.until(
                lambda: len(stage.session.state.runs["demo"].view.attempts) > known,
                15,
                "the agent's notice of it",
            )
        except StageError:
            # It was gone before the agent looked, and a person would try again too. On a busy
            # machine it may also be slow: two launchers at once would be another failure.
            async with asyncio.timeout(60):
                await stage.pod.run(["tail", f"--pid={launcher}", "-f", "/dev/null"])
            if len(stage.session.state.runs["demo"].view.attempts) == known:
                continue
        return


async def kill_server_and_start_another_run(stage: Stage) -> None:
    """Kill the inference server with SIGKILL, wait until its launcher has ended the run, and launch
    another run with the name `second`. The vLLM engine of the first run lives on and holds its GPU.
    Raises StageError if the first run has not ended within 60 seconds.
    """
    (server,) = faults.find(stage.pod, "inference")
    faults.kill(server)
    await stage.until(
        lambda: stage.session.state.runs["demo"].word == "failed", 60, "the end of the first run"
    )
    await stage.launch("second", output_dir="outputs-second", wait=False)


async def kill_engine_while_it_generates(stage: Stage) -> None:
    """Kill the run's vLLM engine with SIGKILL while it generates. Raises TimeoutError if no
    generation begins within 60 seconds.
    """
    await faults.kill_generating(stage.pod)


async def stop_engine(stage: Stage) -> None:
    """Stop the run's vLLM engine with SIGSTOP while it generates; its process stays and does
    nothing. Raises TimeoutError if no generation begins within 60 seconds.
    """
    await faults.wait_generating(stage.pod)
    faults.pause(faults.find(stage.pod, "engine")[0])


async def stop_worker(stage: Stage) -> None:
    """Stop the run's vLLM worker with SIGSTOP while the engine generates; its process stays and
    does nothing. Raises TimeoutError if no generation begins within 60 seconds.
    """
    await faults.wait_generating(stage.pod)
    faults.pause(faults.find(stage.pod, "worker")[0])


async def train_on_a_server_apart(stage: Stage) -> None:
    """Start the inference server apart from the run, launch a run whose config has no inference
    server, and wait until step 7 has finished. Raises StageError if the agent does not notice the
    server within 30 seconds, or if the run does not get to that step. Raises PodError or
    TimeoutError if the server cannot be started.
    """
    # Apart from each other both would take the first GPU; 2026-01's trainer takes the second by
    # default.
    await faults.start_inference(stage.pod, gpu=0 if stage.pod.generation == "2026-01" else 1)
    await stage.until(lambda: stage.session.state.runs, 30, "the agent's notice of the server")
    await stage.launch(config="configs/rl-apart.toml")
    await advance(stage, "demo", WARM_UP)


async def kill_the_server_apart(stage: Stage) -> None:
    """Kill the inference server that was started apart from the run, with its engine and its
    workers.
    """
    for process in (
        faults.find(stage.pod, "inference")
        + faults.find(stage.pod, "engine")
        + faults.find(stage.pod, "worker")
    ):
        faults.kill(process)


_ALL = (
    Scenario(
        "step-desync", "step-desync", ("prime-rl-2026-01",), stopped, fresh_start_with_leftovers
    ),
    Scenario(
        "step-desync/resume-ahead",
        "step-desync",
        ("prime-rl-2026-01",),
        stopped,
        resume_below_leftovers,
    ),
    Scenario(
        "resume-latest-partial", "resume-latest-partial", ("prime-rl",), stopped, resume_latest
    ),
    Scenario(
        "stale-gpu-process",
        "stale-gpu-process",
        BOTH,
        train,
        kill_server_and_start_another_run,
        "second",
        "outputs-second",
    ),
    Scenario(
        "stale-gpu-process/foreign-pids",
        "stale-gpu-process",
        BOTH,
        train,
        kill_server_and_start_another_run,
        "second",
        "outputs-second",
        foreign_pids=True,
    ),
    Scenario("vllm-silent-death", "vllm-silent-death", BOTH, train, kill_engine_while_it_generates),
    Scenario("vllm-silent-death/engine-stopped", "vllm-silent-death", BOTH, train, stop_engine),
    Scenario("vllm-silent-death/worker-stopped", "vllm-silent-death", BOTH, train, stop_worker),
    Scenario(
        "vllm-silent-death/started-apart",
        "vllm-silent-death",
        BOTH,
        train_on_a_server_apart,
        kill_the_server_apart,
    ),
)
SCENARIOS = {scenario.name: scenario for scenario in _ALL}


def choose(name: str, trainer: str, seed: int | None = None) -> Scenario:
    """Return the scenario with the name `name`. The name "random" chooses one of those that
    `trainer` (a trainer's id) can have; the same `seed` gives the same scenario. Raises UsageError
    if there is no scenario of that name, and NotApplicableError if it cannot happen with that
    trainer.
    """
    if name == "random":
        fitting = [s for s in _ALL if trainer in s.trainers]
        return random.Random(seed).choice(fitting)
    from bs4_practice.tries import TRIES  # the whole catalog of them is needed only for a name

    scenario = TRIES.get(name)
    if scenario is None:
        close = nearest(name, list(TRIES), 5)
        near = f"Close to it: {', '.join(close)}. " if close else ""
        raise UsageError(
            f"There is no scenario {name!r}.", f"{near}`bs4-console demo --list` names all."
        )
    if trainer not in scenario.trainers:
        raise NotApplicableError(
            f"{name} cannot happen with {trainer}.",
            f"It happens with {', '.join(scenario.trainers)}.",
        )
    return scenario
