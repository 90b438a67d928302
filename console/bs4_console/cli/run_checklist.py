"""The command `runs checklist`: what to look at each hundred steps, and a standing order for it."""

from __future__ import annotations

import argparse
import asyncio
from contextlib import suppress
from typing import Any

from bs4_console.checkpoints import listing
from bs4_console.checks import checklist, milestones
from bs4_console.cli.actions import watch
from bs4_console.cli.output import emit, finding_code, table
from bs4_console.cli.sessions import linked, pods, run_of, to_act_on
from bs4_console.errors import RefusedError, RemoteError, UsageError
from bs4_console.pods.session import PodSession

#: Steps, where nobody has ordered another number.
EVERY = 100


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of `runs checklist` to its parser."""
    parser.add_argument("record", metavar="RUN", help="its name, as `runs list` says")
    parser.add_argument("--pod", required=True, metavar="NAME", help="which pod of the inventory")
    parser.add_argument(
        "--every",
        type=int,
        metavar="N",
        help="order: from now on `check` warns at each N steps until the list was gone through; 0 "
        "takes the order back",
    )
    parser.add_argument(
        "--done",
        nargs="?",
        const="",
        metavar="TEXT",
        help="it was gone through for the newest such step; TEXT is noted with it",
    )


def run(options: argparse.Namespace) -> int:
    """Print the checklist of a run, which a person goes through every so many training steps: what
    is known of the run's reward, GPU memory, disk and so on. With --every, do not print the list,
    but store after how many steps a person is to go through it again. With --done, also note that a
    person has gone through the list now.

    Return 1 if a person should look at an entry of the list, else 0. Raises RefusedError if the
    pod's agent is too old to store this. Raises UsageError if --every is negative or is given with
    --done.
    """
    if options.every is not None and (options.every < 0 or options.done is not None):
        raise UsageError("--every takes a number of steps, and stands alone.", "Correct it.")
    return asyncio.run(_run(options))


async def _run(options: argparse.Namespace) -> int:
    writes = options.every is not None or options.done is not None
    pod = to_act_on(options) if writes else pods(options.pod)[0]
    async with linked(pod, deploy=False) as live:
        state = run_of(live, options.record)
        order = milestones.order(state) or milestones.Order(EVERY)
        if options.every is not None:
            return await _ordered(live, options)
        at = milestones.reached(state.step, order.every) or state.step or 0
        whole = None
        with suppress(RemoteError):  # the list says then that it is not known
            report = await listing.of_pod(live, state.name)
            whole = [one["step"] for one in report["checkpoints"] if one["complete"]]
        found = checklist.items(live.state, state, at, order.every, whole)
        if options.json:
            emit("run-checklist", run=state.name, step=at, every=order.every, items=found)
        else:
            print(f"{state.name} at step {at} (each {order.every} steps):")
            table([[item.state, item.name, item.text] for item in found], ["", "what", "how it is"])
        wanting = checklist.wanting(found)
        if options.done is not None:
            text = options.done or f"to look at: {', '.join(wanting) or 'nothing'}"
            await _note(live, state.name, f"list of step {at}: {text}", checklist_step=at)
        return finding_code(wanting)


async def _ordered(live: PodSession, options: argparse.Namespace) -> int:
    """Give the order, or take it back. It counts from the step that is reached now."""
    every = options.every
    said = "the list of steps is not asked for any more"
    steps = {"checklist_every": every}
    if every:
        said = f"the list of steps is asked for each {every} steps"
        steps["checklist_step"] = milestones.reached(run_of(live, options.record).step, every)
    await _note(live, options.record, said, **steps)
    if options.json:
        emit("run-checklist", run=options.record, step=None, every=every, items=[])
    else:
        print(f"{options.record}: {said}.")
    return 0


async def _note(live: PodSession, run: str, text: str, **steps: int) -> None:
    """Write a note with numbers of steps into the pod's journal."""
    body: dict[str, Any] = {"run": run, "text": text, **steps}
    key = await live.submit("note", **body)
    await watch(live, key, as_json=False, quiet=True)
    noted = run_of(live, run).view.notes[-1]
    if any(noted.get(name) != value for name, value in steps.items()):
        raise RefusedError(
            f"The agent of {live.state.name} is older and keeps no such order.",
            f"Replace it: `bs4-console deploy --pod {live.state.name}`, then order it again.",
        )
