"""The link is cut in the middle of a set-up and of a launch: the pod goes on by itself, and the
same command does only what is missing.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from bs4_console.setup.recipe import Recipe
from bs4_practice import bare
from bs4_practice.stage import Stage, staged
from tests.console.cli.conftest import Console
from tests.e2e import journals
from tests.e2e.test_setup import begun, gates, jobs, reached
from tests.support.cable import cable

pytestmark = [pytest.mark.long, pytest.mark.beside]

TRAINER = "prime-rl-2026-01"


def launches(home: Path) -> list[str]:
    told = [
        r
        for r in journals.records(home)
        if r["type"] == "action" and r["event"] == "accepted" and r["kind"] == "launch"
    ]
    return [r["action"] for r in told]


def ended(home: Path, key: str) -> list[str]:
    return [
        r["event"]
        for r in journals.of_action(home, key)
        if r["event"] in ("done", "failed", "interrupted", "plan-changed")
    ]


def attempts(stage: Stage) -> list[str]:
    found = (stage.pod.home / ".bs4" / "runs" / "demo" / "attempts").glob("[0-9]*")
    return sorted(path.name for path in found if (path / "shim.json").exists())


@pytest.mark.timeout(900)
@pytest.mark.skipif(
    not bare.usable(),
    reason="a bare practice pod is set up from a git repository, and there is no git",
)
async def test_a_cut_in_mid_step_costs_nothing_but_the_looking(tmp_path: Path) -> None:
    async with staged(TRAINER, bare=True) as stage, cable(stage.pod.host, stage.pod.port) as link:
        pod, console = stage.pod, Console(tmp_path)
        gates(stage, tmp_path, "sync")
        console.add(pod.name, "127.0.0.1", link.port, pod.user, pod.key_path, pod.known_host_key)
        recipe = Recipe(
            trainer=TRAINER, environments=("primeintellect/reverse-text",), **pod.setup_recipe()
        )
        words = ["pods", "setup", pod.name, "--trainer", TRAINER, "--env", *recipe.environments]
        words += ["--repository", recipe.repository, "--revision", recipe.revision]
        words += ["--uv", recipe.uv]

        # Cut while uv works: the step goes on, and a console that is started now can do nothing at
        # all.
        first = console.start(*words, "--yes")
        await reached(stage, "Install the training environment")
        (key,) = begun(pod.home)
        await stage.until(lambda: jobs(pod.home)[-1][:2] == ["uv", "sync"], 120, "uv at work")
        await link.pull_out()
        blind = await asyncio.to_thread(console, *words, "--yes", timeout=280)
        assert (blind.code, blind.out) == (3, ""), blind
        assert (begun(pod.home), len(jobs(pod.home))) == ([key], 5)
        (tmp_path / "sync").unlink()
        await stage.until(
            lambda: ended(pod.home, key) == ["done"],
            240,
            "the end of the set-up, which nobody sees",
        )

        # Back again: the console that was cut off sees the end, and one more has nothing to do.
        await link.plug_in()
        out, err = await asyncio.to_thread(first.communicate, None, 280)
        assert first.returncode == 0, (out, err)
        again = await asyncio.to_thread(console, *words, "--yes", "--json")
        assert {step["state"] for step in again.lines[-1]["steps"]} == {"skipped"}
        assert len(jobs(pod.home)) == 6
        assert journals.finished_steps(journals.of_action(pod.home, key)) == dict.fromkeys(
            range(11), 1
        )

        # The same for a launch, as soon as it is accepted.
        launch = [
            "launch",
            "configs/rl.toml",
            "--pod",
            pod.name,
            "--run",
            "demo",
            "--trainer",
            TRAINER,
            "--yes",
            "--no-preflight",
        ]
        starting = console.start(*launch)
        await stage.until(lambda: launches(pod.home), 240, "the launch")
        await link.pull_out()
        (key,) = launches(pod.home)
        await stage.until(
            lambda: ended(pod.home, key) == ["done"], 240, "the first step, which nobody sees"
        )
        await link.plug_in()
        out, err = await asyncio.to_thread(starting.communicate, None, 280)
        assert starting.returncode == 0, (out, err)
        repeated = await asyncio.to_thread(console, *launch, timeout=280)
        assert repeated.code == 0, repeated
        assert "nothing was started" in repeated.out
        assert (attempts(stage), launches(pod.home)) == (["1"], [key])
        assert journals.problems(pod.home, tmp_path) == []
