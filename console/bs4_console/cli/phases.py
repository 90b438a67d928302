"""The command `phases`: which phase a run of several configs is in, and the switch to the next
phase.
"""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path

from bs4_console.cli.actions import act, exit_code
from bs4_console.cli.launch import watch_launch
from bs4_console.cli.output import complain, emit
from bs4_console.cli.sessions import can_ask, confirm, linked, to_act_on
from bs4_console.errors import FINDING, NotApplicableError, RefusedError
from bs4_console.launch import guide, phases, stopping
from bs4_console.launch.phases import Phase, Phases, Standing
from bs4_console.pods.inventory import Inventory
from bs4_console.pods.session import PodSession

#: Seconds between two polls of `advance --wait`. A step takes minutes.
_LOOK_S = 5.0


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of `phases` and its subcommands to its parser."""
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    status = verbs.add_parser("status", help="which phase the run is in, and what it waits for")
    advance = verbs.add_parser(
        "advance",
        help="if the phase is over: stop the run and launch the next config from the newest "
        "checkpoint",
    )
    for verb in (status, advance):
        verb.add_argument("file", type=Path, metavar="FILE", help="the phase file")
        verb.add_argument("--pod", required=True, metavar="NAME", help="which pod of the inventory")
        verb.add_argument("--json", action="store_true", help="JSON objects instead of text")
    advance.add_argument(
        "--now",
        action="store_true",
        help="whatever its condition says; a complete checkpoint is needed all the same",
    )
    advance.add_argument("--wait", action="store_true", help="wait for the condition first")
    advance.add_argument("--yes", action="store_true", help="without asking")
    advance.add_argument(
        "--no-wait", action="store_true", help="do not wait for the first step of the next phase"
    )


def run(options: argparse.Namespace) -> int:
    """Run `phases status` or `phases advance` for the phase file that the options name, and return
    the exit code. A phase file names a run and the configs with which it is trained one after the
    other, its phases.

    `status` shows in which phase the run is and returns 0. `advance` stops the run and starts it in
    its next phase. It returns 0 if the run trains in that phase, 1 if the present phase is not over
    or the stop or the start failed, and 4 if the pod refused. Raises UsageError if the phase file
    is not valid, and OSError if it cannot be read.
    """
    verbs = {"status": _status, "advance": _advance}
    return asyncio.run(verbs[options.verb](options, phases.read(options.file)))


async def _status(options: argparse.Namespace, wanted: Phases) -> int:
    """Print the run's phases and which one it is in, and return 0."""
    async with linked(Inventory().get(options.pod)) as live:
        now = await phases.standing(live, wanted)
        if options.json:
            emit(
                "phases",
                run=wanted.run,
                phase=None if now.phase is None else now.phase.name,
                due=now.due,
                why=now.why,
                resumable=now.resumable,
                live=now.live,
                phases=[
                    {"name": p.name, "config": p.config, "until": p.until.words()}
                    for p in wanted.phases
                ],
            )
            return 0
        for phase in wanted.phases:
            here = now.phase is not None and phase.name == now.phase.name
            print(
                f"{'>' if here else ' '} {phase.name}: {phase.config}, until {phase.until.words()}"
            )
        print(f"{wanted.run}: {'over' if now.due else 'not over'}: {now.why}.")
        return 0


async def _advance(options: argparse.Namespace, wanted: Phases) -> int:
    """Stop the run and launch its next phase, if its phase is over. Return the exit code."""
    pod = to_act_on(options)
    async with linked(pod) as live:
        if (going := guide.under_way(live.state, wanted.run)) is not None:
            complain(
                f"A launch of {wanted.run} by {going.who} is under way; it is watched, "
                "nothing is started twice."
            )
            return await watch_launch(options, live, going.key)
        now = await phases.standing(live, wanted)
        while options.wait and not options.now and now.live and not now.due:
            await asyncio.sleep(_LOOK_S)
            now = await phases.standing(live, wanted)
        following = _next(options, wanted, now)
        if not (now.due or options.now):
            print(f"{wanted.run} stays in its phase: {now.why}.")
            return FINDING
        if now.resumable is None:
            raise RefusedError(
                f"{wanted.run} has no complete checkpoint to go on from.", "Let it save one first."
            )
        subject = stopping.subject(live, live.state.runs[wanted.run])
        _confirm(options, wanted, now, following)
        if now.live:
            stopped = await act(live, "stop", as_json=options.json, **subject)
            if stopped.state != "done":
                return exit_code(stopped)
            await _ended(live, wanted.run)
        view = await phases.plan_of(live, wanted, following, pod.price)
        if view.plan["resume"] < now.resumable or guide.must_type(view):
            raise RefusedError(
                f"{following.name} would go on from step {view.plan['resume']}, before "
                f"{now.resumable}; it was not started.",
                f"Look with `bs4-console checkpoints list --pod {options.pod} --run {wanted.run}`.",
            )
        return await watch_launch(options, live, await guide.start(live, view))


def _next(options: argparse.Namespace, wanted: Phases, now: Standing) -> Phase:
    """Return the phase after the current one. Raises NotApplicableError if the run was not started
    or is in its last phase.
    """
    if now.phase is None:
        raise NotApplicableError(
            f"{wanted.run} was not started yet.",
            f"`bs4-console launch --phases {options.file} --pod {options.pod}`.",
        )
    following = wanted.after(now.phase)
    if following is None:
        raise NotApplicableError(
            f"{now.phase.name} is the last phase of {wanted.run}.", "There is nothing to switch to."
        )
    return following


def _confirm(options: argparse.Namespace, wanted: Phases, now: Standing, following: Phase) -> None:
    """Print the switch. Raises RefusedError unless a person or --yes confirms it."""
    before = now.phase.name if now.phase is not None else ""
    if not options.json:
        print(f"{wanted.run} goes from {before} to {following.name}: {now.why}.")
        if now.live:
            print(
                f"  1. Stop {wanted.run}; what came after its newest complete checkpoint is "
                "done again."
            )
        print(
            f"  2. Launch {following.config} from step {now.resumable}, or the newest that "
            "is complete by then."
        )
    if options.yes:
        return
    if not can_ask(options):
        raise RefusedError("Nothing was done: confirm with --yes.")
    confirm("Type yes to carry it out: ")


async def _ended(live: PodSession, run: str) -> None:
    """Wait until the agent has recorded the attempt's end. Before that the run counts as live."""
    while (attempt := live.state.runs[run].view.attempt) is not None and attempt.ended_t is None:
        await asyncio.sleep(0.1)
