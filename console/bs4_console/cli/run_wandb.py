"""The command `runs wandb`: W&B runs that were recorded offline."""

from __future__ import annotations

import argparse
import asyncio
import shlex
from pathlib import Path

from bs4_console.cli import run_records
from bs4_console.cli.output import complain, emit, finding_code
from bs4_console.cli.sessions import linked, pods
from bs4_console.errors import RemoteError, UsageError
from bs4_console.pods import shell
from bs4_console.run_log import wandb_import


def run(options: argparse.Namespace) -> int:
    """Print the W&B runs that were recorded offline, in a directory of this machine or on a pod,
    and are not uploaded yet, each as the command that uploads it. With --sync, first upload those
    in the directory. Return 1 if some are still not uploaded, else 0. Raises UsageError if the
    options do not name either a directory or a pod.
    """
    if (options.directory is None) == (options.pod is None) or (options.pod and options.sync):
        raise UsageError(
            "Offline runs are looked for below one directory, or on one pod.",
            "Give DIR, or --pod NAME without --sync.",
        )
    if options.pod:
        found = asyncio.run(_offline_of_pod(options.pod))
    elif (root := Path(options.directory)).is_dir():
        found = wandb_import.find(root)
    else:
        raise UsageError(
            f"There is no directory {root}.", "Give one that holds W&B's own `wandb` directory."
        )
    waiting = [run for run in found if not run.synced]
    failed = waiting
    if options.sync:
        run_records.may_write(options)
        failed = [run for run in waiting if wandb_import.sync(run) != 0]
    if options.json:
        emit("runs-wandb", runs=found, waiting=[run.id for run in failed])
    else:
        for run in failed:
            print(shlex.join(run.argv))
        print(f"{len(found)} offline runs, {len(failed)} not uploaded.")
    return finding_code(failed)


async def _offline_of_pod(name: str) -> list[wandb_import.OfflineRun]:
    """Return the offline W&B runs of all runs of a pod. A run whose directories cannot be listed is
    named on standard error.
    """
    (pod,) = pods(name)
    found = {}
    async with linked(pod, deploy=False) as live:
        for state in live.state.runs.values():
            try:
                words = () if pod.is_local else shell.of_pod(pod)
                for one in await wandb_import.of_pod(live, state.view, words):
                    found[one.path] = one
            except RemoteError as error:
                complain(f"{state.name}: {error}")
    return list(found.values())
