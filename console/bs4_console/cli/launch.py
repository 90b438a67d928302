"""The command `launch`: check before the start, show the plan, ask once, start the run, and report
success only after its first step.
"""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path
from typing import Any

from bs4_console.cli import launch_setup, plans
from bs4_console.cli.actions import exit_code, watch
from bs4_console.cli.output import complain, emit, finding_code, plan_text
from bs4_console.cli.sessions import ask, can_ask, confirm, linked, pod_for_plan
from bs4_console.errors import REFUSED, RefusedError, UsageError
from bs4_console.launch import config, guide, phases
from bs4_console.launch.guide import AUTO, COMPONENTS, LaunchRequest
from bs4_console.launch.phases import Phases
from bs4_console.pods.inventory import Pod
from bs4_console.pods.session import PodSession
from bs4_console.pods.state import PlanView
from bs4_console.trainers.registry import TRAINERS


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of `launch` to its parser."""
    parser.add_argument("config", nargs="?", help="the training config, as a path on the pod")
    parser.add_argument("--pod", required=True, metavar="NAME", help="which pod of the inventory")
    parser.add_argument(
        "--run",
        dest="name",
        metavar="NAME",
        help="the run's name, unique on the pod; an ended run goes on",
    )
    parser.add_argument(
        "--trainer",
        choices=tuple(TRAINERS),
        help="prime-rl of January 2026, the current one, or verl (known by its config)",
    )
    parser.add_argument(
        "--phases",
        type=Path,
        metavar="FILE",
        help="start or continue the run of this phase file, in the phase it is in",
    )
    parser.add_argument(
        "--cwd",
        default="",
        help="where the trainer is installed on the pod (default: ~/prime-rl; of verl ~/verl)",
    )
    parser.add_argument(
        "--output-dir", default="outputs", help="relative to --cwd, or absolute (default: outputs)"
    )
    whence = parser.add_mutually_exclusive_group()
    whence.add_argument(
        "--resume",
        type=int,
        metavar="STEP",
        help="from this step (default: the newest that is complete on every side)",
    )
    whence.add_argument(
        "--fresh",
        action="store_true",
        help="from the beginning: what was saved there is moved to the run's trash",
    )
    parser.add_argument(
        "--component",
        choices=COMPONENTS,
        help="the whole run (rl), one part of it apart, or sft or eval",
    )
    parser.add_argument(
        "--processes",
        type=int,
        default=1,
        metavar="N",
        help="ranks of a trainer that is started apart (default: 1)",
    )
    parser.add_argument(
        "--env",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="an addition to its environment; no secrets",
    )
    parser.add_argument(
        "--container",
        default="",
        metavar="NAME",
        help="run it in this container of the pod; paths stay the pod's own",
    )
    parser.add_argument(
        "--plan",
        nargs="?",
        const="",
        metavar="HASH",
        help="only show the plan; with its hash: carry out just that one",
    )
    parser.add_argument(
        "--yes",
        action="store_true",
        help="carry out the plan that is made, without asking, if it moves no checkpoint aside",
    )
    parser.add_argument(
        "--confirm", metavar="NAME", help="the run's name again, where checkpoints are moved aside"
    )
    launch_setup.configure(parser)
    parser.add_argument(
        "--no-preflight",
        action="store_true",
        help="do not look at pod, config and model before the start",
    )
    parser.add_argument("--no-wait", action="store_true", help="do not wait for the first step")
    parser.add_argument("--json", action="store_true", help="JSON objects instead of text")
    parser.add_argument(
        "overrides", nargs="*", metavar="-- ARGUMENT", help="further arguments for the trainer"
    )


def run(options: argparse.Namespace) -> int:
    """Start the run that the command line or a phase file (--phases) describes, and return the exit
    code. It is 0 if the run's trainer works now, also if this command found it working already, or
    if only the plan was to be shown. It is 1 if the set-up or the start failed, and 4 if a
    preflight check blocks the start or the pod refused it. Raises RefusedError if nobody confirmed
    the plan, and UsageError if an option is missing or two exclude each other. Raises OSError if
    the phase file cannot be read.
    """
    launch_setup.refuse_stray(options)
    if options.phases is not None:
        if any((options.config, options.name, options.trainer)):
            raise UsageError(
                "A phase file names config, run and trainer itself.",
                "Leave them out, or leave --phases out.",
            )
        return asyncio.run(_launch(options, None, phases.read(options.phases)))
    return asyncio.run(_launch(options, asked_by(options), None))


def asked_by(options: argparse.Namespace) -> LaunchRequest:
    """Return the launch that the command line describes. Raises UsageError if CONFIG or --run is
    missing, or if an --env is not NAME=VALUE.
    """
    for what, given in (("CONFIG", options.config), ("--run", options.name)):
        if not given:
            raise UsageError(f"launch needs {what}.", "Say it, or give a phase file with --phases.")
    pairs = [text.partition("=") for text in options.env]
    if wrong := [name for name, equals, _ in pairs if not equals]:
        raise UsageError(f"--env {wrong[0]} has no value.", "Write NAME=VALUE.")
    return LaunchRequest(
        run=options.name,
        trainer=options.trainer or "",
        config=options.config,
        cwd=options.cwd,
        output_dir=options.output_dir,
        resume=AUTO if options.resume is None else options.resume,
        fresh=options.fresh,
        component=options.component or "",
        processes=options.processes,
        overrides=tuple(options.overrides),
        env={name: value for name, _, value in pairs},
        container=options.container,
    )


async def _launch(
    options: argparse.Namespace, single: LaunchRequest | None, phased: Phases | None
) -> int:
    """Launch one config (`single`), or the current phase of a phase file (`phased`). Return the
    exit code.
    """
    pod = pod_for_plan(options)
    async with linked(pod) as live:
        phase, asked = None, single
        if phased is not None:
            phase = phases.launched(live.state, phased)[0] or phased.phases[0]
            asked = phased.asked(phase)
        if asked is None:
            raise AssertionError("a launch is of a config or of a phase")
        asked = await config.resolved(live, asked, setup=options.setup)
        only_shown = options.plan == ""
        if not only_shown and (going := guide.under_way(live.state, asked.run)) is not None:
            _say(
                options,
                f"A launch of {asked.run} by {going.who} is under way; it is watched, "
                "nothing is started twice.",
            )
            return await watch_launch(options, live, going.key)
        if not only_shown and (already := guide.trains_already(live.state, asked)) is not None:
            _say(
                options,
                f"{asked.run} runs already, at step "
                f"{'-' if already.step is None else already.step}; nothing was started.",
            )
            return 0
        if options.setup and not await launch_setup.ready(options, live, asked):
            return finding_code(not only_shown)
        looked = None
        if not options.no_preflight:
            looked = await guide.prepare(live, asked)
        if looked is not None and not _fit(options, looked) and not only_shown:
            return REFUSED
        environment = {} if looked is None else looked.environment
        if phased is not None and phase is not None:
            view = await phases.plan_of(live, phased, phase, pod.price, environment)
        else:
            view = await guide.plan(live, asked, price=pod.price, **environment)
        _show(options, live, pod, view, looked)
        if only_shown:
            return 0
        key = await guide.start(live, view, confirmed=_confirmed(options, view))
        return await watch_launch(options, live, key)


def _fit(options: argparse.Namespace, looked: guide.Looked) -> bool:
    """Print the results of the checks before the start. Return False if they forbid the start."""
    if not options.json:
        good = sum(check.state == "ok" for check in looked.preflight.checks)
        print(
            f"Looked at {options.pod} before the start: {good} of {len(looked.preflight.checks)} "
            "checks are ok."
        )
        for check in looked.told:
            print(f"  {check.state} {check.id}: {guide.sentence(check)}")
    if looked.blocking and options.plan != "":
        more = len(looked.blocking) - 1
        others = ""
        if more == 1:
            others = " And one more check forbids it."
        elif more:
            others = f" And {more} more checks forbid it."
        complain(f"Nothing was started: {guide.sentence(looked.blocking[0])}{others}")
    return not looked.blocking


def _show(
    options: argparse.Namespace,
    live: PodSession,
    pod: Pod,
    view: PlanView,
    looked: guide.Looked | None,
) -> None:
    """Print the plan, with the checks before the start."""
    if not options.json:
        print(plan_text(view))
        for line in guide.plan_lines(view, live.state, pod.price):
            print(f"  {line}")
        for line in looked.memory if looked is not None else ():
            print(f"  {line}")
    elif options.plan == "":
        body: dict[str, Any] = {
            key: view.plan.get(key)
            for key in ("why", "notes", "config", "resume", "moves", "typed_name")
        }
        emit(
            "plan",
            plan_hash=view.plan_hash,
            expires=view.expires_t,
            playbook=view.playbook,
            run=view.run,
            attempt=view.attempt,
            steps=view.plan["steps"],
            checks=None if looked is None else looked.preflight.checks,
            memory=None if looked is None else looked.memory,
            **body,
        )


def _confirmed(options: argparse.Namespace, view: PlanView) -> bool:
    """Return True if the plan was confirmed by the run's name, and False if it was confirmed
    otherwise. Raises RefusedError if nobody confirmed it.
    """
    plans.check_hash(options, view)
    if guide.must_type(view):
        if options.confirm is None and can_ask(options):
            options.confirm = ask(
                f"This moves checkpoints aside. Type {view.run} to carry it out: "
            )
        if options.confirm != view.run:
            raise RefusedError(
                "Nothing was done: this moves checkpoints aside (see --plan).",
                f"Confirm with --confirm {view.run}.",
            )
        return True
    if options.yes or options.plan or options.confirm == view.run:
        return False
    if not can_ask(options):
        raise RefusedError(
            f"Nothing was done: confirm the plan with --yes, or with --plan {view.plan_hash[:16]}."
        )
    confirm("Type yes to carry it out: ")
    return False


async def watch_launch(options: argparse.Namespace, live: PodSession, key: str) -> int:
    """Watch the action with the key `key`, a launch, until the run's first training step, or with
    --no-wait only until the trainer's program runs, and print its progress. Return the exit code:
    0 if the launch came that far, 1 if it failed, 4 if the pod refused it.
    """
    if options.no_wait:
        async for action in guide.until_started(live, key):
            last = action
        if not last.ended:
            _say(
                options,
                f"{last.run} was started; its first step is not waited for here. The same "
                "command again watches it.",
            )
            return 0
    action = await watch(live, key, as_json=options.json)
    if not options.json:
        for line in guide.verdict(action, live.state):
            print(line)
    return exit_code(action)


def _say(options: argparse.Namespace, text: str) -> None:
    """Print a sentence, on standard error with --json."""
    if options.json:
        complain(text)
    else:
        print(text)
