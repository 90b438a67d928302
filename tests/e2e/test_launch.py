"""A launch, interrupted wherever it can be and made again: one attempt each time, nothing moved or
started twice.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from bs4_console.errors import RefusedError, RemoteError
from bs4_console.launch import guide
from bs4_console.launch.guide import LaunchRequest
from bs4_practice.stage import Stage, staged
from tests.e2e import journals
from tests.e2e.killing import Moment, kill_agent_at

pytestmark = pytest.mark.beside


def at(event: str, step: int | None = None) -> Moment:
    return lambda record: record["event"] == event and record.get("step") == step


async def ended(stage: Stage, key: str) -> Any:
    async with asyncio.timeout(280):
        async for action in stage.session.follow_action(key):
            last = action
    return last


def attempts(stage: Stage, run: str = "demo") -> list[Path]:
    """Attempts that were ever started, as they lie on the pod's disk: an agent that dies between
    the number and the spec loses a number.
    """
    directories = (stage.pod.home / ".bs4" / "runs" / run / "attempts").glob("[0-9]*")
    return sorted(
        (path for path in directories if (path / "shim.json").exists()),
        key=lambda path: int(path.name),
    )


async def killed_at(stage: Stage, asked: LaunchRequest, moment: Moment) -> Any:
    """A launch whose agent is killed at `moment`, and that is then asked for again as a person
    would: by the same command.
    """
    view = await guide.plan(stage.session, asked)
    key = guide.key_of(view.plan_hash, asked.run)
    killing = asyncio.create_task(kill_agent_at(stage, lambda: key, moment))
    assert await guide.start(stage.session, view, confirmed=True) == key
    await killing
    await stage.session.synced(120.0)
    # The same command again: what is under way is watched; confirming the same plan again is the
    # same action.
    going = guide.under_way(stage.session.state, asked.run)
    assert going is None or going.key == key
    assert await guide.start(stage.session, view, confirmed=True) == key
    return await ended(stage, key)


async def stop(stage: Stage) -> None:
    await stage.must("stop", run="demo")
    await stage.until(
        lambda: stage.session.state.runs["demo"].view.attempt.ended_t is not None,
        180,
        "the end of the attempt",
    )


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("trainer", "moments"),
    # Stopping the current generation takes long, so its every launch is dear.
    [
        ("prime-rl-2026-01", (at("intent", 0), at("step-done", 0), at("intent", 2))),
        ("prime-rl", (at("step-done", 0),)),
    ],
    ids=["prime-rl-2026-01", "prime-rl"],
)
async def test_a_launch_that_is_interrupted_anywhere_starts_one_attempt(
    trainer: str, moments: tuple[Moment, ...], tmp_path: Path
) -> None:
    async with staged(trainer) as stage:
        asked = LaunchRequest(run="demo", trainer=trainer, config="configs/rl.toml")

        # What was confirmed is what was shown: a config that is edited meanwhile is another start.
        view = await guide.plan(stage.session, asked)
        config = stage.pod.project / "configs" / "rl.toml"
        text = config.read_text()
        config.write_text(text.replace("interval = 5", "interval = 4"))
        with pytest.raises(RemoteError) as changed:
            await guide.start(stage.session, view)
        assert changed.value.type == "plan-changed"
        config.write_text(text)
        assert attempts(stage) == []

        action = await killed_at(stage, asked, at("accepted"))
        assert action.state == "done", action.detail
        assert len(attempts(stage)) == 1
        with pytest.raises(RefusedError, match=r"demo runs already .* as demo-2"):
            await guide.plan(stage.session, asked)
        assert guide.trains_already(stage.session.state, asked) is not None
        await stage.until(lambda: [s for _, s in stage.steps() if s >= 11], 300, "two checkpoints")
        await stop(stage)

        # From here on something lies in the way of every start: it is moved once, whoever dies
        # meanwhile.
        for number, moment in enumerate(moments, 2):
            stray = (
                (
                    stage.pod.output_dir / "run_default"
                    if trainer == "prime-rl-2026-01"
                    else stage.pod.run_dir
                )
                / "rollouts"
                / "step_9999"
            )
            stray.mkdir(parents=True)
            (stray / "rollouts.bin").write_bytes(b"of a dead attempt")
            view = await guide.plan(stage.session, asked)
            assert view.plan["resume"] is not None
            moved = view.plan["moves"]
            assert moved
            action = await killed_at(stage, asked, moment)
            assert action.state == "done", action.detail
            assert [int(path.name) for path in attempts(stage)][number - 1 :] == [
                action.result["attempt"]
            ]
            assert action.result["step"] >= view.plan["resume"]
            told = Counter(r["event"] for r in journals.of_action(stage.pod.home, action.key))
            assert (told["accepted"], told["done"]) == (1, 1)
            trash = stage.pod.project / ".bs4" / "demo" / "trash" / action.key
            assert len(list(trash.rglob(".*.bs4-moved.json"))) == len(moved)
            await stop(stage)

        # Afresh: everything goes to the trash, and only after the name was typed; the next attempt
        # begins at its first step.
        afresh = guide.again(asked, fresh=True)
        view = await guide.plan(stage.session, afresh)
        assert guide.must_type(view)
        before = list(stage.pod.output_dir.rglob("*.distcp"))
        assert before
        with pytest.raises(RemoteError, match="typing the run's name"):
            await guide.start(stage.session, view)
        action = await killed_at(stage, afresh, at("step-done", 0))
        assert action.state == "done", action.detail
        assert len(attempts(stage)) == len(moments) + 2
        spec = json.loads((attempts(stage)[-1] / "spec.json").read_text())["launch"]
        assert spec["resume"] is None
        trash = stage.pod.project / ".bs4" / "demo" / "trash" / action.key
        assert len(list(trash.rglob("*.distcp"))) == len(before)
        assert journals.problems(stage.pod.home, tmp_path) == []
