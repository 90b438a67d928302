"""checkpoints merge: a step of a verl run, put together into a Hugging Face directory on its pod."""

from __future__ import annotations

import argparse

from bs4_console.cli.actions import exit_code, watch
from bs4_console.cli.output import complain, emit
from bs4_console.cli.sessions import ask, is_terminal, linked, to_act_on
from bs4_console.core import merge
from bs4_console.core.errors import RefusedError
from bs4_console.core.inventory import Inventory
from bs4_console.core.session import PodSession
from bs4_console.core.state import PlanView


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--pod", required=True, metavar="NAME", help="which pod of the inventory")
    parser.add_argument("--run", dest="name", required=True, metavar="NAME", help="which run of verl")
    parser.add_argument("--step", type=int, metavar="N", help="this step (default: the newest that is complete)")
    parser.add_argument(
        "--target",
        default="",
        metavar="DIR",
        help="on the pod, not there yet, from the run's cwd (default: merged/ in the run's directory)",
    )
    parser.add_argument("--plan", nargs="?", const="", metavar="HASH", help="only show the plan; with its hash: carry out just that one")
    parser.add_argument("--yes", action="store_true", help="carry out the plan that is made, without asking")


async def run(options: argparse.Namespace) -> int:
    """0 only when the directory is there, whole."""
    asked = merge.Asked(options.name, options.step, options.target)
    only_shown = options.plan == ""
    async with linked(Inventory().get(options.pod) if only_shown else to_act_on(options)) as live:
        going = None if only_shown else merge.under_way(live.state, options.name)
        if going is not None:
            complain(f"A merge of {options.name} by {going.who} is under way; it is watched, nothing is begun twice.")
            key: str | None = going.key
        else:
            key = await _confirmed(live, options, asked)
        return 0 if key is None else exit_code(await watch(live, key, as_json=options.json))


async def _confirmed(live: PodSession, options: argparse.Namespace, asked: merge.Asked) -> str | None:
    """The key of what was confirmed; None when the plan was only to be shown."""
    view = await merge.plan(live, asked)
    if options.plan and not (len(options.plan) >= 8 and view.plan_hash.startswith(options.plan)):
        raise RefusedError(f"Nothing was done: the plan is {view.plan_hash[:16]} now, not {options.plan}.", "Look at it with --plan.")
    _show(options, view)
    if options.plan == "":
        return None
    if not (options.yes or options.plan):
        if not is_terminal() or options.json:
            raise RefusedError("Nothing was done: the plan was not confirmed.", f"Confirm it with --yes, or --plan {view.plan_hash[:16]}.")
        if ask("Type yes to carry it out: ") != "yes":
            raise RefusedError("Nothing was done.", "Run it again when you are sure.")
    return await merge.begin(live, view)


def _show(options: argparse.Namespace, view: PlanView) -> None:
    body = view.plan
    if options.json:
        if options.plan == "":
            shown = {name: body[name] for name in ("source", "target", "bytes", "needed", "free", "notes", "commands", "cwd", "steps")}
            emit(
                "merge-plan", pod=options.pod, run=view.run, plan_hash=view.plan_hash, expires=view.expires_t, step=body["resume"], **shown
            )  # fmt: skip
        return
    print(body["title"])
    for number, step in enumerate(body["steps"], 1):
        print(f"  {number}. {step['title']}\n       $ {step['command']}")
    for line in merge.words(view):
        print(f"  {line}")
    print(f"  plan {view.plan_hash}")
