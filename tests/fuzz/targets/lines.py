"""Lines of logs and of metrics files, as the readers of all three trainers take them apart.

Whatever a line holds, the steps that come out of it are records that can be written as JSON and
that the console accepts.
"""

from __future__ import annotations

import contextlib
import json
from types import SimpleNamespace

from bs4_agent.runs.steplog import StepLog
from bs4_agent.streams.registry import Streams
from bs4_common.streams.segments import RecordTooLarge
from bs4_common.trainers import registry
from bs4_common.trainers.base import Trainer
from bs4_common.trainers.steps import StepReader
from bs4_console.pods.gate import records, rules
from tests.fuzz.nesting import check_nesting
from tests.fuzz.scratch import scratch

_STARTED = 1_800_000_000.0
_SOURCES = ("trainer", "orchestrator", "inference", "metrics", "kernel")

SEEDS = [
    b"12:00:00 SUCCESS Step 8 | Time: 0.40s | Loss: 0.0022 | Entropy: 0.4121 | Mismatch KL: 0.0007 "
    b"| Grad. Norm: 0.1182 | LR: 3.00e-06 | Throughput: 100 tokens/s | MFU: 12.3% | Peak Mem.: "
    b"41.2 GiB\n",
    b"12:00:01 SUCCESS Step 8 | Time: 1.20s | Reward: 0.4100 | Seq. Length: 512.0 tokens/sample | "
    b"Async Level: 1 | Max. Off-Policy Level: 2\n",
    b"23:59:59    INFO Starting training loop (max_steps=20)\n00:00:01   ERROR failed\n",
    b'{"step":3,"time":1800000003.0,"time/step":1.0,"loss/mean":0.5,"optim/lr":1e-6}\n',
    b'{"step":3,"data":{"actor/pg_loss":0.5,"timing_s/step":1.0,"perf/time_per_step":1.0}}\n',
    b"(TaskRunner pid=16292) step:2 - global_seqlen/min:538646.000 - actor/kl_loss:0.001 - "
    b"actor/grad_norm:0.069 - perf/mfu/actor:1.018 - timing_s/step:96.551\n",
    b'{"timestamp": "1969-12-31T23:59:59Z", "level": "SUCCESS", "message": "Step 3 | Time: 0.40s | '
    b'Loss: 0.1"}\n',
    b'{"timestamp": "9999-12-31T23:59:59-01:00", "level": "SUCCESS", "message": "Step 4 | '
    b'Time: 0.40s | Loss: 0.1"}\n',
    b'{"timestamp": "2026-01-01T00:00:00", "level": "INFO", "message": "Step 3 | Time: 0.40s | '
    b'Loss: 0.1", "module": "train", "extra": {"a": 1}}\n',
    b'{"timestamp": "2026-01-01T00:00:00Z", "level": "INFO", "type": "progress", "desc": "x", '
    b'"current": 1, "total": 2, "percent": 50}\n',
    b"INFO 01-02 12:00:00 [core.py:12] Avg prompt throughput: 1.0 tokens/s\n"
    b"[rank0]: [default0]:Traceback (most recent call last):\n",
    b'{"log":"12:00:00    INFO x\\n","stream":"stdout","time":"2026-01-01T00:00:00Z"}\n',
]


def feed(data: bytes) -> None:
    """Read the lines with each trainer's reader, as each log and as its metrics file."""
    for name in registry.ids():
        trainer = registry.get(name)
        for source in _SOURCES:
            reader = StepReader(trainer, "r", tz=0)
            reader.anchor(1, _STARTED)
            for line in data.split(b"\n"):
                for record in reader.feed(source, line, "1:0", 1, near=_STARTED):
                    _check(record)
                if source == "metrics":
                    for record in reader.feed_metrics(line, 1):
                        _check(record)
        _write(trainer, data)


def _write(trainer: Trainer, data: bytes) -> None:
    """Record the steps of a log and of a metrics file. What is found is written, at once."""
    with scratch() as directory, contextlib.closing(Streams()) as streams:
        steps = StepLog(streams, directory / "steps", trainer, "r", None)
        steps.anchor(1, _STARTED)
        for line in data.split(b"\n"):
            steps.feed("trainer", line, "1:0", 1, _STARTED)
        metrics = directory / "metrics.jsonl"
        metrics.write_bytes(data + b"\n")
        attempt = SimpleNamespace(number=1, started_t=0.0, shim=None, launcher=None)
        steps.feed_metrics(metrics, attempt)  # type: ignore[arg-type]
        with contextlib.suppress(RecordTooLarge):
            steps.flush()
        assert steps.written, "a record is kept that can never be written"


def _check(record: dict[str, object]) -> None:
    """Raise if a steps record cannot be written, or is none for the console. A step beyond all
    runs is left to the console, which refuses it.
    """
    if abs(int(str(record["step"]))) > rules.STEP_MOST:
        return
    stamped = {"t": _STARTED, "m": 1.0, "b": "boot-1", **record}
    check_nesting(stamped)
    json.dumps(stamped, allow_nan=False).encode()
    records.check("steps/r", stamped)
