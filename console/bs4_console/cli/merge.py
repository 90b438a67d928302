"""The command `checkpoints merge`: merge a step of a verl run, or an adapter and its base, into a
Hugging Face directory on its pod.
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


async def run(options: argparse.Namespace) -> int:
    """Merge a checkpoint step of a verl run, or an adapter and its base, into a Hugging Face
    directory on the run's pod, and return the exit code: 0 if the directory is complete or only the
    plan was to be shown, 1 if the merge failed, 4 if it was refused. If a merge of the run is under
    way already, that one is watched and no other is started. Raises UsageError for options that
    exclude each other.
    """
    if (options.adapter and options.step is not None) or (options.base and not options.adapter):
        raise UsageError(
            "A step is merged, or an adapter into its base.",
            "Give --step N, or --adapter DIR with --base DIR.",
        )
    asked = merge.MergeRequest(
        options.name, options.step, options.target, options.adapter, options.base
    )
    only_shown = options.plan == ""
    async with linked(pod_for_plan(options)) as live:
        going = merge.under_way(live.state, options.name)
        if going is None or only_shown:
            key = await _confirmed(live, options, asked)
        else:
            key = plans.joined("merge", going)
        if key is None:
            return 0
        return exit_code(await watch(live, key, as_json=options.json))


async def _confirmed(
    live: PodSession, options: argparse.Namespace, asked: merge.MergeRequest
) -> str | None:
    """Return the key of the merge that was confirmed and started, or None if only the plan was to
    be shown.
    """
    view = await merge.plan(live, asked)
    if options.json and options.plan == "":
        emit(
            "merge-plan",
            **plans.told(
                options,
                view,
                "source",
                "target",
                "bytes",
                "needed",
                "free",
                "notes",
                "commands",
                "cwd",
                "steps",
            ),
        )
    if plans.confirmed(options, view, merge.plan_lines(view)):
        return await merge.begin(live, view)
    return None
