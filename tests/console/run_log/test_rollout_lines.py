"""Single rollouts, from the lines of every program that writes them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bs4_console.errors import NotApplicableError
from bs4_console.run_log import rollout_lines
from bs4_console.run_log.rollout_lines import Message, Shown
from bs4_console.trainers import rollout_files

REAL = Path(__file__).with_name("evaluations")


def test_an_episode_of_verifiers_0_4() -> None:
    lines = (REAL / "verifiers-0.4" / "traces.jsonl").read_text().splitlines()
    (one,) = rollout_lines.read(lines[0])
    assert one == Shown(
        environment="tiny-env",
        example="3",
        reward=0.0,
        error="",
        messages=[
            Message("user", "What is 3 plus one? n=3"),
            Message("assistant", "I do not know, but it is a long story"),
        ],
    )
    failed = [shown for line in lines for shown in rollout_lines.read(line) if shown.error]
    assert failed
    for one in failed:
        assert one.reward is None
        assert one.error.startswith("ProviderError: upstream 400")


def test_a_result_of_verifiers_0_1() -> None:
    lines = (REAL / "verifiers-0.1.9" / "results.jsonl").read_text().splitlines()
    (one,) = rollout_lines.read(lines[0])
    assert (one.example, one.reward, one.error) == ("0", 0.0, "")
    assert [message.role for message in one.messages] == ["user", "assistant"]
    data = {**json.loads(lines[0]), "prompt": "1+1=", "completion": "2", "error": "Timeout()"}
    (one,) = rollout_lines.read(json.dumps(data))
    assert one.messages == [Message("user", "1+1="), Message("assistant", "2")]
    assert (one.reward, one.error) == (None, "Timeout()")


def test_what_verl_dumps() -> None:
    line = {"input": "user\n1+1=", "output": "2", "gts": "2", "score": 1.0, "step": 5}
    (one,) = rollout_lines.read(json.dumps(line))
    assert (one.reward, one.messages[1]) == (1.0, Message("assistant", "2"))


def test_calls_of_tools_and_parts_of_a_message() -> None:
    call = {"function": {"name": "run", "arguments": '{"code": "1"}'}}
    prompt = [{"role": "user", "content": [{"type": "text", "text": "Run it"}, {"type": "image"}]}]
    answer = [{"role": "assistant", "content": None, "tool_calls": [call]}]
    line = {"example_id": 1, "prompt": prompt, "completion": answer, "reward": 1}
    (one,) = rollout_lines.read(json.dumps(line))
    assert [message.text for message in one.messages] == ["Run it\nimage", 'run({"code": "1"})']


HUGE = '{"input": "a", "output": "b", "score": 1' + "0" * 400 + "}"


@pytest.mark.parametrize("line", ["", "[]", "{}", "3", '{"traces": [], "task": 1}', "{half", HUGE])
def test_what_is_no_rollout(line: str) -> None:
    with pytest.raises(ValueError):
        rollout_lines.read(line)


def test_where_they_are() -> None:
    place = {"output_dir": "/p/outputs/", "run": "demo", "step": 5}
    found = rollout_files.path("prime-rl", **place)  # type: ignore[arg-type]
    assert found == "/p/outputs/demo/rollouts/step_5/train/all/traces.jsonl"
    for trainer in ("prime-rl-2026-01", "verl"):
        with pytest.raises(NotApplicableError, match="--file"):
            rollout_files.path(trainer, **place)  # type: ignore[arg-type]
