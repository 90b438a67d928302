"""The commands `checkpoints sync`, `remote` and `prune`: the copy of checkpoints in an object
store.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from typing import Any

from bs4_console.checkpoints import sync
from bs4_console.checkpoints.listing import age, size
from bs4_console.cli.actions import act, exit_code
from bs4_console.cli.output import complain, emit, finding_code, table
from bs4_console.cli.sessions import can_ask, confirm, linked, run_of, to_act_on
from bs4_console.errors import FINDING, RefusedError
from bs4_console.pods.inventory import Inventory
from bs4_console.pods.session import PodSession
from bs4_console.pods.state import PodState
from bs4_console.run_log import record_fold
from bs4_console.setup import credentials

_FROM = "b2://BUCKET/PREFIX"


def configure_sync(parser: argparse.ArgumentParser) -> None:
    """Add the options of `checkpoints sync` to its parser."""
    parser.add_argument("--pod", required=True, metavar="NAME", help="which pod of the inventory")
    parser.add_argument("--run", dest="name", required=True, metavar="NAME", help="which run")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument(
        "--to", metavar=_FROM, help="where the run's checkpoints are copied to, from now on"
    )
    what.add_argument(
        "--off", action="store_true", help="take the order back; what is in the store stays there"
    )
    what.add_argument("--status", action="store_true", help="only say how it stands")
    parser.add_argument(
        "--every",
        type=int,
        default=0,
        metavar="N",
        help="upload no more often than every N steps (default: each newest one)",
    )
    parser.add_argument(
        "--milestones",
        type=int,
        default=0,
        metavar="M",
        help="steps that are a multiple of M are uploaded, and stay there",
    )
    parser.add_argument(
        "--keep-remote",
        type=int,
        metavar="K",
        help="only the K newest stay in the store, where the pod's key may delete",
    )
    parser.add_argument(
        "--limit-mib", type=float, metavar="S", help="bandwidth, in MiB per second (default: none)"
    )
    parser.add_argument(
        "--weights", action="store_true", help="parts too that no resume needs (weights of 2026-01)"
    )
    parser.add_argument(
        "--once",
        action="store_true",
        help="upload the newest checkpoint, wait for it, and end the order",
    )


def configure_remote(parser: argparse.ArgumentParser) -> None:
    """Add the options of `checkpoints remote` to its parser."""
    parser.add_argument(
        "--from",
        dest="place",
        required=True,
        metavar=_FROM,
        help="where the run's checkpoints were copied to",
    )
    parser.add_argument("--run", dest="name", required=True, metavar="NAME", help="which run")
    parser.add_argument(
        "--credentials",
        choices=("-",),
        help="`-`: the key as NAME=value lines on standard input (B2_APPLICATION_KEY_ID, "
        "B2_APPLICATION_KEY)",
    )


def configure_prune(parser: argparse.ArgumentParser) -> None:
    """Add the options of `checkpoints prune` to its parser."""
    configure_remote(parser)
    parser.add_argument(
        "--keep",
        type=int,
        required=True,
        metavar="K",
        help="how many complete steps stay; 2 or more",
    )
    parser.add_argument(
        "--milestones",
        type=int,
        default=0,
        metavar="M",
        help="steps that are a multiple of M stay too",
    )
    parser.add_argument(
        "--plan",
        nargs="?",
        const="",
        metavar="HASH",
        help="only show what would go; with its hash: remove just that",
    )


def run(options: argparse.Namespace) -> int:
    """Run the subcommand of `checkpoints` that `options.verb` names. `sync` orders the pod to copy
    a run's checkpoints to an object store, takes that order back, or shows how it stands. `remote`
    lists what the store has of a run. `prune` removes old checkpoints from the store.

    Return the exit code: 0 if the subcommand did its work or only showed something, 1 if an upload
    failed, was held up or waits for a key, or a milestone was missed, 4 if the pod refused the
    order. Raises RefusedError if a pruning was not confirmed, and StoreFailed if the object store
    fails. Raises UsageError if the address of the store, or the credentials on standard input,
    cannot be read.
    """
    if options.verb == "sync":
        return asyncio.run(_sync(options))
    place = sync.place_of(options.place)
    given = credentials.read(sys.stdin) if options.credentials == "-" else None
    if options.verb == "remote":
        return _remote(options, place, given)
    return _prune(options, place, given)


async def _sync(options: argparse.Namespace) -> int:
    """Give or take back the order to sync, or show its state. Return the exit code."""
    if options.status:
        async with linked(Inventory().get(options.pod), deploy=False) as live:
            return _show_status(live, options)
    body = {"run": options.name, "off": True}
    if not options.off:
        body = {
            "run": options.name,
            "to": str(sync.place_of(options.to)),
            "every": options.every,
            "milestones": options.milestones,
            "keep_remote": options.keep_remote,
            "limit_mib": options.limit_mib,
            "weights": options.weights,
            "once": options.once,
        }
    pod = to_act_on(options)
    async with linked(pod) as live:
        run_of(live, options.name)
        if not options.off:
            await live.bring_store_library(complain)
        action = await act(live, "sync", as_json=options.json, **body)
        code = exit_code(action)
        if code or not options.once or options.off:
            return code or finding_code(action.result.get("waits"))
        return await _until_done(live, options)


def _show_status(live: PodSession, options: argparse.Namespace) -> int:
    """Print the state of a run's sync. Return 1 if uploads are failing or a milestone was missed,
    else 0.
    """
    run_of(live, options.name)
    found = sync.status(live.state, options.name)
    if options.json:
        emit("sync", pod=options.pod, **(found or {"run": options.name, "to": None}))
    elif found is None:
        print(
            f"{options.name} is not synced; order it with `bs4-console checkpoints sync "
            f"--pod {options.pod} --run {options.name} --to ...`."
        )
    else:
        print(
            f"{options.name} to {found['to'] or '(off)'}: "
            f"{sync.line(live.state.ledger.syncs[options.name])}"
        )
    return finding_code(found is not None and (found["failures"] or found["missed"]))


async def _until_done(live: PodSession, options: argparse.Namespace) -> int:
    """Wait until a single upload has ended, and return its exit code. Temporary failures are waited
    for, because the pod tries again.
    """
    said, changed = "", asyncio.Event()

    def listener(_: PodState) -> None:
        changed.set()

    live.state.listeners.append(listener)
    try:
        while True:
            changed.clear()
            view = live.state.ledger.syncs[options.name]
            text = sync.line(view)
            if text != said and not options.json:
                print(f"  {text}", flush=True)
            said = text
            if view.failed is not None and not view.failed.get("passing"):
                return _ended(live, options, FINDING)
            if not view.order.get("to"):
                return _ended(live, options, finding_code(view.held))
            await changed.wait()
    finally:
        live.state.listeners.remove(listener)


def _ended(live: PodSession, options: argparse.Namespace, code: int) -> int:
    """Print the final state with --json, and return `code`."""
    if options.json:
        told: Any = sync.status(live.state, options.name) or {}
        emit("sync", pod=options.pod, **told)
    return code


def _remote(
    options: argparse.Namespace, place: sync.Place, given: credentials.Credentials | None
) -> int:
    """Print what the bucket holds of a run, and return 0."""
    store = sync.open_store(place, given)
    seen = sync.scan(store, place, options.name)
    # A run that this program saved has no steps of other scripts, so only without own steps are the
    # names searched for them.
    found = sync.remote_as_dict(
        place, options.name, seen, [] if seen.steps else sync.older(store, place, options.name)
    )
    if options.json:
        emit("remote", **found)
        return 0
    pointer = "no pointer"
    if found["pointer"] is not None:
        pointer = f"the pointer names step {found['pointer']}"
    print(
        f"{options.name} in {place}: {len(found['steps'])} steps, {found['pointer_why'] or pointer}"
    )
    if found["steps"]:
        rows = [
            [
                f"{one['step']}{' *' if one['pointed'] else ''}",
                "yes" if one["complete"] else "no",
                size(one["bytes"]),
                age(one["age_s"]),
                str(one["files"]),
                one["missing"],
            ]
            for one in found["steps"]
        ]
        table(rows, ["step", "complete", "size", "age", "files", "missing"])
    if found["older"]:
        print("left by older scripts, which saved the trainer's part alone:")
        rows = [
            [str(one["step"]), size(one["bytes"]), str(one["files"]), one["root"], one["missing"]]
            for one in found["older"]
        ]
        table(rows, ["step", "size", "files", "where", "missing"])
    return 0


def _prune(
    options: argparse.Namespace, place: sync.Place, given: credentials.Credentials | None
) -> int:
    """Show the plan of a pruning and carry it out if it is confirmed. Return 0. Raises
    RefusedError if it is not confirmed or the plan has changed.
    """
    store = sync.open_store(place, given)
    pods = record_fold.mirrored()
    plan = sync.plan_prune(store, place, options.name, options.keep, options.milestones, pods)
    if options.plan == "" or (not options.plan and not options.json):
        _show_plan(options, plan)
    if options.plan == "" or not plan.decision.remove:
        return 0
    if options.plan and options.plan != plan.hash:
        raise RefusedError(
            "What would go has changed since that plan was made.", "Look again with --plan."
        )
    if not options.plan:
        if not can_ask(options):
            raise RefusedError(
                "Nothing was removed: the plan was not confirmed.",
                f"Confirm it with --plan {plan.hash}.",
            )
        confirm(
            f"Type {options.name} to remove them for good: ", options.name, "Nothing was removed."
        )
    done = sync.carry_out(store, plan)
    removed = [one.step for one in done.remove]
    if options.json:
        emit(
            "prune",
            to=str(place),
            run=options.name,
            removed=removed,
            bytes=done.bytes,
            kept=dict(done.kept),
        )
    else:
        print(f"removed for good: steps {', '.join(map(str, removed))}, {size(done.bytes)}")
    return 0


def _show_plan(options: argparse.Namespace, plan: sync.Prunable) -> None:
    """Print the plan of a pruning."""
    decision = plan.decision
    if options.json:
        steps = [
            {"step": one.step, "bytes": one.bytes, "complete": one.whole} for one in decision.remove
        ]
        emit(
            "prune-plan",
            to=str(plan.place),
            run=plan.run,
            plan_hash=plan.hash,
            remove=steps,
            bytes=decision.bytes,
            kept=dict(decision.kept),
        )
        return
    for one in decision.remove:
        torn = f" (not whole: {one.missing})" if one.missing else ""
        print(f"  remove step {one.step}: {size(one.bytes)}{torn}")
    for step, why in sorted(decision.kept.items()):
        print(f"  keep   step {step}: {why}")
    print(
        f"{size(decision.bytes)} would go; plan {plan.hash}"
        if decision.remove
        else "Nothing would go."
    )
