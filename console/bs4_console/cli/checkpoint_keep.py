"""The command `checkpoints keep`: the order that frees old checkpoints on the pod from now on."""

from __future__ import annotations

import argparse

from bs4_console.checkpoints import keeping, listing
from bs4_console.cli import plans
from bs4_console.cli.actions import act, exit_code
from bs4_console.cli.output import complain, emit
from bs4_console.cli.sessions import ask, can_ask, linked, pod_for_plan, run_of, to_act_on
from bs4_console.errors import FINDING, RefusedError, UsageError
from bs4_console.pods.session import PodSession


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of `checkpoints keep` to its parser."""
    parser.add_argument("--pod", required=True, metavar="NAME", help="which pod of the inventory")
    parser.add_argument("--run", dest="name", required=True, metavar="NAME", help="which run")
    parser.add_argument(
        "--last", type=int, metavar="N", help="how many complete checkpoints stay; 2 or more"
    )
    parser.add_argument(
        "--at-least",
        type=int,
        metavar="N",
        help="how many stay while the disk cannot take the next one (default: as --last)",
    )
    parser.add_argument(
        "--milestones",
        type=int,
        default=0,
        metavar="K",
        help="steps that are a multiple of K stay too",
    )
    parser.add_argument(
        "--best",
        default="",
        metavar="METRIC",
        help="the best complete checkpoint by this metric stays too: reward (the mean of ten "
        "steps), or a validation that `runs show` names",
    )
    parser.add_argument(
        "--synced",
        action="store_true",
        help="a complete checkpoint goes only when it was verified in the store (see sync)",
    )
    parser.add_argument(
        "--off", action="store_true", help="take the order back: nothing is freed any more"
    )
    parser.add_argument(
        "--plan",
        nargs="?",
        const="",
        metavar="HASH",
        help="only show what would be freed; with its hash: order just that",
    )
    parser.add_argument(
        "--confirm", metavar="NAME", help="the run's name again; asked for on a terminal"
    )


async def run(options: argparse.Namespace) -> int:
    """Give a retention order, which frees old checkpoints of a run for good from now on, or take
    it back. What it frees is shown first. The person confirms it by the run's name or the plan's
    hash, except if the order that is in force frees as much already.

    Return the exit code: 0 if the order was given or the plan was only shown, 1 if the pod's agent
    is too old for the order, 4 if the pod refused it. Raises RefusedError if nobody confirmed it,
    and UsageError if the options make no sense or the pod has no such run. Raises a LinkError if
    the pod cannot be reached.
    """
    if (options.last is None) == (not options.off):
        raise UsageError(
            "Say how many checkpoints stay.",
            "Give --last N (2 or more), or --off to take the order back.",
        )
    if options.off:
        if options.plan is not None:
            raise UsageError(
                "--off frees nothing, so it has no plan.", "Give --off without --plan."
            )
        async with linked(to_act_on(options)) as live:
            run_of(live, options.name)
            body = {"run": options.name, "off": True}
            return exit_code(await act(live, "keep", as_json=options.json, **body))
    order = keeping.order_of(
        last=options.last,
        at_least=options.at_least,
        milestones=options.milestones,
        synced=options.synced,
        best=options.best,
    )
    async with linked(pod_for_plan(options)) as live:
        plan = await _plan(live, options, order)
        if options.plan == "":
            return 0
        _require(live, options, plan)
        return await _give(live, options, plan)


async def _plan(
    live: PodSession, options: argparse.Namespace, order: keeping.Order
) -> keeping.KeepPlan:
    """Make the plan of the order, print it, and return it. With --json it is only printed if --plan
    was given without a hash.
    """
    run = run_of(live, options.name)
    found = await listing.of_pod(live, options.name)
    judged = listing.quality_of(run, order.best, found) if order.best else None
    plan = keeping.plan_of(found, live.state.hello.get("home", ""), run.name, order, judged)
    if not options.json:
        print(listing.foresight(found, order.last, order.milestones, judged))
        if plan.free_if_full:
            more = listing.steps_text(plan.free_if_full)
            print(f"While the disk cannot take the next checkpoint, {more} would go too.")
        print(f"  plan {plan.hash}")
    elif options.plan == "":
        rows = []
        for one in (*plan.free, *plan.free_if_full):
            rows.append(
                {
                    "step": one["step"],
                    "bytes": one["bytes"],
                    "complete": one["complete"],
                    "if_full": one in plan.free_if_full,
                }
            )
        emit(
            "keep-plan",
            pod=options.pod,
            run=run.name,
            plan_hash=plan.hash,
            order=plan.body,
            best_step=plan.best,
            free=rows,
        )
    return plan


def _require(live: PodSession, options: argparse.Namespace, plan: keeping.KeepPlan) -> None:
    """Return if the plan is confirmed, or needs no confirmation. Raises RefusedError if it is
    neither, or if --plan gives the hash of another plan.
    """
    if not plans.is_named(options, plan.hash):
        raise RefusedError(
            f"Nothing was ordered: the plan is {plan.hash[:16]} now, not {options.plan}.",
            "Look at it with --plan.",
        )
    if options.plan or keeping.frees_no_more(plan, live.state):
        return
    typed = options.confirm
    if typed is None and can_ask(options):
        typed = ask(f"Type {plan.run} to order it: ")
    if typed != plan.run:
        raise RefusedError(
            "Nothing was ordered: what would be freed for good was not confirmed.",
            f"Confirm it with --plan {plan.hash[:16]}, or with --confirm {plan.run}.",
        )


async def _give(live: PodSession, options: argparse.Namespace, plan: keeping.KeepPlan) -> int:
    """Give the order, and return the exit code."""
    action = await act(live, "keep", as_json=options.json, run=plan.run, **plan.body)
    metric = plan.order.best
    if metric and not listing.protects(live.state, plan.run, metric):
        complain(
            f"The agent of {live.state.name} is older and protects no best checkpoint. Replace "
            f"it: `bs4-console deploy --pod {live.state.name}`, then order it again."
        )
        return FINDING
    return exit_code(action)
