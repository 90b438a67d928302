"""A whole run of each generation: to its good end, from a checkpoint, and what lies on disk
afterwards.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bs4_practice import faults, witness
from bs4_practice.miniature import checkpoint
from tests.practice.running import GENERATIONS, Run, Start, log_text, trained

pytestmark = pytest.mark.beside


@pytest.mark.parametrize("generation", GENERATIONS)
async def test_runs_to_its_good_end(start: Start, generation: str) -> None:
    async with (
        start(generation) as pod,
        Run(pod, "--max-steps", "3", "--ckpt.interval", "1") as run,
    ):
        assert await run.code() == 0
        assert "Orchestrator finished." in log_text(pod, "orchestrator")
        assert "RL trainer finished!" in log_text(pod, "trainer")
        assert (
            "RL training finished!" if generation == "2026-01" else "Training finished!"
        ) in run.text
        await faults.until(lambda: pod.processes() == [], 60, "an empty pod")
        steps = witness.steps(pod.output_dir, generation)
        assert [step for _, step in steps] == ([0, 1, 2] if generation == "2026-01" else [1, 2, 3])
        assert complete(pod.run_dir, generation) >= {1, 3}


def complete(run_dir: Path, generation: str) -> set[int]:
    trainer = {
        int(path.parts[-3][5:]) for path in run_dir.glob("checkpoints/step_*/trainer/.metadata")
    }
    side = run_dir / "run_default" if generation == "2026-01" else run_dir
    orchestrator = {
        int(path.parts[-3][5:]) for path in side.glob("checkpoints/step_*/orchestrator/progress.pt")
    }
    stable = {int(path.parts[-2][5:]) for path in side.glob("broadcasts/step_*/STABLE")}
    return trainer & orchestrator & stable


@pytest.mark.parametrize("generation", GENERATIONS)
@pytest.mark.long
async def test_a_resume_goes_on_from_the_files(start: Start, generation: str) -> None:
    resume = ["--ckpt.resume-step", "3"] if generation == "2026-01" else ["--resume.step", "3"]
    async with start(generation) as pod:
        async with Run(pod, "--max-steps", "3") as run:
            assert await run.code() == 0
        saved = trainer_state(pod.run_dir, 3)
        skill = saved["skill"]
        async with Run(pod, "--max-steps", "5", *resume) as run:
            assert await run.code() == 0
        text = log_text(pod, "trainer")
        tokens = saved["progress"]["total_tokens"]
        assert "Resuming training from checkpoint step 3" in text
        first = 3 if generation == "2026-01" else 4
        assert (
            f"Starting from step {first} (total_tokens={tokens}, "
            f"total_samples={saved['progress']['total_samples']})" in text
        )
        later = trainer_state(pod.run_dir, 5)
        assert later["progress"]["total_tokens"] > tokens
        assert later["skill"] > skill
        assert later["rng"] != saved["rng"]
        assert [step for _, step in witness.steps(pod.output_dir, generation)][-2:] == [
            first,
            first + 1,
        ]


def trainer_state(run_dir: Path, step: int) -> dict[str, Any]:
    raw = (run_dir / "checkpoints" / f"step_{step}" / "trainer" / "__0_0.distcp").read_bytes()
    state: dict[str, Any] = json.loads(raw.split(b"\n", 1)[0])
    return state


@pytest.mark.long
async def test_keep_last_forgets_the_trainers_old_ones_only(start: Start) -> None:
    async with (
        start("2026-01") as pod,
        Run(pod, "--max-steps", "6", "--ckpt.interval", "1", "--ckpt.keep-last", "2") as run,
    ):
        assert await run.code() == 0
        assert sorted(path.name for path in (pod.output_dir / "checkpoints").iterdir()) == [
            "step_5",
            "step_6",
        ]
        assert len(list((pod.output_dir / "run_default" / "checkpoints").iterdir())) > 2


@pytest.mark.long
async def test_a_default_start_cleans_but_never_checkpoints(start: Start) -> None:
    async with start("2026-01") as pod:
        async with Run(pod, "--max-steps", "2", "--ckpt.interval", "1") as run:
            assert await run.code() == 0
        before = witness.Snapshot.take(
            [pod.output_dir / "checkpoints", pod.output_dir / "run_default" / "checkpoints"]
        )
        old = (pod.output_dir / "run_default" / "rollouts" / "step_1" / "rollouts.bin").read_bytes()
        async with Run(pod, "--max-steps", "2", "--ckpt.resume-step", "2") as run:
            assert await run.code() == 0
        assert witness.lost(before, [pod.output_dir]) == 0
        assert not (pod.output_dir / "run_default" / "rollouts" / "step_1").exists(), old[:40]


@pytest.mark.long
async def test_the_current_generation_refuses_a_used_run_directory(start: Start) -> None:
    async with start("current") as pod:
        async with Run(pod, "--max-steps", "1") as run:
            assert await run.code() == 0
        async with Run(pod, "--max-steps", "2") as run:
            assert await run.code() == 1
            assert "FileExistsError: Run directory" in run.text


@pytest.mark.long
async def test_two_ranks_share_the_batches(start: Start) -> None:
    async with (
        start("2026-01", gpus=3) as pod,
        Run(pod, "--max-steps", "2", "--trainer-gpu-ids", "[1,2]") as run,
    ):
        assert await run.code() == 0
        shards = sorted(
            path.name for path in (pod.output_dir / "checkpoints" / "step_2" / "trainer").iterdir()
        )
        assert shards == [".metadata", "__0_0.distcp", "__1_0.distcp"]
        assert "[default1]" not in log_text(pod, "trainer")


@pytest.mark.long
async def test_a_changed_shard_is_not_loaded(start: Start) -> None:
    async with start("current") as pod:
        async with Run(pod, "--max-steps", "2") as run:
            assert await run.code() == 0
        shard = pod.run_dir / "checkpoints" / "step_2" / "trainer" / "__0_0.distcp"
        shard.write_bytes(shard.read_bytes()[:-1])
        async with Run(pod, "--max-steps", "3", "--resume.step", "2") as run:
            assert await run.code() == 1
        assert "PytorchStreamReader failed" in log_text(pod, "trainer")


@pytest.mark.long
async def test_both_ends_of_a_checkpoint_agree(start: Start) -> None:
    """The orchestrator's half is real too: its counters and its place in the data go on."""
    async with start("current") as pod, Run(pod, "--ckpt.interval", "2") as run:
        await trained(pod, 5)
        state, _ = checkpoint.load_orchestrator(
            pod.run_dir / "checkpoints" / "step_4" / "orchestrator"
        )
        assert state["step"] == 5
        assert state["examples"] >= 8
        assert not run.ended.done()
