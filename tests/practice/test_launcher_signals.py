"""Who dies of which signal, as measured on the real launchers (prime-rl.md 1.2)."""

from __future__ import annotations

import signal

import pytest

from bs4_practice import faults, tree, witness
from bs4_practice.pod import PracticePod
from tests.practice.running import GENERATIONS, Run, Start, held_at, log_text, trained

pytestmark = pytest.mark.beside


@pytest.mark.long
async def test_sigterm_orphans_everything_in_2026_01(start: Start) -> None:
    async with start("2026-01") as pod, Run(pod) as run:
        await trained(pod, 1)
        members = [
            faults.find(pod, name)[0]
            for name in ("orchestrator", "rank", "engine", "worker", "tail")
        ]
        faults.terminate(faults.find(pod, "launcher")[0])
        assert await run.code() == 143
        assert all(tree.alive(member) for member in members)
        await trained(pod, 6)  # and they go on training


@pytest.mark.long
async def test_sigterm_to_the_current_launcher_ends_everything(start: Start) -> None:
    async with start("current") as pod, Run(pod) as run:
        await trained(pod, 1)
        faults.terminate(faults.find(pod, "launcher")[0])
        assert await run.code() == 1
        assert "Received SIGTERM, terminating all processes..." in run.text
        await faults.until(lambda: pod.processes() == [], 60, "an empty pod")


@pytest.mark.parametrize("generation", GENERATIONS)
@pytest.mark.long
async def test_a_hang_up_orphans_everything(start: Start, generation: str) -> None:
    async with start(generation) as pod, Run(pod) as run:
        await trained(pod, 1)
        rank, engine = faults.find(pod, "rank")[0], faults.find(pod, "engine")[0]
        faults.hang_up(faults.find(pod, "launcher")[0])
        assert await run.code() == 129
        assert tree.alive(rank)
        assert tree.alive(engine)


@pytest.mark.long
async def test_control_c_ends_the_run(start: Start) -> None:
    async with start("2026-01") as pod, Run(pod) as run:
        await trained(pod, 1)
        assert faults.interrupt(pod) > 5
        assert await run.code() == 1
        assert "Received interrupt signal, terminating all processes..." in run.text


@pytest.mark.long
async def test_a_launcher_in_the_background_of_a_shell_ignores_control_c(start: Start) -> None:
    async with start("2026-01") as pod:
        await pod.run(
            ["sh", "-c", "uv run rl @ configs/rl.toml --output-dir outputs > log 2>&1 & sleep 0.1"],
            cwd=pod.project,
        )
        await trained(pod, 1)
        launcher = faults.find(pod, "launcher")[0]
        tree.send(launcher, signal.SIGINT)
        await trained(pod, 5)
        assert tree.alive(launcher)


async def held_behind_a_save(pod: PracticePod) -> int:
    """Stop the trainer when it has done the step after a checkpoint of every fourth, and nothing of
    the next one. Return the checkpoint's step. The orchestrator is at most two steps ahead, which
    is before the next checkpoint.
    """
    rank = (await faults.wait_for(pod, "rank"))[0]

    def last() -> int:
        return witness.last_step(pod.output_dir, pod.generation) or 0

    def behind() -> bool:
        step = last()
        following = pod.run_dir / "broadcasts" / f"step_{step + 1}"
        return step > 4 and step % 4 == 1 and not following.exists()

    await held_at(rank, behind, "a step behind a checkpoint")
    return last() - 1


async def test_control_c_leaves_the_current_generation_a_lone_checkpoint(start: Start) -> None:
    """The orchestrator's last save is of a step that no trainer saved; a plain resume takes it and
    fails, an explicit one works.
    """
    async with start("current", step_seconds=0.2) as pod:
        async with Run(pod, "--ckpt.interval", "4") as run:
            saved = await held_behind_a_save(pod)
            faults.interrupt(pod)
            faults.resume(faults.find(pod, "rank")[0])
            assert await run.code() == 1
            await faults.until(lambda: not faults.find(pod, "rank"), 60, "the ranks' end")
        assert "forcing cleanup (not a clean exit)" in log_text(pod, "orchestrator")
        newest = max((pod.run_dir / "checkpoints").iterdir(), key=lambda path: int(path.name[5:]))
        assert [part.name for part in newest.iterdir()] == ["orchestrator"]
        async with Run(pod, "--resume") as run:
            assert await run.code() == 1
            assert (
                f"Resuming from step {newest.name[5:]}, cleaning future rollouts and broadcasts"
                in run.text
            )
        assert f"FileNotFoundError: Checkpoint not found at {newest}/trainer" in log_text(
            pod, "trainer"
        )
        async with Run(pod, "--resume.step", str(saved)):
            await trained(pod, saved + 2)


@pytest.mark.long
async def test_a_failed_rank_ends_the_run_with_torchs_report(start: Start) -> None:
    async with start("2026-01") as pod, Run(pod) as run:
        await trained(pod, 1)
        faults.kill(faults.find(pod, "rank")[0])
        assert await run.code() == 1
        assert "Error: Trainer failed with exit code 1" in run.text
        assert "failed (exitcode: -9) local_rank: 0" in log_text(pod, "trainer")
