"""A start that hangs is seen by the launch that waits for it, and stopped while it waits, by the
commands that a person types.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

from bs4_agent.actions.stops import STEP_S
from bs4_console.pods.state import IncidentView
from bs4_practice import faults
from bs4_practice.stage import Stage, staged
from tests.console.cli.conftest import Console, Result
from tests.e2e import journals
from tests.e2e.killing import at, kill_agent_at

pytestmark = [pytest.mark.beside, pytest.mark.long]

TRAINER = "prime-rl"
#: The engine would load for half a minute, in which its worker is paused; what detectors call too
#: long is a 250th of the real time.
SETTINGS: dict[str, Any] = {"engine_seconds": 30.0, "pace": 0.004}


class Launch:
    """A `launch` in a process of its own whose output is read as it comes."""

    def __init__(self, console: Console, pod: str, *words: str) -> None:
        start = (
            "launch",
            "configs/rl.toml",
            "--pod",
            pod,
            "--run",
            "demo",
            "--trainer",
            TRAINER,
            "--yes",
            "--no-preflight",
        )
        self.process = console.start(*start, *words)
        self.out, self.err = "", ""
        self._readers = [
            threading.Thread(target=self._read, args=(name,), daemon=True)
            for name in ("out", "err")
        ]
        for reader in self._readers:
            reader.start()

    def _read(self, name: str) -> None:
        pipe = self.process.stdout if name == "out" else self.process.stderr
        assert pipe is not None
        for line in pipe:
            setattr(self, name, getattr(self, name) + line.decode())

    async def ended(self) -> int:
        code = await asyncio.to_thread(self.process.wait, 120)
        for reader in self._readers:
            await asyncio.to_thread(reader.join, 30)
        return code

    def objects(self, schema: str) -> list[dict[str, Any]]:
        found = [json.loads(line) for line in self.out.splitlines() if line.startswith("{")]
        return [one for one in found if one["schema"] == f"bs4.{schema}/1"]


def known_to(stage: Stage, directory: Path) -> Console:
    """A console of its own that knows the pod."""
    console = Console(directory)
    console.add(
        stage.pod.name,
        stage.pod.host,
        stage.pod.port,
        stage.pod.user,
        stage.pod.key_path,
        stage.pod.known_host_key,
    )
    return console


async def hang(stage: Stage) -> None:
    """Pause the orchestrator, which would give up, and the engine's worker while it loads: nothing
    moves, and nothing ends by itself.
    """
    for component in ("orchestrator", "worker"):
        faults.pause((await faults.wait_for(stage.pod, component, timeout=120))[0])


async def stop(console: Console, pod: str) -> Result:
    return await asyncio.to_thread(
        console, "stop", "--pod", pod, "--run", "demo", "--confirm", "demo"
    )


@pytest.mark.timeout(600)
async def test_a_start_that_hangs_is_seen_and_stopped_while_launch_waits(tmp_path: Path) -> None:
    async with staged(TRAINER, **SETTINGS) as stage:
        name, console = stage.pod.name, known_to(stage, tmp_path)
        launch = Launch(console, name)
        try:
            await hang(stage)
            found = (await stage.until(lambda: critical(stage), 300, "a critical incident"))[0]
            said = f"critical on demo: {found.title} ({found.failure})."
            await stage.until(
                lambda: said in launch.err and "is accepted now" in launch.err,
                60,
                "the incident where launch waits",
            )
            assert launch.process.poll() is None, (launch.out, launch.err)
            assert f"`bs4-console stop --pod {name} --run demo` is accepted now" in launch.err
            stopped = await stop(console, name)
            assert stopped.code == 0, stopped
            assert "would end the launch by tester" in stopped.out
            assert await launch.ended() == 1, (launch.out, launch.err)
        finally:
            end(launch.process)
        assert "The start of demo was ended early: cancelled by tester" in launch.out
        assert launch.err.count(f"({found.failure})") == 1, "each incident once"
        told = [r for r in journals.records(stage.pod.home) if r["type"] == "action"]
        accepted = next(r for r in told if r.get("kind") == "stop")
        cancel = next(r for r in told if r["event"] == "cancel")
        interrupted = next(r for r in told if r["event"] == "interrupted")
        assert cancel["stop"] == accepted["action"]
        assert interrupted["t"] - accepted["t"] < STEP_S


@pytest.mark.timeout(600)
async def test_an_agent_killed_after_the_cancel_stops_and_does_not_go_on_waiting(
    tmp_path: Path,
) -> None:
    async with staged(TRAINER, **SETTINGS) as stage:
        console = known_to(stage, tmp_path)
        launch = Launch(console, stage.pod.name, "--json")
        try:
            await hang(stage)
            waits = await stage.until(lambda: waiting(stage), 120, "the launch that waits")
            killing = asyncio.create_task(kill_agent_at(stage, lambda: waits, at("cancel")))
            key = await stage.session.submit("stop", run="demo")
            await killing
            async with asyncio.timeout(180):
                async for action in stage.session.follow_action(key):
                    last = action
            assert last.state == "done", last.detail
            assert await launch.ended() == 1
        finally:
            end(launch.process)
        assert len(journals.agents(stage.pod.home)) == 2
        end_of_launch = launch.objects("action")[-1]
        assert (end_of_launch["state"], end_of_launch["result"]["error"]) == (
            "interrupted",
            "cancelled",
        )
        await stage.until(
            lambda: stage.session.state.runs["demo"].view.attempt.ended_t is not None,
            60,
            "the end of the attempt",
        )
        assert len(stage.session.state.runs["demo"].view.attempts) == 1


def critical(stage: Stage) -> list[IncidentView]:
    return [
        incident
        for incident in stage.ledger.open_incidents("demo")
        if incident.severity == "critical"
    ]


def waiting(stage: Stage) -> str:
    """The key of a launch that waits for its first step, "" while there is none."""
    for action in stage.session.state.ledger.actions.values():
        if action.kind == "launch" and action.steps and action.steps[-1].state == "running":
            return str(action.key)
    return ""


def end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.kill()
    process.wait(30)
