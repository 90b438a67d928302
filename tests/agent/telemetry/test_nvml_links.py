"""PCIe and NVLink: read seldom, one GPU a sample, told for a moment; what is not told is null, and
no GPU looks broken by it.
"""

from __future__ import annotations

import pynvml
import pytest

from bs4_agent.telemetry import nvml as module
from bs4_agent.telemetry.nvml import NvmlGpus
from bs4_agent.telemetry.nvml_calls import nvlink, pcie
from tests.agent.telemetry.fake_nvml import State
from tests.agent.telemetry.test_nvml_health import row

PCIE = {"gen": 5, "gen_max": 5, "width": 16, "width_max": 16, "tx": 1200, "rx": 90000}


class Clock:
    """The agent's monotonic clock, moved by hand."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr(module.time, "monotonic", lambda: self.now)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def test_each_gpu_in_its_turn_and_not_in_every_record(nvml: State, clock: Clock) -> None:
    nvml.gpus[1].pcie_width, nvml.gpus[1].links_up, nvml.gpus[1].link_errors = 8, 17, 5
    gpus = NvmlGpus()
    told: list[list[int]] = []
    seen = {}
    for _ in range(30):
        devices = gpus.sample()["devices"]
        assert [device["error"] for device in devices] == [None] * 4
        told.append([device["index"] for device in devices if "pcie" in device])
        seen.update({device["index"]: device for device in devices if "nvlink" in device})
        clock.now += 1.0
    gpus.close()
    assert told[:6] == [[0], [0, 1], [0, 1, 2], [1, 2, 3], [2, 3], [3]]
    assert told[6:10] == [[], [], [], []]
    assert told[10:12] == [[0], [0, 1]], "again after ten seconds"
    assert seen[0]["pcie"] == PCIE
    assert seen[1]["pcie"]["width"] == 8
    assert seen[0]["nvlink"] == {"active": 18, "links": 18, "errors": 0}
    assert seen[1]["nvlink"] == {"active": 17, "links": 18, "errors": 5}


def test_links_are_asked_once_a_minute(nvml: State, clock: Clock) -> None:
    nvml.count = 1
    gpus = NvmlGpus()
    asked = []
    for second in range(75):
        before = nvml.calls
        gpus.sample()
        if nvml.calls - before > 20:
            asked.append(second)
        clock.now += 1.0
    gpus.close()
    assert asked == [0, 60]


@pytest.mark.parametrize("nvml", ["old"], indirect=True)
def test_a_driver_without_them(nvml: State, clock: Clock) -> None:
    gpus = NvmlGpus()
    device = gpus.sample()["devices"][0]
    gpus.close()
    assert (device["pcie"], device["nvlink"], device["error"]) == (None, None, None)


def test_a_call_that_fails_leaves_its_field_unknown(nvml: State, clock: Clock) -> None:
    nvml.gpus[0].pcie_result, nvml.gpus[0].links = 999, 0
    gpus = NvmlGpus()
    device = gpus.sample()["devices"][0]
    gpus.close()
    assert (device["pcie"], device["nvlink"], device["error"]) == (None, None, None)


def test_what_is_known_of_half_of_them() -> None:
    only_width = row(pcie, nvmlDeviceGetCurrPcieLinkWidth=4)
    assert only_width == {
        "pcie": {
            "gen": None,
            "gen_max": None,
            "width": 4,
            "width_max": None,
            "tx": None,
            "rx": None,
        }
    }
    assert row(
        nvlink, nvmlDeviceGetNvLinkState=pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
    ) == {"nvlink": None}
    without_counters = row(nvlink, nvmlDeviceGetNvLinkState=1)["nvlink"]
    assert without_counters == {"active": 36, "links": 36, "errors": None}, (
        "no counter is not no error"
    )


@pytest.mark.parametrize("reading", [pcie, nvlink])
def test_a_gpu_that_is_lost_meanwhile_is_an_error(reading: object) -> None:
    lost = pynvml.NVMLError(pynvml.NVML_ERROR_GPU_IS_LOST)
    with pytest.raises(pynvml.NVMLError):
        row(reading, nvmlDeviceGetCurrPcieLinkGeneration=lost, nvmlDeviceGetNvLinkState=lost)
