"""The real pynvml against a compiled NVML: fields, missing fields, lost GPUs, a driver that comes
and goes, Xid events.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from bs4_agent.scope import Scope
from bs4_agent.telemetry.gpus import AbsentGpus, open_gpus
from bs4_agent.telemetry.nvml import NvmlGpus
from tests.agent.telemetry.fake_nvml import GIB, State

LOST, UNKNOWN, UNINITIALIZED, NO_DRIVER, MISMATCH = 15, 999, 1, 9, 18


@pytest.fixture
def gpus(nvml: State) -> Iterator[NvmlGpus]:
    source = NvmlGpus(retry_s=0.01, lost_retry_s=0.01)
    yield source
    source.close()


def test_every_field(nvml: State, gpus: NvmlGpus) -> None:
    nvml.gpus[2].hold([(4242, 3 * GIB), (17, 2 * GIB)])
    nvml.gpus[2].throttle = 0x1 | 0x4 | 0x20
    nvml.gpus[2].ecc = 7
    sample = gpus.sample()
    assert (sample["state"], sample["driver"], sample["pids"], sample["xids"]) == (
        "ok",
        "580.65.06",
        "unknown",
        [],
    )
    assert len(sample["devices"]) == 4
    assert sample["devices"][2] == {
        "index": 2,
        "minor": 2,
        "uuid": "GPU-00000002",
        "name": "NVIDIA H100 80GB HBM3",
        "util": 92,
        "mem_util": 30,
        "mem_used": 6 * GIB,
        "mem_total": 80 * GIB,
        "temp": 57,
        "power": 400.5,
        "power_limit": 700.0,
        "sm_clock": 1980,
        "mem_clock": 2619,
        "ecc": 7,
        "throttle": ["sw_power_cap", "sw_thermal_slowdown"],
        "error": None,
        "procs": [{"pid": 4242, "mem": 3 * GIB}, {"pid": 17, "mem": 2 * GIB}],
    }


@pytest.mark.parametrize("nvml", ["old"], indirect=True)
def test_a_driver_before_510(nvml: State, gpus: NvmlGpus) -> None:
    nvml.gpus[0].hold([(4242, 3 * GIB)])
    nvml.gpus[0].throttle = 0x40
    device = gpus.sample()["devices"][0]
    assert device["error"] is None
    assert device["mem_used"] == 4 * GIB + GIB // 2, "version 1 counts the driver's own"
    assert device["procs"] == [{"pid": 4242, "mem": 3 * GIB}]
    assert device["throttle"] == ["hw_thermal_slowdown"]


def test_a_field_that_does_not_exist_is_null(nvml: State, gpus: NvmlGpus) -> None:
    nvml.gpus[0].power_result = 3
    device = gpus.sample()["devices"][0]
    assert device["power"] is None
    assert device["error"] is None
    assert device["sm_clock"] == 1980


def test_a_field_that_fails_is_told_and_the_others_are_read(nvml: State, gpus: NvmlGpus) -> None:
    nvml.gpus[0].power_result = UNKNOWN
    device = gpus.sample()["devices"][0]
    assert device["power"] is None
    assert device["error"] == "Unknown Error (nvmlDeviceGetPowerUsage)"
    assert (device["sm_clock"], device["temp"], device["ecc"]) == (1980, 55, None)


def test_a_lost_gpu_and_its_return(nvml: State, gpus: NvmlGpus, until: Callable[..., None]) -> None:
    assert gpus.sample()["state"] == "ok"
    nvml.gpus[1].result = LOST
    sample = gpus.sample()
    assert sample["state"] == "ok"
    assert [device["error"] for device in sample["devices"]] == [
        None,
        "GPU is lost (nvmlDeviceGetUtilizationRates)",
        None,
        None,
    ]
    assert (sample["devices"][1]["util"], sample["devices"][1]["mem_used"]) == (None, None)
    assert sample["devices"][2]["util"] == 92
    nvml.gpus[1].result = 0
    until(lambda: gpus.sample()["devices"][1]["error"] is None)
    assert gpus.sample()["devices"][1]["util"] == 91


def test_a_lost_gpu_is_asked_one_thing_only(nvml: State, until: Callable[..., None]) -> None:
    nvml.count = 1
    gpus = NvmlGpus()
    gpus.sample()
    until(lambda: gpus.xid_events)  # its thread asks the driver too, until it listens
    nvml.gpus[0].result = LOST
    before = nvml.calls
    gpus.sample()
    assert nvml.calls == before + 1, "each further question may take a lost GPU's driver seconds"
    gpus.close()


def test_a_gpu_without_a_handle_keeps_its_name(
    nvml: State, gpus: NvmlGpus, until: Callable[..., None]
) -> None:
    gpus.sample()
    nvml.gpus[1].result = nvml.gpus[1].handle_result = LOST
    until(lambda: "HandleByIndex" in str(gpus.sample()["devices"][1]["error"]))
    device = gpus.sample()["devices"][1]
    assert (device["index"], device["uuid"], device["util"]) == (1, "GPU-00000001", None)


def test_a_gpu_that_left_the_list_is_still_shown(
    nvml: State, gpus: NvmlGpus, until: Callable[..., None]
) -> None:
    gpus.sample()
    nvml.driver_result = UNINITIALIZED
    gpus.sample()
    nvml.driver_result, nvml.count = 0, 3
    until(lambda: gpus.sample()["state"] == "ok")
    devices = gpus.sample()["devices"]
    assert len(devices) == 4
    assert devices[3]["uuid"] == "GPU-00000003"
    assert "does not list this GPU any more" in devices[3]["error"]


@pytest.mark.parametrize(
    ("code", "state"), [(UNINITIALIZED, "error"), (NO_DRIVER, "absent"), (MISMATCH, "error")]
)
def test_a_driver_that_goes_and_comes_back(
    nvml: State, gpus: NvmlGpus, until: Callable[..., None], code: int, state: str
) -> None:
    assert gpus.sample()["state"] == "ok"
    nvml.driver_result = nvml.init_result = code
    gone = gpus.sample()
    assert (gone["state"], gone["devices"]) == (state, [])
    assert gone["detail"].startswith("NVML: ")
    nvml.driver_result = nvml.init_result = 0
    until(lambda: gpus.sample()["state"] == "ok")
    assert len(gpus.sample()["devices"]) == 4


def test_a_missing_driver_is_not_asked_every_second(nvml: State) -> None:
    nvml.init_result = NO_DRIVER
    gpus = NvmlGpus(retry_s=30.0)
    assert gpus.sample()["state"] == "absent"
    nvml.init_result = 0
    assert gpus.sample()["state"] == "absent"
    gpus.close()


def test_xid_events_of_each_gpu_arrive_once(nvml: State, until: Callable[..., None]) -> None:
    gpus = NvmlGpus()
    gpus.sample()
    until(lambda: gpus.xid_events)
    nvml.gpus[3].fail(79)
    nvml.gpus[3].fail(79)
    nvml.gpus[1].fail(31)
    nvml.gpus[3].result = LOST  # a GPU that has fallen off the bus does not even tell its name
    events: list[dict[str, Any]] = []

    def arrived() -> bool:
        gpus.sample()
        events.extend(gpus.take_xids())
        return len(events) >= 3

    until(arrived)
    assert sorted((event["index"], event["xid"]) for event in events) == [(1, 31), (3, 79), (3, 79)]
    assert gpus.take_xids() == []
    gpus.close()


def test_gpus_without_xid_events(nvml: State, gpus: NvmlGpus, until: Callable[..., None]) -> None:
    for gpu in nvml.gpus:
        gpu.events = 0
    assert gpus.sample()["state"] == "ok"
    until(lambda: not any(thread.name == "nvml-xids" for thread in threading.enumerate()))
    assert not gpus.xid_events


def test_without_the_library_the_state_is_absent(scope: Scope, tmp_path: Any) -> None:
    """In a process of its own: a library stays loaded once it was."""
    program = (
        "import json, sys; from bs4_agent.scope import Scope; from bs4_agent.telemetry.gpus "
        "import open_gpus\n"
        "print(json.dumps(open_gpus(Scope.from_environment()).sample()))"
    )
    if os.path.exists("/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1"):  # noqa: PTH110
        pytest.skip("this machine has a real NVML")
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=True, timeout=20
    )
    sample = json.loads(done.stdout)
    assert (sample["state"], sample["detail"], sample["devices"]) == (
        "absent",
        "NVML: NVML Shared Library Not Found",
        [],
    )


def test_without_the_binding_the_state_is_absent(
    scope: Scope, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "bs4_agent.telemetry.nvml", raising=False)
    monkeypatch.setitem(sys.modules, "pynvml", None)
    for name in ("nvml", "nvml_calls", "xids"):
        monkeypatch.delitem(sys.modules, f"bs4_agent.telemetry.{name}", raising=False)
    source = open_gpus(scope)
    assert isinstance(source, AbsentGpus)
    assert source.sample()["state"] == "absent"
    assert "deploy the agent again" in source.sample()["detail"]
