"""Who descends from a shim, where the kernel gives a pid a second time."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from bs4_agent.runs.descent import Descendants, Process
from tests.agent.runs.practice import until

_PARENT = (
    "import subprocess, sys\np = subprocess.Popen(['sleep', '600'])\nprint(p.pid, flush=True)\n"
    "sys.stdin.read()\np.kill()\np.wait()\n"
)


@pytest.fixture
def family() -> Iterator[tuple[int, int]]:
    """The pids of a process and of its child."""
    with subprocess.Popen(
        [sys.executable, "-c", _PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        yield parent.pid, int(parent.stdout.readline())
        assert parent.stdin is not None
        parent.stdin.close()


@pytest.fixture
def childless() -> Iterator[int]:
    """The pid of a process without children."""
    with subprocess.Popen(["sleep", "600"]) as alone:
        yield alone.pid
        alone.kill()


def test_the_child_of_a_stranger_with_the_pid_of_one_of_ours_is_no_descendant(
    family: tuple[int, int], childless: int
) -> None:
    stranger, its_child = family
    ours = Descendants(childless)
    until(lambda: Process.of(stranger))
    now = Process.of(stranger)
    assert now is not None
    ours.known[stranger] = Process(
        now.state, childless, now.ticks - 100, now.comm, "one of ours, which has died since"
    )
    ours.scan(everything=False)
    assert ours.known == {}
    ours.scan(everything=False)
    assert its_child not in ours.known


def test_the_child_of_one_of_ours_is(family: tuple[int, int], childless: int) -> None:
    member, its_child = family
    ours = Descendants(childless)
    found = Process.of(member)
    assert found is not None
    ours.known[member] = found
    ours.scan(everything=False)
    assert set(ours.known) == {member, its_child}
