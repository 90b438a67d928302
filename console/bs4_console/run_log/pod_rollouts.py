"""Reads the newest rollouts of a run from its pod, for the command `runs rollouts` and for the
screen.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from bs4_console.errors import NotApplicableError, RemoteError, UsageError
from bs4_console.pods.session import PodSession
from bs4_console.pods.state import RunState
from bs4_console.pods.streams import file_stream
from bs4_console.run_log import rollout_lines
from bs4_console.run_log.rollout_lines import Message, Shown
from bs4_console.secret import redacted
from bs4_console.trainers import rollout_files

#: How many rollouts are shown if nobody says how many.
NEWEST = 4
#: Bytes. No episode is longer, and so many are read at most.
_BYTES = 64 << 20
#: Characters of one message that are shown unless all of it was asked for.
_LONGEST = 600


def path_of(run: RunState, step: int | None = None) -> str:
    """Return the path on the pod of the file with the rollouts of a training step of `run`; None
    takes the newest step. Raises NotApplicableError if the run has done no step yet, or if its
    trainer has no such file at a known place.
    """
    if step is None:
        step = run.step
    if step is None:
        raise NotApplicableError(f"{run.name} has done no step yet.", "Wait for its first one.")
    view = run.view
    return rollout_files.path(view.trainer, output_dir=view.output_dir, run=view.name, step=step)


async def read(live: PodSession, path: str, count: int) -> list[Shown]:
    """Return the rollouts in the last `count` whole lines of the file `path` of the pod, the oldest
    first. Secrets in them are replaced. Characters on which a terminal acts, such as escape
    sequences, are not: remove them before you print a rollout. Raises NotApplicableError if the
    file cannot be read, UsageError if it holds something else than rollouts, and Unreachable if
    there is no link.
    """
    lines = await _last_lines(live, path, count)
    # Whole episodes have megabytes. What answers keys must not wait for them.
    return await asyncio.to_thread(_parsed, path, lines)


def worth(one: Shown) -> str:
    """Return the reward of a rollout in words, for example "reward 0.5000", or "no reward"."""
    if one.reward is None:
        return "no reward"
    return f"reward {one.reward:.4f}"


def name(one: Shown) -> str:
    """Return which example of which environment a rollout answers, for example "reverse-text
    example 7".
    """
    return " ".join(filter(None, (one.environment, f"example {one.example}")))


def begun(text: str) -> tuple[str, int]:
    """Return (beginning, left): the beginning of a long text, such as a message, and how many
    characters of it were left out. One of 600 characters or fewer is returned whole, with 0.
    """
    if len(text) <= _LONGEST:
        return text, 0
    return f"{text[:_LONGEST]}…", len(text) - _LONGEST


async def _last_lines(live: PodSession, path: str, count: int) -> list[str]:
    """Return the last whole lines of a file of the pod. Raises NotApplicableError if it cannot be
    read there.
    """
    stream = file_stream(path)
    data = bytearray()
    try:
        cursor = await live.seek_line(stream, -count)
        while len(data) < _BYTES:
            chunk = await live.read_log(stream, cursor)
            data += chunk.data
            if not chunk.more:
                break
            cursor = chunk.next
    except RemoteError as error:
        raise NotApplicableError(
            error.message, "Name another step with --step, or the file with --file."
        ) from error
    whole = bytes(data[: data.rfind(b"\n") + 1])
    return whole.decode("utf-8", "replace").splitlines()


def _parsed(path: str, lines: Sequence[str]) -> list[Shown]:
    found: list[Shown] = []
    for line in lines:
        try:
            for one in rollout_lines.read(line):
                found.append(_redacted(one))
        except ValueError as error:
            raise UsageError(
                f"{path} holds lines that are no rollouts: {error}.",
                "Name traces.jsonl, results.jsonl or what verl dumps.",
            ) from error
    return found


def _redacted(one: Shown) -> Shown:
    """Return a rollout without its secrets. They are replaced here, in the whole of each text:
    behind a cut or a fold a part of one would no longer look like a secret.
    """
    messages = []
    for message in one.messages:
        messages.append(Message(_clean(message.role), _clean(message.text)))
    return replace(
        one,
        environment=_clean(one.environment),
        example=_clean(one.example),
        error=_clean(one.error),
        messages=messages,
    )


def _clean(text: str) -> str:
    """Return a text without its secrets. Halves of surrogate pairs, which JSON can hold and no
    terminal or file can take, become question marks.
    """
    return redacted(text.encode("utf-8", "replace").decode("utf-8"))
