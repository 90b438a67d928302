"""The command `watch`: the console without a drawn screen. Each change of pods, runs, steps,
incidents, checkpoints and actions is one plain line, with the command that a person can type next.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Callable, Sequence

from bs4_console.checks.watch import WatchedPod
from bs4_console.cli.output import clock, emit
from bs4_console.cli.sessions import pods, session
from bs4_console.errors import ConsoleError, UsageError
from bs4_console.fleet.changes import STEP_S, Change, Changes
from bs4_console.fleet.watched import Fleet
from bs4_console.pods.session import PodSession
from bs4_console.task_group import TaskGroup311

#: Seconds between two questions about the checkpoints of a run, for which a pod scans directories,
#: and between two looks at a link that waits for a person.
LOOK_S = 60.0
#: Seconds before the state of a pod that did not answer is waited for again.
PAUSE_S = 5.0


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of `watch` to its parser."""
    parser.add_argument("--pod", metavar="NAME", help="only this pod (default: all)")
    parser.add_argument(
        "--steps",
        type=float,
        default=STEP_S,
        metavar="S",
        help=f"at most one line about the steps of a run in so many seconds (default {STEP_S:.0f}; "
        "0: each step)",
    )
    parser.add_argument("--json", action="store_true", help="one object a change")


async def run(options: argparse.Namespace) -> int:
    """Print the state of every pod, and then each change, until Ctrl-C ends it, and return 0.
    Raises UsageError if the inventory (this console's list of pods) is empty or --steps is
    negative.
    """
    known = pods(options.pod)
    if not known:
        raise UsageError(
            "No pod is in the inventory, so there is nothing to watch.",
            "Add one with `bs4-console pods add`.",
        )
    if not options.steps >= 0:
        raise UsageError("--steps is a number of seconds, 0 or more.", "Correct it.")
    sessions = []
    for pod in known:
        sessions.append(session(pod, deploy=False, keep="records", read_only=options.read_only))
    show = _emitted if options.json else _printed
    if not options.json:
        print(
            "Each change is one line. Commands stand after `Next:`; type them in another window. "
            "Ctrl-C ends.",
            flush=True,
        )
    fleet, changes, tasks = Fleet(sessions, outside=True), Changes(options.steps), TaskGroup311()
    for one in sessions:
        follower = _Follower(one, changes, show)
        tasks.start(follower.follow())
        tasks.start(follower.catch_up())
        tasks.start(follower.look())
    fleet.start()
    try:
        await tasks.wait()
    finally:
        await fleet.stop()
    return 0


def _printed(changes: Sequence[Change]) -> None:
    """Print the changes as lines, each with the time of day."""
    for change in changes:
        print(f"{clock(change.t)} {change.sentence}", flush=True)


def _emitted(changes: Sequence[Change]) -> None:
    """Print the changes as JSON objects."""
    for change in changes:
        emit(
            "change",
            t=round(change.t, 3),
            kind=change.kind,
            pod=change.pod,
            run=change.run,
            text=change.text,
            next=change.next,
        )


class _Follower:
    """Shows the changes of one pod, whose session the caller runs."""

    def __init__(
        self, live: PodSession, changes: Changes, show: Callable[[Sequence[Change]], None]
    ) -> None:
        self._live, self._changes, self._show = live, changes, show
        self._link = WatchedPod(live, LOOK_S)
        self._heard, self._whole = asyncio.Event(), asyncio.Event()
        self._saving: set[str] = set()
        """The runs that were alive when checkpoints were asked for last."""
        live.state.listeners.append(lambda _: self._heard.set())

    async def follow(self) -> None:
        """Show what has changed whenever something is read from the pod, until cancelled."""
        while True:
            self._heard.clear()
            self._show(self._changes.observe(self._live.state, whole=self._whole.is_set()))
            await self._heard.wait()

    async def catch_up(self) -> None:
        """Wait until the pod's state is read for the first time, however long that takes. Then what
        its journal says is shown, with its checkpoints.
        """
        while not self._whole.is_set():
            try:
                await self._live.synced(LOOK_S)
            except ConsoleError:
                # The link says why, in a line of its own.
                await asyncio.sleep(PAUSE_S)
            else:
                self._whole.set()
                self._heard.set()
        await self._ask_for_checkpoints()

    async def look(self) -> None:
        """Now and then, ask for checkpoints, and try a link again that is not tried by itself,
        until cancelled.
        """
        while True:
            await asyncio.sleep(LOOK_S)
            self._link.retry()
            if self._whole.is_set() and self._live.state.link.up:
                await self._ask_for_checkpoints()

    async def _ask_for_checkpoints(self) -> None:
        """Show how the checkpoints of each run stand that is alive, or was at the last look."""
        from bs4_console.checkpoints import listing  # 0.25 s, which the first lines do not wait for

        state = self._live.state
        alive = {run.name for run in state.runs.values() if run.alive}
        asked, self._saving = alive | self._saving, alive
        for run in sorted(asked & set(state.runs)):
            try:
                found = await listing.of_pod(self._live, run)
            except ConsoleError as error:
                stands: object = error.message
                text = f"its checkpoints are not known: {error.message}"
            else:
                whole = [one["step"] for one in found["checkpoints"] if one["complete"]]
                stands, text = (found["resumable"], whole), f"checkpoints: {listing.line(found)}"
            self._show(self._changes.checkpoints(state, run, stands, text))
