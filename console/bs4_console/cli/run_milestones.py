"""The command `runs milestones`: evaluate the checkpoints of a run at certain steps, one at a time,
each after a question or by a standing yes.
"""

from __future__ import annotations

import argparse
import asyncio

from bs4_console.checkpoints import listing
from bs4_console.cli import launch
from bs4_console.cli.output import complain, emit, finding_code, plan_text, table
from bs4_console.cli.sessions import can_ask, confirm, linked, run_of, to_act_on
from bs4_console.errors import REFUSED, RefusedError, UsageError
from bs4_console.launch import guide, milestones
from bs4_console.launch.milestones import Milestone
from bs4_console.pods.inventory import Inventory, Pod
from bs4_console.pods.session import PodSession
from bs4_console.run_log.eta import MILESTONES

#: Seconds between two looks with --watch. A checkpoint comes every some minutes.
_EVERY_S = 60.0


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of `runs milestones` to its parser."""
    parser.add_argument("record", metavar="RUN", help="the run that trains, or has trained")
    parser.add_argument("--pod", required=True, metavar="NAME", help="the pod on which it is")
    parser.add_argument(
        "--at",
        action="append",
        type=_at,
        metavar="STEP[=EXAMPLES]",
        help="a step, and how many examples of each environment (default: 100, 500 and 1000, with "
        "as many as the config says)",
    )
    parser.add_argument(
        "--config",
        metavar="CONFIG",
        help="evaluate the lowest one that is due with this config of `eval`, as a path on the "
        "pod (default: only show)",
    )
    parser.add_argument(
        "--server",
        metavar="URL",
        help="the inference server that loads the checkpoint; not the one of the training",
    )
    parser.add_argument(
        "--yes", action="store_true", help="begin without a question, each time one is due"
    )
    parser.add_argument(
        "--watch",
        action="store_true",
        help="go on until all are evaluated, or the run has ended before them",
    )


def _at(text: str) -> tuple[int, int | None]:
    """Return (step, examples) of an argument. Raises ArgumentTypeError for anything else."""
    step, equals, examples = text.partition("=")
    numbers = [step, examples] if equals else [step]
    if not all(word.isascii() and word.isdigit() and int(word) for word in numbers):
        raise argparse.ArgumentTypeError(f"{text!r} is no STEP or STEP=EXAMPLES")
    return int(step), int(examples) if equals else None


def run(options: argparse.Namespace) -> int:
    """Print at which training steps (milestones) a run is to be evaluated and which of these
    evaluations are done. With --config and --server, start the evaluation that is due. Return 0 if
    none is due or the due one was started, 1 if the due one was not to be started or failed to
    start, and 4 if a preflight check forbids it. Raises UsageError if only one of --config and
    --server is given, or --watch without them.
    """
    if bool(options.config) != bool(options.server):
        raise UsageError(
            "An evaluation needs a config and a server.", "Give --config and --server, or neither."
        )
    if options.watch and not options.config:
        raise UsageError("--watch evaluates.", "Give --config and --server with it.")
    options.no_wait = False
    return asyncio.run(_run(options))


async def _run(options: argparse.Namespace) -> int:
    pod = to_act_on(options) if options.config else Inventory().get(options.pod)
    wanted = dict(options.at or ((step, None) for step in MILESTONES))
    async with linked(pod, deploy=bool(options.config)) as live:
        while True:
            training = run_of(live, options.record)
            saved = await _saved(live, options.record)
            found = milestones.look(live.state, training, wanted, saved)
            _show(options, found)
            one, code = milestones.due(found), 0
            if one is not None:
                code = 1 if not options.config else await _evaluate(options, live, pod, one)
            if code or not options.watch or milestones.is_over(found, training):
                return code
            await asyncio.sleep(_EVERY_S)


async def _saved(live: PodSession, run: str) -> set[int]:
    """Return the steps whose weights are on the pod."""
    steps = set()
    for row in (await listing.of_pod(live, run))["checkpoints"]:
        if any(part["name"] == "weights" for part in row["parts"]):
            steps.add(int(row["step"]))
    return steps


def _show(options: argparse.Namespace, found: list[Milestone]) -> None:
    """Print the milestones."""
    if options.json:
        emit("run-milestones", run=options.record, pod=options.pod, milestones=found)
        return
    cells = []
    for one in found:
        examples = "as the config" if one.examples is None else str(one.examples)
        cells.append([str(one.step), one.state, examples, one.run])
    table(cells, ["step", "state", "examples", "evaluation"])


async def _evaluate(options: argparse.Namespace, live: PodSession, pod: Pod, one: Milestone) -> int:
    """Evaluate one milestone after its checks and a yes. Returns the exit code."""
    training = run_of(live, options.record)
    asked = milestones.request(training, one, config=options.config, server=options.server)
    looked = await guide.prepare(live, asked)
    milestones.refuse_training_server(looked.preflight, options.server)
    if looked.blocking:
        complain(f"Nothing was evaluated: {guide.sentence(looked.blocking[0])}")
        return REFUSED
    view = await guide.plan(live, asked, price=pod.price, **looked.environment)
    if not options.json:
        print(plan_text(view))
    if not options.yes:
        if not can_ask(options):
            raise RefusedError(
                f"Nothing was evaluated: step {one.step} is due, and nobody confirmed.",
                "Confirm with --yes.",
            )
        confirm(f"Type yes to evaluate step {one.step}: ", refused="Nothing was evaluated.")
    return finding_code(await launch.watch_launch(options, live, await guide.start(live, view)))
