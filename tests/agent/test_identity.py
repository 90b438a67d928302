from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import replace

import pytest

from bs4_common.identity import Identity, stat_fields
from tests.agent.runs.practice import until


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(["sleep", "60"])
    yield process
    process.kill()
    process.wait()


def test_a_live_process_has_one_identity_and_it_survives_a_round_trip(
    sleeper: subprocess.Popen[bytes],
) -> None:
    identity = Identity.of(sleeper.pid)
    assert identity is not None
    assert identity.alive()
    assert Identity.of(sleeper.pid) == identity == Identity.from_dict(identity.as_dict())


def test_a_pid_that_nobody_has_is_nobody() -> None:
    process = subprocess.Popen(["true"])
    process.wait()
    assert Identity.of(process.pid) is None


def test_a_signal_reaches_the_process_that_was_named(sleeper: subprocess.Popen[bytes]) -> None:
    identity = Identity.of(sleeper.pid)
    assert identity is not None
    assert identity.send(signal.SIGTERM)
    assert sleeper.wait(60) == -signal.SIGTERM
    assert not identity.alive()
    assert not identity.send(signal.SIGTERM)


@pytest.mark.parametrize("other", [{"start_ticks": 1}, {"boot_id": "another boot"}, {"pidns": 1}])
def test_another_life_of_the_same_pid_is_neither_alive_nor_signalled(
    sleeper: subprocess.Popen[bytes], other: dict[str, object]
) -> None:
    identity = Identity.of(sleeper.pid)
    assert identity is not None
    stale = replace(identity, **other)  # type: ignore[arg-type]
    assert not stale.alive()
    assert not stale.send(signal.SIGKILL)
    assert sleeper.poll() is None


def test_a_zombie_has_ended() -> None:
    process = subprocess.Popen(["true"])
    identity = Identity.of(process.pid)
    assert identity is not None
    until(lambda: (stat_fields(process.pid) or [""])[0] == "Z")
    assert not identity.alive()
    assert not identity.send(signal.SIGKILL)
    process.wait()


def test_a_name_with_parentheses_and_spaces_is_read_right() -> None:
    named, stop = threading.Event(), threading.Event()
    found: list[list[str] | None] = []

    def be_named() -> None:
        with open("/proc/thread-self/comm", "w") as comm:
            comm.write(") Z 1 (x")
        found.append(stat_fields(threading.get_native_id()))
        named.set()
        stop.wait()

    thread = threading.Thread(target=be_named)
    thread.start()
    named.wait(5)
    stop.set()
    thread.join()
    assert found[0] is not None
    assert found[0][0] == "R"
    assert int(found[0][1]) == os.getppid()
