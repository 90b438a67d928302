"""The command `audit`: check that the journals of pods were not changed after they were written."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from bs4_console import __version__
from bs4_console.checks import audit
from bs4_console.checks.chain import Anchor, Checked, Status
from bs4_console.cli.output import emit
from bs4_console.cli.sessions import transport, who
from bs4_console.errors import FINDING, UNREACHABLE, UsageError
from bs4_console.locations import data_dir
from bs4_console.pods.inventory import Inventory, Pod

_CODES: dict[Status, int] = {"whole": 0, "broken": FINDING, "unknown": UNREACHABLE}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of `audit` and its subcommand to its parser."""
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    verify = verbs.add_parser(
        "verify",
        help="check the hash chain of journals: those that this console keeps, and a live one",
    )
    verify.add_argument(
        "directory",
        metavar="DIRECTORY",
        nargs="?",
        type=Path,
        help="an agent's home, a copy of one, or any directory above journals (default: what this "
        "console keeps of its pods, and the journals of its own recoveries)",
    )
    verify.add_argument(
        "--pod",
        metavar="NAME",
        help="only what is kept of this pod, and its live journal, compared with what is kept",
    )
    verify.add_argument("--json", action="store_true", help="JSON instead of text")


async def run(options: argparse.Namespace) -> int:
    """Check the hash chains of journals, print the results, and return the exit code: 0 if every
    journal is whole, 1 if one is broken, and 3 if there is no journal or one could not be checked
    completely. A journal is an agent's log of actions and incidents, in which each record holds the
    hash of the one before.

    The options name the journals; without options, all that are on this machine are checked. Raises
    UsageError if DIRECTORY is no directory, or is given together with --pod.
    """
    if options.pod is not None and options.directory is not None:
        raise UsageError("A directory belongs to no pod.", "Leave out --pod, or DIRECTORY.")
    if options.directory is not None:
        checked = _given(options.directory)
    elif options.pod is not None:
        checked = await _pod(Inventory().get(options.pod))
    else:
        checked = _own()
        for directory in _kept_pods():
            checked += _kept(directory)[0]
    status = _worst(checked)
    if options.json:
        emit("audit", status=status, code=_CODES[status], journals=checked)
    else:
        _print(checked)
    return _CODES[status]


def _given(directory: Path) -> list[Checked]:
    """Check every journal at or below a directory. Raises UsageError if it is no directory."""
    if not directory.is_dir():
        raise UsageError(
            f"{audit.shown(os.fsencode(directory))} is no directory.",
            "Give an agent's home, a copy of one, or leave it out to check what is kept here.",
        )
    return [audit.check_directory(found).checked for found in audit.journals_below(directory)]


async def _pod(pod: Pod) -> list[Checked]:
    """Check what is kept of a pod, and its live journal."""
    checked, anchors = _kept(data_dir() / "pods" / pod.name)
    client = f"bs4-console/{__version__}"
    checked.append(await audit.check_live(transport(pod), who(), client, pod.name, anchors))
    return checked


def _own() -> list[Checked]:
    """Check the journals that this console writes itself, when `recover` watches a run."""
    found = audit.journals_below(data_dir() / "recover")
    return [audit.check_directory(journal, "kept").checked for journal in found]


def _kept_pods() -> list[Path]:
    """Return the directories of the pods of which this console keeps something."""
    try:
        return sorted(path for path in (data_dir() / "pods").iterdir() if path.is_dir())
    except FileNotFoundError:
        return []


def _kept(directory: Path) -> tuple[list[Checked], dict[str, Anchor]]:
    """Check what is kept of one pod. Return the results, and the newest record of each agent's home
    by the name of its directory.
    """
    checked: list[Checked] = []
    anchors: dict[str, Anchor] = {}
    if not directory.is_dir():
        return checked, anchors
    for journal in audit.journals_below(directory):
        found = audit.check_directory(journal, "kept", directory.name)
        checked.append(found.checked)
        if found.last is not None:
            anchors[journal.parent.name] = found.last
    return checked, anchors


def _worst(checked: list[Checked]) -> Status:
    """Return the status of all together: broken before unknown, and unknown if there is none."""
    states = {one.status for one in checked}
    if "broken" in states:
        return "broken"
    if "unknown" in states or not states:
        return "unknown"
    return "whole"


def _print(checked: list[Checked]) -> None:
    """Print a line for each journal, and indented lines for what is to be known of it."""
    if not checked:
        print("unknown: there is no journal here.")
    for one in checked:
        name = one.path
        if one.where == "live":
            name = f"{one.pod}, live"
        print(f"{one.status}: {name}: {one.records:,} records checked, files: {one.files}")
        if one.first_break is not None:
            found = one.first_break
            print(f"  broken at {found.file}, byte {found.offset}: {found.detail}")
        if one.breaks > 1:
            print(f"  and at {one.breaks - 1:,} more places")
        for sentence in [*one.unknown, *one.notes]:
            print(f"  {sentence}")
