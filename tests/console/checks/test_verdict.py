"""The verdict over a pod: pure, so every level can be had without one."""

from __future__ import annotations

import time
from typing import Any

import pytest

from bs4_console.checks.verdict import (
    CRITICAL,
    OK,
    UNKNOWN,
    WARNING,
    Verdict,
    aggregate,
    judge,
    unreachable,
)
from bs4_console.pods.state import PodState

GPU = {"index": 0, "util": 93.4, "mem_used": 7, "mem_total": 80, "error": None}


def pod(
    *records: dict[str, Any],
    gpus: dict[str, Any] | None = None,
    disks: Any = (),
    coverage: Any = None,
) -> PodState:
    state = PodState(name="pod-a")
    for record in records:
        state.apply_journal({"t": 1.0, "b": "boot", **record})
    sample = {
        "t": time.time(),
        "gpus": gpus or {"state": "ok", "devices": [GPU]},
        "host": {"disks": list(disks)},
        "runs": [],
    }
    state.apply_telemetry({**sample, "coverage": coverage or {}})
    return state


def disk(percent: int) -> dict[str, Any]:
    return {"path": "/data", "used": percent, "total": 100}


STARTED = {"type": "run", "event": "attempt-started", "run": "r", "attempt": 1, "max_steps": 100}
FAILED = {
    "type": "run",
    "event": "attempt-ended",
    "run": "r",
    "attempt": 1,
    "code": 1,
    "good": False,
    "detail": "exit code 1",
}


def incident(severity: str, run: str = "r") -> dict[str, Any]:
    return {
        "type": "incident",
        "event": "opened",
        "incident": severity,
        "failure": "f",
        "run": run,
        "severity": severity,
        "summary": "bad|x\ny",
    }


@pytest.mark.parametrize(
    ("state", "level", "says"),
    [
        (pod(), OK, "no run is registered"),
        (pod(STARTED), OK, "r starting, no step yet"),
        (pod(STARTED, FAILED), CRITICAL, "r ended badly at no step yet: exit code 1"),
        (pod(STARTED, FAILED, incident("warning")), WARNING, "f: bad"),
        (pod(STARTED, FAILED, incident("warning", "other")), CRITICAL, "r ended badly"),
        (pod(STARTED, incident("critical")), CRITICAL, "f: bad"),
        (pod(STARTED, incident("info")), OK, "f: bad"),
        (pod(STARTED, incident("of a newer agent")), CRITICAL, "f: bad"),
        (
            pod(gpus={"state": "absent", "detail": "no driver"}),
            WARNING,
            "no GPU is visible: no driver",
        ),
        (pod(gpus={"state": "stale", "detail": "hangs"}), WARNING, "GPU telemetry is stale: hangs"),
        (
            pod(gpus={"state": "ok", "devices": [{**GPU, "error": "fell off the bus"}]}),
            CRITICAL,
            "GPU 0: fell off the bus",
        ),
        (pod(disks=[disk(84)]), OK, "no run"),
        (pod(disks=[disk(86)]), WARNING, "/data is 86 % full"),
        (pod(disks=[disk(96)]), CRITICAL, "/data is 96 % full"),
        (pod(disks=[{"path": "/x", "used": 0, "total": 0}]), OK, "no run"),
        # An agent writes null for a filesystem that does not answer.
        (pod(disks=[{"path": "/x", "used": None, "total": None}]), OK, "no run"),
        (pod(disks=[{"path": "/x"}, disk(96)]), CRITICAL, "/data is 96 % full"),
        (PodState(name="pod-a"), UNKNOWN, "there is no telemetry"),
    ],
)
def test_levels(state: PodState, level: int, says: str) -> None:
    if state.telemetry:
        # the parameters were made when the tests were collected
        state.telemetry_seen = time.monotonic()
    verdict = judge(state)
    assert verdict.level == level, verdict
    assert verdict.sentences[0].startswith(says)


def test_old_telemetry_is_unknown_and_a_known_failure_outranks_it() -> None:
    for records, level in (((STARTED,), UNKNOWN), ((STARTED, incident("critical")), CRITICAL)):
        state = pod(*records)
        state.telemetry_seen = time.monotonic() - 60
        assert judge(state).level == level


def test_the_line_is_one_line_with_one_bar() -> None:
    state = pod(
        STARTED, incident("critical"), disks=[{"path": "/my data/ü", "used": 1, "total": 2}]
    )
    line = judge(state).line()
    assert "\n" not in line
    assert line.count("|") == 1
    assert "'disk_my data_ü'=1B;;;0;2" in line
    assert "gpu0_util=93% gpu0_mem=7B;;;0;80" in line


def test_what_is_unknown_is_not_in_the_perfdata_as_zero() -> None:
    state = pod(
        gpus={
            "state": "ok",
            "devices": [
                {"index": 0, "util": None, "mem_used": 7, "mem_total": None, "error": None}
            ],
        }
    )
    perf = judge(state).perfdata
    assert "gpu0_util" not in perf
    assert perf["gpu0_mem"] == "7B;;;0;"


def test_coverage_names_what_cannot_be_seen() -> None:
    state = pod(
        coverage={
            "kernel_log": "hidden",
            "xid_events": "visible",
            "gpu_processes": "by-open-device",
        }
    )
    assert judge(state).coverage == ["kernel log: hidden", "gpu processes: by-open-device"]


@pytest.mark.parametrize(
    ("levels", "together"),
    [
        ([], UNKNOWN),
        ([OK, WARNING], WARNING),
        ([WARNING, UNKNOWN], UNKNOWN),
        ([UNKNOWN, CRITICAL, OK], CRITICAL),
        ([OK], OK),
    ],
)
def test_the_worst_of_several(levels: list[int], together: int) -> None:
    assert aggregate([Verdict(pod="p", level=level, sentences=[]) for level in levels]) == together


def test_a_link_that_failed_says_nothing_about_the_run() -> None:
    verdict = unreachable("p", "No answer.")
    assert (verdict.level, verdict.line()) == (UNKNOWN, "UNKNOWN - p: No answer.")
