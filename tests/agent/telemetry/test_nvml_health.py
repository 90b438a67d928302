"""What the driver says of a GPU's memory and of what it needs: told only where there is something,
never an error of its own.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pynvml
import pytest

from bs4_agent.telemetry.nvml_calls import NvmlCalls, recovery, remapping


class Driver(NvmlCalls):
    """Answers by name; an exception is raised, a missing name is no such function."""

    def __init__(self, **answers: Any) -> None:
        super().__init__()
        self._answers = answers

    def invoke(self, name: str, *args: Any) -> Any:
        answer = self._answers.get(name, pynvml.NVMLError(pynvml.NVML_ERROR_FUNCTION_NOT_FOUND))
        if isinstance(answer, pynvml.NVMLError):
            raise answer
        return answer


def row(reading: Any, **answers: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    reading(Driver(**answers), object(), found)
    return found


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ((0, 0, 0, 0), {}),
        ((3, 1, 0, 0), {}),
        ((0, 1, 1, 0), {"remap": "pending"}),
        ((0, 9, 1, 1), {"remap": "failed"}),
    ],
)
def test_row_remapping(rows: tuple[int, ...], expected: dict[str, str]) -> None:
    assert row(remapping, nvmlDeviceGetRemappedRows=rows) == expected


def test_older_cards_retire_pages() -> None:
    assert row(remapping, nvmlDeviceGetRetiredPagesPendingStatus=1) == {"remap": "pending"}
    assert row(remapping, nvmlDeviceGetRetiredPagesPendingStatus=0) == {}
    assert row(remapping) == {}


def test_a_reading_that_fails_is_unknown_and_a_lost_gpu_is_an_error() -> None:
    assert (
        row(remapping, nvmlDeviceGetRemappedRows=pynvml.NVMLError(pynvml.NVML_ERROR_UNKNOWN)) == {}
    )
    with pytest.raises(pynvml.NVMLError):
        row(remapping, nvmlDeviceGetRemappedRows=pynvml.NVMLError(pynvml.NVML_ERROR_GPU_IS_LOST))


def value(number: int, status: int = pynvml.NVML_SUCCESS) -> list[Any]:
    return [SimpleNamespace(nvmlReturn=status, value=SimpleNamespace(uiVal=number))]


def test_the_recovery_that_is_asked_for() -> None:
    assert row(recovery, nvmlDeviceGetFieldValues=value(0)) == {}
    assert row(recovery, nvmlDeviceGetFieldValues=value(2)) == {"recovery": "reboot"}
    assert row(recovery, nvmlDeviceGetFieldValues=value(2, pynvml.NVML_ERROR_NOT_SUPPORTED)) == {}
