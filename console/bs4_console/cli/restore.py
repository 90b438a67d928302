"""The command `checkpoints restore`: bring a run's newest complete step back from the store to a
pod, and resume the run.
"""

from __future__ import annotations

import argparse

from bs4_console.cli import plans
from bs4_console.cli.actions import exit_code, watch
from bs4_console.cli.launch import watch_launch
from bs4_console.cli.output import complain, emit
from bs4_console.cli.sessions import linked, pod_for_plan
from bs4_console.errors import FINDING, REFUSED
from bs4_console.launch import guide
from bs4_console.pods.session import PodSession
from bs4_console.pods.state import ActionView
from bs4_console.recovery import restore
from bs4_console.recovery.restore import Before
from bs4_console.run_log import record_fold
from bs4_console.trainers.registry import TRAINERS


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of `checkpoints restore` to its parser."""
    parser.add_argument("--pod", required=True, metavar="NAME", help="which pod of the inventory")
    parser.add_argument(
        "--run",
        dest="name",
        required=True,
        metavar="NAME",
        help="which run, by the name that it has in the store",
    )
    parser.add_argument(
        "--from",
        dest="source",
        required=True,
        metavar="b2://BUCKET/PREFIX",
        help="where its checkpoints are",
    )
    parser.add_argument(
        "--step", type=int, metavar="N", help="this step (default: the newest that is whole there)"
    )
    parser.add_argument(
        "--trainer",
        default="",
        choices=("", *TRAINERS),
        help="which generation (default: as the store says)",
    )
    parser.add_argument(
        "--cwd",
        default="prime-rl",
        help="where prime-rl is on the pod, from the home directory (default: prime-rl)",
    )
    parser.add_argument(
        "--output-dir",
        default="outputs",
        metavar="DIR",
        help="where the run writes, from --cwd (default: outputs)",
    )
    parser.add_argument(
        "--config",
        default="",
        metavar="FILE",
        help="on the pod (default: the one that was saved with the step)",
    )
    plans.configure(parser)
    parser.add_argument(
        "--launch",
        action="store_true",
        help="then resume the run from that step, as it was started and with the orders that it "
        "had on its pod, under the same confirmation",
    )
    parser.add_argument(
        "--no-preflight",
        action="store_true",
        help="with --launch: leave the look before the start out",
    )
    parser.add_argument(
        "--no-wait", action="store_true", help="with --launch: do not wait for the first step"
    )


async def run(options: argparse.Namespace) -> int:
    """Copy a checkpoint of a run from the object store to the pod, and with --launch start the run
    from it. Return 0 if the checkpoint is complete on the pod and, with --launch, the run trains,
    or if only the plan was to be shown. Return 1 if the copy or the start failed, for example
    because the store has no complete checkpoint, and 4 if the pod refused. Raises RefusedError if
    nobody confirmed, and a LinkError if the pod cannot be reached.
    """
    asked = restore.RestoreRequest(
        run=options.name,
        source=options.source,
        step=options.step,
        trainer=options.trainer,
        cwd=options.cwd,
        output_dir=options.output_dir,
        config=options.config,
    )
    only_shown = options.plan == ""
    pod = pod_for_plan(options)
    before = None
    if options.launch:
        before = restore.before(record_fold.mirrored({pod.name}), asked, pod.name)
    async with linked(pod) as live:
        going = restore.under_way(live, options.name)
        if going is None or only_shown:
            await live.bring_store_library(complain)
            key = await _confirmed(live, options, asked, before)
        else:
            key = plans.joined("restore", going)
        if key is None:
            return 0
        action = await watch(live, key, as_json=options.json)
        if action.state != "done" or not options.launch:
            if action.state == "done" and not options.json:
                print(_next(options, action))
            return exit_code(action)
        code = await _resume(live, options, action)
        if code == 0 and before is not None:
            return await _order_again(live, options, before)
        return code


async def _confirmed(
    live: PodSession,
    options: argparse.Namespace,
    asked: restore.RestoreRequest,
    before: Before | None,
) -> str | None:
    """Return the key of the restore that was confirmed and started, or None if only the plan was to
    be shown. `before` is where the run gets its standing orders from.
    """
    view = await restore.plan(live, asked)
    lines = restore.plan_text(view)
    orders: list[str] = []
    if before is not None:
        orders = before.orders()
        lines += [f"then ordered as on {before.state.name}: {order}" for order in orders]
    if options.json and options.plan == "":
        fields = ("skipped", "notes", "bytes", "missing", "free", "launch", "steps")
        told = plans.told(options, view)
        shown = {field: view.plan[field] for field in fields}
        emit("restore-plan", **told, **shown, orders=orders)
    if plans.confirmed(options, view, lines):
        return await restore.begin(live, view)
    return None


async def _order_again(live: PodSession, options: argparse.Namespace, before: Before) -> int:
    """Give the resumed run the standing orders that it had before. Return 0, or 1 if the pod
    refused one.
    """
    refused = await before.renew(live)
    for kind, why in refused.items():
        complain(
            f"{options.name} trains, but its order {kind} of {before.state.name} was refused: {why}"
        )
    if refused:
        return FINDING
    if not options.json:
        for order in before.orders():
            print(f"Ordered as on {before.state.name}: {order}.")
    return 0


def _next(options: argparse.Namespace, action: ActionView) -> str:
    """Return a sentence with the command that resumes the run."""
    return f"Next: `{restore.command_of(restore.launch_of(action.result), options.pod)}`."


async def _resume(live: PodSession, options: argparse.Namespace, action: ActionView) -> int:
    """Resume the restored run, and return the exit code."""
    asked = restore.launch_of(action.result)
    environment: guide.Environment = {}
    if not options.no_preflight:
        looked = await guide.prepare(live, asked)
        environment = looked.environment
        if looked.blocking:
            complain(
                f"Step {asked.resume} is restored; the run was not started: "
                f"{guide.sentence(looked.blocking[0])}"
            )
            return FINDING
    price = guide.price_of(options.pod)
    view = await guide.plan(live, asked, price=price, **environment)
    if guide.must_type(view):
        complain(
            f"Step {asked.resume} is restored; resuming it moves newer checkpoints aside, so "
            f"start it by hand. {_next(options, action)}"
        )
        return REFUSED
    return await watch_launch(options, live, await guide.start(live, view))
