"""Rows of a metrics file and lines of a log that no healthy trainer writes: the steps around them
are recorded.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bs4_agent.runs.steplog import StepLog
from bs4_agent.streams.registry import Streams
from bs4_common.streams.segments import RecordNotJson, SegmentStream
from bs4_common.trainers import registry
from tests.support.interpreters import find
from tests.support.pod import NotHere

AGENTS = Path(__file__).resolve().parents[2] / "agents"
START = 1_800_000_000.0
DIGITS = b"1" + b"0" * 400
DEEP = b"[" * 30_000 + b"]" * 30_000


def step_log(directory: Path, trainer: str) -> StepLog:
    steps = StepLog(Streams(), directory / "steps", registry.get(trainer), "run", None)
    steps.anchor(1, START)
    return steps


def an_attempt(number: int) -> Any:
    """Return what the step log wants to know of an attempt that begins now by its own clock."""
    return SimpleNamespace(number=number, started_t=START, shim=None, launcher=None)


def recorded(directory: Path) -> list[dict[str, Any]]:
    return list(SegmentStream(directory / "steps", 1 << 20).records())


def row(step: int, **values: object) -> bytes:
    return json.dumps(
        {"step": step, "time": START + step, "time/step": 1.0, "optim/lr": 1e-6, **values}
    ).encode()


@pytest.mark.parametrize(
    ("odd", "values"),
    [
        (
            b'{"step":3,"time":1800000003.0,"time/step":1.0,"loss/mean":NaN,"optim/lr":1e-6}',
            {"loss": "nan"},
        ),
        (
            b'{"step":3,"time":1800000003.0,"time/step":1.0,"loss/mean":1e400,"optim/lr":1e-6}',
            {"loss": "inf"},
        ),
        (
            b'{"step":3,"time":1800000003.0,"time/step":1.0,"loss/mean":-%s,"optim/lr":1e-6}'
            % DIGITS,
            {"loss": "-inf"},
        ),
        (
            b'{"step":3,"time":1800000003.0,"time/step":1.0,"perf/mfu":1e308,"optim/lr":1e-6}',
            {"mfu": 1e308},
        ),
        (b'{"step":NaN,"time":1800000003.0,"time/step":1.0,"optim/lr":1e-6}', None),
        (b'{"step":1e400,"time":1800000003.0,"time/step":1.0,"optim/lr":1e-6}', None),
        (b'{"step":%s,"time":1800000003.0,"time/step":1.0,"optim/lr":1e-6}' % DIGITS, None),
        (b'{"step":"3","time":1800000003.0,"time/step":1.0,"optim/lr":1e-6}', None),
        (b'{"step":[],"time":1800000003.0,"time/step":1.0,"optim/lr":1e-6}', None),
        (b'{"step":3,"time":%s,"time/step":1.0,"optim/lr":1e-6}' % DIGITS, None),
        (b'{"step":3,"time":NaN,"time/step":1.0,"optim/lr":1e-6}', None),
        (
            b'{"step":3,"time":1800000003.0,"time/step":1.0,"optim/lr":1e-6,"more":' + DEEP + b"}",
            None,
        ),
        (b"\xff\xfe{]", None),
    ],
    ids=range(13),
)
def test_an_odd_row_of_the_metrics_file_is_recorded_as_far_as_it_can_be(
    odd: bytes, values: dict[str, object] | None, tmp_path: Path
) -> None:
    steps = step_log(tmp_path, "prime-rl")
    metrics = tmp_path / "metrics.jsonl"
    metrics.write_bytes(b"\n".join([row(2), odd, row(4), b""]))
    steps.feed_metrics(metrics, an_attempt(1))
    steps.flush()
    found = {record["step"]: record for record in recorded(tmp_path)}
    assert sorted(found) == ([2, 4] if values is None else [2, 3, 4])
    if values is not None:
        assert values.items() <= found[3].items()


@pytest.mark.parametrize("odd", [b"NaN", b"1e400", b"-" + DIGITS])
def test_an_odd_row_of_verls_file_logger_is_recorded(odd: bytes, tmp_path: Path) -> None:
    steps = step_log(tmp_path, "verl")
    line = b'{"step":3,"data":{"actor/pg_loss":%s,"timing_s/step":1.0,"perf/time_per_step":1.0}}'
    steps.feed("metrics", line % odd, "1:0", 1, START)
    steps.feed("metrics", b'{"step":%s,"data":{"timing_s/step":1.0}}' % odd, "1:1", 1, START)
    steps.feed("metrics", line % b"0.5", "1:2", 1, START)
    steps.flush()
    assert {record["step"] for record in recorded(tmp_path)} == {3}


LINE = (
    b"12:00:00 SUCCESS Step %s | Time: 0.40s | Loss: 0.0022 | Entropy: 0.4121 | Mismatch KL: "
    b"0.0007 | Grad. Norm: 0.1182 "
    b"| LR: 3.00e-06 | Throughput: %s tokens/s | MFU: 12.3%% | Peak Mem.: 41.2 GiB"
)


def test_an_odd_number_in_a_step_line_is_recorded_and_later_steps_too(tmp_path: Path) -> None:
    steps = step_log(tmp_path, "prime-rl-2026-01")
    for step, throughput in (
        (b"8", b"1e400"),
        (b"1" + b"0" * 30, b"100"),
        (b"9" * 5000, b"100"),
        (b"9", b"100"),
    ):
        steps.feed("trainer", LINE % (step, throughput), "1:0", 1, START)
    steps.flush()
    found = {record["step"]: record.get("throughput") for record in recorded(tmp_path)}
    assert found == {8: "inf", 9: 100.0}


def test_a_record_that_can_never_be_written_is_dropped_and_said(tmp_path: Path) -> None:
    steps = step_log(tmp_path, "prime-rl")
    steps._pending.extend(
        [
            {"attempt": 1, "side": "trainer", "step": n, "loss": loss}
            for n, loss in ((1, float("nan")), (2, 0.5))
        ]
    )
    with pytest.raises(RecordNotJson, match="cannot be written"):
        steps.flush()
    steps.flush()
    assert [record["step"] for record in recorded(tmp_path)] == [2]


SMALL_STACK = """
import sys, threading
sys.path.insert(0, {agents!r})
from bs4_common import foreign_json
from bs4_common.streams.segments import parse
from bs4_common.trainers import headers, registry
from bs4_common.trainers.steps import StepReader
deep = b"[" * {levels} + b"]" * {levels}
head = b'{{"timestamp": "2026-01-01T00:00:00", "level": "INFO", "message": "x", "extra": '
line = head + deep + b"}}\\n"
def work():
    assert parse(deep) is None
    headers.unwrapped('{{"log":"' + "[" * {levels})
    for name in registry.ids():
        registry.get(name).parse_line("trainer", line)
        reader = StepReader(registry.get(name), "run")
        row = b'{{"step":1,"time":1,"time/step":1,"x":' + deep + b"}}"
        assert reader.feed_metrics(row, 1) == []
    done.append(True)
done = []
threading.stack_size(256 * 1024)
thread = threading.Thread(target=work)
thread.start()
thread.join()
print("done" if done else "failed")
"""


def interpreter(version: str | None) -> str:
    """Return this Python, or one of a version, whose absence skips the test."""
    if version is None:
        return sys.executable
    try:
        return str(find(version))
    except NotHere as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("levels", [3_000, 30_000])
@pytest.mark.parametrize("version", [None, "3.13"])
def test_a_deeply_nested_line_ends_nothing_in_a_thread_as_small_as_the_agents(
    version: str | None, levels: int
) -> None:
    """Python 3.13.0 ended with a segmentation fault."""
    script = SMALL_STACK.format(agents=str(AGENTS), levels=levels)
    done = subprocess.run(
        [interpreter(version), "-I", "-c", script],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout.strip()) == (0, "done"), done.stderr
