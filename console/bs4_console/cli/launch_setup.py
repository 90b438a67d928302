"""The option `launch --setup`: set the pod up first, under the same confirmation as the start."""

from __future__ import annotations

import argparse

from bs4_console.cli import setup as command
from bs4_console.cli.actions import watch
from bs4_console.cli.output import complain
from bs4_console.cli.sessions import can_ask, confirm
from bs4_console.errors import RefusedError, UsageError
from bs4_console.launch.guide import LaunchRequest
from bs4_console.pods.session import PodSession
from bs4_console.setup import recipe as setup
from bs4_console.setup.credentials import Credentials
from bs4_console.setup.recipe import Recipe


def configure(parser: argparse.ArgumentParser) -> None:
    """Add to the parser of `launch` the options that say how --setup prepares the pod."""
    parser.add_argument(
        "--setup",
        action="store_true",
        help="set the pod up first (as `pods setup` does), under the same confirmation",
    )
    for name, metavar, text in (
        ("repository", "URL", "instead of prime-rl's own"),
        ("revision", "COMMIT", "instead of the one that is known to work"),
        ("uv", "URL#sha256=HASH", "instead of the pinned wheel of uv"),
    ):
        parser.add_argument(f"--{name}", default="", metavar=metavar, help=f"with --setup: {text}")
    parser.add_argument(
        "--install",
        action="append",
        default=[],
        metavar="OWNER/NAME",
        help="with --setup: an environment to install",
    )


def refuse_stray(options: argparse.Namespace) -> None:
    """Raise UsageError if --repository, --revision, --uv or --install is given without --setup,
    because each of them only says how to set up the pod.
    """
    for name in ("repository", "revision", "uv", "install"):
        if getattr(options, name) and not options.setup:
            raise UsageError(f"--{name} says how to set a pod up.", "Add --setup, or leave it out.")


async def ready(options: argparse.Namespace, live: PodSession, asked: LaunchRequest) -> bool:
    """Set up the pod for the launch `asked`, as far as that is not done yet. Return True if
    everything is on the pod now, and False if the set-up failed or only its plan was to be shown.
    Raises RefusedError if nobody confirmed the set-up, and NotApplicableError, with the agent's
    reason, if the agent cannot plan it.

    A person who confirms the set-up also confirms the start, because the start can be planned only
    after the set-up. The plan of the start is shown before it is carried out. If that plan would
    move checkpoints aside, the person is asked again.
    """
    recipe = Recipe(
        trainer=asked.trainer,
        directory=asked.cwd,
        repository=options.repository,
        revision=options.revision,
        environments=tuple(options.install),
        uv=options.uv,
    )
    nothing = Credentials()
    running = setup.under_way(live)
    if running is not None and setup.same(running, recipe, nothing):
        complain(f"This set-up is under way already, begun by {running.who}; watching it.")
        options.yes = _confirmed(options, asked)
        return (await watch(live, running.key, as_json=options.json)).state == "done"
    view = await setup.plan(live, recipe, nothing)
    if not options.json:
        print(command.plan_text(view, asked.trainer))
    if not setup.todo(view.plan["steps"]):
        return True
    if options.plan == "":
        print(
            f"  then: the look before the start, and the plan of {asked.run}; neither can be "
            "made before this is done."
        )
        return False
    if not options.json:
        print(
            f"  then: start {asked.run} with {asked.config}, if nothing forbids it, and wait "
            "for its first step"
        )
    options.yes = _confirmed(options, asked)
    done = await watch(live, await setup.begin(live, view.plan_hash, nothing), as_json=options.json)
    if done.state != "done":
        complain(
            f"{asked.run} was not started: the set-up did not come to its end ({done.detail})."
        )
    return done.state == "done"


def _confirmed(options: argparse.Namespace, asked: LaunchRequest) -> bool:
    """Return True if the set-up and the start are confirmed. Raises RefusedError otherwise."""
    if options.yes:
        return True
    if not can_ask(options):
        raise RefusedError(
            "Nothing was done: the set-up was not confirmed.",
            "Confirm it, and the start with it, with --yes.",
        )
    confirm(f"Type yes to set the pod up and start {asked.run}: ")
    return True
