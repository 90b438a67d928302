"""Reads single rollouts: what the model was asked, what it wrote, and what that was worth.

Known lines: an episode of verifiers 0.4 (`traces.jsonl` of the current prime-rl and of vf-eval), a
result of verifiers 0.1 (`results.jsonl`), and what verl writes to its `trainer.rollout_data_dir`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from bs4_console.run_log import eval_files


@dataclass(frozen=True)
class Message:
    """One message of a rollout. `role` is system, user, assistant or tool, and `text` all that a
    person can read of it.
    """

    role: str
    text: str


@dataclass(frozen=True, kw_only=True)
class Shown:
    """One rollout of an evaluation (the model's try at one task) in the form in which it is shown
    to a person: the task `example` of `environment`, and the `messages` in order. `reward` is None
    if it has none that is a number, or ended in an error; `error` then says which, and is ""
    otherwise.
    """

    environment: str
    example: str
    reward: float | None
    error: str
    messages: list[Message]


def read(line: str) -> list[Shown]:
    """Return the rollouts in one line of a file with the results of an evaluation. A line usually
    has one; one about an episode of several agents has one for each agent. Raises ValueError for a
    line of another form. It names the type of what is wrong, and nothing that the line says.
    """
    try:
        data = json.loads(line)
        if "traces" in data:
            return list(_episode(data))
        if "input" in data and "output" in data:
            return [_dumped(data)]
        return [_result(data)]
    except (
        LookupError,
        ValueError,
        TypeError,
        AttributeError,
        ArithmeticError,
        RecursionError,
    ) as e:
        raise ValueError(f"no rollout ({type(e).__name__})") from e


def _episode(data: Any) -> Iterator[Shown]:
    """Yield the traces of an episode of verifiers 0.4."""
    task, env = data["task"], data["env"]
    example = task["data"].get("id") or task["data"].get("idx") or task.get("key") or ""
    for trace in data["traces"]:
        errors = [*data["errors"], *trace["errors"]]
        reward = None
        if data["ok"] and trace["ok"]:
            reward = eval_files.weighted(trace["rewards"])
        yield Shown(
            environment=str(env.get("name") or env["id"]),
            example=str(example),
            reward=reward,
            error="; ".join(f"{one['type']}: {one['message']}" for one in errors),
            messages=[_message(node["message"]) for node in trace["nodes"]],
        )


def _result(data: Any) -> Shown:
    """Return a result of verifiers 0.1."""
    messages = []
    for part, role in (("prompt", "user"), ("completion", "assistant")):
        if isinstance(data[part], str):
            messages.append(Message(role, data[part]))
        else:
            messages += map(_message, data[part])
    error = data.get("error")
    return Shown(
        environment="",
        example=str(data["example_id"]),
        reward=None if error else eval_files.number(data["reward"]),
        error=str(error or ""),
        messages=messages,
    )


def _dumped(data: Any) -> Shown:
    """Return a rollout as verl dumps it."""
    return Shown(
        environment="",
        example=str(data.get("uid", "")),
        reward=float(data["score"]),
        error="",
        messages=[
            Message("user", str(data["input"])),
            Message("assistant", str(data["output"])),
        ],
    )


def _message(message: Any) -> Message:
    """Return a message of a chat, with the calls of tools in it."""
    content = message.get("content")
    if isinstance(content, list):
        texts = [str(part.get("text", part.get("type", ""))) for part in content]
    else:
        texts = [str(content or "")]
    for call in message.get("tool_calls") or ():
        function = call.get("function", call)
        texts.append(f"{function['name']}({function['arguments']})")
    return Message(str(message["role"]), "\n".join(filter(None, texts)))
