"""A log that grows ends the wait of its reader, and no watch stays behind."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from bs4_agent.daemon import Daemon
from bs4_agent.runs.growth import Growth

#: Seconds; a wait that takes them all has failed.
LONG_S = 60.0


@pytest.fixture
def growth() -> Iterator[Growth]:
    made = opened()
    yield made
    made.close()


def opened() -> Growth:
    """Return one that has an instance of inotify, of which the kernel gives a user 128."""
    made = Growth()
    if made._fd < 0:
        pytest.skip("the kernel has no instance of inotify left for this user")
    return made


def add(path: Path, text: str = "a line\n") -> None:
    with path.open("a") as handle:
        handle.write(text)


def watches(growth: Growth) -> int:
    """How many watches the kernel holds."""
    return Path(f"/proc/self/fdinfo/{growth._fd}").read_text().count("inotify wd:")


def test_a_line_ends_the_wait_once(growth: Growth, tmp_path: Path) -> None:
    log = tmp_path / "trainer.log"
    add(log)
    growth.watch([str(log)])
    assert not growth.wait(0.0)
    add(log)
    add(log)
    assert growth.wait(LONG_S)
    assert not growth.wait(0.0)


def test_what_is_written_between_two_waits_is_not_missed(growth: Growth, tmp_path: Path) -> None:
    log = tmp_path / "trainer.log"
    add(log)
    growth.watch([str(log)])
    add(log)
    growth.watch([str(log)])
    assert growth.wait(LONG_S)


def test_a_cut_log_wakes_and_a_deleted_one_does_not_wake_for_ever(
    growth: Growth, tmp_path: Path
) -> None:
    log = tmp_path / "trainer.log"
    add(log)
    growth.watch([str(log)])
    os.truncate(log, 0)
    assert growth.wait(LONG_S)
    log.unlink()
    growth.watch([str(log)])
    growth.wait(LONG_S)
    assert not growth.wait(0.0)
    growth.watch([str(log)])
    assert not growth.wait(0.0)
    assert watches(growth) == 0


def test_watches_end_with_the_files_that_are_named(growth: Growth, tmp_path: Path) -> None:
    logs = [tmp_path / f"{number}.log" for number in range(200)]
    for log in logs:
        add(log)
    growth.watch([str(log) for log in logs])
    assert watches(growth) == 128
    growth.watch([str(logs[0])])
    assert watches(growth) == 1
    growth.watch([])
    assert watches(growth) == 0


def test_every_descriptor_is_closed() -> None:
    made = opened()
    descriptor = Path(f"/proc/self/fd/{made._fd}")
    assert descriptor.resolve().name == "anon_inode:inotify"
    made.close()
    made.close()
    assert descriptor.resolve().name != "anon_inode:inotify"


def test_without_inotify_a_wait_takes_its_time(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    class NoInotify:
        def inotify_init1(self, flags: int) -> int:
            return -1

    monkeypatch.setattr("bs4_agent.runs.growth.ctypes.CDLL", lambda *given, **known: NoInotify())
    made = Growth()
    log = tmp_path / "trainer.log"
    add(log)
    made.watch([str(log)])
    add(log)
    assert not made.wait(0.01)
    made.close()


def test_the_agent_reads_a_line_long_before_its_next_look_is_due(tmp_path: Path) -> None:
    opened().close()
    log = tmp_path / "trainer.log"
    add(log)
    stop, polled = threading.Event(), threading.Event()

    def poll(*, grown: bool) -> None:
        assert grown
        polled.set()
        stop.set()

    follower = SimpleNamespace(
        least_pause_s=0.0, pause_s=2 * LONG_S, growing=lambda: [str(log)], poll=poll
    )
    nothing = SimpleNamespace(poll=lambda: None)
    daemon = SimpleNamespace(follower=follower, _kernel=nothing, _wandb=nothing)
    thread = threading.Thread(target=Daemon._follow, args=(cast(Daemon, daemon), stop), daemon=True)
    thread.start()
    for _ in range(int(LONG_S * 10)):
        add(log)
        if polled.wait(0.1):
            break
    assert polled.is_set()
    thread.join(LONG_S)
    assert not thread.is_alive()
