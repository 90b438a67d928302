"""kill -9 of the console in the middle of a recovery: the pod goes on, and the next console sees
how it ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.playing import Broken, broken

PROGRAM = Path(__file__).with_name("console_process.py")


@contextlib.asynccontextmanager
async def console(
    pod: Broken, mirror: Path, *, submit: dict[str, Any] | None = None, follow: str | None = None
) -> AsyncIterator[Any]:
    """A console process on the pod; killed at the latest when the block ends."""
    practice = pod.stage.pod
    order = {
        "name": practice.name,
        "host": practice.host,
        "port": practice.port,
        "user": practice.user,
        "key_path": str(practice.key_path),
        "known_hosts": str(practice.root.parent / "known_hosts"),
        "mirror": str(mirror),
        "submit": submit,
        "follow": follow,
    }
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(PROGRAM), json.dumps(order), stdout=asyncio.subprocess.PIPE
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def says(process: Any, wanted: Any, timeout: float = 120.0) -> list[dict[str, Any]]:
    """The lines of a console up to the first that is `wanted`."""
    lines: list[dict[str, Any]] = []
    async with asyncio.timeout(timeout):
        while not lines or not wanted(lines[-1]):
            raw = await process.stdout.readline()
            assert raw, f"the console ended after {lines[-3:]}"
            lines.append(json.loads(raw))
    return lines


@pytest.mark.long
@pytest.mark.beside
@pytest.mark.timeout(600)
@pytest.mark.parametrize("moment", ["accepted", "step 2"])
async def test_the_next_console_sees_the_recovery_that_the_killed_one_began(
    moment: str, tmp_path: Path
) -> None:
    async with broken("step-desync/resume-ahead", "prime-rl-2026-01") as pod:
        mirror = tmp_path / "mirror"
        async with console(pod, mirror, submit=pod.body()) as first:
            key = (await says(first, lambda line: "accepted" in line))[-1]["accepted"]
            if moment == "step 2":
                await says(first, lambda line: "steps" in line and line["steps"][2] != "waiting")
            first.kill()
            assert await first.wait() == -9

        async with console(pod, mirror, follow=key) as second:
            told = await says(second, lambda line: line.get("state") == "done", 240)
        assert told[-1]["result"]["recovered"] is True
        assert set(told[-1]["steps"]) <= {"done", "skipped"}
        assert told[-1]["who"] == "victim"
        assert (mirror / "journal").exists() or list(mirror.rglob("journal")), (
            "the first console kept nothing"
        )
        records = pod.check_recovered(key, tmp_path)
        assert {r["who"] for r in records if r["event"] == "accepted"} == {"victim"}
