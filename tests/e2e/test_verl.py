"""verl from its first step to a merged model, headless: a worker is killed, the playbook brings the
run back, a step is merged, and that outlives the agent and the console.
"""

from __future__ import annotations

import asyncio
import json
import signal
from pathlib import Path

import pytest

from bs4_agent.checkpoints.merging.check import lacking
from bs4_console.pods.state import ActionView
from bs4_practice import faults, tree
from bs4_practice.miniature.verl import tensors
from bs4_practice.person import recover
from bs4_practice.scenario import advance
from bs4_practice.stage import Stage, connect, staged
from tests.console.cli.conftest import Console, Result

pytestmark = [pytest.mark.beside, pytest.mark.long]


async def typed(console: Console, *words: str) -> Result:
    return await asyncio.to_thread(console, *words, timeout=280.0)


async def crash_and_recover(stage: Stage) -> None:
    """A GPU worker is killed; the playbook goes on from the newest complete step."""
    faults.kill(faults.find(stage.pod, "ray-worker")[0])
    incident = await stage.incident("ray-worker-died", 180)
    plan = await stage.plan(incident)
    body = {
        "playbook": plan.playbook,
        "run": "demo",
        "plan_hash": plan.plan_hash,
        "confirm_run": "demo",
    }
    action = await asyncio.wait_for(stage.act("playbook", **body), 300)
    assert (action.state, action.result["recovered"]) == ("done", True), action.detail
    again = plan.plan["resume"]
    assert again >= 5
    attempts = sorted(stage.pod.run_dir.glob("metrics.*.jsonl"))
    assert len(attempts) == 2
    # it goes on: the last line may be half written
    trained = [json.loads(line) for line in attempts[1].read_text().split("\n")[:-1]]
    first = min(row["step"] for row in trained if "training/global_step" in row["data"])
    assert first == again + 1, "no step above the newest complete one is lost, none is done twice"


async def merge_outlives_its_watchers(stage: Stage, console: Console, step: int) -> ActionView:
    """The merger is stopped in its middle; then the agent and the console that began it are
    killed.
    """
    begun = console.start(
        "checkpoints",
        "merge",
        "--pod",
        stage.pod.name,
        "--run",
        "demo",
        "--step",
        str(step),
        "--yes",
        "--json",
    )
    merger = await stage.until(
        lambda: next((p for p in stage.pod.processes() if "verl.model_merger" in p.cmdline), None),
        120,
        "the merger",
    )
    assert tree.send(merger, signal.SIGSTOP)
    agent = tree.look(int(stage.session.state.hello["pid"]))
    assert agent is not None
    assert tree.send(agent, signal.SIGKILL)
    begun.kill()
    begun.communicate()
    await stage.until(
        lambda: stage.session.state.link.up and stage.session.state.hello.get("pid") != agent.pid,
        120,
        "another agent",
    )
    target = stage.pod.run_dir / "merged" / f"global_step_{step}"
    assert not target.exists(), "nothing is shown before it is whole"
    assert tree.send(merger, signal.SIGCONT)

    def over() -> ActionView | None:
        return next(
            (a for a in stage.ledger.actions.values() if a.kind == "merge" and a.ended), None
        )

    action: ActionView = await stage.until(over, 120, "the end of the merge")
    return action


@pytest.mark.timeout(900)
async def test_from_the_first_step_through_a_crash_to_a_merged_model(tmp_path: Path) -> None:
    async with staged("verl", step_seconds=0.25, env={"BS4_MINIATURE_MERGE_SECONDS": "4"}) as stage:
        pod, console = stage.pod, Console(tmp_path)
        console.add(pod.name, pod.host, pod.port, pod.user, pod.key_path, pod.known_host_key)
        await stage.launch(overrides=["trainer.test_freq=2"], preflight=False)
        await advance(stage, "demo", 7)
        await crash_and_recover(stage)

        words = ["checkpoints", "merge", "--pod", pod.name, "--run", "demo"]
        shown = (await typed(console, *words, "--step", "5", "--plan", "--json")).json
        assert shown["commands"][0][1:6] == [
            "-m",
            "verl.model_merger",
            "merge",
            "--backend",
            "fsdp",
        ]
        refused = await typed(console, *words, "--step", "5")
        assert (refused.code, "was not confirmed" in refused.err) == (4, True)
        assert not (pod.run_dir / "merged").exists()

        action = await merge_outlives_its_watchers(stage, console, 5)
        assert action.state == "done", action.detail
        target = Path(action.result["target"])
        assert lacking(target) == ""
        assert len(tensors.load(target)) == tensors.SIZE
        run = [
            d
            for d in (pod.home / ".bs4" / "setup").iterdir()
            if "merging.worker" in (d / "spec.json").read_text()
        ]
        assert len(run) == 1, "the merger ran once"
        assert (await typed(console, *words, "--step", "5", "--yes")).code == 4, (
            "what is there is left alone"
        )
        assert stage.session.state.runs["demo"].word == "running", (
            "the run has trained all the while"
        )

        session = connect(pod, tmp_path / "known_hosts", console.data / "pods" / pod.name)
        life = asyncio.create_task(session.run())
        await session.synced(60.0)
        await stage.until(
            lambda: len(session.state.runs["demo"].eval_points) >= 3, 120, "three validations"
        )
        life.cancel()
        await asyncio.gather(life, return_exceptions=True)
        await session.close()
        (curve,) = (await typed(console, "runs", "show", "demo", "--json")).json["run"][
            "validation"
        ]
        assert curve["metric"] == "reverse-text/acc/mean@1"
        assert [step for step, _ in curve["points"]][:3] == [2, 4, 6]
        assert curve["best"] == max(value for _, value in curve["points"])
        assert curve["checkpoint"] == ("complete" if curve["best_step"] % 5 == 0 else "gone")

        report = (
            await typed(
                console,
                "preflight",
                "--pod",
                pod.name,
                "--trainer",
                "verl",
                "--cwd",
                "verl",
                "--json",
            )
        ).json
        states = {check["title"]: check["state"] for check in report["checks"]}
        assert states["project directory"] == "ok"
        assert states["verl"] == "ok"
        assert states["torch and the GPUs"] == "blocking", "there is no torch in a practice pod"
        assert {
            "GPUs",
            "driver and CUDA",
            "rollout engine",
            "flash-attn",
            "host memory",
            "disk",
            "training environment",
        } <= states.keys()


@pytest.mark.timeout(600)
async def test_a_run_that_a_person_continues_by_hand_stays_the_same_run() -> None:
    """Its command, copied from `ps`, typed on the pod the moment after the driver was killed; then
    the console takes over again.
    """
    async with staged("verl", step_seconds=0.25) as stage:
        await stage.launch(preflight=False)
        await advance(stage, "demo", 7)
        driver = faults.find(stage.pod, "launcher")[0]
        words = [word for word in driver.cmdline if not word.startswith("trainer.resume_")]
        assert faults.kill(driver)
        await stage.pod.spawn(words, log=stage.pod.home / "by-hand.log")
        await stage.until(
            lambda: stage.session.state.runs["demo"].view.attempts.keys() >= {2},
            120,
            "the second attempt of demo",
        )
        await stage.until(
            lambda: stage.session.state.runs["demo"].word == "running", 120, "the run that goes on"
        )
        assert list(stage.session.state.runs) == ["demo"]
        await recover(stage)
        await stage.until(
            lambda: stage.session.state.runs["demo"].view.attempts.keys() >= {3},
            120,
            "the third attempt",
        )
        assert list(stage.session.state.runs) == ["demo"]
        assert sorted(
            path.name for path in stage.pod.output_dir.iterdir() if not path.name.startswith(".")
        ) == ["demo"]
