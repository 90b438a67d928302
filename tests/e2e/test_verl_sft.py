"""verl's SFT from the launch to a step and a checkpoint, one rank killed, and recovered by its
playbook from the newest complete step.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from bs4_practice import faults
from bs4_practice.scenario import advance
from bs4_practice.stage import staged
from tests.console.cli.conftest import Console

pytestmark = [pytest.mark.beside, pytest.mark.long]

WORDS = ("trainer.max_ckpt_to_keep=3",)


def steps(run: Path, attempt: int) -> list[int]:
    """Of verl's own file of one attempt, its validations left out; the last line may be half
    written.
    """
    rows = [
        json.loads(line) for line in (run / f"metrics.{attempt}.jsonl").read_text().split("\n")[:-1]
    ]
    return [row["step"] for row in rows if "train/loss" in row["data"]]


@pytest.mark.timeout(500)
async def test_an_sft_from_its_launch_through_a_crash_to_its_next_steps(tmp_path: Path) -> None:
    async with staged("verl", step_seconds=0.5) as stage:
        pod, console = stage.pod, Console(tmp_path)
        console.add(pod.name, pod.host, pod.port, pod.user, pod.key_path, pod.known_host_key)
        command = (
            "launch",
            "configs/sft.toml",
            "--pod",
            pod.name,
            "--run",
            "demo",
            "--yes",
            "--",
            *WORDS,
        )
        done = await asyncio.to_thread(console, *command, timeout=240.0)
        # Nobody said whose config it is, nor which part of a run it starts.
        assert done.code == 0, done
        assert "demo trains: step " in done.out
        launcher, ranks = faults.find(pod, "launcher"), faults.find(pod, "rank")
        assert (len(launcher), len(ranks)) == (1, 2)
        assert {rank.ppid for rank in ranks} == {launcher[0].pid}
        await advance(stage, "demo", 7)
        run = stage.session.state.runs["demo"]
        assert run.series("loss"), "its lines are steps with numbers"
        await stage.until(lambda: run.eval_points, 60, "a validation")
        tracker = pod.run_dir / "checkpoints" / "latest_checkpointed_iteration.txt"
        await stage.until(tracker.exists, 60, "a checkpoint")

        faults.kill(ranks[1])
        incident = await stage.incident("rank-sigkill", 120)
        saved = int(tracker.read_text())
        assert saved >= 5
        before = steps(pod.run_dir, 1)
        assert before == list(range(1, before[-1] + 1))
        plan = await stage.plan(incident)
        assert plan.plan["resume"] == saved
        body = {
            "playbook": plan.playbook,
            "run": "demo",
            "plan_hash": plan.plan_hash,
            "confirm_run": "demo",
        }
        action = await asyncio.wait_for(stage.act("playbook", **body), 240)
        assert (action.state, action.result["recovered"]) == ("done", True), action.detail

        again = steps(pod.run_dir, 2)
        assert again[0] == saved + 1, (
            "no step above the newest complete one is lost, none is done twice"
        )
        assert steps(pod.run_dir, 1) == before
        (spec,) = (pod.home / ".bs4" / "runs" / "demo" / "attempts").glob("*2/spec.json")
        argv = json.loads(spec.read_text())["argv"]
        assert argv[argv.index("-m") + 1] == "torch.distributed.run"
        assert "verl.trainer.fsdp_sft_trainer" in argv
        assert f"trainer.resume_from_path={pod.run_dir}/checkpoints/global_step_{saved}" in argv
        listed = await asyncio.to_thread(
            console,
            "checkpoints",
            "list",
            "--pod",
            pod.name,
            "--run",
            "demo",
            "--json",
            timeout=120.0,
        )
        kept = {row["step"]: row["complete"] for row in listed.json["checkpoints"]}
        assert kept[saved] is True


@pytest.mark.timeout(600)
async def test_an_sft_that_comes_to_its_last_step_has_ended_well() -> None:
    async with staged("verl", step_seconds=0.1) as stage:
        words = [*WORDS, "trainer.total_training_steps=7"]
        await stage.launch(
            config="configs/sft.toml", component="sft", overrides=words, preflight=False, wait=False
        )
        await stage.until(
            lambda: (a := stage.session.state.runs["demo"].view.attempt) is not None and a.ended_t,
            120,
            "its end",
        )
        attempt = stage.session.state.runs["demo"].view.attempt
        assert attempt is not None
        assert (attempt.good, attempt.code) == (True, 0), attempt.detail
        # Steps come by another stream than the end.
        await stage.until(lambda: stage.session.state.runs["demo"].step == 7, 60, "its last step")
        whole = stage.pod.run_dir / "checkpoints" / "global_step_7"
        assert (whole / "model_world_size_2_rank_1.pt").exists()
