"""What a practice pod, its run, its agent and its bridges started is gone when its stage closes."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from bs4_practice.stage import staged
from tests.support.processes import of_directory


@pytest.mark.long
@pytest.mark.beside
async def test_nothing_of_a_stage_outlives_it() -> None:
    async with staged("prime-rl") as stage:
        root = stage.pod.root.parent
        await stage.launch()
        running = of_directory(root)
        # the pod, its agent, the bridge of our session, the shim and the trainer's processes
        assert len(running) > 8, running
        assert {"attach", "rl"} <= {word for argv in running.values() for word in argv}
    async with asyncio.timeout(60):
        while left := of_directory(root):
            await asyncio.sleep(0.05)
    assert not left
    assert not Path(root).exists()


@pytest.mark.long
@pytest.mark.beside
async def test_nothing_of_a_stage_outlives_a_test_that_fails() -> None:
    with pytest.raises(ZeroDivisionError):
        async with staged("prime-rl-2026-01") as stage:
            root = stage.pod.root.parent
            await stage.launch()
            raise ZeroDivisionError
    async with asyncio.timeout(60):
        while of_directory(root):
            await asyncio.sleep(0.05)
