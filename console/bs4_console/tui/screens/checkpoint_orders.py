"""Orders about a run's checkpoints that are given on the screen: keep, sync and restore, each after
one confirmation.
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from bs4_console.tui.screens.confirm import Confirmation, ConfirmScreen
from bs4_console.tui.styled_text import Line, fold

if TYPE_CHECKING:
    from bs4_console.pods.session import PodSession
    from bs4_console.pods.state import PlanView, RunState
    from bs4_console.tui.app import ConsoleApp

_HOW_TO_KEEP = (
    "Say how many complete checkpoints stay, 2 or more: :keep 3; :keep 3 50 keeps every 50th "
    "step too; :keep off."
)


class OrderScreen(Confirmation):
    """The dialog that asks for a confirmation before the pod gets an order about checkpoints
    (delete old ones, copy them to a store). `title` is the question, and `told` are sentences about
    what follows from the order. With `typed`, the person confirms by typing the name of the run,
    `wanted`.
    """

    def __init__(self, title: str, told: Sequence[str], wanted: str, *, typed: bool) -> None:
        super().__init__(wanted, typed=typed, yes="order it", alone=True)
        self._title, self._told = title, told

    def asked(self, width: int, *, commands: bool) -> list[Line]:
        """Return the text of the dialog in lines of at most `width` cells of the terminal: the
        question, an empty line, and sentences about what follows from the order. `commands` is
        ignored.
        """
        lines = [*fold(self._title, width, "bold"), []]
        for sentence in self._told:
            lines += fold(sentence, width)
        return lines


def keep(
    app: ConsoleApp, session: PodSession, run: str, args: str, done: Callable[[], None]
) -> None:
    """Ask for confirmation, and then order the pod to delete old checkpoints of the run. `args`
    says which stay: "N" or "N M" keeps the N newest complete checkpoints and every Mth step, and
    "off" takes the order back. If `args` is something else, a message says how an order is written.
    `done` is called when the order was given.
    """
    words = args.split()
    if words == ["off"]:
        question = OrderScreen(
            f"Take the retention order of {run} back?",
            ["Nothing is freed any more. Watch the disk."],
            run,
            typed=False,
        )
        give = partial(_give, app, session, "keep", done, run=run, off=True)
        app.confirm(question, f"keep {run}", give)
        return
    numbers = [int(word) for word in words if word.isdecimal()]
    if len(numbers) != len(words) or not 1 <= len(numbers) <= 2 or numbers[0] < 2:
        app.say(_HOW_TO_KEEP, severity="warning")
        return
    last, milestones = numbers[0], (numbers[1] if len(numbers) == 2 else 0)
    app.spawn(f"keep {run}", _keep(app, session, run, last, milestones, done))


async def _keep(
    app: ConsoleApp,
    session: PodSession,
    run: str,
    last: int,
    milestones: int,
    done: Callable[[], None],
) -> None:
    listing = await asyncio.to_thread(importlib.import_module, "bs4_console.checkpoints.listing")
    found = await listing.of_pod(session, run)
    every = f", and every {milestones}th step" if milestones else ""
    question = OrderScreen(
        f"Keep the {last} newest complete checkpoints of {run}{every}?",
        [listing.foresight(found, last, milestones)],
        run,
        typed=True,
    )
    order = {"last": last, "milestones": milestones, "synced": False}
    give = partial(_give, app, session, "keep", done, run=run, **order)
    app.confirm(question, f"keep {run}", give)


def sync(
    app: ConsoleApp, session: PodSession, run: str, args: str, done: Callable[[], None]
) -> None:
    """Ask for confirmation, and then order the pod to copy each new checkpoint of the run to the
    place in `args`, an address like b2://BUCKET/PREFIX. "off" takes the order back. `done` is
    called when the order was given. If `args` is not a place, a message says how one is written.
    """
    app.spawn(f"sync {run}", _sync(app, session, run, args.strip(), done))


async def _sync(
    app: ConsoleApp, session: PodSession, run: str, place: str, done: Callable[[], None]
) -> None:
    title = f"Stop copying checkpoints of {run}?"
    told = ["What is in the store stays there."]
    body: dict[str, Any] = {"run": run, "off": True}
    if place != "off":
        stores = await asyncio.to_thread(importlib.import_module, "bs4_console.checkpoints.sync")
        to = str(stores.place_of(place))
        title = f"Copy each newest checkpoint of {run} to {to}?"
        told = ["The pod uploads it from now on, also while no console is open."]
        before = session.state.ledger.syncs.get(run)
        if before is not None and before.order.get("to"):
            told.append(f"This replaces the order to copy to {before.order['to']}.")
        body = {
            "run": run,
            "to": to,
            "every": 0,
            "milestones": 0,
            "keep_remote": None,
            "limit_mib": None,
            "weights": False,
            "once": False,
        }
    question = OrderScreen(title, told, run, typed=False)
    give = partial(_give_sync, app, session, done, **body)
    app.confirm(question, f"sync {run}", give)


async def _give_sync(
    app: ConsoleApp, session: PodSession, done: Callable[[], None], **body: Any
) -> None:
    """Bring the pod what an upload needs, submit the order to sync, and tell how it ends."""
    if "to" in body:
        await session.bring_store_library(partial(_tell_progress, app, session))
    await _give(app, session, "sync", done, **body)


def _tell_progress(app: ConsoleApp, session: PodSession, phrase: str) -> None:
    """Show a short phrase about what is being done on the pod."""
    app.say(f"{session.state.name}: {phrase}")


async def _give(
    app: ConsoleApp,
    session: PodSession,
    kind: str,
    done: Callable[[], None],
    **body: Any,
) -> None:
    """Submit the order and tell how it ends."""
    key = await session.submit(kind, **body)
    async for action in session.follow_action(key):
        app.say_end(action, action.detail or f"{kind}: {action.state}")
    done()


def restore(
    app: ConsoleApp, session: PodSession, run: RunState, args: str, done: Callable[[], None]
) -> None:
    """Have the pod plan the restore of a checkpoint from the object store, and ask the person to
    confirm the plan. `args` may have a step and a place (an address like b2://BUCKET/PREFIX), in
    this order. Without a step, the newest complete checkpoint is restored. Without a place, it
    comes from the place to which the run's checkpoints are or were copied. A message says so if no
    place is known, or if `args` is something else. `done` is called when the restore has ended.
    """
    known = session.state.ledger.syncs.get(run.name)
    words = args.split()
    step = int(words.pop(0)) if words and words[0].isdecimal() else None
    source = words.pop(0) if words else (known.place if known is not None else "")
    if words or "://" not in source:
        app.say(
            "Say from where: :restore b2://BUCKET/PREFIX brings the newest that is complete "
            "there; a step before it brings that one.",
            severity="warning",
        )
        return
    app.spawn(f"restore {run.name}", _restore(app, session, run, step, source, done))


async def _restore(
    app: ConsoleApp,
    session: PodSession,
    run: RunState,
    step: int | None,
    source: str,
    done: Callable[[], None],
) -> None:
    restoring = await asyncio.to_thread(importlib.import_module, "bs4_console.recovery.restore")
    going = restoring.under_way(session, run.name)
    if going is not None:
        app.say(f"A restore of {run.name} by {going.who} is under way.", severity="warning")
        return
    view = run.view
    asked = restoring.RestoreRequest(
        run=run.name,
        source=source,
        step=step,
        trainer=view.trainer,
        cwd=view.cwd or "prime-rl",
        output_dir=view.output_dir or "outputs",
        config=view.config,
    )
    app.say(f"{session.state.name} reads the store and makes a plan.")
    await session.bring_store_library(partial(_tell_progress, app, session))
    plan: PlanView = await restoring.plan(session, asked)
    question = ConfirmScreen(plan, session.state, restoring.plan_text(plan))
    work = partial(_carry_out, app, session, restoring, plan, done)
    app.confirm(question, f"restore {run.name}", work)


async def _carry_out(
    app: ConsoleApp,
    session: PodSession,
    restoring: Any,
    plan: PlanView,
    done: Callable[[], None],
) -> None:
    """Submit the restore and tell how it ends. The pod goes on with it if this console leaves."""
    key = await restoring.begin(session, plan)
    async for action in session.follow_action(key):
        app.say_end(action, f"{plan.run}: {action.detail or action.state}")
    done()
