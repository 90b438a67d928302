"""Whole records: their shape, their pace, and what belongs to whom."""

from __future__ import annotations

import itertools
import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from bs4_agent.scope import Scope
from bs4_agent.telemetry import sampler as sampler_module
from bs4_agent.telemetry.background import GuardedGpus
from bs4_agent.telemetry.gpus import BLANK_DEVICE, AbsentGpus
from bs4_agent.telemetry.nvml import NvmlGpus
from bs4_agent.telemetry.processes import ProcessTable
from bs4_agent.telemetry.sampler import RunMembers, Sampler
from bs4_common.clock import boot_id
from bs4_common.errors import SpoolFull
from tests.agent.telemetry.conftest import Child
from tests.agent.telemetry.fake_nvml import GIB, State

Make = Callable[..., Sampler]

DEVICE_KEYS = {*BLANK_DEVICE, "procs", "unaccounted"} - {"minor"}


@pytest.fixture
def make(scope: Scope, tmp_path: Path) -> Iterator[Make]:
    made: list[tuple[Sampler, GuardedGpus]] = []

    def build(
        source: Any,
        append: Callable[[dict[str, Any]], object] = lambda record: None,
        runs: Sequence[RunMembers] = (),
    ) -> Sampler:
        gpus = GuardedGpus(source, interval=0.05)
        gpus.wait_first(5)
        made.append(
            (
                Sampler(scope, gpus, ProcessTable(scope), append, lambda: runs, lambda: [tmp_path]),
                gpus,
            )
        )
        return made[-1][0]

    yield build
    for sampler, gpus in made:
        sampler.close()
        # `close` gives the thread one second. A source that stays open on a busy machine would take
        # the events of the next test.
        gpus._background.stop(30.0)
        gpus.close()


def test_a_whole_record(make: Make, nvml: State, dev: Path, hold: Callable[..., Child]) -> None:
    engine, other, dead = hold(dev / "nvidia1"), hold(dev / "nvidia2"), hold()
    nvml.gpus[1].hold([(engine.pid, 60 * GIB)])
    nvml.gpus[2].hold([(other.pid, 5 * GIB)])
    members = [(engine.identity, "engine"), (dead.identity, "orchestrator")]
    sampler = make(
        NvmlGpus(),
        runs=[RunMembers("run-1", 3, members), RunMembers("run-2", 1, [(dead.identity, None)])],
    )
    dead.kill()
    record = sampler.tick()
    assert list(record) == ["t", "m", "b", "gpus", "host", "runs", "coverage"]
    assert record["b"] == boot_id()
    assert abs(record["t"] - time.time()) < 5
    gpus = record["gpus"]
    assert set(gpus) == {"state", "detail", "age_s", "driver", "pids", "devices", "xids"}
    assert (gpus["state"], gpus["pids"]) == ("ok", "local")
    assert all(set(device) - {"pcie", "nvlink"} == DEVICE_KEYS for device in gpus["devices"]), (
        "those two are told now and then"
    )
    ours, theirs = gpus["devices"][1], gpus["devices"][2]
    assert ours["procs"] == [
        {"pid": engine.pid, "mem": 60 * GIB, "visible": True, "run": "run-1", "component": "engine"}
    ]
    assert theirs["procs"] == [
        {"pid": other.pid, "mem": 5 * GIB, "visible": True, "run": None, "component": None}
    ]
    assert (ours["unaccounted"], gpus["devices"][0]["unaccounted"]) == (GIB, GIB)
    assert set(record["host"]) == {
        "cpu",
        "cores",
        "load1",
        "mem_used",
        "mem_total",
        "shm_used",
        "shm_total",
        "disks",
        "net",
    }
    assert [(run["run"], run["attempt"], run["alive"]) for run in record["runs"]] == [
        ("run-1", 3, True),
        ("run-2", 1, False),
    ]
    (component,) = record["runs"][0]["components"]
    assert component["rss"] > 1 << 20
    assert {**component, "rss": 0} == {
        "component": "engine",
        "pid": engine.pid,
        "start_ticks": engine.identity.start_ticks,
        "cpu": None,
        "rss": 0,
        "state": "S",
    }
    assert record["coverage"]["kernel_log"] in ("visible", "hidden")
    assert record["coverage"]["gpu_processes"] == "by-pid"
    json.dumps(record, allow_nan=False)


def test_foreign_pids_are_told_in_the_coverage(
    make: Make, nvml: State, dev: Path, hold: Callable[..., Child]
) -> None:
    engine = hold(dev / "nvidia1")
    nvml.gpus[1].hold([(4_000_001, 60 * GIB)])
    record = make(NvmlGpus(), runs=[RunMembers("run-1", 1, [(engine.identity, "engine")])]).tick()
    assert (record["gpus"]["pids"], record["coverage"]["gpu_processes"]) == (
        "foreign",
        "by-open-device",
    )
    procs = record["gpus"]["devices"][1]["procs"]
    assert procs == [
        {"pid": engine.pid, "mem": None, "visible": True, "run": "run-1", "component": "engine"}
    ]


def test_a_process_that_takes_a_gpu_is_its_owner_in_the_next_records(
    make: Make, nvml: State, dev: Path, spawn: Callable[..., Child], until: Callable[..., None]
) -> None:
    """Its files were looked at a moment ago and are not due for 5 s, but the driver names it, so
    they are with the next snapshot.
    """
    source = (
        "import sys; print('up', flush=True); sys.stdin.readline(); held = open(sys.argv[1]); "
        "print('open', flush=True); sys.stdin.read()"
    )
    child = spawn(source, str(dev / "nvidia0"))
    sampler = make(NvmlGpus())
    sampler.tick()
    child.say()
    nvml.gpus[0].hold([(child.pid, GIB)])
    until(
        lambda: (
            [proc["visible"] for proc in sampler.tick()["gpus"]["devices"][0]["procs"]] == [True]
        ),
        timeout=4.0,
    )


def test_a_numbering_once_proved_outlives_an_empty_sample(
    make: Make, nvml: State, dev: Path, hold: Callable[..., Child], until: Callable[..., None]
) -> None:
    child = hold(dev / "nvidia0")
    nvml.gpus[0].hold([(child.pid, GIB)])
    sampler = make(NvmlGpus())
    assert sampler.tick()["gpus"]["pids"] == "local"
    nvml.gpus[0].hold([])
    until(lambda: sampler.tick()["gpus"]["devices"][0]["procs"] == [])
    assert sampler.tick()["gpus"]["pids"] == "local"


def test_xids_are_in_one_record_whoever_else_looks_at_the_gpus(
    make: Make, nvml: State, until: Callable[..., None]
) -> None:
    sampler = make(NvmlGpus())
    until(lambda: sampler.tick()["coverage"]["xid_events"] == "visible")
    nvml.gpus[2].fail(48)
    events: list[dict[str, Any]] = []

    def arrived() -> bool:
        assert sampler._gpus.latest()["xids"] == []
        events.extend(sampler.tick()["gpus"]["xids"])
        return bool(events)

    until(arrived)
    assert [(event["index"], event["xid"]) for event in events] == [(2, 48)]
    assert sampler.tick()["gpus"]["xids"] == []


def test_without_gpus(make: Make) -> None:
    record = make(AbsentGpus("no driver")).tick()
    assert (record["gpus"]["state"], record["gpus"]["detail"], record["gpus"]["devices"]) == (
        "absent",
        "no driver",
        [],
    )
    assert record["coverage"]["gpu_processes"] == "unknown"
    assert record["coverage"]["xid_events"] == "hidden"


def test_members_started_later_are_seen_with_the_next_full_pass(
    make: Make, hold: Callable[..., Child]
) -> None:
    runs: list[RunMembers] = []
    sampler = make(AbsentGpus(""), runs=runs)
    sampler.tick()
    child = hold()
    runs.append(RunMembers("run-1", 1, [(child.identity, "trainer")]))
    sampler._table.refresh()
    assert sampler.tick()["runs"][0]["alive"] is True


class Writer:
    """Keeps the time of each record; the third one takes `slow` seconds, and some fail."""

    def __init__(self, slow: float = 0.0, error: Exception | None = None) -> None:
        self.times: list[float] = []
        self._slow = slow
        self._error = error

    def __call__(self, record: dict[str, Any]) -> None:
        self.times.append(record["m"])
        if len(self.times) == 3:
            time.sleep(self._slow)
            if self._error is not None:
                raise self._error


def _run(sampler: Sampler, writer: Writer, count: int, until: Callable[..., None]) -> None:
    stop = threading.Event()
    thread = threading.Thread(target=sampler.run, args=(stop,))
    thread.start()
    until(lambda: len(writer.times) >= count)
    stop.set()
    thread.join(30)
    assert not thread.is_alive()


def test_the_pace_neither_drifts_nor_bursts(
    make: Make, monkeypatch: pytest.MonkeyPatch, until: Callable[..., None]
) -> None:
    # Long enough for a busy machine to be late by 0.18 s.
    monkeypatch.setattr(sampler_module, "_INTERVAL_S", 0.4)
    writer = Writer(slow=1.36)
    _run(make(AbsentGpus(""), writer), writer, 9, until)
    ticks = [(at - writer.times[0]) / 0.4 for at in writer.times]
    steps = [round(later - earlier) for earlier, later in itertools.pairwise(ticks)]
    assert max(abs(tick - round(tick)) for tick in ticks) < 0.45, "on the grid"
    assert steps[2] >= 4, "ticks missed meanwhile are left out"
    assert min(steps) >= 1, "and not caught up"


@pytest.mark.parametrize(
    "error",
    [SpoolFull("the disk is full; free some space."), OSError(28, "No space left on device")],
)
def test_a_full_disk_costs_records_and_nothing_else(
    make: Make, monkeypatch: pytest.MonkeyPatch, until: Callable[..., None], error: Exception
) -> None:
    monkeypatch.setattr(sampler_module, "_INTERVAL_S", 0.02)
    writer = Writer(error=error)
    sampler = make(AbsentGpus(""), writer)
    _run(sampler, writer, 6, until)
    assert sampler.dropped == 1


def test_a_stop_ends_it_at_once(make: Make) -> None:
    stop = threading.Event()
    thread = threading.Thread(target=make(AbsentGpus("")).run, args=(stop,))
    thread.start()
    stop.set()
    thread.join(30)
    assert not thread.is_alive()
