"""The command `reports`: the crash reports of pods. It lists them, fetches one, and opens one after
its pod is gone.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from pathlib import Path

from bs4_console.cli.output import complain, emit, table
from bs4_console.cli.sessions import is_terminal, linked, pods
from bs4_console.errors import LinkError, UsageError
from bs4_console.locations import data_dir, private
from bs4_console.pods import reports
from bs4_console.pods.inventory import Inventory


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of `reports` and its subcommands to its parser."""
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    listing = verbs.add_parser("list", help="the crash reports that pods have, newest first")
    listing.add_argument("--pod", metavar="NAME", help="which pod of the inventory (default: all)")
    fetch = verbs.add_parser("fetch", help="bring a report here, whole and proved by its hash")
    fetch.add_argument("--pod", required=True, metavar="NAME", help="which pod of the inventory")
    fetch.add_argument("--run", dest="name", required=True, metavar="NAME", help="which run")
    fetch.add_argument(
        "--attempt",
        type=int,
        metavar="N",
        help="which attempt (default: the newest that has a report)",
    )
    fetch.add_argument(
        "--to",
        type=Path,
        metavar="FILE",
        help="where to (default: beside what the console keeps of the pod)",
    )
    opening = verbs.add_parser(
        "open", help="show a report as if the pod were there, on the screen or as `check` says it"
    )
    opening.add_argument("file", type=Path, metavar="FILE", help="a report that was fetched")
    opening.add_argument("--headless", action="store_true", help="no screen, also on a terminal")
    for verb in (listing, fetch, opening):
        verb.add_argument("--json", action="store_true", help="JSON instead of text")


def run(options: argparse.Namespace) -> int:
    """Run a subcommand for the agents' crash reports and return its exit code. `list` returns 3 if
    a pod could not be reached, else 0. `fetch` copies a report to this machine and returns 0; it
    raises UsageError if the pod does not have the report. `open` shows a report that was fetched,
    and returns the exit code of the screen.
    """
    verbs = {"list": _list, "fetch": _fetch, "open": _open}
    return asyncio.run(verbs[options.verb](options))


async def _list(options: argparse.Namespace) -> int:
    """Print the crash reports of the pods. Return 3 if a pod could not be reached, else 0."""
    rows = []
    code = 0
    for pod in pods(options.pod):
        try:
            async with linked(pod, deploy=False) as live:
                await live.streams()
                for one in reports.listed(live):
                    rows.append((pod.name, one))
        except LinkError as error:
            complain(str(error))
            code = error.exit_code
    if options.json:
        keys = ("run", "attempt", "t", "bytes", "sha256", "missing")
        found = []
        for name, one in rows:
            found.append({"pod": name, **{key: getattr(one, key) for key in keys}})
        emit("reports", reports=found)
    else:
        cells = []
        for name, one in rows:
            cells.append([name, one.run, str(one.attempt), _moment(one.t), str(one.bytes)])
        if cells:
            table(cells, ["pod", "run", "attempt", "written", "bytes"])
        elif not code:
            print("No crash report is known. A pod writes one when a run dies.")
    return code


def _moment(seconds: float) -> str:
    """Return a wall time as date and time in this machine's time zone."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))


async def _fetch(options: argparse.Namespace) -> int:
    """Fetch one report to this machine, and return 0. Raises UsageError if the pod does not have
    it.
    """
    pod = Inventory().get(options.pod)
    async with linked(pod, deploy=False) as live:
        await live.streams()
        mine = []
        for one in reports.listed(live):
            if one.run == options.name and options.attempt in (None, one.attempt):
                mine.append(one)
        if not mine:
            what = options.name
            if options.attempt is not None:
                what = f"attempt {options.attempt} of {what}"
            raise UsageError(
                f"{pod.name} has no crash report of {what}.",
                f"`bs4-console reports list --pod {pod.name}` shows what it has.",
            )
        target = (
            options.to or private(private(data_dir() / "reports") / pod.name) / mine[0].file_name
        )
        await reports.fetch(live, mine[0], target)
    if options.json:
        emit("report", pod=pod.name, run=mine[0].run, attempt=mine[0].attempt, file=str(target))
    else:
        print(f"{target}: `bs4-console reports open` and `bs4-console diagnose` read it.")
    return 0


async def _open(options: argparse.Namespace) -> int:
    """Show a report that was fetched, and return the exit code."""
    from bs4_console.cli.recording import show
    from bs4_console.pods.recorded import RecordedSession

    report = reports.load(options.file)
    head = report.head
    why = (
        f"This is the report of {report.run} on {head['host']}, attempt {head['attempt']}, "
        f"written {_moment(head['t'])}; nothing is live."
    )
    with tempfile.TemporaryDirectory(prefix="bs4-") as directory:
        reports.unpack(report, Path(directory))
        session = RecordedSession(str(head["host"]), Path(directory), why)
        return await show(
            session,
            why,
            headless=options.headless or options.json or not is_terminal(),
            as_json=options.json,
        )
