"""A person removes the agent's directory from a pod: the agent ends within a minute, its bridges
end with it, and the run trains on.
"""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import psutil
import pytest

from tests.agent.streams.tiny import until
from tests.console.cli.conftest import practising
from tests.e2e import journals

pytestmark = [pytest.mark.long, pytest.mark.beside]

#: Seconds within which an agent without a home has to be gone.
PROMISED_S = 60.0


@pytest.mark.timeout(600)
def test_an_agent_without_a_home_is_gone_within_a_minute() -> None:
    with practising("prime-rl-2026-01", "pod-h") as on:
        assert on.launch().code == 0
        home = on.pod.home / ".bs4"
        agent = psutil.Process(journals.agents(on.pod.home)[-1])
        following = on.console.start("logs", "demo", "--pod", "pod-h", "--follow")
        until(lambda: _bridges(on.pod.pid), "a bridge")
        trainers = _running(on.pod.pid, "rl")
        log = max(on.pod.run_dir.rglob("*.log"), key=lambda path: path.stat().st_size)

        until(lambda: _removed(home), "the home is removed")
        began, size = time.monotonic(), log.stat().st_size
        until(lambda: not agent.is_running(), "the agent has ended", PROMISED_S)
        print(f"the agent ended {time.monotonic() - began:.1f} s after its home was removed")
        until(lambda: not _bridges(on.pod.pid), "the bridges have ended")
        following.kill()
        following.communicate()

        assert trainers, "the run was found before"
        assert all(process.is_running() for process in trainers)
        until(lambda: log.stat().st_size > size, "the run trains on")
        assert not home.exists()


def _bridges(pod: int) -> list[psutil.Process]:
    """Return the processes of the pod that bridge a channel to the agent."""
    return _running(pod, "attach")


def _running(pod: int, word: str) -> list[psutil.Process]:
    """Return the processes below `pod` that have `word` in their command line, zombies left out."""
    found = []
    for process in psutil.Process(pod).children(recursive=True):
        try:
            if word in process.cmdline() and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.NoSuchProcess:
            continue  # it has just ended
    return found


def _removed(home: Path) -> bool:
    shutil.rmtree(home, ignore_errors=True)
    return not home.exists()
