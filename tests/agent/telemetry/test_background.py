"""A driver call that hangs stops nothing."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from bs4_agent.telemetry import background
from bs4_agent.telemetry.background import Background, GuardedGpus
from bs4_agent.telemetry.gpus import AbsentGpus
from bs4_agent.telemetry.nvml import NvmlGpus
from tests.agent.telemetry.fake_nvml import State


@pytest.fixture
def guarded(nvml: State, monkeypatch: pytest.MonkeyPatch) -> Iterator[GuardedGpus]:
    monkeypatch.setattr(background, "STALE_S", 0.3)
    gpus = GuardedGpus(NvmlGpus(), interval=0.02)
    yield gpus
    for gpu in nvml.gpus:
        gpu.hang = 0
    nvml.gpus[0].hang = 0
    gpus.close()


def hung(gpus: GuardedGpus) -> bool:
    """Whether a call of the driver hangs. On a busy machine a sample is also late without that."""
    now = gpus.latest()
    return now["state"] == "stale" and now["detail"].startswith("hung in")


def test_a_hang_blocks_nobody_is_named_and_ends(
    nvml: State, guarded: GuardedGpus, until: Callable[..., None]
) -> None:
    assert guarded.wait_first(30)
    until(lambda: guarded.latest()["state"] == "ok")
    nvml.gpus[2].hang = 1
    # On a busy machine a call about another GPU may be late enough to look hung first.
    until(lambda: hung(guarded) and " of GPU 2 for " in guarded.latest()["detail"])
    start = time.monotonic()
    sample = guarded.latest()
    assert time.monotonic() - start < 5, "who asks the driver hangs for as long as it does"
    assert sample["detail"].startswith("hung in nvmlDeviceGet")
    assert sample["age_s"] >= 0.3
    assert len(sample["devices"]) == 4, "what was known is still shown, with its age"
    nvml.gpus[2].hang = 0
    until(lambda: (now := guarded.latest())["state"] == "ok" and now["age_s"] < 0.3)


def test_a_hang_before_the_first_sample(
    nvml: State, monkeypatch: pytest.MonkeyPatch, until: Callable[..., None]
) -> None:
    monkeypatch.setattr(background, "STALE_S", 0.1)
    nvml.gpus[0].hang = 1
    gpus = GuardedGpus(NvmlGpus(), interval=0.02)
    sample = gpus.latest()
    assert (sample["state"], sample["detail"], sample["age_s"]) == (
        "stale",
        "waiting for the first sample",
        None,
    )
    until(lambda: "hung in" in gpus.latest()["detail"])
    start = time.monotonic()
    gpus.close()
    assert time.monotonic() - start < 20, "closing does not wait for the driver either"
    nvml.gpus[0].hang = 0
    until(lambda: not gpus._background.alive)


def test_a_hang_costs_one_thread_only(
    nvml: State, guarded: GuardedGpus, until: Callable[..., None]
) -> None:
    assert guarded.wait_first(30)
    threads = threading.active_count()
    nvml.gpus[0].hang = 1
    until(lambda: hung(guarded))
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

    def seven() -> float:
        """The shortest time of seven turns; they take 0.35 s. A busy machine may be late for some,
        not for all, and never early.
        """
        known = list(times)
        return min(
            (later - earlier for earlier, later in zip(known, known[7:], strict=False)), default=9.9
        )

    until(lambda: len(times) >= 20 and seven() < 0.45)
    assert background.stop(30.0)
    assert seven() > 0.25


def test_the_xid_of_a_gpu_that_hangs_is_told_while_it_hangs(
    nvml: State, guarded: GuardedGpus, until: Callable[..., None]
) -> None:
    until(lambda: guarded.xid_events)
    nvml.gpus[2].hang = 1
    # On a busy machine a call about another GPU may look hung first, and end.
    until(lambda: hung(guarded) and " of GPU 2 for " in guarded.latest()["detail"])
    nvml.gpus[2].fail(119)
    seen: list[dict[str, Any]] = []

    def arrived() -> bool:
        seen.extend(guarded.take_xids())
        return bool(seen)

    until(arrived)
    assert [(event["index"], event["xid"]) for event in seen] == [(2, 119)]
    assert guarded.latest()["state"] == "stale"
