"""Healthy records, as an agent writes them: what the targets that read records start from."""

from __future__ import annotations

import json
from typing import Any

_STAMP = {"m": 1.0, "b": "boot-1"}


def _line(t: float, **fields: Any) -> bytes:
    return json.dumps({"t": 1795324900.0 + t, **_STAMP, **fields}).encode() + b"\n"


_INCIDENT = {
    "type": "incident",
    "event": "opened",
    "run": "r",
    "attempt": 1,
    "failure": "cuda-oom",
    "title": "Out of memory",
    "role": "root",
    "severity": "critical",
    "summary": "S",
    "playbook": "cuda-oom",
    "coverage": ["GPUs are absent"],
    "evidence": [{"source": "trainer", "stream": "log/r/trainer", "cursor": "1:10", "text": "x"}],
}

#: Some lines of a journal: a run, a launch, two incidents, a plan, an ended attempt.
JOURNAL = [
    _line(0, type="agent", event="started", version="0.1.0", bundle="b", pid=1),
    _line(1, type="run", event="registered", run="r", trainer="prime-rl", max_steps=100),
    _line(2, type="run", event="attempt-started", run="r", attempt=1, argv=["rl"], resume=None),
    _line(3, type="action", action="A", kind="launch", who="w", run="r", event="accepted")[:-2]
    + b', "body": {}, "steps": [{"title": "Start", "command": "c"}]}\n',
    _line(4, type="action", action="A", run="r", event="intent", step=0),
    _line(5, type="action", action="A", run="r", event="step-done", step=0, detail="runs"),
    _line(6, type="action", action="A", run="r", event="done", result={"recovered": True}),
    _line(7, **_INCIDENT, incident="i1"),
    _line(8, **{**_INCIDENT, "severity": "warning"}, incident="i2"),
    _line(9, type="plan", action="B", playbook="cuda-oom", run="r", attempt=1)[:-2]
    + b', "plan_hash": "h", "expires_m": 9.0, "expires_t": 1795325000.0, "plan": {"steps": []}}\n',
    _line(10, type="mode", run="r", playbook="cuda-oom", mode="ask"),
    _line(11, type="order", run="r", last=3, at_least=2, milestones=0, synced=True, who="w"),
    _line(12, type="guard", run="r", event="relieved", detail="d"),
    _line(13, type="sync", run="r", event="uploading", to="b2", step=4, bytes=10, done=5, total=10),
    _line(14, type="report", run="r", attempt=1, event="written", report="report/r.1", bytes=9),
    _line(15, type="note", run="r", text="x", who="w"),
    _line(16, type="gap", stream="journal", reason="full"),
    _line(17, type="run", event="attempt-ended", run="r", attempt=1, code=1, good=False),
]

#: One sample of a pod with one GPU.
TELEMETRY = _line(
    20,
    gpus={
        "state": "ok",
        "driver": "580.65.06",
        "age_s": 0.01,
        "devices": [
            {
                "index": 0,
                "uuid": "GPU-0",
                "name": "H100",
                "util": 23,
                "mem_used": 7,
                "mem_total": 85,
                "temp": 40,
                "power": 239.0,
                "power_limit": 700.0,
                "throttle": [],
                "procs": [{"pid": 5, "mem": 7}],
            }
        ],
        "xids": [],
    },
    host={
        "cpu": 1.0,
        "cores": 2,
        "load1": 1.4,
        "mem_used": 1,
        "mem_total": 2,
        "disks": [{"path": "/data", "used": 8, "total": 10, "free": 2}],
        "net": {"rx": 1, "tx": None},
    },
    runs=[
        {
            "run": "r",
            "attempt": 1,
            "alive": True,
            "components": [{"component": "trainer", "pid": 5, "cpu": 1.0, "rss": 3}],
        }
    ],
    coverage={"kernel_log": "visible"},
)

#: Some records of steps.
STEPS = [
    _line(30, attempt=1, side="trainer", step=0, time_s=1.5, loss=0.1, log_t=1795324930),
    _line(31, attempt=1, side="trainer", step=1, time_s=1.5, loss="nan", log_t=1795324931),
    _line(32, attempt=1, side="orchestrator", step=1, reward=0.5, async_level=1),
    _line(33, attempt=1, side="eval:aime", step=1, val=0.25),
]
