"""Whole records: their shape, their pace, and what belongs to whom."""

from __future__ import annotations

import itertools
import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import psutil
import pytest

from bs4_agent.scope import Scope
from bs4_agent.telemetry import background, holders
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

DEVICE_KEYS = {"index", *BLANK_DEVICE, "procs", "unaccounted"} - {"minor"}


@pytest.fixture
def make(scope: Scope, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    monkeypatch.setattr(background, "STALE_S", 600.0)  # a busy machine may sample late
    made: list[tuple[Sampler, GuardedGpus]] = []

    def build(
        source: Any,
        append: Callable[[dict[str, Any]], object] = lambda record: None,
        runs: Sequence[RunMembers] = (),
    ) -> Sampler:
        gpus = GuardedGpus(source, interval=0.05)
        assert gpus.wait_first(30)
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


def test_a_whole_record(
    make: Make, nvml: State, dev: Path, hold: Callable[..., Child], until: Callable[..., None]
) -> None:
    engine, other, dead = hold(dev / "nvidia1"), hold(dev / "nvidia2"), hold()
    nvml.gpus[1].hold([(engine.pid, 60 * GIB)])
    nvml.gpus[2].hold([(other.pid, 5 * GIB)])
    members = [(engine.identity, "engine"), (dead.identity, "orchestrator")]
    until(lambda: psutil.Process(engine.pid).status() == psutil.STATUS_SLEEPING)
    sampler = make(
        NvmlGpus(),
        runs=[RunMembers("run-1", 3, members), RunMembers("run-2", 1, [(dead.identity, None)])],
    )
    dead.kill()
    before = time.time()
    record = sampler.tick()
    assert list(record) == ["t", "m", "b", "gpus", "host", "runs", "coverage"]
    assert record["b"] == boot_id()
    assert before - 0.01 <= record["t"] <= time.time() + 0.01
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
    make: Make,
    nvml: State,
    dev: Path,
    spawn: Callable[..., Child],
    until: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its files were looked at a moment ago and are not due for an hour, but the driver names it,
    so they are with the next snapshot.
    """
    monkeypatch.setattr(holders, "_CONFIRM_S", 3600.0)
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
        )
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
    """Counts the records; the third one fails."""

    def __init__(self, error: Exception) -> None:
        self.records = 0
        self._error = error

    def __call__(self, record: dict[str, Any]) -> None:
        self.records += 1
        if self.records == 3:
            raise self._error


def _run(sampler: Sampler, writer: Writer, count: int, until: Callable[..., None]) -> None:
    stop = threading.Event()
    thread = threading.Thread(target=sampler.run, args=(stop,))
    thread.start()
    until(lambda: writer.records >= count)
    stop.set()
    thread.join(30)
    assert not thread.is_alive()


class Day:
    """The clock and the stop of a sampler in one: time passes while it waits, and while a record is
    written. Each takes a quarter of a second, the third one three seconds and a half.
    """

    def __init__(self) -> None:
        self.now = 100.0
        self.times: list[float] = []

    def write(self, record: dict[str, Any]) -> None:
        self.times.append(self.now)
        self.now += 3.5 if len(self.times) == 3 else 0.25

    def is_set(self) -> bool:
        return len(self.times) >= 9

    def wait(self, seconds: float) -> None:
        self.now += max(0.0, seconds)


def test_the_pace_neither_drifts_nor_bursts(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    day = Day()
    sampler = make(AbsentGpus(""), day.write)
    monkeypatch.setattr(sampler_module, "time", SimpleNamespace(monotonic=lambda: day.now))
    sampler.run(cast(threading.Event, day))
    steps = [later - earlier for earlier, later in itertools.pairwise(day.times)]
    # On the grid; the ticks that were missed meanwhile are left out, and not caught up.
    assert steps == [1.0, 1.0, 4.0, 1.0, 1.0, 1.0, 1.0, 1.0]


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
