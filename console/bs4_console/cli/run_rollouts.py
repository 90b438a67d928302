"""`runs rollouts`: what the model was asked, what it wrote and what that was worth, from a pod."""

from __future__ import annotations

import argparse
import asyncio
from dataclasses import asdict

from bs4_console.cli.output import emit
from bs4_console.cli.sessions import linked, run_of
from bs4_console.errors import NotApplicableError, RemoteError, UsageError
from bs4_console.pods.inventory import Inventory
from bs4_console.pods.session import PodSession
from bs4_console.pods.streams import file_stream
from bs4_console.run_log import rollout_lines
from bs4_console.run_log.rollout_lines import Shown
from bs4_console.trainers import rollout_files

#: Bytes. No episode is longer, and so many are read at most.
_BYTES = 64 << 20
#: Characters of one message that are printed without --full.
_LONGEST = 600


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of `runs rollouts` to its parser, beside the run's name."""
    parser.add_argument("--pod", required=True, metavar="NAME", help="the pod on which it is")
    parser.add_argument(
        "--step", type=int, metavar="N", help="of this training step (default: the newest)"
    )
    parser.add_argument(
        "-n",
        "--lines",
        type=_count,
        default=4,
        metavar="N",
        help="how many of the last ones of the step (default: 4)",
    )
    parser.add_argument(
        "--file",
        metavar="PATH",
        help="a file of the pod with rollouts: traces.jsonl, results.jsonl, or one of verl's "
        "trainer.rollout_data_dir",
    )
    parser.add_argument("--full", action="store_true", help="whole messages, however long")


def _count(text: str) -> int:
    """Return a number above 0 of the command line."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number above 0")
    return int(text)


def run(options: argparse.Namespace) -> int:
    """Print the last rollouts (what the model was asked, what it wrote, and the reward) of one
    training step of a run, or of a file with rollouts on the pod that --file names. Return 0.
    Raises NotApplicableError if the trainer writes no rollouts to a file or there are none of that
    step, and UsageError if the file holds something else.
    """
    return asyncio.run(_run(options))


async def _run(options: argparse.Namespace) -> int:
    async with linked(Inventory().get(options.pod), deploy=False) as live:
        path = _path(live, options)
        lines = await _last_lines(live, path, options.lines)
    found: list[Shown] = []
    for line in lines:
        try:
            found += rollout_lines.read(line)
        except ValueError as error:
            raise UsageError(
                f"{path} holds lines that are no rollouts: {error}.",
                "Name traces.jsonl, results.jsonl or what verl dumps.",
            ) from error
    if options.json:
        emit("run-rollouts", run=options.record, file=path, rollouts=[asdict(one) for one in found])
        return 0
    print(f"{path}:")
    for one in found:
        _show(one, full=options.full)
    return 0


def _path(live: PodSession, options: argparse.Namespace) -> str:
    """Return the path of the file on the pod that the command line asks for."""
    state = run_of(live, options.record)
    if options.file is not None:
        return str(options.file)
    step = state.step if options.step is None else options.step
    if step is None:
        raise NotApplicableError(f"{state.name} has done no step yet.", "Wait for its first one.")
    view = state.view
    return rollout_files.path(view.trainer, output_dir=view.output_dir, run=view.name, step=step)


async def _last_lines(live: PodSession, path: str, count: int) -> list[str]:
    """Return the last whole lines of a file of the pod. Raises NotApplicableError if it cannot be
    read there.
    """
    stream = file_stream(path)
    data = b""
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
    whole = data[: data.rfind(b"\n") + 1]
    return whole.decode("utf-8", "replace").splitlines()


def _show(one: Shown, *, full: bool) -> None:
    """Print a rollout."""
    worth = "no reward" if one.reward is None else f"reward {one.reward:.4f}"
    named = " ".join(filter(None, (one.environment, f"example {one.example}")))
    print(f"\n{named}: {worth}")
    for message in one.messages:
        text = message.text
        if len(text) > _LONGEST and not full:
            left = len(text) - _LONGEST
            text = f"{text[:_LONGEST]}… ({left} more characters; --full shows them)"
        head, *rest = text.splitlines() or [""]
        print(f"  {message.role}: {head}")
        for line in rest:
            print(f"    {line}")
    if one.error:
        print(f"  error: {one.error}")
