"""The command `pods sync`: send a directory of code to a pod, after showing what would be sent."""

from __future__ import annotations

import argparse
import asyncio
import time
from pathlib import Path

from bs4_console.cli import plans
from bs4_console.cli.output import emit
from bs4_console.cli.sessions import can_ask, confirm, pod_for_plan, transport
from bs4_console.errors import RefusedError
from bs4_console.pods.inventory import Pod
from bs4_console.setup.code_sync import Machine, Sync, SyncPlan


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of `pods sync` to its parser."""
    parser.add_argument("pod", metavar="name", help="which pod of the inventory")
    parser.add_argument("source", metavar="SRC", type=Path, help="a directory on this machine")
    parser.add_argument(
        "target",
        metavar="DST",
        nargs="?",
        help="the directory on the pod, from its home (default: the name of SRC)",
    )
    parser.add_argument(
        "--delete",
        action="store_true",
        help="move files that only the pod has to a trash beside DST",
    )
    plans.configure(parser)


def run(options: argparse.Namespace) -> int:
    """Send a directory of code from this machine to the pod, after its plan was shown and
    confirmed. Return 0 if the files are on the pod, if there was nothing to send, or if only the
    plan was to be shown. Raises RefusedError if nobody confirmed the plan, if --plan names another
    one, or if files are to be sent and the pod or the console is read-only.
    """
    return asyncio.run(_sync(options, pod_for_plan(options)))


async def _sync(options: argparse.Namespace, pod: Pod) -> int:
    """Show the plan, have it confirmed, and send the files."""
    link = transport(pod)
    if not isinstance(link, Machine):
        raise TypeError(f"{type(link).__name__} takes no files")
    source = options.source.expanduser()
    sync = Sync(
        pod=pod,
        machine=link,
        source=source,
        target=options.target or source.resolve().name,
        delete=options.delete,
        stamp=time.strftime("%Y%m%dT%H%M%SZ", time.gmtime()),
    )
    try:
        plan = await sync.plan()
        if not options.json:
            print("\n".join([*plan.lines(), f"  plan {plan.hash}"]))
        if plan.empty or options.plan == "":
            if options.json:
                _emit(pod, plan)
            return 0
        if not plans.is_named(options, plan.hash):
            raise RefusedError(
                "Nothing was sent: the plan is another one by now.", "Look at it with --plan."
            )
        if not (options.plan or options.yes):
            if not can_ask(options):
                raise RefusedError(
                    f"Nothing was sent: confirm with --yes, or with --plan {plan.hash[:16]}."
                )
            confirm("Type yes to send it: ", refused="Nothing was sent.")
        sent = await sync.carry_out(plan, lambda text: None if options.json else print(f"  {text}"))
    finally:
        await link.close()
    if options.json:
        _emit(pod, plan, how=sent.how, moved=sent.moved)
    else:
        why = f" ({sent.why})" if sent.why else ""
        moved = f"; {sent.moved} moved to the trash" if sent.moved else ""
        print(
            f"{sent.files} files, {sent.bytes} bytes are on {pod.name} in {plan.target}, by "
            f"{sent.how}{why}{moved}."
        )
    return 0


def _emit(pod: Pod, plan: SyncPlan, how: str | None = None, moved: int = 0) -> None:
    """Print the JSON object about a plan, and about what was sent (`how` and `moved`)."""
    emit(
        "pod-sync",
        pod=pod.name,
        target=plan.target,
        plan_hash=plan.hash,
        send=plan.send,
        bytes=plan.bytes,
        same=plan.same,
        gone=plan.gone,
        skipped=plan.skipped,
        how=how,
        moved=moved,
    )
