"""The logs of a run that fell apart after the death of its engine name that death, with no process
left to look at.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bs4_common.failures import offline
from bs4_common.failures.compiled import Library
from bs4_common.failures.engine import Engine
from bs4_console.failures.playbooks import compile_all

OLD, NEW = "prime-rl-2026-01", "prime-rl"
READY = "INFO:     Application startup complete.\n"
ANSWERED = 'INFO:     127.0.0.1:40012 - "POST /v1/chat/completions HTTP/1.1" 200 OK\n'
BROKEN = (
    'INFO:     127.0.0.1:40012 - "POST /v1/chat/completions HTTP/1.1" 500 Internal Server Error\n'
)
SHUT_DOWN = (
    "INFO:     Shutting down\nINFO:     Waiting for application shutdown.\nINFO:     Application "
    "shutdown complete.\n"
)

OLD_STEP = (
    "21:{0} SUCCESS Step {1} | Time: 4.50s | Reward: 0.3000 | Throughput: {2} tokens/s | Seq. "
    "Length: 74.0 tokens/sample"
    " | Async Level: 1 | Max. Off-Policy Level: 0\n"
)
OLD_REFUSED = (
    "2026-01-08 21:38:3{0} - verifiers.envs.environment.SingleTurnEnv - ERROR - Aborted rollout "
    "due to ModelError(), caused by APIConnectionError('Connection error.')\n"
)
OLD_FATAL = (
    "21:39:12   ERROR An error has been caught in function 'orchestrate', process 'MainProcess' "
    "(7), thread 'MainThread' (8):\n"
    "Traceback (most recent call last):\nhttpx.ConnectError: All connection attempts failed\n"
)
OLD_TRAINER = (
    "[default0]:21:39:20   ERROR An error has been caught in function 'train', process "
    "'MainProcess' (9), thread 'MainThread' (8):\n"
    "[default0]:IndexError: list index out of range\n"
)
NEW_STEP = (
    "21:{0} SUCCESS Step {1} |    4.5s | Reward 0.3000 | Trainable 8/8 (100.0%) | Turns 1.0 | "
    "Branches 1.0 | Max Off-Policy 1 | Error 0.0% | Cancelled 0.0% | Truncation 0.0%\n"
)
NEW_REFUSED = (
    "21:38:3{0} WARNING Trace failed in group 0a1b (reverse-text) — APIConnectionError: "
    "Connection error.\n"
)
NEW_FATAL = (
    "21:39:12   ERROR Fatal error in run_orchestrator\nTraceback (most recent call last):\n"
    "httpx.ConnectError: All connection attempts failed\n"
)
NOBODY = "All connection attempts failed"
LAUNCHER = (
    "21:39:13   ERROR Error: {} failed with exit code 1\n21:39:13   ERROR Terminating all "
    "processes...\n"
)


def diagnosed(directory: Path, generation: str, /, **logs: str) -> list[str]:
    """The failures that are found in a run directory with these logs, causes first."""
    place, suffix = (
        (directory / "logs", "stdout")
        if generation == OLD
        else (directory / "logs" / "attempt_1", "log")
    )
    place.mkdir(parents=True)
    extra = []
    for name, text in logs.items():
        path = place / f"{name}.{suffix}"
        path.write_text(text)
        if name == "launcher":
            extra.append(offline.Loose("launcher", path.name, path))
    watch = Engine(list(Library(compile_all())), live=False)
    facts = offline.directory_facts(directory, generation, watch, extra)
    return [
        t.finding.failure for t in watch.evaluate(offline.as_facts([facts], watch), complete=True)
    ]


def old_logs(server: str, last: str = OLD_STEP.format("39:10", 44, "0.0")) -> dict[str, str]:
    refused = "".join(OLD_REFUSED.format(second) for second in range(8))
    orchestrator = (
        OLD_STEP.format("37:30", 42, "3116.4")
        + refused[: len(refused) // 2]
        + OLD_STEP.format("38:34", 43, "54.1")
        + refused
    )
    return {
        "inference": server,
        "orchestrator": orchestrator + last + OLD_FATAL,
        "trainer": OLD_TRAINER,
    }


def new_logs(server: str) -> dict[str, str]:
    refused = "".join(NEW_REFUSED.format(second) for second in range(8))
    return {"inference": server, "orchestrator": NEW_STEP.format("37:30", 42) + refused + NEW_FATAL}


@pytest.mark.parametrize(
    "launcher",
    [{}, {"launcher": LAUNCHER.format("Orchestrator")}],
    ids=["no launcher log", "launcher log"],
)
@pytest.mark.parametrize(("trainer", "logs"), [(OLD, old_logs), (NEW, new_logs)])
@pytest.mark.parametrize(
    ("server", "cause"),
    [
        (READY + ANSWERED + BROKEN + SHUT_DOWN, "vllm-silent-death"),
        (READY + ANSWERED + SHUT_DOWN, "inference-exited-clean"),
    ],
)
def test_the_end_of_the_server_is_the_first_finding(
    tmp_path, trainer, logs, server, cause, launcher
) -> None:
    assert diagnosed(tmp_path / "demo", trainer, **logs(server), **launcher)[0] == cause


def json_fatal() -> str:
    traceback = (
        "Traceback (most recent call last):\n"
        + '  File "client.py", line 301, in _admin_post\n' * 20
    )
    told = {
        "timestamp": "2026-08-22T21:39:12.104870+00:00",
        "level": "ERROR",
        "message": "Fatal error in run_orchestrator",
        "module": "utils",
    }
    return json.dumps({**told, "exception": f"{traceback}httpx.ConnectError: {NOBODY}\n"}) + "\n"


@pytest.mark.parametrize("fatal", [NEW_FATAL, json_fatal()], ids=["plain", "json"])
def test_an_orchestrator_that_dies_before_its_rollouts_have_tried_to_the_end_names_it_too(
    tmp_path, fatal
) -> None:
    logs = {"inference": READY + ANSWERED + BROKEN + SHUT_DOWN, "orchestrator": fatal}
    assert diagnosed(tmp_path / "demo", NEW, **logs)[0] == "vllm-silent-death"


@pytest.mark.parametrize(("trainer", "logs"), [(OLD, old_logs), (NEW, new_logs)])
def test_a_server_whose_end_the_launcher_noticed_is_not_silent(tmp_path, trainer, logs) -> None:
    launcher = LAUNCHER.format("Inference")
    found = diagnosed(
        tmp_path / "demo", trainer, **logs(READY + ANSWERED + BROKEN + SHUT_DOWN), launcher=launcher
    )
    assert "vllm-silent-death" not in found


def test_a_server_that_the_launcher_ended_after_another_failure_is_not_silent(tmp_path) -> None:
    """A broken connection on the way is followed by steps with tokens: the server was there."""
    orchestrator = (
        OLD_STEP.format("37:30", 42, "3116.4")
        + OLD_REFUSED.format(1)
        + OLD_STEP.format("39:05", 43, "3116.4")
    )
    logs = {
        "inference": READY + ANSWERED + BROKEN + SHUT_DOWN,
        "orchestrator": orchestrator,
        "trainer": OLD_TRAINER,
    }
    found = diagnosed(tmp_path / "demo", OLD, **logs, launcher=LAUNCHER.format("Trainer"))
    assert "vllm-silent-death" not in found
    assert "inference-exited-clean" not in found


def test_a_server_that_lives_to_the_end_is_not_silent(tmp_path) -> None:
    found = diagnosed(tmp_path / "demo", OLD, **old_logs(READY + ANSWERED))
    assert "vllm-silent-death" not in found
