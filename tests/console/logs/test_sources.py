"""What wrote a log: certain or nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bs4_common.trainers import registry
from bs4_console.logs import sources
from bs4_console.logs.sources import Wrote, by_content, by_name

SHARED = Path(__file__).resolve().parents[4] / "shared" / "corpus"

STEP = (
    b"12:00:01 SUCCESS Step 3 | 31.3s | Loss 0.1 | Entropy 0.2 | LR 1.00e-06 | Throughput 100 "
    b"tokens/s | MFU 1.0% | Peak Mem. 3.1 GiB\n"
)
LOGS = {
    "kernel": (
        b"[    1.42] EXT4-fs (vda): mounted\n[  737.09] brpod: port 1 entered blocking state\n"
    ),
    "trainer": b"12:00:00    INFO Starting training loop (max_steps=5)\n" + STEP,
    "launcher": b"12:00:00    INFO Starting RL run\n12:00:02 SUCCESS Startup complete. Showing "
    b"orchestrator logs...\n" + STEP,
    "inference": b"(APIServer pid=1) INFO 11-20 21:05:28 [api_utils.py:347] version 0.32.0\n",
    "ssh": b"ssh: connect to host 10.0.0.1 port 22: Connection refused\n",
    "wandb": b"wandb: setting up run lgfx65ng\nwandb: ERROR Timed out while retrying\n",
    "env": b"16:57:54    INFO running 6x2 rollouts on tiny\n16:57:54    INFO rollout start: "
    b"id=01fc5565d2f84fc79c6d120d14f07a98 task=0 harness=null runtime=subprocess\n",
    "": b"Traceback (most recent call last):\n  File x\nValueError: no idea who wrote this\n",
}


@pytest.mark.parametrize("source", LOGS)
def test_content(source):
    assert by_content(LOGS[source]).source == source


def test_rollouts_in_an_orchestrators_log_leave_it_the_orchestrators() -> None:
    own = b"12:00:00    INFO Starting orchestrator loop (max_steps=5)\n"
    assert by_content(own).source == "orchestrator"
    assert by_content(own + LOGS["env"]).source == "orchestrator"


def test_the_generation_is_named_where_it_is_certain():
    assert by_content(LOGS["trainer"]) == Wrote("trainer", "prime-rl")


def test_two_possible_writers_are_none():
    assert by_content(LOGS["trainer"] + LOGS["inference"]).source == ""
    assert by_content(b"") == Wrote("")
    assert (
        by_content(b"I said: 12:00:00 INFO Starting training loop (max_steps=5)\n").source == ""
    ), "a quotation is not a line"


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("trainer.log", "trainer"),
        ("rank_0.log", "trainer"),
        ("dmesg-2026.txt", "kernel"),
        ("inference.stdout", "inference"),
        ("teacher_inference.stdout", "inference"),
        ("rl.log", "launcher"),
        ("ranking.txt", ""),
        ("notes.log", ""),
        ("wandb_sync.log", ""),
    ],
)
def test_names(name, source):
    assert by_name(Path(name)) == source


def as_json(text: bytes) -> bytes:
    """The line as `--log.json-logging` writes it, with its words escaped."""
    row = {"timestamp": "2026-11-01T10:00:00+00:00", "level": "INFO", "message": text.decode()[17:]}
    return json.dumps(row).replace("ing", "\\u0069ng").encode()


PROGRESS = (
    b'{"timestamp": "2026-11-01T10:00:00+00:00", "level": "INFO", "type": "progress", '
    b'"desc": "Train batch", "current": 3, "total": 8, "percent": 37}'
)


@pytest.mark.parametrize("name", registry.ids())
@pytest.mark.parametrize("source", ["launcher", "trainer", "orchestrator", "inference"])
def test_lines_without_the_words_of_an_event_are_left_out_and_no_others(monkeypatch, name, source):
    rows = [line for log in LOGS.values() for line in log.splitlines()]
    rows += [as_json(line) for line in rows] + [PROGRESS]
    rows += [b"\x1b[32m" + line[:20] + b"\x1b[0m" + line[20:] for line in rows]
    found = sources._events(name, source, tuple(rows))
    sources._events.cache_clear()
    monkeypatch.setattr(sources, "_HIDDEN", (b"",))
    assert found == sources._events(name, source, tuple(rows))
    sources._events.cache_clear()


@pytest.mark.skipif(not SHARED.is_dir(), reason="needs the shared corpus")
def test_real_logs_are_never_taken_for_another_source():
    rows = [
        line.split("\t")
        for line in (SHARED / "incidents" / "labels.tsv").read_text().splitlines()[1:]
    ]
    guessed = {
        row[0]: (by_content((SHARED / "incidents" / row[0]).read_bytes()), row[3]) for row in rows
    }
    # The one log of verl is its driver's output: its launcher and its trainer.
    same = {"verl": {"launcher": "trainer"}}
    wrong = {
        name: (guess, label)
        for name, (guess, label) in guessed.items()
        if guess.source not in ("", label)
    }
    assert {
        name: pair
        for name, pair in wrong.items()
        if same.get(pair[0].trainer, {}).get(pair[1]) != pair[0].source
    } == {}
