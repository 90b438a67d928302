from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bs4_agent.checkpoints import sync
from bs4_practice.b2.server import B2Server
from tests.agent.checkpoints.remote.bench import Bench
from tests.agent.checkpoints.remote.syncing import Agent


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


@pytest.fixture
def agent(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Iterator[Agent]:
    monkeypatch.setattr(sync, "LOOK_S", 0.1)
    monkeypatch.setattr(sync, "BACK_OFF_S", (0.2, 0.2, 0.2, 0.2, 0.5))
    monkeypatch.setenv("BS4_B2_REALM", bench.server.url)
    made = Agent(bench)
    made.start()
    yield made
    made.end()
    made.stream.close()
