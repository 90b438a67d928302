"""Whose GPU memory it is: local pids, a container's foreign pids, and the innocent who has the same
number.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bs4_agent.scope import Scope
from bs4_agent.telemetry.gpus import BLANK_DEVICE, empty
from bs4_agent.telemetry.ownership import attribute, nvml_pids
from bs4_agent.telemetry.processes import ProcessTable
from bs4_common.identity import Identity
from tests.agent.telemetry.conftest import Child

GIB = 1 << 30


def sample(
    *devices: list[tuple[int, int | None]], pids: str = "unknown", used: int = 10 * GIB
) -> dict[str, Any]:
    rows = [
        {
            **BLANK_DEVICE,
            "index": index,
            "minor": index,
            "mem_used": used,
            "procs": [{"pid": pid, "mem": mem} for pid, mem in procs],
        }
        for index, procs in enumerate(devices)
    ]
    return {**empty("ok", ""), "pids": pids, "devices": rows}


class World:
    """A process table, the devices' holders and one owner for whom the test says so."""

    def __init__(self, scope: Scope, *owned: Child) -> None:
        self.table = ProcessTable(scope)
        self.owned = {child.identity: ("run-1", "engine") for child in owned}

    def attribute(self, gpus: dict[str, Any]) -> dict[str, Any]:
        snapshot = self.table.refresh()
        before = copy.deepcopy(gpus)
        holders = self.table.holders(urgent=nvml_pids(gpus))
        result = attribute(gpus, snapshot, holders, self.owned.get, self.table.monitors())
        assert gpus == before, "attribute is pure"
        return result


def test_local_pids_belong_to_their_run(
    scope: Scope, dev: Path, hold: Callable[..., Child]
) -> None:
    engine, stranger = hold(dev / "nvidia0"), hold(dev / "nvidia1")
    result = World(scope, engine).attribute(sample([(engine.pid, 6 * GIB)], [(stranger.pid, GIB)]))
    assert result["pids"] == "local"
    assert result["devices"][0]["procs"] == [
        {"pid": engine.pid, "mem": 6 * GIB, "visible": True, "run": "run-1", "component": "engine"}
    ]
    assert result["devices"][1]["procs"] == [
        {"pid": stranger.pid, "mem": GIB, "visible": True, "run": None, "component": None}
    ]
    assert [device["unaccounted"] for device in result["devices"]] == [4 * GIB, 9 * GIB]
    assert "minor" not in result["devices"][0]


def test_foreign_pids_name_nobody_and_the_holders_stand_in_their_place(
    scope: Scope, dev: Path, hold: Callable[..., Child]
) -> None:
    """NVML speaks of the host's pids, and one of them is the number of a process here that has
    nothing to do with a GPU.
    """
    engine, innocent = hold(dev / "nvidia0", dev / "nvidia1"), hold(dev / "nvidia-modeset")
    other = hold(dev / "nvidia1")
    result = World(scope, engine, innocent).attribute(
        sample([(innocent.pid, 6 * GIB)], [(4_000_001, GIB), (4_000_002, GIB)])
    )
    assert result["pids"] == "foreign"
    held = {"mem": None, "visible": True}
    ours = {"pid": engine.pid, **held, "run": "run-1", "component": "engine"}
    theirs = {"pid": other.pid, **held, "run": None, "component": None}
    assert result["devices"][0]["procs"] == [ours]
    assert sorted(result["devices"][1]["procs"], key=lambda proc: proc["pid"] != engine.pid) == [
        ours,
        theirs,
    ]
    assert [device["unaccounted"] for device in result["devices"]] == [None, None]


def test_one_match_among_many_foreign_pids_is_chance(
    scope: Scope, dev: Path, hold: Callable[..., Child]
) -> None:
    engine = hold(dev / "nvidia0")
    result = World(scope, engine).attribute(
        sample([(engine.pid, GIB), (4_000_001, GIB), (4_000_002, GIB)])
    )
    assert result["pids"] == "foreign"
    assert [proc["mem"] for proc in result["devices"][0]["procs"]] == [None]


def test_foreign_pids_and_nobody_visible(scope: Scope) -> None:
    result = World(scope).attribute(sample([(4_000_001, GIB)]))
    assert result["pids"] == "foreign"
    assert result["devices"][0]["procs"] == []


def test_a_local_process_that_ended_while_the_driver_lists_it(
    scope: Scope, dev: Path, hold: Callable[..., Child]
) -> None:
    alive, dead = hold(dev / "nvidia0"), hold(dev / "nvidia0")
    world = World(scope, alive, dead)
    dead.kill()
    result = world.attribute(sample([(alive.pid, GIB), (dead.pid, 2 * GIB)]))
    assert result["pids"] == "local"
    assert result["devices"][0]["procs"][1] == {
        "pid": dead.pid,
        "mem": 2 * GIB,
        "visible": False,
        "run": None,
        "component": None,
    }
    alive.kill()
    result = world.attribute(sample([(dead.pid, 2 * GIB)], pids="local"))
    assert result["pids"] == "local", "proved before, and nothing speaks against it"
    assert result["devices"][0]["procs"][0]["visible"] is False


def test_a_pid_reused_by_an_innocent_process_is_not_the_holder(
    scope: Scope, dev: Path, hold: Callable[..., Child]
) -> None:
    alive, innocent = hold(dev / "nvidia0"), hold(dev / "nvidia-modeset")
    result = World(scope, alive, innocent).attribute(
        sample([(alive.pid, GIB), (innocent.pid, GIB)])
    )
    assert result["pids"] == "local"
    assert result["devices"][0]["procs"][1] == {
        "pid": innocent.pid,
        "mem": GIB,
        "visible": False,
        "run": None,
        "component": None,
    }


def test_what_only_watches_is_no_holder(
    scope: Scope, dev: Path, hold: Callable[..., Child]
) -> None:
    engine, nvtop = hold(dev / "nvidia-uvm", dev / "nvidia0"), hold(dev / "nvidia0")
    with (dev / "nvidia0").open():
        result = World(scope, engine, nvtop).attribute(sample([(4_000_001, GIB)]))
    assert [proc["pid"] for proc in result["devices"][0]["procs"]] == [engine.pid]
    assert os.getpid() not in [proc["pid"] for proc in result["devices"][0]["procs"]]


def test_minor_numbers_and_not_indices_name_the_device(
    scope: Scope, dev: Path, hold: Callable[..., Child]
) -> None:
    """A container that was given GPUs 2 and 3 counts them from 0."""
    child = hold(dev / "nvidia3")
    gpus = sample([(4_000_001, GIB)], [(4_000_002, GIB)])
    gpus["devices"][0]["minor"], gpus["devices"][1]["minor"] = 2, 3
    result = World(scope).attribute(gpus)
    assert [[proc["pid"] for proc in device["procs"]] for device in result["devices"]] == [
        [],
        [child.pid],
    ]


def test_nothing_listed_says_nothing(scope: Scope, dev: Path, hold: Callable[..., Child]) -> None:
    hold(dev / "nvidia0")
    assert World(scope).attribute(sample([]))["pids"] == "unknown"
    assert World(scope).attribute(sample([], pids="foreign"))["pids"] == "foreign"


def test_memory_that_the_driver_does_not_tell_is_not_zero(
    scope: Scope, dev: Path, hold: Callable[..., Child]
) -> None:
    child = hold(dev / "nvidia0")
    result = World(scope).attribute(sample([(child.pid, None)]))
    assert result["pids"] == "local"
    assert result["devices"][0]["unaccounted"] is None


def test_an_owner_is_an_identity_not_a_pid(
    scope: Scope, dev: Path, hold: Callable[..., Child]
) -> None:
    child = hold(dev / "nvidia0")
    world = World(scope)
    earlier = Identity(
        child.pid, child.identity.start_ticks - 500, child.identity.boot_id, child.identity.pidns
    )
    world.owned = {earlier: ("run-1", "engine")}
    assert world.attribute(sample([(child.pid, GIB)]))["devices"][0]["procs"][0]["run"] is None


def test_a_containers_pids_are_those_of_its_holders(
    scope: Scope, dev: Path, hold: Callable[..., Child]
) -> None:
    """An NVML that speaks of a container's pids: each is the one holder of that device which has
    this number there.
    """
    engine, worker, other = hold(dev / "nvidia0"), hold(dev / "nvidia1"), hold(dev / "nvidia1")
    world = World(scope, engine)
    gpus = sample([(23, 6 * GIB)], [(24, GIB)])
    inner = {engine.pid: (23,), worker.pid: (24,), other.pid: (7,)}
    snapshot = world.table.refresh()

    def translated(inner: dict[int, tuple[int, ...]]) -> dict[str, Any]:
        return attribute(
            gpus, snapshot, world.table.holders(), world.owned.get, world.table.monitors(), inner
        )

    result = translated(inner)
    assert result["pids"] == "local"
    assert result["devices"][0]["procs"] == [
        {"pid": engine.pid, "mem": 6 * GIB, "visible": True, "run": "run-1", "component": "engine"}
    ]
    assert [proc["pid"] for proc in result["devices"][1]["procs"]] == [worker.pid]
    # Two that have the number in different containers, one number that nobody has there, one of
    # another device's holder: no guess.
    for doubtful in (
        {**inner, other.pid: (24,)},
        {**inner, worker.pid: (25,)},
        {engine.pid: (24,), worker.pid: (23,)},
    ):
        assert translated(doubtful)["pids"] == "foreign"
