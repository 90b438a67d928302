"""Show an agent's plan and have it confirmed: by its hash, by --yes, or by typing yes."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import Any

from bs4_console.cli.output import complain
from bs4_console.cli.sessions import can_ask, confirm
from bs4_console.errors import RefusedError
from bs4_console.pods.state import ActionView, PlanView


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options --plan and --yes to a command's parser."""
    parser.add_argument(
        "--plan",
        nargs="?",
        const="",
        metavar="HASH",
        help="only show the plan; with its hash: carry out just that one",
    )
    parser.add_argument(
        "--yes", action="store_true", help="carry out the plan that is made, without asking"
    )


def confirmed(options: argparse.Namespace, view: PlanView, words: Iterable[str]) -> bool:
    """Return True if the plan is confirmed, and False if it was only to be shown. Without --json
    the plan is printed, with `words` below its steps.

    Raises RefusedError if nobody confirms it, or if its hash is not the one that --plan names.
    """
    check_hash(options, view)
    if not options.json:
        print(view.plan["title"])
        for number, step in enumerate(view.plan["steps"], 1):
            print(f"  {number}. {step['title']}\n       $ {step['command']}")
        for line in (*words, f"plan {view.plan_hash}"):
            print(f"  {line}")
    if options.plan == "":
        return False
    if not (options.yes or options.plan):
        if not can_ask(options):
            raise RefusedError(
                "Nothing was done: the plan was not confirmed.",
                f"Confirm it with --yes, or --plan {view.plan_hash[:16]}.",
            )
        confirm("Type yes to carry it out: ")
    return True


def joined(what: str, going: ActionView) -> str:
    """Print that an action of this run is under way already, and return its key to watch it."""
    complain(
        f"A {what} of {going.run} by {going.who} is under way; it is watched, nothing is begun "
        "twice."
    )
    return going.key


def is_named(options: argparse.Namespace, plan_hash: str) -> bool:
    """Return True if --plan names no other plan than this. Eight characters of a hash are enough
    to name it.
    """
    if not options.plan:
        return True
    return len(options.plan) >= 8 and plan_hash.startswith(options.plan)


def check_hash(options: argparse.Namespace, view: PlanView) -> None:
    """Raise RefusedError if --plan names another plan than `view`."""
    if not is_named(options, view.plan_hash):
        raise RefusedError(
            f"Nothing was done: the plan is {view.plan_hash[:16]} now, not {options.plan}.",
            "Look at it with --plan.",
        )


def told(options: argparse.Namespace, view: PlanView, *fields: str) -> dict[str, Any]:
    """Return the fields of the JSON object that --plan --json prints: which plan it is, and
    `fields` of the plan.
    """
    own = {
        "pod": options.pod,
        "run": view.run,
        "plan_hash": view.plan_hash,
        "expires": view.expires_t,
        "step": view.plan["resume"],
    }
    return own | {field: view.plan[field] for field in fields}
