"""The command `pods setup`: turn a bare machine into one that can train, after showing a plan."""

from __future__ import annotations

import argparse
import getpass
import sys

from bs4_console.cli import plans
from bs4_console.cli.actions import act, exit_code, watch
from bs4_console.cli.logs import printer
from bs4_console.cli.output import complain, emit
from bs4_console.cli.sessions import (
    can_ask,
    confirm,
    is_terminal,
    linked,
    pod_for_plan,
    to_act_on,
)
from bs4_console.errors import FINDING, RefusedError, UsageError
from bs4_console.pods.inventory import Inventory
from bs4_console.pods.session import PodSession
from bs4_console.pods.state import PlanView
from bs4_console.setup import credentials as secrets
from bs4_console.setup import recipe as setup
from bs4_console.setup.recipe import Recipe
from bs4_console.trainers.registry import INSTALLED, TRAINERS


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of `pods setup` to its parser."""
    parser.add_argument("pod", metavar="name", help="which pod of the inventory")
    parser.add_argument(
        "--trainer",
        choices=tuple(TRAINERS),
        help="which generation to install: of January 2026, or the current one; for verl, which "
        "comes in an image, and without it, credentials alone are stored",
    )
    parser.add_argument(
        "--env",
        action="append",
        default=[],
        metavar="OWNER/NAME",
        help="an environment of the hub, or a wheel or a directory on the pod; several times for "
        "several",
    )
    parser.add_argument(
        "--credentials",
        choices=("-", "ask"),
        help=(
            f"`-`: NAME=value lines on standard input ({', '.join(secrets.VARIABLES)}); `ask`: "
            "typed here, unseen"
        ),
    )
    parser.add_argument(
        "--dir",
        default="prime-rl",
        help="where prime-rl goes, from the home directory (default: prime-rl)",
    )
    parser.add_argument("--repository", default="", metavar="URL", help="instead of prime-rl's own")
    parser.add_argument(
        "--revision", default="", metavar="COMMIT", help="instead of the one that is known to work"
    )
    parser.add_argument(
        "--uv", default="", metavar="URL#sha256=HASH", help="instead of the pinned wheel of uv"
    )
    parser.add_argument(
        "--nofile",
        type=int,
        default=setup.NOFILE,
        metavar="N",
        help=f"open files of a launch (default: {setup.NOFILE})",
    )
    plans.configure(parser)
    parser.add_argument(
        "--stop",
        action="store_true",
        help="end the set-up that is under way: its command, and so the whole of it",
    )
    parser.add_argument(
        "--log",
        action="store_true",
        help="print what the commands of set-ups have said on this pod, and end",
    )


async def run(options: argparse.Namespace) -> int:
    """Install what a trainer needs on a pod, and return the exit code: 0 if every part is on the
    pod and passed a check after the installation, or if only the plan or the log was to be shown; 1
    if a part could not be installed; 4 if the pod refused. --stop ends a set-up that is under way.
    Raises UsageError if there is neither a trainer to install nor a credential to store, and
    RefusedError if nobody confirmed. Raises a LinkError if the pod cannot be reached.
    """
    if options.log:
        async with linked(Inventory().get(options.pod), deploy=False) as live:
            return await _print_log(live)
    if options.stop:
        async with linked(to_act_on(options)) as live:
            return exit_code(await act(live, "setup-stop", as_json=options.json))
    trainer = options.trainer
    if trainer not in INSTALLED:
        # One that comes in an image, or none: credentials are all that is stored.
        trainer = _for_credentials_alone(options)
    recipe = Recipe(
        trainer=trainer,
        directory=options.dir,
        repository=options.repository,
        revision=options.revision,
        environments=tuple(options.env),
        uv=options.uv,
        nofile=options.nofile,
    )
    given = _credentials(options)
    async with linked(pod_for_plan(options)) as live:
        key = _watched(live, recipe, given) or await _confirmed(live, options, recipe, given)
        if key is None:
            return 0
        return exit_code(await watch(live, key, as_json=options.json))


def _for_credentials_alone(options: argparse.Namespace) -> str:
    """Return the word that stands for no trainer. Raises UsageError if no credentials are to be
    stored either, or if something is to be installed.
    """
    if options.credentials is None:
        if options.trainer is not None:
            raise UsageError(
                f"{options.trainer} comes in an image, and nothing of it is installed here.",
                "Give --credentials - or --credentials ask to store its keys.",
            )
        raise UsageError(
            "`pods setup` needs --trainer or --credentials.",
            f"Choose {' or '.join(INSTALLED)}, or give --credentials to store keys alone.",
        )
    if options.env or options.repository or options.revision or options.uv:
        raise UsageError(
            "Without a generation of prime-rl only credentials are stored.",
            f"Leave --env, --repository, --revision and --uv out, or give --trainer "
            f"{' or '.join(INSTALLED)}.",
        )
    return setup.CREDENTIALS


def _watched(live: PodSession, recipe: Recipe, given: secrets.Credentials) -> str | None:
    """Return the key of the set-up that is under way, if it is the same as this one, else None."""
    running = setup.under_way(live)
    if running is None or not setup.same(running, recipe, given):
        return None  # the agent refuses a second set-up and names who began the first
    complain(f"This set-up is under way already, begun by {running.who}; watching it.")
    return running.key


async def _confirmed(
    live: PodSession, options: argparse.Namespace, recipe: Recipe, given: secrets.Credentials
) -> str | None:
    """Return the key of the set-up that was confirmed and started, or None if only the plan was to
    be shown. Raises RefusedError if nobody confirmed it.
    """
    if options.plan:
        return await setup.begin(live, options.plan, given)
    plan = await setup.plan(live, recipe, given)
    if not options.json or options.plan == "":
        _show(plan, options)
    if options.plan == "":
        return None
    if not options.yes:
        if not can_ask(options):
            again = f"`bs4-console pods setup {options.pod} ... --plan {plan.plan_hash}`"
            raise RefusedError(
                "Nothing was done: the plan was not confirmed.",
                f"Confirm it with {again}, or with --yes.",
            )
        confirm("Type yes to carry it out: ")
    return await setup.begin(live, plan.plan_hash, given)


def _show(plan: PlanView, options: argparse.Namespace) -> None:
    """Print the plan."""
    steps = plan.plan["steps"]
    if options.json:
        emit(
            "setup-plan",
            pod=options.pod,
            plan_hash=plan.plan_hash,
            expires=plan.expires_t,
            steps=steps,
            todo=len(setup.todo(steps)),
        )
        return
    print(plan_text(plan, options.trainer if options.trainer in INSTALLED else None))


def plan_text(plan: PlanView, trainer: str | None) -> str:
    """Return the plan of a set-up as text for a person: for each step, what is on the pod now and,
    if the step is still to be done, the exact command. If `trainer` is not None, further lines name
    environment variables that the set-up leaves unset, because the version of vLLM that it installs
    for this trainer does not know them. The last line is the plan's hash.
    """
    steps = plan.plan["steps"]
    lines = [f"{plan.plan['title']}: {len(setup.todo(steps))} of {len(steps)} steps to do"]
    for number, step in enumerate(steps, 1):
        done = step["shown"]["done"]
        lines.append(f"  {number:2}. {'ok' if done else 'do'}  {step['title']}")
        lines.append(f"          now: {step['shown']['now']}")
        if not done and step["command"]:
            lines.append(f"          $ {step['command']}")
    if trainer is not None:
        version = setup.stack_vllm(trainer)
        for name, why in setup.left_out(version).items():
            lines.append(f"  not set: {name}, which vLLM {version} does not have: {why}")
    lines.append(f"  plan {plan.plan_hash}")
    return "\n".join(lines)


def _credentials(options: argparse.Namespace) -> secrets.Credentials:
    """Return the credentials from standard input or from a person. Raises UsageError if nobody can
    type them.
    """
    if options.credentials == "-":
        return secrets.read(sys.stdin)
    if options.credentials == "ask":
        if not is_terminal():
            raise UsageError(
                "Nobody can type credentials without a terminal.",
                "Pipe them: `--credentials - < FILE`.",
            )
        typed = {}
        for name in secrets.VARIABLES:
            if name != "HUGGING_FACE_HUB_TOKEN":
                typed[name] = getpass.getpass(f"{name} (empty: none): ")
        return secrets.collect(typed)
    return secrets.Credentials()


async def _print_log(live: PodSession) -> int:
    """Print everything that the set-up log of the pod still has, without secrets. Return 1 if
    there is no log, else 0.
    """
    if setup.NAME not in await live.streams():
        complain(f"Nothing was set up by the agent on {live.state.name}: there is no log of it.")
        return FINDING
    cursor, more = "start", True
    # The number of bytes of an unfinished last line that were printed already.
    seen = 0
    out = printer()
    while more:
        chunk = await live.read_log(setup.NAME, cursor, seen=seen, ahead=True)
        out.write(chunk, seen)
        if chunk.data:
            seen = len(chunk.data) if chunk.repeats else 0
        more, cursor = chunk.more, chunk.next
    out.end()
    return 0
