"""What lines mean, in both generations. The corpus of rendered samples is checked too where it is
at hand.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from bs4_common.trainers import registry
from bs4_common.trainers.base import Event
from bs4_common.trainers.grammar import number, pattern, seconds
from tests.agent.trainers.samples import (
    CORPUS,
    CORPUS_FOLDERS,
    MEANINGS,
    PRIME_RL,
    Meaning,
    coloured,
    plain,
)

ALL = [(trainer, key) for trainer, table in MEANINGS.items() for key in table]


def meaning(event: Event | None) -> Meaning:
    return None if event is None else (event.kind, event.step, dict(event.values))


def read(trainer: str, source: str, raw: bytes) -> Meaning:
    generation = registry.get(trainer)
    return meaning(generation.event(source, generation.parse_line(source, raw)))


def as_json(level: str, message: str) -> bytes:
    row = {
        "timestamp": "2026-11-20T21:37:07.695476+00:00",
        "level": level,
        "message": message,
        "module": "x",
        "function": "f",
        "line": 1,
    }
    return json.dumps(row).encode()


@pytest.mark.parametrize(("trainer", "key"), ALL)
def test_each_line_in_every_dress(trainer: str, key: tuple[str, str, str]) -> None:
    source, level, message = key
    expected = MEANINGS[trainer][key]
    prefix = b"[default0]:" if source == "trainer" else b""
    debug = f"{message} [train.py::405]"
    for raw in (
        plain(level, message),
        coloured(level, message),
        prefix + coloured(level, message),
        plain(level, debug),
    ):
        assert read(trainer, source, raw) == expected
    if trainer == "prime-rl":
        assert (
            read(trainer, source, (b"[trainer0]:" if prefix else b"") + as_json(level, message))
            == expected
        )


@pytest.mark.parametrize(("trainer", "key"), ALL)
def test_no_line_counts_in_another_log_at_another_level_or_inside_other_text(
    trainer: str, key: tuple[str, str, str]
) -> None:
    source, level, message = key
    if MEANINGS[trainer][key] is None:
        return
    others = {"trainer", "orchestrator", "launcher", "inference"} - {source}
    known_elsewhere = {other for other, _, text in MEANINGS[trainer] if text == message}
    # both sides save, resume and fail in the same words
    if "checkpoint" in message or "Fatal" in message:
        known_elsewhere |= {"trainer", "orchestrator"}
    for other in others - known_elsewhere:
        assert read(trainer, other, plain(level, message)) is None
    for wrong in {"INFO", "SUCCESS", "WARNING", "ERROR"} - {level}:
        assert read(trainer, source, plain(wrong, message)) is None
    assert read(trainer, source, plain("DEBUG", message)) is None
    assert read(trainer, source, plain(level, f"Completion: {message}")) is None
    assert read(trainer, source, f"Completion: {message}".encode()) is None
    assert read(trainer, source, f"\t{plain(level, message).decode()}".encode()) is None


@pytest.mark.parametrize(
    ("trainer", "source", "message"),
    [
        (t, s, m)
        for t, table in MEANINGS.items()
        for (s, _, m), meaning_ in table.items()
        if meaning_ and meaning_[0] == "step"
    ],
)
def test_a_step_line_must_fit_whole(trainer: str, source: str, message: str) -> None:
    for text in (
        message + " | Extra: 1",
        message + ".",
        message[: len(message) // 2],
        "x " + message,
        message.replace("Step ", "step "),
    ):
        assert read(trainer, source, plain("SUCCESS", text)) is None


@pytest.mark.parametrize("trainer", PRIME_RL)
@pytest.mark.parametrize(
    ("shown", "value"),
    [("nan", "nan"), ("-nan", "nan"), ("inf", "inf"), ("-inf", "-inf"), ("-0.0012", -0.0012)],
)
def test_losses_that_are_no_numbers_are_words(trainer: str, shown: str, value: Any) -> None:
    message = next(
        m for (s, _, m), e in MEANINGS[trainer].items() if s == "trainer" and e and e[0] == "step"
    )
    event = read(trainer, "trainer", plain("SUCCESS", message.replace("0.0012", shown)))
    assert event is not None
    assert event[2]["loss"] == value


def test_several_environments_share_one_record() -> None:
    key = next(
        k for k in MEANINGS["prime-rl"] if k[0] == "orchestrator" and k[2].startswith("Step 3")
    )
    lines = (
        key[2] + "\n\t\t ╰─ reverse-text | Ratio 50.0% | Reward 0.1\n\t\t ╰─ alphabet-sort | Ratio "
        "50.0% | Reward 0.2"
    )
    assert read("prime-rl", "orchestrator", as_json("SUCCESS", lines)) == MEANINGS["prime-rl"][key]


def test_a_traceback_in_json_tells_the_error() -> None:
    row = {
        "timestamp": "2026-11-20T21:37:07+00:00",
        "level": "ERROR",
        "message": "Fatal error in train",
    }
    error = "FileNotFoundError: Checkpoint not found at /out/demo/checkpoints/step_37/trainer"
    raw = json.dumps(
        {**row, "exception": f"Traceback (most recent call last):\n  File ...\n{error}\n"}
    ).encode()
    assert read("prime-rl", "trainer", raw) == (
        "fatal",
        None,
        {"function": "train", "error": error},
    )
    event = read("prime-rl", "trainer", b"[trainer0]:" + error.encode())
    assert event == ("fatal", 37, {"path": "/out/demo/checkpoints/", "part": "trainer"})


@pytest.mark.parametrize("trainer", PRIME_RL)
@pytest.mark.parametrize(
    ("source", "raw", "values"),
    [
        (
            "inference",
            "(EngineCore pid=7) ERROR 11-20 22:41:26 [core.py:1510] ValueError: Free memory on "
            "device cuda:0 (1.25/79.18 GiB) on startup is less than desired GPU memory "
            "utilization (0.9, 71.26 GiB). Decrease GPU memory utilization",
            {"device": "cuda:0", "free_gib": 1.25, "total_gib": 79.18},
        ),
        (
            "inference",
            (
                "ValueError: Free memory on device (48.97/79.18 GiB) on startup is less than "
                "desired GPU memory utilization (0.9, 71.26 GiB)."
            ),
            {"free_gib": 48.97, "total_gib": 79.18},
        ),
        (
            "trainer",
            (
                "[default0]:[rank0]: torch.OutOfMemoryError: CUDA out of memory. Tried to "
                "allocate 2.16 GiB. GPU 0 has a total capacity"
            ),
            {"error": "torch.OutOfMemoryError"},
        ),
    ],
)
def test_too_little_gpu_memory(trainer: str, source: str, raw: str, values: dict[str, Any]) -> None:
    assert read(trainer, source, raw.encode()) == ("gpu-memory", None, values)


@pytest.mark.parametrize("trainer", PRIME_RL)
def test_what_the_server_says(trainer: str) -> None:
    busy = (
        b"(APIServer pid=18696) INFO 11-20 21:06:34 [loggers.py:335] Engine 000: Avg prompt "
        b"throughput: 0.2 tokens/s, Avg generation "
        b"throughput: 10.0 tokens/s, Running: 3 reqs, Waiting: 1 reqs, GPU KV cache usage: "
        b"12.5%, Prefix cache hit rate: 0.0%"
    )
    event = read(trainer, "inference", busy)
    assert event is not None
    assert event[0] == "heartbeat"
    assert event[2]["running"] == 3
    assert event[2]["kv_cache"] == 12.5
    assert read(trainer, "inference", b"INFO:     Application startup complete.") == (
        "ready",
        None,
        {},
    )
    dead = (
        b"(APIServer pid=1) ERROR 11-18 07:11:40 [async_llm.py:906] "
        b"vllm.v1.engine.exceptions.EngineDeadError: "
    )
    assert read(
        trainer, "inference", dead + b"EngineCore encountered an issue. See stack trace (above)"
    ) == (
        "inference-lost",
        None,
        {"error": "vllm.v1.engine.exceptions.EngineDeadError"},
    )


@pytest.mark.parametrize("trainer", registry.ids())
def test_torchrun_names_the_rank_that_failed(trainer: str) -> None:
    header = b"E1120 21:05:28.662000 99 torch/distributed/elastic/multiprocessing/api.py:882] "
    assert read(
        trainer, "trainer", header + b"failed (exitcode: -9) local_rank: 1 (pid: 77) of binary: x"
    ) == (
        "child-failed",
        None,
        {"process": "rank", "component": "rank", "code": -9, "local_rank": 1, "pid": 77},
    )


def test_the_step_that_the_packer_waits_for() -> None:
    raw = plain(
        "DEBUG",
        "Looking for batches in [PosixPath('out/run_default/rollouts/step_40/rollouts.bin')] "
        "(waiting 10.0s) [filesystem.py::77]",
    )
    assert read("prime-rl-2026-01", "trainer", raw) == (
        "waiting-batch",
        40,
        {"path": "out/run_default/rollouts/", "waited_s": 10.0},
    )


def test_an_exception_that_loguru_caught_is_fatal() -> None:
    raw = plain(
        "ERROR",
        "An error has been caught in function 'train', process 'MainProcess' (123), thread "
        "'MainThread' (140):",
    )
    assert read("prime-rl-2026-01", "trainer", raw) == ("fatal", None, {"function": "train"})


@pytest.mark.parametrize(
    ("message", "values"),
    [
        (
            "Train batch 0/128 (0.0%); 3 inflight episodes (train=3, eval=0)",
            {"have": 0, "inflight": 3},
        ),
        (
            (
                "Train batch 6/128 (4.7%) (a=2, b=4) (+1 buffered) | aime 3/10 (30.0%); 5 "
                "inflight episodes (train=4, eval=1 | a=2, aime=1)"
            ),
            {"have": 6, "buffered": 1, "inflight": 5, "eval": 1},
        ),
    ],
)
def test_heartbeats_of_every_shape(message: str, values: dict[str, Any]) -> None:
    event = read("prime-rl", "orchestrator", plain("INFO", message))
    assert event is not None
    assert event[0] == "heartbeat"
    assert {key: event[2].get(key) for key in values} == values
    assert not [key for key in event[2] if key.startswith("_")]


def test_json_progress_is_a_sign_of_life() -> None:
    row = {
        "timestamp": "2026-11-20T21:37:07+00:00",
        "level": "INFO",
        "type": "progress",
        "desc": "Generating",
        "current": 50,
        "total": 100,
    }
    raw = json.dumps({**row, "percent": 50, "step": 3}).encode()
    assert read("prime-rl", "orchestrator", raw) == (
        "heartbeat",
        3,
        {"desc": "Generating", "percent": 50, "current": 50, "total": 100},
    )


@pytest.mark.parametrize("trainer", registry.ids())
def test_what_tail_shows_of_the_trainer_is_not_the_launchers_word(trainer: str) -> None:
    assert (
        read(trainer, "launcher", b"[default0]:" + plain("ERROR", "Terminating all processes..."))
        is None
    )


@pytest.mark.parametrize("trainer", PRIME_RL)
def test_a_good_end_needs_both_sides(trainer: str) -> None:
    generation = registry.get(trainer)
    both = [Event("finished", "orchestrator"), Event("finished", "trainer")]
    assert generation.good_end(both)
    assert not generation.good_end(both[:1])
    assert not generation.good_end(both[1:])
    assert not generation.good_end([Event("finished", "launcher"), both[0]])


# The rendered samples of the real trainers

corpus = pytest.mark.skipif(not CORPUS.is_dir(), reason="the shared corpus is not here")
NAMES = {
    "trainer": "trainer",
    "orchestrator": "orchestrator",
    "rl": "launcher",
    "inference": "inference",
}


@corpus
@pytest.mark.parametrize("trainer", PRIME_RL)
@pytest.mark.parametrize("suffix", [".log", ".ansi.log", ".jsonl.log"])
def test_every_sample_line_is_known(trainer: str, suffix: str) -> None:
    table = MEANINGS[trainer]
    generation = registry.get(trainer)
    seen = 0
    for name, source in NAMES.items():
        path = CORPUS / CORPUS_FOLDERS[trainer] / f"{name}{suffix}"
        for raw in path.read_bytes().splitlines() if path.exists() else ():
            line = generation.parse_line(source, raw)
            if line.continuation or line.logger == "progress":
                continue
            first = line.text.partition("\n")[0]
            # a KeyError: a sample that has no meaning here yet
            expected = table[(source, line.level, first)]
            found = meaning(generation.event(source, line))
            if found is not None and expected is not None and found[0] == "fatal":
                found[2].pop("error", None)
            assert found == expected
            seen += 1
    assert seen or (suffix == ".jsonl.log" and trainer == "prime-rl-2026-01")


@corpus
@pytest.mark.parametrize("trainer", PRIME_RL)
def test_the_samples_of_this_file_are_those_of_the_corpus(trainer: str) -> None:
    """Every format string that the corpus lists with its source line has a meaning (or is known to
    have none) here.
    """
    for name, source in NAMES.items():
        path = CORPUS / CORPUS_FOLDERS[trainer] / f"{name}.refs.txt"
        for row in path.read_text().splitlines() if path.exists() else ():
            level, _, message = row.split("\t", 2)
            assert (source, level, message) in MEANINGS[trainer]


@corpus
@pytest.mark.parametrize("trainer", PRIME_RL)
def test_launcher_consoles_end_as_they_did(trainer: str) -> None:
    generation = registry.get(trainer)
    kinds: dict[str, list[str]] = {}
    for path in sorted((CORPUS / CORPUS_FOLDERS[trainer]).glob("launcher_*.console.log")):
        lines = [generation.parse_line("launcher", raw) for raw in path.read_bytes().splitlines()]
        events = [
            event for line in lines if (event := generation.event("launcher", line)) is not None
        ]
        kinds[path.name.split("_")[1].split(".")[0]] = [event.kind for event in events]
    assert kinds["done"][-1] == "finished"
    assert kinds["infer1"][-2:] == ["child-failed", "terminating"]
    assert kinds["SIGINT"][-1] == "terminating"
    assert all("starting" in seen for seen in kinds.values())


# The pattern language


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("250ms", 0.25),
        ("31.3s", 31.3),
        ("   3m 3s", 183.0),
        ("1h 3m", 3780.0),
        ("2d 4h", 187200.0),
        ("59.9s", 59.9),
    ],
)
def test_durations(text: str, expected: float) -> None:
    assert seconds(text) == pytest.approx(expected)
    assert pattern("<t:d>")[0].fullmatch(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("3.00e-06", 3e-06), ("20311", 20311.0), ("nan", "nan"), ("-inf", "-inf"), ("0.0", 0.0)],
)
def test_numbers(text: str, expected: Any) -> None:
    assert number(text) == expected


def test_a_pattern_is_the_line_itself() -> None:
    expression, types = pattern("A (b) [c] <n:i>{ | D: <d>}.")
    assert types == {"n": "i", "d": ""}
    assert expression.fullmatch("A (b) [c] 3 | D: 1.5.")
    assert expression.fullmatch("A (b) [c] 3.")
    assert not expression.fullmatch("A (b) [c] 3 | D: x.")
