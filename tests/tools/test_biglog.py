"""The big log's benchmark says what ended, where a screen would be waited for in vain."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from benchmarks import biglog

from bs4_agent.paths import Home


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "trainer.log"
    biglog.make_log(path, 100)
    return path


def test_an_agent_that_ends_by_itself_is_said_with_its_exit_code_and_last_words(
    tmp_path: Path, log: Path
) -> None:
    home = Home(tmp_path / "home")
    with biglog.agent(home, log) as running:
        running.check()
        with biglog.said_by(home, "agent").open("ab") as said:
            said.write(b"no room\n")
        running._process.kill()
        running._process.wait()
        with pytest.raises(SystemExit, match="exit code -9: no room"):
            running.check()


def test_a_console_that_loses_its_agent_is_said(tmp_path: Path, log: Path) -> None:
    home = Home(tmp_path / "home")

    async def lose() -> None:
        session = biglog.BenchSession(home)
        async with asyncio.timeout(30):
            await session.run()

    with biglog.agent(home, log) as running:
        home.agent_record.rename(tmp_path / "agent.json")
        asyncio.run(lose())
        with pytest.raises(
            SystemExit, match="the console lost the agent: bs4-agent: no agent runs on this pod"
        ):
            running.check()
