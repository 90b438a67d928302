from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from bs4_common.trainers import registry
from bs4_common.trainers.steps import VALUES, StepReader
from tests.agent.trainers.samples import MEANINGS, PRIME_RL, coloured, plain

START = datetime(2026, 1, 7, 23, 50, tzinfo=UTC).timestamp()


def step_line(
    trainer: str, side: str, step: int, clock: str = "21:36:59", *, colours: bool = False
) -> bytes:
    message = next(
        m for (s, _, m), e in MEANINGS[trainer].items() if s == side and e and e[0] == "step"
    )
    message = f"Step {step} | " + message.partition(" | ")[2]
    return (coloured if colours else plain)("SUCCESS", message, clock)


@pytest.mark.parametrize("trainer", PRIME_RL)
@pytest.mark.parametrize("side", ["trainer", "orchestrator"])
def test_a_record_has_the_shape_of_the_steps_stream(trainer: str, side: str) -> None:
    reader = StepReader(registry.get(trainer), "demo", tz=0)
    reader.anchor(3, START)
    [record] = reader.feed(side, step_line(trainer, side, 4, "23:59:59", colours=True), "7:120", 3)
    expected = next(
        e for (s, _, _), e in MEANINGS[trainer].items() if s == side and e and e[0] == "step"
    )
    assert record == {
        "attempt": 3,
        "side": side,
        "step": 4,
        **{key: value for key, value in expected[2].items() if key in VALUES},
        "log_t": START + 599,
        "at": {"stream": f"log/demo/{side}", "cursor": "7:120"},
    }
    assert json.loads(json.dumps(record)) == record


def test_times_pass_midnight_by_the_lines_between_the_steps() -> None:
    reader = StepReader(registry.get("prime-rl-2026-01"), "demo", tz=0)
    reader.anchor(1, START)
    feed = reader.feed
    [first] = feed("trainer", step_line("prime-rl-2026-01", "trainer", 0, "23:59:58"), "1:0", 1)
    for clock in ("08:00:00", "16:00:00", "23:00:00"):
        assert feed("trainer", plain("INFO", "Saving checkpoint at step 1", clock), "1:1", 1) == []
    [second] = feed("trainer", step_line("prime-rl-2026-01", "trainer", 1, "00:00:02"), "1:2", 1)
    assert second["log_t"] - first["log_t"] == 86400 + 4


def test_without_an_anchor_there_is_no_date_unless_the_line_has_one() -> None:
    reader = StepReader(registry.get("prime-rl"), "demo")
    [record] = reader.feed("trainer", step_line("prime-rl", "trainer", 1), "1:0", 1)
    assert "log_t" not in record
    message = step_line("prime-rl", "trainer", 2).decode().partition("SUCCESS ")[2].strip()
    row = {"timestamp": "2026-11-20T21:37:07+00:00", "level": "SUCCESS", "message": message}
    [record] = reader.feed("trainer", b"[trainer0]:" + json.dumps(row).encode(), "1:9", 1)
    assert record["log_t"] == datetime(2026, 11, 20, 21, 37, 7, tzinfo=UTC).timestamp()


@pytest.mark.parametrize("date", ["1969-12-31T23:59:59Z", "9999-12-31T23:59:59-01:00"])
def test_a_date_that_no_wall_clock_shows_is_no_date(date: str) -> None:
    """The time of day in the line counts instead, as in a line without a date."""
    message = step_line("prime-rl", "trainer", 1).decode().partition("SUCCESS")[2].strip()
    line = json.dumps({"timestamp": date, "level": "SUCCESS", "message": message})
    reader = StepReader(registry.get("prime-rl"), "demo", tz=0)
    reader.anchor(1, START)
    [record] = reader.feed("trainer", line.encode(), "1:0", 1)
    assert record["log_t"] == START + 599


def test_a_clock_that_is_no_time_is_passed_over() -> None:
    reader = StepReader(registry.get("prime-rl"), "demo", tz=0)
    reader.anchor(1, START)
    [record] = reader.feed("trainer", step_line("prime-rl", "trainer", 1, "99:99:99"), "1:0", 1)
    assert "log_t" not in record


def test_the_same_line_in_a_second_file_says_nothing_new() -> None:
    reader = StepReader(registry.get("prime-rl-2026-01"), "demo")
    line = step_line("prime-rl-2026-01", "trainer", 5)
    assert len(reader.feed("trainer", line, "1:0", 1)) == 1
    assert reader.feed("trainer", line, "2:0", 1) == []
    assert len(reader.feed("trainer", line, "3:0", 2)) == 1  # another attempt is another step


def test_of_several_ranks_the_lowest_counts() -> None:
    reader = StepReader(registry.get("prime-rl"), "demo")
    for rank, loss, expected in (
        (1, b"0.0100", [0.01]),
        (2, b"0.0200", []),
        (0, b"0.0300", [0.03]),
        (1, b"0.0400", []),
    ):
        line = b"[trainer%d]:" % rank + step_line("prime-rl", "trainer", 1).replace(b"0.0012", loss)
        assert [record["loss"] for record in reader.feed("trainer", line, "1:0", 1)] == expected


def test_quoted_steps_are_no_steps() -> None:
    reader = StepReader(registry.get("prime-rl-2026-01"), "demo")
    line = step_line("prime-rl-2026-01", "orchestrator", 7).decode()
    for source, raw in (
        ("trainer", line),
        ("inference", line),
        ("env-x", line),
        ("orchestrator", line.replace("SUCCESS", "  DEBUG")),
        ("orchestrator", line.replace("SUCCESS", "   INFO")),
        ("orchestrator", f"completion: {line}"),
        ("orchestrator", line.replace("Step 7", "The model said: Step 7")),
        ("orchestrator", line.strip() + " and more"),
    ):
        assert reader.feed(source, raw.encode(), "1:0", 1) == []
    assert len(reader.feed("orchestrator", line.encode(), "1:0", 1)) == 1


# metrics.jsonl of the current generation

TRAINER_ROWS: list[dict[str, Any]] = [
    {
        "perf/throughput": 20311.25,
        "perf/throughput_per_gpu": 1.0,
        "perf/mfu": 12.34,
        "perf/peak_memory": 41.21,
    },
    {"optim/lr": 3e-6, "optim/grad_norm": 0.14203},
    {
        "loss/mean": 0.00123,
        "entropy/all/mean": 0.43101,
        "mismatch_kl/all/mean": 0.00071,
        "kl_ent_ratio/mean": 0.1,
    },
    {"time/step": 31.3125, "time/wait_for_batch": 2.0, "time/forward_backward": 20.0},
]
ORCHESTRATOR_ROW: dict[str, Any] = {
    "progress/tokens": 1000,
    "time/step": 42.51,
    "off_policy/max": 1.0,
    "train/agg/all/has_error/mean": 0.0078,
    "train/agg/effective/policy/reward/mean": 0.37512,
    "train/agg/effective/policy/is_truncated/mean": 0.0156,
    "train/agg/effective/policy/is_trainable/mean": 0.75,
    "train/reverse-text/effective/policy/reward/mean": 9.0,
}


def row(step: int, values: dict[str, Any], wall: float = 1000.5) -> bytes:
    return json.dumps({"step": step, "time": wall, **values}).encode() + b"\n"


def test_metrics_rows_make_the_same_record() -> None:
    reader = StepReader(registry.get("prime-rl"), "demo")
    yielded = [reader.feed_metrics(row(1, values), 1) for values in TRAINER_ROWS]
    assert yielded[:3] == [[], [], []]
    assert yielded[3] == [
        {
            "attempt": 1,
            "side": "trainer",
            "step": 1,
            "log_t": 1000.5,
            "time_s": 31.3125,
            "loss": 0.00123,
            "entropy": 0.43101,
            "mismatch_kl": 0.00071,
            "grad_norm": 0.14203,
            "lr": 3e-6,
            "throughput": 20311.25,
            "mfu": 12.34,
            "peak_mem_gib": 41.21,
            "wait_s": 2.0,
            "compute_s": 20.0,
        }
    ]
    [record] = reader.feed_metrics(row(3, ORCHESTRATOR_ROW), 1)
    assert record == {
        "attempt": 1,
        "side": "orchestrator",
        "step": 3,
        "log_t": 1000.5,
        "time_s": 42.51,
        "reward": 0.37512,
        "off_policy": 1.0,
        "error": pytest.approx(0.78),
        "truncation": pytest.approx(1.56),
        "trainable": 75.0,
    }


def test_metrics_refine_the_line_and_leave_its_nan() -> None:
    reader = StepReader(registry.get("prime-rl"), "demo", tz=0)
    reader.anchor(1, START)
    [line] = reader.feed(
        "trainer",
        step_line("prime-rl", "trainer", 1, "23:59:59").replace(b"Loss 0.0012", b"Loss nan"),
        "1:0",
        1,
    )
    assert line["loss"] == "nan"
    for values in TRAINER_ROWS[:2]:
        assert reader.feed_metrics(row(1, values), 1) == []
    [record] = reader.feed_metrics(row(1, TRAINER_ROWS[3]), 1)
    assert (record["loss"], record["time_s"], record["throughput"]) == ("nan", 31.3125, 20311.25)
    assert (record["at"], record["log_t"]) == (line["at"], line["log_t"])


def test_rows_of_an_earlier_attempt_are_not_this_ones() -> None:
    reader = StepReader(registry.get("prime-rl"), "demo")
    assert reader.feed_metrics(row(21, TRAINER_ROWS[3], wall=1000.0), 2, since=2000.0) == []
    [record] = reader.feed("trainer", step_line("prime-rl", "trainer", 21), "1:0", 2)
    assert record["time_s"] == 31.3
    [record] = reader.feed_metrics(row(21, TRAINER_ROWS[3], wall=2001.0), 2, since=2000.0)
    assert record["time_s"] == 31.3125


def test_metrics_may_come_before_the_line() -> None:
    reader = StepReader(registry.get("prime-rl"), "demo")
    [early] = reader.feed_metrics(row(1, TRAINER_ROWS[3]), 1)
    assert "at" not in early
    [record] = reader.feed("trainer", step_line("prime-rl", "trainer", 1), "1:0", 1)
    assert (record["time_s"], record["at"]["cursor"]) == (31.3125, "1:0")


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{",
        b"[]",
        b"{}",
        b'{"step": 1}',
        b'{"step": true, "time": 1, "optim/lr": 1}',
        b'{"step": 1, "time": -1, "optim/lr": 1}',
        b'{"step": 1, "time": 1e12, "optim/lr": 1, "time/step": 1}',
        b'{"step": 1, "time": 2, "eval/x": 3}',
        b'{"step": 1, "time": 2, "system/x": 3}',
        b'{"a":' * 50_000,
    ],
)
def test_other_rows_are_passed_over(raw: bytes) -> None:
    assert StepReader(registry.get("prime-rl"), "demo").feed_metrics(raw, 1) == []


def test_rewards_of_several_agents_are_not_one_number() -> None:
    two = {**ORCHESTRATOR_ROW, "train/agg/effective/judge/reward/mean": 0.9}
    [record] = StepReader(registry.get("prime-rl"), "demo").feed_metrics(row(3, two), 1)
    assert "reward" not in record


def test_2026_01_has_no_metrics_file() -> None:
    assert (
        StepReader(registry.get("prime-rl-2026-01"), "demo").feed_metrics(
            row(1, TRAINER_ROWS[3]), 1
        )
        == []
    )


def test_memory_is_bounded() -> None:
    reader = StepReader(registry.get("prime-rl"), "demo")
    for step in range(1, 2000):
        assert len(reader.feed_metrics(row(step, TRAINER_ROWS[3]), 1)) == 1
    assert sum(len(steps) for steps in reader._sides.values()) <= 256


def test_an_evaluation_that_names_its_step_is_a_point_of_its_environment() -> None:
    """prime-rl of January 2026 names none, so nothing is known of when it was."""
    line = (
        "Evaluated aime25 (Step 20) | Policy v19 |   3m 3s | Reward 0.3750 | Turns 1.0 | "
        "Branches 1.0 | Error 0.8% | Truncation 1.6%"
    )
    reader = StepReader(registry.get("prime-rl"), "demo", tz=0)
    reader.anchor(1, START)
    [point] = reader.feed("orchestrator", plain("SUCCESS", line, "23:59:59"), "1:0", 1)
    at = {"stream": "log/demo/orchestrator", "cursor": "1:0"}
    assert point == {
        "attempt": 1,
        "side": "eval:aime25",
        "step": 20,
        "val": 0.375,
        "log_t": START + 599,
        "at": at,
    }
    assert reader.feed("orchestrator", plain("SUCCESS", line, "23:59:59"), "1:9", 1) == []
