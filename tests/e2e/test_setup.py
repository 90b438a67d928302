"""A bare pod is set up while all that can be interrupted is: nothing is done twice, nothing half
used, a second one refused.
"""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
from pathlib import Path

import pytest

from bs4_console.errors import ConsoleError
from bs4_console.setup import recipe as setup
from bs4_console.setup.credentials import Credentials
from bs4_console.setup.recipe import Recipe
from bs4_practice import bare
from bs4_practice.stage import Stage, staged
from tests.console.cli.conftest import Console
from tests.e2e import journals
from tests.e2e.killing import at, kill_agent_at

pytestmark = pytest.mark.beside

TRAINER = "prime-rl-2026-01"


def jobs(home: Path) -> list[list[str]]:
    """The command of each job that was made, without where its program lies."""
    specs = sorted(
        (home / ".bs4" / "setup").glob("[0-9]*/spec.json"), key=lambda path: int(path.parent.name)
    )
    argvs = [json.loads(path.read_text())["argv"] for path in specs]
    return [[Path(argv[0]).name, *argv[1:]] for argv in argvs]


def begun(home: Path) -> list[str]:
    """The keys of all set-ups that were accepted."""
    told = [
        r
        for r in journals.records(home)
        if r["type"] == "action" and r["event"] == "accepted" and r["kind"] == "setup"
    ]
    return [r["action"] for r in told]


async def reached(stage: Stage, title: str) -> None:
    """Until the set-up has begun the step with this title."""

    def is_there() -> bool:
        return any(
            r["event"] == "intent" and str(r.get("title", "")).startswith(title)
            for key in begun(stage.pod.home)
            for r in journals.of_action(stage.pod.home, key)
        )

    await stage.until(is_there, 180, f"the step {title!r}")


def gates(stage: Stage, directory: Path, *names: str) -> None:
    """From now on what stands for the network waits before `curl` and before each `uv NAME`, as
    long as directory/NAME is there.
    """
    for name in names:
        (directory / name).touch()
    curl = stage.pod.root / "stubs" / "curl"
    curl.write_text(
        curl.read_text().replace(
            "#!/bin/sh\n", f"#!/bin/sh\nwhile [ -e {directory}/curl ]; do sleep 0.1; done\n", 1
        )
    )
    text, own = bare.packed(stage.pod.root), 'exec "$HOME/.local/share/uv/bin/uv"'
    assert own in text
    bare.pack(
        stage.pod.root,
        text.replace(own, f'while [ -e "{directory}/$1" ]; do sleep 0.1; done\n{own}'),
    )


async def watching(process: subprocess.Popen[bytes]) -> None:
    """Until this console says that it found the set-up of another one."""
    assert process.stderr is not None
    said = b""
    while b"under way already" not in said:
        line = await asyncio.wait_for(asyncio.to_thread(process.stderr.readline), 180)
        assert line, f"this console ended and had said {said!r}"
        said += line


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.skipif(
    not bare.usable(),
    reason="a bare practice pod is set up from a git repository, and there is no git",
)
async def test_a_set_up_survives_its_console_and_its_agent(tmp_path: Path) -> None:
    async with staged(TRAINER, bare=True) as stage:
        pod, console = stage.pod, Console(tmp_path)
        gates(stage, tmp_path, "curl", "sync")
        console.add(pod.name, pod.host, pod.port, pod.user, pod.key_path, pod.known_host_key)
        recipe = Recipe(
            trainer=TRAINER, environments=("primeintellect/reverse-text",), **pod.setup_recipe()
        )
        words = ["pods", "setup", pod.name, "--trainer", TRAINER, "--env", *recipe.environments]
        words += ["--repository", recipe.repository, "--revision", recipe.revision]
        words += ["--uv", recipe.uv]

        # A dead clone of an earlier life lies in the way; only a look at the plan, and nothing is
        # done to it.
        half = pod.home / ".prime-rl.bs4-part"
        (half / ".git").mkdir(parents=True)
        (half / ".git" / "HEAD").write_text("ref: refs/heads/half\n")
        shown = (await asyncio.to_thread(console, *words, "--plan", "--json")).json
        assert shown["todo"] == 7
        assert (half.exists(), jobs(pod.home), begun(pod.home)) == (True, [], [])

        # The console is interrupted; the next one finds what that one began, and loses its link (as
        # a pod sees a kill -9).
        first = console.start(*words, "--yes")
        await reached(stage, "Install uv")
        first.send_signal(signal.SIGINT)
        await asyncio.to_thread(first.communicate)
        assert first.returncode == 130
        second = console.start(*words, "--yes")
        await watching(second)
        second.kill()
        await asyncio.to_thread(second.communicate)
        (key,) = begun(pod.home)

        # The agent dies while uv works; another set-up is refused meanwhile, by the new agent too.
        (tmp_path / "curl").unlink()
        title = "Install the training environment"
        await reached(stage, title)
        await stage.until(
            lambda: key in stage.ledger.actions and stage.ledger.actions[key].steps,
            60,
            "its steps here",
        )
        step = next(i for i, s in enumerate(stage.ledger.actions[key].steps) if s.title == title)
        killed, _ = await kill_agent_at(stage, lambda: key, at("intent", step))
        await stage.until(lambda: journals.agents(pod.home)[-1] != killed, 180, "another agent")
        await stage.session.synced(120)
        await _refused(stage, Recipe(trainer=TRAINER, directory="elsewhere", **pod.setup_recipe()))

        # The same command once more sees it to its end, and once more after that has nothing to do.
        third = console.start(*words, "--yes")
        await watching(third)
        (tmp_path / "sync").unlink()
        out, err = await asyncio.to_thread(third.communicate, None, 280)
        assert third.returncode == 0, (out, err)
        _check_done_once(stage, key, half, tmp_path)
        again = await asyncio.to_thread(console, *words, "--yes", "--json")
        assert [step["state"] for step in again.lines[-1]["steps"]] == ["skipped"] * 11
        assert len(jobs(pod.home)) == 6

        # What it was for.
        launched = await stage.launch()
        assert launched.result["step"] >= 0
        spec = json.loads(
            (pod.home / ".bs4" / "runs" / "demo" / "attempts" / "1" / "spec.json").read_text()
        )
        assert spec["env"]["VLLM_WORKER_MULTIPROC_METHOD"] == "spawn"


async def _refused(stage: Stage, recipe: Recipe) -> None:
    plan = await setup.plan(stage.session, recipe, Credentials())
    with pytest.raises(ConsoleError, match="busy"):
        await setup.begin(stage.session, plan.plan_hash, Credentials())


def _check_done_once(stage: Stage, key: str, half: Path, scratch: Path) -> None:
    home = stage.pod.home
    git = ["git", "-c", "http.lowSpeedLimit=1000", "-c", "http.lowSpeedTime=60", "-c", "gc.auto=0"]
    repository = str(stage.pod.workspace.repository)
    assert [argv[:3] if argv[0] != "git" else argv for argv in jobs(home)] == [
        ["curl", "-LsSf", "--retry"],
        [*git, "clone", "--no-checkout", "--", repository, str(half)],
        [*git, "-C", str(half), "checkout", "--quiet", "--detach", stage.pod.workspace.revision],
        [*git, "-C", str(half), "submodule", "update", "--init", "--recursive"],
        ["uv", "sync", "--all-extras"],
        ["uv", "tool", "run"],
    ]
    assert not half.exists()
    told = journals.of_action(home, key)
    assert [
        r["event"] for r in told if r["event"] in ("done", "failed", "interrupted", "plan-changed")
    ] == ["done"]
    assert journals.finished_steps(told) == dict.fromkeys(range(11), 1)
    assert journals.problems(home, scratch) == []
    assert (home / ".profile").read_text().count("# >>> bs4-console >>>") == 1
    assert list((home / ".bs4").glob("credentials/incoming/*")) == []
