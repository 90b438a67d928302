"""verl's lines: every form that its releases and Ray print, to the right numbers."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from bs4_common.failures.facts import LogEvent
from bs4_common.runs.runlog import RunLog
from bs4_common.trainers import registry
from bs4_common.trainers.base import Event
from bs4_common.trainers.steps import StepReader

VERL = registry.get("verl")
RAY, ESC = "(TaskRunner pid=22370)", "\x1b[36m(TaskRunner pid=22370)\x1b[0m"


def meaning(line: str, source: str = "trainer") -> Event | None:
    return VERL.event(source, VERL.parse_line(source, line.encode()))


STEPS: list[tuple[str, str, int, dict[str, Any]]] = [
    (
        "0.2 to 0.4 prints three decimals",
        "(TaskRunner pid=16292) step:2 - global_seqlen/min:538646.000 - actor/kl_loss:0.001 - "
        "actor/entropy_loss:0.554 - actor/grad_norm:0.069 - perf/mfu/actor:1.018 - "
        "timing_s/step:96.551",
        2,
        {"entropy": 0.554, "grad_norm": 0.069, "mfu": pytest.approx(101.8), "time_s": 96.551},
    ),
    (
        "0.5 and later print what pprint prints",
        "(TaskRunner pid=222265) step:34 - global_seqlen/min:419336 - global_seqlen/max:497506 - "
        "actor/entropy:0.22266578674316406 - perf/mfu/actor_infer:0.0 - "
        "actor/ppo_kl:-8.163164312320433e-06 - actor/grad_norm:0.129638671875 - actor/lr:2e-06 - "
        "perf/mfu/actor:0.0 - training/global_step:34 - training/epoch:0 - "
        "critic/score/mean:-0.0182796623557806 - prompt_length/mean:100.0 - "
        "response_length/mean:911.5 - response_length/clip_ratio:0.25",
        34,
        {
            "entropy": 0.22266578674316406,
            "grad_norm": 0.129638671875,
            "lr": 2e-06,
            "mfu": 0.0,
            "reward": -0.0182796623557806,
            "seq_len": 1011.5,
            "truncation": 25.0,
        },
    ),
    (
        "numpy 2 scalars, colours, nan and inf",
        f"{ESC} step:1 - actor/entropy:0.3227 - actor/grad_norm:np.float64(0.15000000000000002) - "
        "actor/lr:np.float64(1e-06) - global_seqlen/min:484245 - num_turns/min:np.int32(2) - "
        "critic/score/mean:nan - x:inf - val-core/openai/gsm8k/acc/mean@1:np.float64(0.5) - "
        "timing_s/step:97.13",
        1,
        {
            "entropy": 0.3227,
            "grad_norm": 0.15000000000000002,
            "lr": 1e-06,
            "reward": "nan",
            "time_s": 97.13,
            "not_finite": "critic/score/mean",
            "validation": {"openai/gsm8k/acc/mean@1": 0.5},
        },
    ),
    (
        "a worker on another node",
        "(WorkerDict pid=1, ip=10.0.0.2) step:3 - actor/pg_loss:-0.01",
        3,
        {"loss": -0.01},
    ),
    (
        "-inf",
        f"{RAY} step:4 - actor/grad_norm:-inf - actor/pg_loss:inf",
        4,
        {"grad_norm": "-inf", "loss": "inf"},
    ),
    (
        "np.float64(nan)",
        f"{RAY} step:4 - actor/grad_norm:np.float64(nan)",
        4,
        {"grad_norm": "nan", "not_finite": "actor/grad_norm"},
    ),
    (
        "0.9 puts the actor's numbers below it",
        f"{RAY} step:5 - actor/loss:0.5 - actor/mfu:0.3",
        5,
        {"loss": 0.5, "mfu": 30.0},
    ),
    (
        "SFT up to 0.5, without Ray",
        "step:50 - train/loss:0.5 - train/lr(1e-3):0.01 - train/time(s):3.25",
        50,
        {"loss": 0.5, "lr": 1e-05, "time_s": 3.25},
    ),
    (
        "SFT of 0.9",
        (
            "step:7 - train/loss:0.25 - train/grad_norm:1.5 - train/lr:1e-05 - train/mfu:0.4 - "
            "train/total_tokens(B):0.1"
        ),
        7,
        {"loss": 0.25, "grad_norm": 1.5, "lr": 1e-05, "mfu": 40.0},
    ),
    (
        "behind SFT's bar",
        "Epoch 1/10:  12%|█▏ | 5/40 [00:10<01:00,  2.0s/it]step:5 - train/loss:0.5",
        5,
        {"loss": 0.5},
    ),
    (
        "said by many",
        f"{RAY} step:6 - actor/pg_loss:0.5 [repeated 3x across cluster]",
        6,
        {"loss": 0.5},
    ),
    (
        "a value that is no number is left out",
        f"{RAY} step:8 - actor/pg_loss:0.5 - model/name:qwen - perf/throughput:12",
        8,
        {"loss": 0.5, "throughput": 12.0},
    ),
    (
        "a row of the file logger",
        json.dumps({"step": 9, "data": {"actor/grad_norm": 0.5, "timing_s/step": 60.5}}),
        9,
        {"grad_norm": 0.5, "time_s": 60.5},
    ),
    (
        "whose NaN is null",
        json.dumps(
            {"step": 10, "data": {"actor/grad_norm": None, "critic/score/mean": 0.5}},
            separators=(",", ":"),
        ),
        10,
        {"grad_norm": "nan", "reward": 0.5, "not_finite": "actor/grad_norm"},
    ),
]


@pytest.mark.parametrize(
    ("line", "step", "values"), [case[1:] for case in STEPS], ids=[case[0] for case in STEPS]
)
def test_every_form_of_a_step_gives_its_numbers(
    line: str, step: int, values: dict[str, Any]
) -> None:
    found = meaning(line)
    assert found is not None
    assert (found.kind, found.side, found.step) == ("step", "trainer", step)
    assert {key: value for key, value in found.values.items() if key != "unordered"} == values


OTHERS: list[tuple[str, str, int | None, dict[str, Any]]] = [
    (
        (
            "step:0 - val-aux/openai/gsm8k/reward/mean@1:0.565 - "
            "val-core/openai/gsm8k/acc/mean@1:0.508"
        ),
        "eval",
        0,
        {"reward": 0.508, "env": "openai/gsm8k", "validation": {"openai/gsm8k/acc/mean@1": 0.508}},
    ),
    ("step:50 - val/loss:0.7", "eval", 50, {"loss": 0.7, "validation": {"val/loss": 0.7}}),
    (
        f"{ESC} \rTraining Progress:  33%|███▎      | 1/3 [00:02<00:04,  2.01s/it]",
        "heartbeat",
        1,
        {"desc": "Training Progress", "percent": 33, "current": 1, "total": 3, "time_s": 2.01},
    ),
    (
        "Training Progress:   0%|          | 0/125 [04:45<?, ?it/s]",
        "heartbeat",
        0,
        {"desc": "Training Progress", "percent": 0, "current": 0, "total": 125},
    ),
    (
        "Training Progress:  40%|████      | 50/125 [26:04:45<39:00:00, 1880.0s/it]",
        "heartbeat",
        50,
        {
            "desc": "Training Progress",
            "percent": 40,
            "current": 50,
            "total": 125,
            "time_s": 1880.0,
        },
    ),
    (
        "Epoch 2/10:  12%|█▏        | 5/40 [00:10<01:10,  2.0s/it]",
        "heartbeat",
        None,
        {"desc": "Epoch 2/10", "percent": 12, "current": 5, "total": 40},
    ),
    (f"{RAY} Total training steps: 30", "starting", None, {"what": "loop", "max_steps": 30}),
    (
        f"{RAY} TaskRunner hostname: node-1, PID: 12",
        "starting",
        None,
        {"what": "process", "host": "node-1", "pid": 12},
    ),
    (
        f"{RAY} Size of train dataloader: 12, Size of val dataloader: 1",
        "starting",
        None,
        {"what": "data"},
    ),
    ("ray init kwargs: {'num_cpus': None}", "starting", None, {"what": "process"}),
    (
        "2026-01-07 10:00:00,123\tINFO worker.py:1918 -- Started a local Ray instance.",
        "starting",
        None,
        {"what": "process"},
    ),
    (f"{RAY} Training from scratch", "starting", None, {"what": "scratch"}),
    (f"{RAY} Setting global step to 20", "resume", 20, {}),
    (f"{RAY} Resuming from /data/ckpt/global_step_20", "resume", 20, {}),
    (
        f"{RAY} local_global_step_folder: checkpoints/p/e/global_step_20",
        "save",
        20,
        {"part": "actor"},
    ),
    (
        f"{RAY} [FullyAsyncTrainer] local_global_step_folder: checkpoints/p/e/global_step_4",
        "save",
        4,
        {"part": "actor"},
    ),
    ("Found latest checkpoint: /o/checkpoints/global_step_17 (step 17)", "resume", 17, {}),
    ("Saving checkpoint to: /o/checkpoints/global_step_3", "save", 3, {"part": "model"}),
    (f"{RAY} Final validation metrics: {{'val-core/x/acc/mean@1': 0.5}}", "finished", None, {}),
    (f"{RAY} 'Final validation metrics: None'", "finished", None, {}),
    (
        f"{RAY} (\"Final validation metrics: {{'val-core/x/acc/mean@1': 0.5, \"",
        "finished",
        None,
        {},
    ),
    ("Error executing job with overrides: ['trainer.save_freq=5']", "fatal", None, {}),
    (
        f"{RAY} torch.OutOfMemoryError: CUDA out of memory. Tried to allocate",
        "gpu-memory",
        None,
        {"error": "torch.OutOfMemoryError"},
    ),
]


@pytest.mark.parametrize(("line", "kind", "step", "values"), OTHERS)
def test_what_else_its_lines_mean(
    line: str, kind: str, step: int | None, values: dict[str, Any]
) -> None:
    found = meaning(line)
    assert found is not None
    assert (found.kind, found.side, found.step, dict(found.values)) == (
        kind,
        "trainer",
        step,
        values,
    )


@pytest.mark.parametrize(
    "line",
    [
        "the answer is step:5 - a/b:1",
        f"{RAY} [response] step:5 - actor/pg_loss:0.5 is what it printed",
        f"{RAY} step:5 - this is how I would do it",
        f"{RAY} step:5",
        "step: 5 - actor/pg_loss:0.5",
        '{"step": -1, "data": {"a": 1}}',
        '{"step": 1, "data": []}',
        '{"step": 1, "da',
        f"{RAY} Training Progress is good",
        "(TaskRunner pid=1) I said: Final validation metrics: none yet",
    ],
)
def test_near_misses_mean_nothing(line: str) -> None:
    found = meaning(line)
    assert found is None, found


def test_a_line_of_another_program_means_nothing() -> None:
    assert meaning("step:5 - actor/pg_loss:0.5", "inference") is None
    assert VERL.event_words("kernel", ()) == []


@pytest.mark.parametrize("line", [case[1] for case in STEPS] + [case[0] for case in OTHERS])
def test_every_event_holds_a_word_that_the_sieve_looks_for(line: str) -> None:
    found = meaning(line)
    assert found is not None
    text = VERL.parse_line("trainer", line.encode()).text
    wanted = VERL.event_words("trainer", ())
    assert any(word in text for word in wanted)
    rare = VERL.event_words("trainer", {"step", "heartbeat"})
    assert found.kind in ("step", "heartbeat") or any(word in text for word in rare)


def test_a_line_of_a_thousand_metrics_and_one_that_was_cut() -> None:
    pairs = " - ".join(f"val-aux/source_{n}/reward/mean@1:0.{n:04d}" for n in range(200))
    found = meaning(f"{RAY} step:5 - actor/pg_loss:0.5 - {pairs}")
    assert found is not None
    assert found.values["loss"] == 0.5
    cut = (
        f"{RAY} step:5 - actor/pg_loss:0.5 - "
        + " - ".join(f"val-aux/s_{n}/reward/mean@1:{n}.25" for n in range(900))
        + " - actor/lr:2e-06"
    )
    assert meaning(cut) is not None
    began = time.monotonic()
    for _ in range(20):
        meaning("step:1 - " + "a:1 - " * 3000 + "!")
        meaning("(" + "a" * 20000 + " pid=1")
        meaning("Training Progress:   0%|" + "|" * 20000)
    assert time.monotonic() - began < 20


def test_what_ray_writes_around_a_line_goes() -> None:
    for raw in (
        f"{ESC} hello",
        "(raylet) hello",
        "(TaskRunnerV1.run pid=3, ip=10.0.0.2) hello [repeated 12x across cluster]",
    ):
        assert VERL.parse_line("trainer", raw.encode()).text == "hello"
    assert VERL.parse_line("trainer", b"(not a prefix) hello").text == "(not a prefix) hello"


def feed(reader: StepReader, line: str, cursor: str = "1:0") -> list[dict[str, Any]]:
    return reader.feed("trainer", line.encode(), cursor, 1)


def test_one_line_tells_both_sides() -> None:
    """What comes of rollouts is where every trainer's is, so curves and detectors find it."""
    found = feed(
        StepReader(VERL, "demo"),
        f"{RAY} step:3 - actor/pg_loss:0.5 - critic/score/mean:0.25 - "
        "response_length/clip_ratio:0.5",
    )
    at = {"stream": "log/demo/trainer", "cursor": "1:0"}
    assert found == [
        {"attempt": 1, "side": "trainer", "step": 3, "loss": 0.5, "at": at},
        {
            "attempt": 1,
            "side": "orchestrator",
            "step": 3,
            "reward": 0.25,
            "truncation": 50.0,
            "at": at,
        },
    ]


def test_a_validation_is_a_point_of_its_own_and_no_step() -> None:
    reader, log, at = (
        StepReader(VERL, "demo"),
        RunLog(run="demo", attempt=1),
        {"stream": "log/demo/trainer", "cursor": "1:0"},
    )
    point = {"attempt": 1, "side": "eval:math500/acc/mean@1", "at": at}
    alone = feed(
        reader,
        f"{RAY} step:0 - val-aux/math500/reward/mean@1:0.1 - "
        "val-core/math500/acc/mean@1:np.float64(0.5)",
    )
    assert alone == [{**point, "step": 0, "val": 0.5}]
    found = feed(reader, f"{RAY} step:50 - actor/pg_loss:0.5 - val-core/math500/acc/mean@1:0.604")
    assert found == [
        {"attempt": 1, "side": "trainer", "step": 50, "loss": 0.5, "at": at},
        {**point, "step": 50, "val": 0.604},
    ]
    assert feed(reader, f"{RAY} step:60 - val-core/math500/acc/mean@1:nan") == [], (
        "no number is no point"
    )
    assert feed(reader, "step:100 - val/loss:0.7")[0]["side"] == "eval:val/loss"
    for record in (*alone, *found):
        log.record(record)
    assert [record["side"] for record in log.steps] == ["trainer"]


def test_the_file_loggers_row_and_the_line_are_one_step() -> None:
    reader = StepReader(VERL, "demo")
    row = json.dumps({"step": 3, "data": {"actor/pg_loss": 0.5}}).encode()
    assert len(reader.feed("metrics", row, "1:0", 1)) == 1
    assert feed(reader, f"{RAY} step:3 - actor/pg_loss:0.5") == []


def test_late_lines_never_move_the_step_backwards() -> None:
    log = RunLog(run="demo", attempt=1)
    for m, step in enumerate([1, 2, 5, 3, 4, 3, 6]):
        event = meaning(f"{RAY} step:{step} - actor/pg_loss:0.5 - timing_s/step:60")
        assert event is not None
        before = log.side("trainer").last_step or 0
        log.add(
            LogEvent(
                event=event,
                m=float(m),
                text="",
                source="trainer",
                stream="",
                cursor="",
                file="",
                offset=0,
                line=0,
            )
        )
        assert (log.side("trainer").last_step or 0) >= before
    side = log.side("trainer")
    assert (side.last_step, side.last_step_m, side.steps) == (6, 6.0, 6)


def test_prime_rl_may_still_go_back_to_an_earlier_step() -> None:
    """A rank that torchrun has started again within the attempt does its steps anew."""
    log = RunLog(run="demo", attempt=1)
    for m, step in enumerate([5, 6, 4]):
        log.add(
            LogEvent(
                event=Event("step", "trainer", {}, step),
                m=float(m),
                text="",
                source="trainer",
                stream="",
                cursor="",
                file="",
                offset=0,
                line=0,
            )
        )
    assert log.side("trainer").last_step == 4


def bar(done: int, rate: str = "20.0s/it") -> str:
    return f"Training Progress:  10%|█   | {done}/10000 [05:23<48:27, {rate}]"


def test_a_progress_bar_alone_gives_the_step_and_how_long_it_takes() -> None:
    """A run that logs to W&B only prints no line of a step."""
    reader, log = StepReader(VERL, "demo"), RunLog(run="demo", attempt=1)
    for m, line in enumerate((bar(15, "?it/s"), bar(16), bar(17, "4.0it/s"))):
        event = meaning(line)
        assert event is not None
        log.add(LogEvent(event=event, m=float(m), text="", source="trainer"))
        for record in feed(reader, line):
            log.record(record)
    assert [(row["step"], row["time_s"]) for row in log.steps] == [(16, 20.0), (17, 0.25)]
    assert (log.side("trainer").last_step, log.side("trainer").steps) == (17, 2)
    assert log.median_step_s() == 20.0
    assert feed(reader, "Epoch 2/10:  12%|█   | 5/40 [00:10<01:10,  2.0s/it]") == []


def test_a_line_of_a_step_says_more_than_its_bar() -> None:
    reader, log = StepReader(VERL, "demo"), RunLog(run="demo", attempt=1)
    line = f"{RAY} step:16 - actor/pg_loss:0.5 - timing_s/step:60"
    for text in (line, bar(16), bar(17), line.replace("16", "17")):
        event = meaning(text)
        assert event is not None
        log.add(LogEvent(event=event, m=0.0, text="", source="trainer"))
        for record in feed(reader, text):
            log.record(record)
    assert [(row["step"], row["time_s"], row["loss"]) for row in log.steps] == [
        (16, 60.0, 0.5),
        (17, 60.0, 0.5),
    ]
    assert list(log.sides["trainer"].durations) == [60.0, 60.0]
