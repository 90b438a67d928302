"""Show an agent's plan and have it confirmed: by its hash, by --yes, or by typing yes."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import TypedDict

from bs4_console.cli.output import complain
from bs4_console.cli.sessions import can_ask, confirm
from bs4_console.errors import RefusedError
from bs4_console.pods.gate.plans import plan_of
from bs4_console.pods.state import ActionView, PlanView


def configure(parser: argparse.ArgumentParser) -> None:
    """Add two options to the parser of a command that carries out a plan. --plan alone only shows
    the plan, and --plan HASH confirms the plan with this hash. --yes confirms it without a
    question.
    """
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
    """Show a plan and have it confirmed, by --yes, by --plan HASH or by a person who types yes.
    Return True if the plan may be carried out, and False if --plan was given without a hash, which
    means that it is only to be shown. Without --json the plan is printed; `words` are further lines
    that are printed below its steps.

    Raises RefusedError if nobody confirms the plan, or if --plan gives the hash of another plan.
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
    """Tell a person that the action `going` is under way already, and that this command follows it
    instead of starting a second one. The sentence is printed on standard error. `what` is a word
    for the kind of action, such as "merge". Return the key of `going`.
    """
    complain(
        f"A {what} of {going.run} by {going.who} is under way; it is watched, nothing is begun "
        "twice."
    )
    return going.key


def is_named(options: argparse.Namespace, plan_hash: str) -> bool:
    """Return False if --plan names another plan than the one with `plan_hash`. Return True if it
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


class PlanRow(TypedDict):
    """The fields that the JSON output of --plan --json has in every command that has a plan: the
    names of `pod` and `run`, and the hash by which the plan is confirmed.
    """

    pod: str
    run: str
    plan_hash: str
    expires: float
    """When the plan expires, as a Unix time in seconds by the pod's clock."""
    step: int | None
    """The training step from which the run would resume, or None if it would not."""


def told(options: argparse.Namespace, view: PlanView) -> PlanRow:
    """Return the fields about the plan `view` that every command with a plan prints under --plan
    --json. `options` are the command's options; the pod's name comes from them.
    """
    return {
        "pod": options.pod,
        "run": view.run,
        "plan_hash": view.plan_hash,
        "expires": view.expires_t,
        "step": plan_of(view)["resume"],
    }
