"""Merges a run's checkpoint from the screen: the plan, its confirmation, and how it ended. The
run's screen shows how far the merge is (views/doing.py).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from bs4_console.checkpoints import merge
from bs4_console.tui.screens.confirm import ConfirmScreen

if TYPE_CHECKING:
    from bs4_console.pods.session import PodSession
    from bs4_console.pods.state import PlanView
    from bs4_console.tui.app import ConsoleApp


def begin(app: ConsoleApp, session: PodSession, run: str, args: str) -> None:
    """Have the pod's agent plan the merge of a checkpoint into one Hugging Face directory on its
    pod (verl saves a checkpoint in parts), and ask the person to confirm the plan. `run` is the
    name of the run, `session` the session with its pod, and `args` the checkpoint's step as text,
    or "" for the newest complete checkpoint. If a merge of the run is under way, or `args` is not a
    number, a message says so and nothing is planned.
    """
    if args and not args.isdecimal():
        app.say(
            f"{args!r} is no step; :merge alone takes the newest that is complete.",
            severity="warning",
        )
        return
    if (going := merge.under_way(session.state, run)) is not None:
        app.say(
            f"A merge of {run} by {going.who} is under way: {merge.progress(going)}",
            severity="warning",
        )
        return
    app.spawn(
        f"plan a merge of {run}",
        _plan(app, session, merge.MergeRequest(run, int(args) if args else None)),
    )


async def _plan(app: ConsoleApp, session: PodSession, asked: merge.MergeRequest) -> None:
    view = await merge.plan(session, asked)
    question = ConfirmScreen(view, session.state, merge.plan_lines(view))
    app.confirm(question, f"merge {asked.run}", partial(_carry_out, app, session, view))


async def _carry_out(app: ConsoleApp, session: PodSession, view: PlanView) -> None:
    """Submit the merge and tell how it ends. The pod continues the merge even if this console
    leaves.
    """
    key = await merge.begin(session, view)
    async for action in session.follow_action(key):
        app.say_end(action, f"{view.run}: {merge.progress(action)}")
