"""Practice pods for tests: short paths, quick trainers, and nothing left running."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from bs4_practice import pod, tree
from bs4_practice.pod import PracticePod
from tests.practice.running import QUICK, Start


@pytest.fixture
def short_dir() -> Iterator[Path]:
    """A directory with a path short enough for unix sockets below it."""
    path = Path(tempfile.mkdtemp(prefix="bs4-"))
    yield path
    shutil.rmtree(path)


@pytest.fixture
def start(short_dir: Path) -> Start:
    """`async with start(generation, ...) as pod`; the pod is ended, and that nothing of it is left
    is checked.
    """

    @contextlib.asynccontextmanager
    async def started(
        generation: str, name: str = "", **settings: Any
    ) -> AsyncIterator[PracticePod]:
        name = name or f"p{generation[:2]}"
        running = await pod.start(name, generation, short_dir / name, **{**QUICK, **settings})
        try:
            yield running
        finally:
            members = running.processes()
            await running.stop()
            assert not [process for process in members if tree.alive(process)]

    return started
