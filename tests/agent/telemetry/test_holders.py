"""Who has a GPU open, with real processes and device files in a directory of our own."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from bs4_agent.scope import Scope
from bs4_agent.telemetry import holders
from bs4_agent.telemetry.processes import ProcessTable
from tests.agent.telemetry.conftest import Child


def test_minor_numbers_by_open_files(scope: Scope, dev: Path, hold: Callable[..., Child]) -> None:
    two = hold(dev / "nvidia0", dev / "nvidia2", dev / "nvidia-uvm")
    control = hold(dev / "nvidiactl")
    nothing = hold(dev / "nvidia-modeset")
    table = ProcessTable(scope)
    table.refresh()
    found = table.holders(dev)
    assert found == {two.pid: {0, 2}, control.pid: set()}
    assert nothing.pid not in found


def test_a_device_directory_behind_a_link(
    scope: Scope, dev: Path, tmp_path: Path, hold: Callable[..., Child]
) -> None:
    (tmp_path / "linked").symlink_to(dev)
    child = hold(dev / "nvidia1")
    table = ProcessTable(scope)
    table.refresh()
    assert table.holders(tmp_path / "linked") == {child.pid: {1}}


def test_a_holder_that_ends_is_gone_at_once(
    scope: Scope, dev: Path, hold: Callable[..., Child]
) -> None:
    child = hold(dev / "nvidia1")
    table = ProcessTable(scope)
    table.refresh()
    assert child.pid in table.holders(dev)
    child.kill()
    table.refresh()
    assert table.holders(dev) == {}


def test_opened_and_closed_later(
    scope: Scope, dev: Path, spawn: Callable[..., Child], monkeypatch: pytest.MonkeyPatch
) -> None:
    child = spawn(
        "import sys; print('up', flush=True); sys.stdin.readline(); held = open(sys.argv[1]); "
        "print('open', flush=True)\n"
        "sys.stdin.readline(); held.close(); print('closed', flush=True); sys.stdin.read()",
        str(dev / "nvidia3"),
    )
    # As if all of this took less than the five seconds for which a look is believed.
    assert holders._CONFIRM_S == 5.0
    monkeypatch.setattr(holders, "_CONFIRM_S", 3600.0)
    table = ProcessTable(scope)
    table.refresh()
    assert table.holders(dev) == {}
    assert child.say() == "open"
    assert table.holders(dev) == {}, "looked at a moment ago"
    monkeypatch.setattr(holders, "_URGENT_S", 0.0)
    assert table.holders(dev, urgent={child.pid}) == {child.pid: {3}}, (
        "a pid that NVML names is looked at now"
    )
    assert child.say() == "closed"
    assert table.holders(dev) == {child.pid: {3}}
    monkeypatch.setattr(holders, "_CONFIRM_S", 0.0)
    assert table.holders(dev) == {}


def test_a_known_holder_is_confirmed_without_listing_all_its_files(
    scope: Scope, dev: Path, hold: Callable[..., Child], monkeypatch: pytest.MonkeyPatch
) -> None:
    child = hold(dev / "nvidia0")
    table = ProcessTable(scope)
    table.refresh()
    assert table.holders(dev) == {child.pid: {0}}
    # As if it were old: only the descriptor that proved it is read again.
    monkeypatch.setattr(holders, "_YOUNG_S", 0.0)
    monkeypatch.setattr(holders, "_CONFIRM_S", 0.0)
    listed: list[str] = []

    def listdir(path: str) -> list[str]:
        listed.append(path)
        return []

    monkeypatch.setattr(os, "listdir", listdir)
    assert table.holders(dev) == {child.pid: {0}}
    assert f"/proc/{child.pid}/fd" not in listed


def test_who_only_watches(scope: Scope, dev: Path, hold: Callable[..., Child]) -> None:
    trainer = hold(dev / "nvidiactl", dev / "nvidia-uvm", dev / "nvidia0")
    nvtop = hold(dev / "nvidiactl", dev / "nvidia0")
    with (dev / "nvidia0").open():  # the agent itself, through NVML
        table = ProcessTable(scope)
        table.refresh()
        assert set(table.holders(dev)) == {trainer.pid, nvtop.pid, os.getpid()}
        assert table.monitors(dev) == {nvtop.pid, os.getpid()}


def test_without_nvidia_uvm_nobody_is_taken_for_a_watcher(
    scope: Scope, dev: Path, hold: Callable[..., Child]
) -> None:
    child = hold(dev / "nvidia0")
    with (dev / "nvidia0").open():
        table = ProcessTable(scope)
        table.refresh()
        assert set(table.holders(dev)) == {child.pid, os.getpid()}
        assert table.monitors(dev) == {os.getpid()}, "but this agent"


def test_files_that_may_not_be_seen_are_counted(
    scope: Scope, dev: Path, hold: Callable[..., Child]
) -> None:
    if os.getuid() != 0:
        pytest.skip("needs root to become somebody else")
    hold(dev / "nvidia0")
    read, write = os.pipe()
    watcher = os.fork()
    if watcher == 0:
        os.setuid(65534)
        table = ProcessTable(scope)
        table.refresh()
        table.holders(dev)
        os.write(write, str(table.unreadable(dev)).encode())
        os._exit(0)
    os.waitpid(watcher, 0)
    assert int(os.read(read, 100)) >= 1
    os.close(read)
    os.close(write)
