"""The command `runs rollouts`: what it asks a pod for, and how a person reads the answer."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from bs4_console.cli import run_rollouts
from bs4_console.cli.main import main
from bs4_console.errors import RemoteError
from bs4_console.pods.state import PodState
from tests.console.tui import fixtures

LINE = {
    "env": {"id": "reverse"},
    "task": {"type": "T", "data": {"idx": 7}},
    "ok": True,
    "errors": [],
    "traces": [
        {
            "ok": True,
            "errors": [],
            "rewards": {"lcs": {"score": 0.5, "weight": 1.0}},
            "nodes": [
                {"message": {"role": "user", "content": "Reverse: abc"}},
                {"message": {"role": "assistant", "content": "c" * 700}},
            ],
        }
    ],
}


class Stand:
    """A pod with a run and files, whose link is made up. A read gives at most ten bytes."""

    def __init__(self, trainer: str) -> None:
        self.state = PodState(name="gamma")
        fixtures.start_run(self.state, "demo", trainer, 1000, 9000)
        fixtures.steps(self.state, "demo", 10, 12, 5.0, last_ago=10)
        self.files: dict[str, bytes] = {}

    @contextlib.asynccontextmanager
    async def linked(self, *_: object, **__: object) -> AsyncIterator[Stand]:
        yield self

    async def seek_line(self, stream: str, line: int) -> str:
        if stream not in self.files:
            raise RemoteError("unknown-stream", "It cannot be opened.")
        whole = self.files[stream].splitlines(keepends=True)
        return str(len(b"".join(whole[: max(0, len(whole) + line)])))

    async def read_log(self, stream: str, cursor: str) -> SimpleNamespace:
        data, at = self.files[stream], int(cursor)
        return SimpleNamespace(data=data[at : at + 10], next=str(at + 10), more=at + 10 < len(data))


@pytest.fixture
def stand(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Stand:
    monkeypatch.setenv("BS4_CONFIG_DIR", str(tmp_path))
    assert main(["pods", "add", "gamma", "local"]) == 0
    made = Stand("prime-rl")
    monkeypatch.setattr(run_rollouts, "linked", made.linked)
    return made


WORDS = ["runs", "rollouts", "demo", "--pod", "gamma"]
NEWEST = "file//data/demo/demo/rollouts/step_12/train/all/traces.jsonl"


def test_the_newest_rollouts_are_read_on_a_screen(
    stand: Stand, capsys: pytest.CaptureFixture[str]
) -> None:
    line = json.dumps(LINE).encode() + b"\n"
    stand.files[NEWEST] = line.replace(b"abc", b"old") * 3 + line + line[:40]
    capsys.readouterr()
    assert main([*WORDS, "-n", "2"]) == 0
    shown = capsys.readouterr().out
    assert "reverse example 7: reward 0.5000\n  user: Reverse: abc\n  assistant: ccc" in shown
    assert "Reverse: old" not in shown, "the last two lines, of which one is not whole yet"
    assert "(100 more characters; --full shows them)" in shown
    assert main([*WORDS, "-n", "2", "--full"]) == 0
    assert "c" * 700 in capsys.readouterr().out
    assert main([*WORDS, "-n", "3", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [one["reward"] for one in told["rollouts"]] == [0.5, 0.5]
    assert told["file"].endswith("/step_12/train/all/traces.jsonl")


def test_another_step_and_another_file(stand: Stand, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert main([*WORDS, "--step", "3"]) == 2
    assert "--step" in capsys.readouterr().err
    line = {"input": "1+1=", "output": "2", "score": 1.0}
    stand.files["file//d/3.jsonl"] = json.dumps(line).encode() + b"\n"
    assert main([*WORDS, "--file", "/d/3.jsonl"]) == 0
    assert "assistant: 2" in capsys.readouterr().out
    stand.files["file//d/3.jsonl"] = b"Step 3 | a log\n"
    assert main([*WORDS, "--file", "/d/3.jsonl"]) == 2
    assert "no rollouts" in capsys.readouterr().err


def test_a_secret_is_replaced_before_a_message_is_cut(
    stand: Stand, capsys: pytest.CaptureFixture[str]
) -> None:
    line = {"input": "1+1=", "output": "x" * 580 + " ghp_" + "Q7" * 18, "score": 1.0}
    stand.files["file//d/3.jsonl"] = json.dumps(line).encode() + b"\n"
    capsys.readouterr()
    for full in ((), ("--full",), ("--json",)):
        assert main([*WORDS, "--file", "/d/3.jsonl", *full]) == 0
        shown = capsys.readouterr().out
        assert "x" * 580 in shown
        assert "ghp_" not in shown


def test_a_trainer_that_keeps_no_text_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, stand: Stand, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(run_rollouts, "linked", Stand("prime-rl-2026-01").linked)
    capsys.readouterr()
    assert main(WORDS) == 2
    assert "token ids and no text" in capsys.readouterr().err
