"""The command `checkpoints`: what can be resumed, when the disk will be full, and the retention
order that keeps the disk from filling up.
"""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path

from bs4_console.checkpoints import listing as checkpoints
from bs4_console.cli import checkpoint_keep, checkpoint_sync, merge, restore
from bs4_console.cli.output import complain, emit, table
from bs4_console.cli.sessions import linked, pods, run_of
from bs4_console.errors import UNREACHABLE, LinkError, UsageError
from bs4_console.pods.session import PodSession
from bs4_console.trainers.registry import TRAINERS


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of `checkpoints` and its subcommands to its parser."""
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    listing = verbs.add_parser(
        "list", help="the checkpoints of a run, whole or not, and when its disk is full"
    )
    listing.add_argument(
        "directory",
        nargs="?",
        metavar="RUN_DIR",
        help="a run's directory; without it, pods are asked",
    )
    listing.add_argument("--pod", metavar="NAME", help="which pod of the inventory (default: all)")
    listing.add_argument("--run", dest="name", metavar="NAME", help="only this run of the pod")
    listing.add_argument(
        "--trainer",
        choices=tuple(TRAINERS),
        help="which generation wrote RUN_DIR (default: it is seen)",
    )
    others = (
        (
            "keep",
            "order the pod to free checkpoints older than the newest ones, for good, from now on; "
            "a plan first",
            checkpoint_keep.configure,
        ),
        (
            "restore",
            "bring a run's newest whole checkpoint back from a bucket, and resume it; a plan first",
            restore.configure,
        ),
        (
            "merge",
            "put a verl step's shards, or an adapter and its base, together into a Hugging Face "
            "directory; a plan first",
            merge.configure,
        ),
        (
            "backup",
            "copy a complete step to a directory of its own on the pod, verified; a plan first",
            merge.configure_backup,
        ),
        (
            "sync",
            "order the pod to copy the run's checkpoints to a bucket, from now on; or say how "
            "that stands",
            checkpoint_sync.configure_sync,
        ),
        (
            "remote",
            "the checkpoints of a run in a bucket, whole or not, and which one its pointer names",
            checkpoint_sync.configure_remote,
        ),
        (
            "prune",
            "remove older checkpoints from a bucket; a plan first",
            checkpoint_sync.configure_prune,
        ),
    )
    for name, text, fill in others:
        fill(verbs.add_parser(name, help=text))
    for verb in verbs.choices.values():
        verb.add_argument(
            "--json", action="store_true", help="one JSON object a run instead of text"
        )


def run(options: argparse.Namespace) -> int:
    """Run the subcommand of `checkpoints` that `options.verb` names (such as list, keep, sync or
    restore), and return its exit code. `list` returns 0, or 3 if one of several pods could not be
    reached. The others return 0 if they succeeded, 1 if they failed and 4 if the pod refused.
    Raises UsageError if `list` is given both a directory of this machine and a pod or run. Raises
    RefusedError if nobody confirmed, and StoreFailed if the object store fails.
    """
    if options.verb in ("sync", "remote", "prune"):
        return checkpoint_sync.run(options)
    verbs = {
        "keep": checkpoint_keep.run,
        "restore": restore.run,
        "merge": merge.run,
        "backup": merge.run,
        "list": _list,
    }
    if options.verb != "list" or options.directory is None:
        return asyncio.run(verbs[options.verb](options))
    if options.pod or options.name:
        raise UsageError(
            "RUN_DIR is read here; --pod and --run ask a pod.", "Give one or the other."
        )
    for found in checkpoints.of_directory(Path(options.directory), options.trainer):
        _show(options, found)
    return 0


async def _list(options: argparse.Namespace) -> int:
    """Print the checkpoints of the pods' runs. Return 3 if a pod could not be reached, else 0."""
    code = 0
    asked = pods(options.pod)
    if not asked:
        raise UsageError(
            "No pod is known yet.",
            "Give a run's directory: `bs4-console checkpoints list RUN_DIR`.",
        )
    for pod in asked:
        try:
            async with linked(pod, deploy=False) as live:
                for name in _names(live, options.name):
                    found = await checkpoints.of_pod(live, name)
                    best = checkpoints.best_known(live.state.runs[name], found)
                    _show(options, {"pod": pod.name, **found}, best)
        except LinkError as error:
            if options.pod:
                raise
            complain(f"{pod.name}: {error}")
            code = UNREACHABLE
    return code


def _names(live: PodSession, name: str | None) -> list[str]:
    """Return the run names to show: all of the pod, or only `name`. Raises UsageError if the pod
    does not have it.
    """
    if name is None:
        return sorted(live.state.runs)
    return [run_of(live, name).name]


def _show(
    options: argparse.Namespace,
    found: checkpoints.CheckpointReport,
    best: checkpoints.BestRow | None = None,
) -> None:
    """Print the checkpoint report of one run, and which one is the best by the run's order."""
    if options.json:
        emit("checkpoints", **found, best=best)
        return
    where = f" on {found['pod']}" if "pod" in found else ""
    print(f"{found['run']}{where} ({found['trainer']}): {checkpoints.line(found)}")
    if found["checkpoints"]:
        heads = ["step", "complete", "size", "age", "parts", "missing"]
        table([_row(one) for one in found["checkpoints"]], heads)
    for text in checkpoints.remarks(found):
        print(text)
    if best is not None:
        value = f"{best['metric']} {best['value']:.4g}"
        print(f"best: step {best['step']}, with {value}; the order keeps it")


def _row(one: checkpoints.CheckpointRow) -> list[str]:
    """Return the row of one checkpoint."""
    return [
        str(one["step"]),
        "yes" if one["complete"] else "no",
        checkpoints.size(one["bytes"]),
        checkpoints.age(one["age_s"]),
        " ".join(part["name"] for part in one["parts"]) or "-",
        "; ".join(f"{name}: {why}" for name, why in one["missing"].items()),
    ]
