"""The commands `checkpoints merge`: merge a step of a verl run, or an adapter and its base, into a
Hugging Face directory on its pod; and `checkpoints backup`: copy a step on its pod.
"""

from __future__ import annotations

import argparse

from bs4_console.checkpoints import merge
from bs4_console.cli import plans
from bs4_console.cli.actions import exit_code, watch
from bs4_console.cli.output import emit
from bs4_console.cli.sessions import linked, pod_for_plan
from bs4_console.errors import UsageError
from bs4_console.pods.session import PodSession

#: What the JSON object of a plan has beside what all plans have.
_FIELDS = ("source", "target", "bytes", "needed", "free", "notes", "steps")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of `checkpoints merge` to its parser."""
    parser.add_argument("--pod", required=True, metavar="NAME", help="which pod of the inventory")
    parser.add_argument(
        "--run",
        dest="name",
        required=True,
        metavar="NAME",
        help="which run of verl; with --adapter, the run whose environment has peft",
    )
    parser.add_argument(
        "--step", type=int, metavar="N", help="this step (default: the newest that is complete)"
    )
    parser.add_argument(
        "--adapter",
        default="",
        metavar="DIR",
        help="on the pod: merge this LoRA adapter into its base, and no step",
    )
    parser.add_argument(
        "--base",
        default="",
        metavar="DIR",
        help="on the pod: the adapter's model (default: the directory that the adapter names)",
    )
    parser.add_argument(
        "--target",
        default="",
        metavar="DIR",
        help="on the pod, not there yet, from the run's cwd (default: merged/ in the run's "
        "directory)",
    )
    plans.configure(parser)


def configure_backup(parser: argparse.ArgumentParser) -> None:
    """Add the options of `checkpoints backup` to its parser."""
    parser.add_argument("--pod", required=True, metavar="NAME", help="which pod of the inventory")
    parser.add_argument("--run", dest="name", required=True, metavar="NAME", help="which run")
    parser.add_argument(
        "--step", type=int, metavar="N", help="this step (default: the newest that is complete)"
    )
    parser.add_argument(
        "--target",
        default="",
        metavar="DIR",
        help="on the pod, best on another disk; not there yet (default: checkpoints_backup/RUN "
        "beside the run's output directory)",
    )
    plans.configure(parser)


async def run(options: argparse.Namespace) -> int:
    """Make a new directory on the run's pod from a checkpoint: `checkpoints merge` merges a
    checkpoint of a verl run, or an adapter and its base model, into a Hugging Face directory, and
    `checkpoints backup` copies a checkpoint. If the pod is already doing the same for the run,
    follow that and start nothing.

    Return the exit code: 0 if the directory is complete or only the plan was to be shown, 1 if the
    work failed, 4 if the pod refused it. Raises UsageError for options that exclude each other.
    """
    if options.verb == "backup":
        return await _run(
            options, merge.MergeRequest(options.name, options.step, options.target, kind="backup")
        )
    if (options.adapter and options.step is not None) or (options.base and not options.adapter):
        raise UsageError(
            "A step is merged, or an adapter into its base.",
            "Give --step N, or --adapter DIR with --base DIR.",
        )
    asked = merge.MergeRequest(
        options.name, options.step, options.target, options.adapter, options.base
    )
    return await _run(options, asked)


async def _run(options: argparse.Namespace, asked: merge.MergeRequest) -> int:
    """Plan what is asked, have it confirmed, and watch it to its end."""
    only_shown = options.plan == ""
    async with linked(pod_for_plan(options)) as live:
        going = merge.under_way(live.state, options.name, asked.kind)
        if going is None or only_shown:
            key = await _confirmed(live, options, asked)
        else:
            key = plans.joined(asked.kind, going)
        if key is None:
            return 0
        return exit_code(await watch(live, key, as_json=options.json))


async def _confirmed(
    live: PodSession, options: argparse.Namespace, asked: merge.MergeRequest
) -> str | None:
    """Return the key of the action that was confirmed and started, or None if only the plan was to
    be shown.
    """
    view = await merge.plan(live, asked)
    if options.json and options.plan == "":
        told, fields = plans.told(options, view), {name: view.plan[name] for name in _FIELDS}
        if asked.kind == "backup":
            emit("backup-plan", **told, **fields)
        else:
            emit(
                "merge-plan", **told, **fields, commands=view.plan["commands"], cwd=view.plan["cwd"]
            )
    if plans.confirmed(options, view, merge.plan_lines(view)):
        return await merge.begin(live, view)
    return None
