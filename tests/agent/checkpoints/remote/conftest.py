from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bs4_console.demo.b2.server import B2Server
from tests.agent.checkpoints.remote.bench import Bench


@pytest.fixture
def server(tmp_path: Path) -> Iterator[B2Server]:
    with B2Server(tmp_path / "b2") as server:
        yield server


@pytest.fixture(params=["old", "new"])
def both(request: pytest.FixtureRequest, tmp_path: Path, server: B2Server) -> Bench:
    """Each generation in turn."""
    return Bench(tmp_path, server, request.param)


@pytest.fixture
def bench(tmp_path: Path, server: B2Server) -> Bench:
    return Bench(tmp_path, server)
