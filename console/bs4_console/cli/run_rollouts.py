"""`runs rollouts`: what the model was asked, what it wrote and what that was worth, from a pod."""

from __future__ import annotations

import argparse
import asyncio
from dataclasses import asdict

from bs4_console.cli.output import emit
from bs4_console.cli.sessions import linked, run_of
from bs4_console.pods.inventory import Inventory
from bs4_console.run_log import pod_rollouts
from bs4_console.run_log.rollout_lines import Shown


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
        default=pod_rollouts.NEWEST,
        metavar="N",
        help="how many of the last ones of the step (default: %(default)s)",
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
        path = options.file
        if path is None:
            path = pod_rollouts.path_of(run_of(live, options.record), options.step)
        found = await pod_rollouts.read(live, path, options.lines)
    if options.json:
        emit("run-rollouts", run=options.record, file=path, rollouts=[asdict(one) for one in found])
        return 0
    print(f"{path}:")
    for one in found:
        _show(one, full=options.full)
    return 0


def _show(one: Shown, *, full: bool) -> None:
    """Print a rollout."""
    print(f"\n{pod_rollouts.name(one)}: {pod_rollouts.worth(one)}")
    for message in one.messages:
        text, left = message.text, 0
        if not full:
            text, left = pod_rollouts.begun(text)
        if left:
            text = f"{text} ({left} more characters; --full shows them)"
        head, *rest = text.splitlines() or [""]
        print(f"  {message.role}: {head}")
        for line in rest:
            print(f"    {line}")
    if one.error:
        print(f"  error: {one.error}")
