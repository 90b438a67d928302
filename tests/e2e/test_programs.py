"""`sft` and `eval`, launched and watched: good is a step that is done and a result that is there,
and an end says why.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from bs4_console.errors import NotApplicableError
from bs4_console.launch import guide
from bs4_console.launch.guide import LaunchRequest
from bs4_console.pods.state import ActionView
from bs4_practice.pod import PracticePod
from bs4_practice.stage import Stage, staged

pytestmark = [pytest.mark.long, pytest.mark.beside]

OLD, NEW = "prime-rl-2026-01", "prime-rl"
PROGRAM = Path(__file__).with_name("program.py")


def furnish(pod: PracticePod, trainer: str) -> None:
    binaries = pod.project / ".venv" / "bin"
    generation = "2026-01" if trainer == OLD else "current"
    for name in ("sft", "eval" if trainer == OLD else "evals"):
        program = binaries / name
        text = PROGRAM.read_text().replace('GENERATION = "current"', f'GENERATION = "{generation}"')
        program.write_text(
            f"#!/bin/sh\n'''exec' \"{binaries / 'python3'}\" \"$0\" \"$@\"\n' '''\n{text}"
        )
        program.chmod(0o755)
    for name in ("good", "dying", "silent"):
        Path(pod.project / f"{name}.toml").write_text("max_steps = 1\n")


async def launched(stage: Stage, component: str, config: str) -> ActionView:
    asked = LaunchRequest(
        run=f"{component}-{config}",
        trainer=stage.trainer,
        config=f"{config}.toml",
        output_dir=f"outputs/{component}-{config}",
        component=component,
    )
    view = await guide.plan(stage.session, asked)
    assert view.plan["steps"][-1]["title"].startswith("Wait for ")
    key = await guide.start(stage.session, view)
    async for action in stage.session.follow_action(key):
        last = action
    return last


@pytest.mark.timeout(600)
@pytest.mark.parametrize("trainer", [OLD, NEW])
async def test_sft_and_eval_are_watched_to_their_first_step_and_result(trainer: str) -> None:
    async with staged(trainer) as stage:
        furnish(stage.pod, stage.trainer)
        done = await launched(stage, "sft", "good")
        assert (done.state, done.result.get("step")) == ("done", 0 if trainer == OLD else 1), (
            done.detail
        )
        await stage.until(
            lambda: stage.session.state.runs["sft-good"].series("loss"), 120, "the step's record"
        )
        await stage.until(lambda: ended(stage, "sft-good") is not None, 120, "the end of sft")
        end = ended(stage, "sft-good")
        assert end is not None
        assert end["good"] is True, end
        assert "its final line was written" in end["detail"]

        failed = await launched(stage, "sft", "dying")
        assert failed.state == "failed"
        assert "before its first step" in failed.detail
        assert "exit code 1" in failed.detail
        assert "its final line is not there" in failed.detail

        done = await launched(stage, "eval", "good")
        assert (done.state, done.detail) == ("done", "eval-good evaluates"), done.detail
        quiet = await launched(stage, "eval", "silent")
        assert quiet.state == "done", "it has ended with 0, which is what a good evaluation does"
        failed = await launched(stage, "eval", "dying")
        assert failed.state == "failed"
        assert "before its first result" in failed.detail
        assert "exit code 1" in failed.detail
        assert "--source eval" in failed.detail


def ended(stage: Stage, run: str) -> dict[str, object] | None:
    attempt = stage.ledger.runs[run].attempt
    if attempt is None or attempt.ended_t is None:
        return None
    return {"good": attempt.good, "detail": attempt.detail}


async def test_a_part_that_is_not_there_is_no_launch() -> None:
    async with staged(OLD) as stage:
        furnish(stage.pod, stage.trainer)
        with pytest.raises(NotApplicableError):
            await guide.plan(
                stage.session,
                LaunchRequest(
                    run="x", trainer=OLD, config="good.toml", component="eval", processes=4
                ),
            )
