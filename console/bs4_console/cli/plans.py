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
    """Show a plan and have it confirmed. Returns True if it may be carried out, and False if --plan
    without a hash asked only to show it. Without --json the plan is printed, with the lines of
    `words` below its steps. It counts as confirmed by --yes, by --plan HASH, or by a person who
    types yes.

    Raises RefusedError if nobody confirms it, or if --plan names another plan's hash.
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
    """Print on standard error that an action is under way already and is watched in place of a
    second one, and return the key of that action, `going`. `what` names its kind, such as "merge".
    """
    complain(
        f"A {what} of {going.run} by {going.who} is under way; it is watched, nothing is begun "
        "twice."
    )
    return going.key


def is_named(options: argparse.Namespace, plan_hash: str) -> bool:
    """Return False if --plan names another plan than the one with `plan_hash`. Returns True if it
    names this plan, by at least eight characters of the hash, or if no hash was given.
    """
    if not options.plan:
        return True
    return len(options.plan) >= 8 and plan_hash.startswith(options.plan)


def check_hash(options: argparse.Namespace, view: PlanView) -> None:
    """Raise RefusedError if --plan gives a hash that is not the hash of the plan `view`."""
    if not is_named(options, view.plan_hash):
        raise RefusedError(
            f"Nothing was done: the plan is {view.plan_hash[:16]} now, not {options.plan}.",
            "Look at it with --plan.",
        )


def told(options: argparse.Namespace, view: PlanView, *fields: str) -> dict[str, Any]:
    """Return the fields of the JSON object that --plan --json prints: the pod, the run, the plan's
    hash, the time at which the plan expires and the step to resume from, and in addition those
    fields of the plan that `fields` names.
    """
    own = {
        "pod": options.pod,
        "run": view.run,
        "plan_hash": view.plan_hash,
        "expires": view.expires_t,
        "step": view.plan["resume"],
    }
    return own | {field: view.plan[field] for field in fields}
