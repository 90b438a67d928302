"""Launcher, orchestrator and environments: signals, programs that are not there, packages that are
wrong.
"""

from __future__ import annotations

import asyncio
import shutil

from bs4_practice import faults
from bs4_practice.miniature.install import ENVIRONMENT, install_environment, site_packages
from bs4_practice.person import aside, recover, replace_in_config, restore_and_recover
from bs4_practice.scenario import BOTH, NEW, OLD, Scenario, nothing, start, train
from bs4_practice.stage import Stage
from bs4_practice.tree import Process

#: A reward function that expects another kind of answer, and one whose answer key is of another
#: task.
_RAISES = "def score(prompt, answer):\n    return list(answer).get('answer')\n"
_NEVER_RIGHT = "def score(prompt, answer):\n    return 1.0 if answer == prompt else 0.0\n"
_FAST = {"step_seconds": 0.15}


async def kill_orchestrator(stage: Stage) -> None:
    """Kill the run's orchestrator with SIGKILL."""
    faults.kill(faults.find(stage.pod, "orchestrator")[0])


async def terminate_launcher(stage: Stage) -> None:
    """Send SIGTERM to the run's launcher."""
    faults.terminate(faults.find(stage.pod, "launcher")[0])


async def orphan_the_children(stage: Stage) -> None:
    """End the run's launcher with a signal that it does not handle, so that its children go on
    without a parent: SIGTERM in prime-rl of January 2026, SIGHUP in current prime-rl.
    """
    end = faults.terminate if stage.trainer == OLD else faults.hang_up
    end(faults.find(stage.pod, "launcher")[0])


async def hang_up_launcher(stage: Stage) -> None:
    """Send SIGHUP to the run's launcher, as a closed terminal does."""
    faults.hang_up(faults.find(stage.pod, "launcher")[0])


async def kill_environment_worker(stage: Stage) -> None:
    """Kill the worker process of the run's environment server with SIGKILL."""
    faults.kill(faults.find(stage.pod, "env-worker")[0])


async def start_with_unknown_environment(stage: Stage) -> None:
    """Put the name of an environment that is not installed into the config, and launch the run.
    Does not wait for the run's first step. Raises StageError if the run cannot be started.
    """
    replace_in_config(stage, 'id = "reverse-text"', 'id = "wiki-search"')
    await start(stage)


async def start_with_reward_that_raises(stage: Stage) -> None:
    """Install a version of the environment whose reward function raises on every answer, and launch
    the run. Does not wait for the run's first step. Raises StageError if the run cannot be started.
    """
    install_environment(site_packages(stage.pod.project), _RAISES, "0.2.0")
    await start(stage)


async def start_with_reward_of_another_task(stage: Stage) -> None:
    """Install a version of the environment whose reward function belongs to another task and gives
    nearly every answer the reward 0, and launch the run. Does not wait for the run's first step.
    Raises StageError if the run cannot be started.
    """
    install_environment(site_packages(stage.pod.project), _NEVER_RIGHT, "0.2.0")
    await start(stage)


async def install_the_right_one(stage: Stage) -> None:
    """Repair a wrong environment as a person would: stop the run, copy the installed package of the
    environment to `aside` in the project, install the right package over it, and have the agent
    resume the run. Raises StageError if the run cannot be stopped or resumed.
    """
    await stage.must("stop", run="demo")
    for wrong in site_packages(stage.pod.project).glob("reverse_text*"):
        shutil.copytree(wrong, stage.pod.project / "aside" / wrong.name)
    install_environment(site_packages(stage.pod.project), ENVIRONMENT, "0.1.0")
    await recover(stage)


async def start_without_a_component(stage: Stage) -> None:
    """Launch the run so that its launcher does not find a program that it needs to start its
    children. The launcher of January 2026 starts them by uv, which is renamed while the launcher
    loads. The current launcher starts them by their own names; there `orchestrator` is renamed
    before the launch. Raises StageError if the run cannot be started.
    """
    if stage.trainer == OLD:

        def taken_away() -> bool:
            held = [
                process for process in faults.find(stage.pod, "launcher") if faults.pause(process)
            ]
            if held:
                aside(stage.pod.home / ".local" / "share" / "uv" / "bin" / "uv")
            for process in held:
                faults.resume(process)
            return bool(held)

        # Looked for from before the start on: between the launcher and its first child lies a tenth
        # of a second.
        await asyncio.gather(start(stage), faults.until(taken_away, 60, "the launcher"))
    else:
        aside(stage.pod.project / ".venv" / "bin" / "orchestrator")
        await start(stage)


async def put_it_back(stage: Stage) -> None:
    """Give the program that `start_without_a_component` renamed its name again, and have the agent
    resume the run. Raises StageError if it cannot be resumed.
    """
    for path in (
        stage.pod.home / ".local" / "share" / "uv" / "bin" / "uv",
        stage.pod.project / ".venv" / "bin" / "orchestrator",
    ):
        gone = path.with_name(f"aside-{path.name}")
        if gone.is_symlink() or gone.exists():
            gone.rename(path)
    await recover(stage)


async def garble_run_config(stage: Stage) -> None:
    """Launch the run, and overwrite the first three bytes of the config file (`orch.toml`) that the
    orchestrator writes for the trainer. The trainer's processes are paused until that is done, so
    that they read only the garbled file. Returns when the trainer has refused it by writing
    `error.txt`. Raises TimeoutError if that takes longer than 60 seconds. Raises StageError if the
    run cannot be started.
    """
    path = stage.pod.run_dir / "run_default" / "configs" / "orch.toml"
    held: dict[int, Process] = {}

    def written() -> bool:
        for process in (*faults.find(stage.pod, "torchrun"), *faults.find(stage.pod, "rank")):
            if process.pid not in held and faults.pause(process):
                held[process.pid] = process
        return bool(held) and path.exists() and path.stat().st_size > 0

    await start(stage)
    await faults.until(written, 60, f"{path}, and a trainer to hold")
    path.write_bytes(b"\0\0\0" + path.read_bytes()[3:])
    for process in held.values():
        faults.resume(process)
    await faults.until(
        path.with_name("error.txt").exists,
        60,
        "the trainer's refusal; it had read the config already: try again",
    )


async def start_with_unknown_key(stage: Stage) -> None:
    """Put a key that the trainer does not know into the config, and launch the run. Does not wait
    for the run's first step. Raises StageError if the run cannot be started.
    """
    replace_in_config(stage, "max_steps = 10000", "max_steps = 10000\nmax_stepz = 5")
    await start(stage)


async def start_where_a_run_lies(stage: Stage) -> None:
    """Launch the run as a new one where an earlier run has left its output. Does not wait for the
    run's first step. Raises StageError if the run cannot be started.
    """
    await stage.launch(wait=False, preflight=False)


ALL = (
    Scenario("orchestrator-fatal", "orchestrator-fatal", BOTH, train, kill_orchestrator),
    Scenario("launcher-orphans", "launcher-orphans", BOTH, train, orphan_the_children),
    Scenario("launcher-orphans/hang-up", "launcher-orphans", (OLD,), train, hang_up_launcher),
    Scenario("sigterm-received", "sigterm-received", (NEW,), train, terminate_launcher),
    Scenario("env-server-dead", "env-server-dead", (NEW,), train, kill_environment_worker),
    Scenario(
        "env-not-installed",
        "env-not-installed",
        BOTH,
        nothing,
        start_with_unknown_environment,
        repair=restore_and_recover,
    ),
    Scenario(
        "reward-fn-crash",
        "reward-fn-crash",
        BOTH,
        nothing,
        start_with_reward_that_raises,
        repair=install_the_right_one,
        pod=_FAST,
    ),
    Scenario(
        "reward-zero",
        "reward-zero",
        BOTH,
        nothing,
        start_with_reward_of_another_task,
        repair=install_the_right_one,
        pod=_FAST,
    ),
    Scenario(
        "uv-missing", "uv-missing", BOTH, nothing, start_without_a_component, repair=put_it_back
    ),
    Scenario("run-rejected", "run-rejected", (OLD,), nothing, garble_run_config),
    Scenario(
        "config-rejected",
        "config-rejected",
        BOTH,
        nothing,
        start_with_unknown_key,
        repair=restore_and_recover,
    ),
)
