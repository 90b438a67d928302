"""The packer of 2026-01 waits for the step of the orchestrator's newest checkpoint, whatever the
run starts from. It really hangs.
"""

from __future__ import annotations

import asyncio
import re
import shutil

import pytest

from bs4_practice import faults, witness
from bs4_practice.pod import PracticePod
from tests.practice.running import Run, Start, log_text, logs, trained

pytestmark = pytest.mark.beside


async def hangs(pod: PracticePod, run: Run, finished: int) -> None:
    """The orchestrator goes on to its barrier, the trainer does nothing, nobody complains."""
    await faults.until(
        lambda: "Hit async barrier" in log_text(pod, "orchestrator"),
        60,
        log_text(pod, "orchestrator"),
    )
    await faults.until(
        lambda: "Starting training loop" in log_text(pod, "trainer"), 60, log_text(pod, "trainer")
    )
    await asyncio.sleep(0.5)  # time in which a healthy trainer would finish ten steps
    assert "SUCCESS Step" not in log_text(pod, "trainer")
    assert "ERROR" not in run.text + log_text(pod, "trainer") + log_text(pod, "orchestrator")
    # max_async_level + 1, and one more where the policy loop looks later than a batch takes
    assert len(re.findall("SUCCESS Step", log_text(pod, "orchestrator"))) in (2, 3)
    assert not run.ended.done()
    assert len(witness.steps(pod.output_dir, pod.generation)) == finished
    assert not list((pod.output_dir / "rollouts").glob("step_*/rank_0.bin"))


async def stop(pod: PracticePod, run: Run) -> None:
    faults.interrupt(pod)
    await run.code()
    await faults.until(lambda: not faults.find(pod, "rank"), 60, "the ranks' end")
    for process in pod.processes():
        faults.kill(process)
    await faults.until(lambda: not pod.processes(), 60, "an empty pod")


@pytest.mark.long
async def test_a_fresh_start_over_leftovers_hangs_until_they_are_moved(start: Start) -> None:
    async with start("2026-01") as pod:
        faults.put_checkpoint(pod, 20)
        faults.put_checkpoint(pod, 40)
        async with Run(pod) as run:
            await hangs(pod, run, 0)
            await stop(pod, run)
        shutil.move(pod.output_dir / "run_default" / "checkpoints", pod.project / "aside")
        async with Run(pod):
            await trained(pod, 2)


async def test_a_resume_below_a_newer_orchestrator_checkpoint_hangs_until_that_is_moved(
    start: Start,
) -> None:
    async with start("2026-01") as pod:
        async with Run(pod, "--max-steps", "5") as run:
            assert await run.code() == 0
        shutil.rmtree(logs(pod))  # they too can say that the barrier was hit
        ahead = faults.put_checkpoint(pod, 40)[0]
        async with Run(pod, "--ckpt.resume-step", "5") as run:
            await hangs(pod, run, 5)
            await stop(pod, run)
        shutil.move(ahead.parent, pod.project / "step_40")
        async with Run(pod, "--ckpt.resume-step", "5"):
            await trained(pod, 7)


@pytest.mark.long
async def test_the_debug_log_names_the_step_that_it_waits_for(start: Start) -> None:
    async with start("2026-01") as pod:
        faults.put_checkpoint(pod, 40)
        async with Run(pod, "--log.level", "debug"):
            await faults.until(
                lambda: "Looking for batches" in log_text(pod, "trainer"), 60, "the packer's line"
            )
            assert (
                "[PosixPath('outputs/run_default/rollouts/step_40/rollouts.bin')] (waiting 0.0s)"
                in log_text(pod, "trainer")
            )
