"""Runs on practice pods, for tests: started as a person would, read from the logs that they
write.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import shlex
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from bs4_practice import faults
from bs4_practice.pod import Completed, PracticePod
from bs4_practice.tree import Process

GENERATIONS = ("2026-01", "current")
SAMPLES = Path(__file__).resolve().parents[3] / "../shared/corpus/prime-rl-samples"

ANSI = re.compile(r"\x1b\[[0-9;]*m")

#: Twenty steps a second, and the seconds of the real programs twenty times as fast.
QUICK = {"step_seconds": 0.05, "engine_seconds": 0.1, "pace": 0.05}

#: Inference is the slower side, as in most real runs, and the second half of a batch is generated
#: after the first. Each half takes over 0.1 s: tqdm does not draw a bar again before.
SLOW_INFERENCE = {"BS4_MINIATURE_GENERATION_STEPS": "3", "BS4_MINIATURE_SEQUENCES": "4"}

Start = Callable[..., AbstractAsyncContextManager[PracticePod]]


class Run:
    """A run started through SSH in a session of its own, as in tmux; `ended` has its exit code."""

    def __init__(self, on: PracticePod, *extra: str, config: str = "configs/rl.toml") -> None:
        self.pod = on
        self.log = on.home / f"launcher-{time.monotonic_ns()}.log"
        line = (
            f"exec {shlex.join(on.launch_command(*extra, config=config))} > "
            f"{shlex.quote(str(self.log))} 2>&1"
        )
        self.ended: asyncio.Task[Completed] = asyncio.create_task(
            on.run(["sh", "-c", line], cwd=on.project, timeout=600)
        )

    async def __aenter__(self) -> Run:
        return self

    async def __aexit__(self, *error: object) -> None:
        self.ended.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self.ended

    async def code(self, timeout: float = 60.0) -> int | None:
        done = await asyncio.wait_for(asyncio.shield(self.ended), timeout)
        return done.exit_status

    @property
    def text(self) -> str:
        return ANSI.sub("", self.log.read_text()) if self.log.exists() else ""

    async def says(self, part: str, timeout: float = 60.0) -> None:
        await faults.until(
            lambda: part in self.text,
            timeout,
            lambda: f"{part!r} in {self.log}; it has:\n{self.text[-2000:]}",
        )


def logs(on: PracticePod) -> Path:
    """Where the newest attempt logs."""
    return on.output_dir / "logs" if on.generation == "2026-01" else on.run_dir / "logs" / "latest"


def log_text(on: PracticePod, source: str) -> str:
    path = logs(on) / f"{source}.{'stdout' if on.generation == '2026-01' else 'log'}"
    try:
        return ANSI.sub("", path.read_text())
    except FileNotFoundError:  # not yet, or a new launch has just cleaned it
        return ""


async def held_at(process: Process, moment: Callable[[], bool], what: str) -> None:
    """Stop `process` with SIGSTOP at a moment that lasts as long as it stands still. If the moment
    was over before that, let it go on and wait for the next one.
    """
    while True:
        await faults.until(moment, 60, what)
        assert faults.pause(process)
        if moment():
            return
        assert faults.resume(process)


async def half_a_batch(on: PracticePod, engine: Process) -> None:
    """Until half of the orchestrator's present batch has come (2026-01 draws a bar), and the other
    half is being generated; `engine` is stopped then, so that it does not come.
    """
    drawn = re.compile(r"Generating rollouts \(train\): +50%[^\r\n]*\Z")
    await held_at(
        engine, lambda: drawn.search(log_text(on, "orchestrator")) is not None, "half a batch"
    )


async def trained(on: PracticePod, step: int, timeout: float = 60.0) -> None:
    """Until the trainer has finished `step`."""
    await faults.until(
        lambda: re.search(rf"SUCCESS Step {step} \|", log_text(on, "trainer")) is not None,
        timeout,
        lambda: f"trainer step {step}; its log:\n{log_text(on, 'trainer')[-1500:]}",
    )
