"""A wait ends when a watched process does, or when somebody rings; nobody is told of twice."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bs4_agent.observe.alarm import Alarm
from bs4_common.identity import Identity

LONG = 20.0


@pytest.fixture
def alarm() -> Iterator[Alarm]:
    one = Alarm()
    yield one
    one.close()


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(100)"]) as one:
        yield one
        one.kill()


def identity(process: subprocess.Popen[bytes]) -> Identity:
    found = Identity.of(process.pid)
    assert found is not None
    return found


def test_the_end_of_a_process_ends_the_wait_and_is_told_once(
    alarm: Alarm, process: subprocess.Popen[bytes]
) -> None:
    who = identity(process)
    alarm.watch({who})
    threading.Timer(0.1, process.kill).start()
    begun = time.monotonic()
    assert alarm.wait(LONG) == (False, [who])
    assert time.monotonic() - begun < LONG / 2
    alarm.watch({who})
    assert alarm.wait(0.0) == (False, [])


def test_ringing_ends_the_wait_once(alarm: Alarm) -> None:
    for _ in range(3):
        alarm.ring()
    assert alarm.wait(LONG) == (True, [])
    assert alarm.wait(0.0) == (False, [])


def test_who_is_not_watched_any_more_is_not_told_of(
    alarm: Alarm, process: subprocess.Popen[bytes]
) -> None:
    alarm.watch({identity(process)})
    alarm.watch(set())
    process.kill()
    process.wait()
    assert alarm.wait(0.05) == (False, [])


def test_a_pid_that_is_another_process_now_is_not_watched(
    alarm: Alarm, process: subprocess.Popen[bytes]
) -> None:
    who = identity(process)
    alarm.watch({Identity(who.pid, who.start_ticks + 1, who.boot_id, who.pidns)})
    process.kill()
    process.wait()
    assert alarm.wait(0.05) == (False, [])


def test_a_ring_is_never_waited_for(alarm: Alarm) -> None:
    for _ in range(100_000):
        alarm.ring()
    assert alarm.wait(LONG)[0]


def descriptors() -> int:
    """Count what this process has open, once what other tests have left is collected."""
    gc.collect()
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def test_closing_leaves_no_descriptor(process: subprocess.Popen[bytes]) -> None:
    before = descriptors()
    one = Alarm()
    one.watch({identity(process)})
    assert descriptors() == before + 3
    one.close()
    assert descriptors() == before
