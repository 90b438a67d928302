"""A driver call that hangs stops nothing."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from bs4_agent.telemetry import guard
from bs4_agent.telemetry.gpus import AbsentGpus
from bs4_agent.telemetry.guard import Background, GuardedGpus
from bs4_agent.telemetry.nvml import NvmlGpus
from tests.agent.telemetry.fake_nvml import State


@pytest.fixture
def guarded(nvml: State, monkeypatch: pytest.MonkeyPatch) -> Iterator[GuardedGpus]:
    monkeypatch.setattr(guard, "STALE_S", 0.3)
    gpus = GuardedGpus(NvmlGpus(), interval=0.02)
    yield gpus
    for gpu in nvml.gpus:
        gpu.hang = 0
    nvml.gpus[0].hang = 0
    gpus.close()


def test_a_hang_blocks_nobody_is_named_and_ends(nvml: State, guarded: GuardedGpus, until: Callable[..., None]) -> None:
    assert guarded.wait_first(5)
    assert guarded.latest()["state"] == "ok"
    nvml.gpus[2].hang = 1
    until(lambda: guarded.latest()["state"] == "stale")
    start = time.monotonic()
    sample = guarded.latest()
    assert time.monotonic() - start < 0.05
    assert sample["detail"].startswith("hung in nvmlDeviceGet")
    assert " of GPU 2 for " in sample["detail"]
    assert sample["age_s"] >= 0.3
    assert len(sample["devices"]) == 4, "what was known is still shown, with its age"
    nvml.gpus[2].hang = 0
    until(lambda: guarded.latest()["state"] == "ok")
    assert guarded.latest()["age_s"] < 0.3


def test_a_hang_before_the_first_sample(nvml: State, monkeypatch: pytest.MonkeyPatch, until: Callable[..., None]) -> None:
    monkeypatch.setattr(guard, "STALE_S", 0.1)
    nvml.gpus[0].hang = 1
    gpus = GuardedGpus(NvmlGpus(), interval=0.02)
    sample = gpus.latest()
    assert (sample["state"], sample["detail"], sample["age_s"]) == ("stale", "waiting for the first sample", None)
    until(lambda: "hung in" in gpus.latest()["detail"])
    start = time.monotonic()
    gpus.close()
    assert time.monotonic() - start < 2, "closing does not wait for the driver either"
    nvml.gpus[0].hang = 0
    until(lambda: not gpus._background.alive)


def test_a_hang_costs_one_thread_only(nvml: State, guarded: GuardedGpus, until: Callable[..., None]) -> None:
    guarded.wait_first(5)
    threads = threading.active_count()
    nvml.gpus[0].hang = 1
    until(lambda: guarded.latest()["state"] == "stale")
    assert threading.active_count() <= threads


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_thread_that_died_is_told(until: Callable[..., None]) -> None:
    class Broken(AbsentGpus):
        def sample(self) -> dict[str, Any]:
            raise SystemExit

    gpus = GuardedGpus(Broken(""))
    until(lambda: gpus.latest()["state"] == "error")
    assert "restart the agent" in gpus.latest()["detail"]


def test_background_keeps_its_pace(until: Callable[..., None]) -> None:
    times: list[float] = []
    background = Background("test", lambda: times.append(time.monotonic()), 0.05)
    until(lambda: len(times) >= 20)
    assert background.stop()
    # Seven turns take 0.35 s; a busy machine may be late for some, never early.
    assert min(later - earlier for earlier, later in zip(times, times[7:], strict=False)) == pytest.approx(0.35, abs=0.1)


def test_the_xid_of_a_gpu_that_hangs_is_told_while_it_hangs(nvml: State, guarded: GuardedGpus, until: Callable[..., None]) -> None:
    until(lambda: guarded.xid_events)
    nvml.gpus[2].hang = 1
    until(lambda: guarded.latest()["state"] == "stale")
    nvml.gpus[2].fail(119)
    seen: list[dict[str, Any]] = []

    def arrived() -> bool:
        seen.extend(guarded.take_xids())
        return bool(seen)

    until(arrived)
    assert [(event["index"], event["xid"]) for event in seen] == [(2, 119)]
    assert guarded.latest()["state"] == "stale"
