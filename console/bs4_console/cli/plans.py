"""Show an agent's plan and have it confirmed: by its hash, by --yes, or by typing yes."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import Any

from bs4_console.cli.sessions import ask, is_terminal
from bs4_console.errors import RefusedError
from bs4_console.pods.state import PlanView


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
    if options.plan and not (len(options.plan) >= 8 and view.plan_hash.startswith(options.plan)):
        raise RefusedError(
            f"Nothing was done: the plan is {view.plan_hash[:16]} now, not {options.plan}.",
            "Look at it with --plan.",
        )
    if not options.json:
        print(view.plan["title"])
        for number, step in enumerate(view.plan["steps"], 1):
            print(f"  {number}. {step['title']}\n       $ {step['command']}")
        for line in (*words, f"plan {view.plan_hash}"):
            print(f"  {line}")
    if options.plan == "":
        return False
    if not (options.yes or options.plan):
        if not is_terminal() or options.json:
            raise RefusedError(
                "Nothing was done: the plan was not confirmed.",
                f"Confirm it with --yes, or --plan {view.plan_hash[:16]}.",
            )
        if ask("Type yes to carry it out: ") != "yes":
            raise RefusedError("Nothing was done.", "Run it again when you are sure.")
    return True


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
