"""An agent whose home is removed ends soon, writes nothing more and leaves processes alone."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bs4_agent.lifecycle import home_watch
from bs4_agent.lifecycle.attach import live
from bs4_agent.lifecycle.home_watch import HomeWatch
from bs4_agent.paths import Home
from tests.agent.streams.tiny import until

SCRIPT = Path(__file__).with_name("real_agent.py")


class Agent:
    """A real agent in a process of its own, which sees only what this test started."""

    def __init__(self, root: Path, look_s: float) -> None:
        self.home = Home(root)
        environment = {
            **os.environ,
            "BS4_HOME": str(root),
            "BS4_SCOPE_ROOT": str(os.getpid()),
            "BS4_DEV": str(root.parent),
        }
        self.process = subprocess.Popen(
            [sys.executable, str(SCRIPT), str(look_s)], env=environment, stderr=subprocess.PIPE
        )
        until(self.listens, "the agent listens")

    def listens(self) -> bool:
        connection = live(self.home)
        if connection is None:
            return False
        connection.close()
        return True

    def end(self) -> tuple[int, float, str]:
        """Return its exit code, the seconds until it ended, and what it printed."""
        began = time.monotonic()
        _, err = self.process.communicate(timeout=60)
        return self.process.returncode, time.monotonic() - began, err.decode()

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate()


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Agent]:
    made = Agent(tmp_path / "home", 0.2)
    yield made
    made.close()


def test_an_agent_ends_when_its_home_is_removed(agent: Agent) -> None:
    bystander = subprocess.Popen(["sleep", "600"])
    try:
        # What the agent writes meanwhile may keep a directory from being removed at once.
        until(lambda: _removed(agent.home.root), "the home is removed")
        code, seconds, said = agent.end()
        print(f"the agent ended {seconds:.2f} s after its home, looking each 0.2 s")
        assert code == 0
        assert seconds < 40
        assert said.splitlines()[-1] == (
            f"bs4-agent: {agent.home.root} is not this agent's home any more; it ends."
        )
        assert "Traceback" not in said
        assert not agent.home.root.exists(), "nothing is written where the home was"
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


@pytest.mark.parametrize("again", [False, True], ids=["empty", "a new id"])
def test_an_agent_ends_when_its_home_is_emptied(agent: Agent, again: bool) -> None:
    """The directory itself stays. What a console asks in between may make a new id in it."""
    before = agent.home.root.stat().st_ino
    if again:
        agent.home.id_file.write_text("0" * 26)
    else:
        for path in agent.home.root.iterdir():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
    code, seconds, said = agent.end()
    assert (code, "Traceback" in said) == (0, False)
    assert seconds < 40
    assert "is not this agent's home any more; it ends." in said
    assert agent.home.root.stat().st_ino == before


def test_an_agent_ends_when_another_home_takes_the_place(agent: Agent, tmp_path: Path) -> None:
    """The journal of the home that was moved away gets no `stopped`, and the new one nothing."""
    moved = tmp_path / "moved"
    agent.home.root.rename(moved)
    Home(agent.home.root).create()
    code, _, said = agent.end()
    assert (code, "Traceback" in said) == (0, False)
    left = {path for path in agent.home.root.rglob("*") if path.is_file()}
    assert left == set()
    events = []
    for path in sorted((moved / "state" / "journal").iterdir()):
        for line in path.read_text().splitlines():
            events.append(json.loads(line).get("event"))
    assert "started" in events
    assert "stopped" not in events


def test_an_agent_whose_home_stays_runs_on_and_ends_as_ever(agent: Agent) -> None:
    assert agent.process.poll() is None
    until(agent.listens, "it serves")
    agent.process.terminate()
    code, _, said = agent.end()
    assert (code, said) == (0, "")
    assert json.loads(agent.home.agent_record.read_text())["event"] == "stopped"


def test_the_pauses_add_up_to_less_than_the_minute_that_is_promised() -> None:
    assert home_watch.LOOK_S * home_watch.MISSED <= 45


def test_a_directory_that_is_moved_and_back_is_not_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(home_watch, "LOOK_S", 0.0)
    home, away = tmp_path / "home", tmp_path / "away"
    home.mkdir()
    watch = HomeWatch(Home(home))
    stop = threading.Event()

    class Looking(threading.Event):
        """Moves the home away before the first look and back before the second; four looks."""

        count = 0

        def wait(self, timeout: float | None = None) -> bool:
            self.count += 1
            if self.count == 1:
                home.rename(away)
            elif self.count == 2:
                away.rename(home)
            return self.count > 4

    watch.run(Looking(), stop.set)
    assert not watch.gone
    assert not stop.is_set()


def test_a_new_directory_is_another_one_although_inode_numbers_come_again(tmp_path: Path) -> None:
    home = tmp_path / "home"
    for _ in range(20):
        home.mkdir()
        watch = HomeWatch(Home(home))
        assert not watch.missing()
        shutil.rmtree(home)
        assert watch.missing()
        home.mkdir()
        (home / "id").write_text(watch._id)
        assert watch.missing()
        shutil.rmtree(home)
        os.close(watch._fd)


def test_a_home_that_cannot_be_looked_at_is_not_gone(tmp_path: Path) -> None:
    """A name that is too long stands for a file server that fails: the error is no ENOENT."""
    home = tmp_path / "home"
    home.mkdir()
    watch = HomeWatch(Home(home))
    watch._home = Home(tmp_path / ("x" * 300))
    assert not watch.missing()


def _removed(root: Path) -> bool:
    shutil.rmtree(root, ignore_errors=True)
    return not root.exists()
