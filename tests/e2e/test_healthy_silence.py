"""A healthy practice run of the current generation raises nothing, and a real leak raises one
incident.

Its rollouts are programs with a key in their command line, as the real ones are. BS4_SILENT_S sets
for how many seconds the run is watched, 60 unless it is set; the long round takes five minutes.
"""

from __future__ import annotations

import asyncio
import json
import os
import time

import pytest

from bs4_practice.pod import PracticePod
from bs4_practice.scenarios import advance
from bs4_practice.stage import Stage, staged

SILENT_S = float(os.environ.get("BS4_SILENT_S") or 60)
ROUND_S = 300.0
#: The form of a W&B key and of nothing that exists.
WANDB_KEY = "5f" * 20


def keys(pod: PracticePod) -> set[str]:
    """Return the keys in the command lines of the pod's processes."""
    words = [word for process in pod.processes() for word in process.cmdline]
    return {word.partition("=")[2] for word in words if word.startswith("--api-key=")}


def journals(pod: PracticePod) -> bytes:
    """Return all that the agent has written into its journal."""
    files = [
        path for path in (pod.home / ".bs4").rglob("*") if path.is_file() and "journal" in str(path)
    ]
    assert files
    return b"".join(path.read_bytes() for path in files)


async def watch(stage: Stage, seconds: float) -> set[str]:
    """Look for `seconds`, fail at the first incident, and return every key that was seen."""
    seen: set[str] = set()
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        seen |= keys(stage.pod)
        raised = [(one.failure, one.summary) for one in stage.ledger.incidents.values()]
        assert raised == []
        await asyncio.sleep(0.2)
    return seen


async def silent(seconds: float) -> None:
    """Watch a healthy run for `seconds`; fail unless it trains, starts programs and raises
    nothing.
    """
    async with staged("prime-rl", step_seconds=1.0, pace=1.0) as stage:
        await stage.launch()
        await advance(stage, "demo", 3)
        before = len(stage.steps())
        seen = await watch(stage, seconds)
        steps = len(stage.steps()) - before
        print(f"{seconds:.0f} s: {steps} steps, {len(seen)} programs seen, no incident")
        assert steps > seconds / 10
        assert len(seen) > seconds / 10
        written = journals(stage.pod)
        assert not [key for key in seen if key.encode() in written]


@pytest.mark.long
@pytest.mark.beside
@pytest.mark.timeout(SILENT_S + 300)
async def test_a_healthy_run_of_current_is_silent() -> None:
    await silent(SILENT_S)


@pytest.mark.rounds
@pytest.mark.timeout(ROUND_S + 300)
async def test_a_healthy_run_of_current_is_silent_for_five_minutes() -> None:
    await silent(ROUND_S)


@pytest.mark.long
@pytest.mark.beside
async def test_a_real_key_in_a_command_line_is_one_incident() -> None:
    """A person starts the run by hand with a W&B key among the words, which `uv` keeps for all to
    read.
    """
    async with staged("prime-rl", step_seconds=1.0, pace=1.0) as stage:
        command = stage.pod.launch_command("--env-vars.WANDB_API_KEY", WANDB_KEY)
        await stage.pod.spawn(command)
        incident = await stage.incident("secrets-exposed", 60.0)
        await advance(stage, incident.run, 8)
        found = [one for one in stage.ledger.incidents.values() if one.failure == "secrets-exposed"]
        assert [one.id for one in found] == [incident.id]
        assert found[0].state == "open"
        assert "W&B key" in incident.summary
        assert WANDB_KEY not in incident.summary + json.dumps(incident.evidence)
