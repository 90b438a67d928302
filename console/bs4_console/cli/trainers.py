"""The command `trainers`: which trainers are known, and whether a checkout is as it is believed."""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path

from bs4_console.cli.output import complain, emit, table
from bs4_console.cli.sessions import linked, pods
from bs4_console.errors import UsageError
from bs4_console.preflight.source import received
from bs4_console.printable import one_line
from bs4_console.trainers import registry
from bs4_console.trainers.known import (
    BELIEVED,
    OK,
    UNKNOWN,
    Checked,
    OtherSource,
    checked,
    files,
    held,
)

#: The exit code of a usage error, as that of `check`.
USAGE_CODE = UNKNOWN
_WORST_FIRST = ("gone", "unknown", "moved")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of `trainers` and its subcommands to its parser."""
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    listing = verbs.add_parser(
        "list", help="the trainers with the commits and versions of them that are known"
    )
    checking = verbs.add_parser(
        "check",
        help="whether a trainer's source is as this program believes; runs nothing of it",
    )
    checking.add_argument(
        "path", metavar="PATH", type=Path, nargs="?", help="the top of a checkout, or --pod"
    )
    checking.add_argument(
        "--pod",
        metavar="NAME",
        help="the trainer on this pod of the inventory: its files are read, and nothing is run",
    )
    checking.add_argument(
        "--cwd",
        default="",
        metavar="DIR",
        help="where it is installed on the pod (default: ~/prime-rl; of verl ~/verl)",
    )
    checking.add_argument(
        "--trainer",
        choices=tuple(BELIEVED),
        help="the trainer it is (default: the one of which most beliefs hold)",
    )
    checking.add_argument(
        "--all", action="store_true", help="print the beliefs that hold, too (JSON has them anyway)"
    )
    for verb in (listing, checking):
        verb.add_argument("--json", action="store_true", help="one JSON object instead of text")


def run(options: argparse.Namespace) -> int:
    """Run the subcommand of `trainers` that `options.verb` names. `list` prints the known trainers
    and returns 0. `check` compares a trainer's source code with what this program believes of it,
    and returns 0 if every belief holds, 1 if something has moved, 2 if something or the whole named
    trainer is gone, and 3 if something could not be located or the directory has no known trainer.
    Raises UsageError if `check` is not given exactly one checkout.
    """
    if options.verb == "list":
        return _list(options)
    return _check(options)


def _list(options: argparse.Namespace) -> int:
    """Print the trainers and what is known of them. Return 0."""
    if options.json:
        rows = []
        for one in BELIEVED.values():
            rows.append(
                {
                    "id": one.id,
                    "title": one.title,
                    "beliefs": len(one.beliefs),
                    "known": list(one.known),
                }
            )
        emit("trainers", trainers=rows)
        return OK
    lines = []
    for one in BELIEVED.values():
        for known in one.known:
            how = "read from it" if known.read else "checked with it"
            beliefs = str(len(one.beliefs))
            lines.append([one.id, beliefs, known.commit, known.version, known.date, how])
    table(lines, ["trainer", "beliefs", "commit", "version", "date", "how"])
    return OK


def _check(options: argparse.Namespace) -> int:
    """Print what became of each belief in a checkout, and return the exit code. Raises UsageError
    if not exactly one checkout is named.
    """
    if (options.path is None) == (options.pod is None) or (options.cwd and options.pod is None):
        raise UsageError("A checkout is PATH, or --pod NAME with --cwd DIR.", "Give one of them.")
    try:
        if options.pod is None:
            path, result = str(options.path), checked(options.path, options.trainer or "")
        else:
            path, result = asyncio.run(_on_pod(options))
    except OtherSource as error:
        complain(str(error))
        return error.exit_code
    if options.json:
        emit(
            "trainers-check",
            pod=options.pod,
            path=path,
            trainer=result.trainer.id,
            counts=result.counts,
            code=result.code,
            weaker=result.weaker,
            beliefs=result.verdicts,
        )
        return result.code
    _print(result, everything=options.all)
    return result.code


async def _on_pod(options: argparse.Namespace) -> tuple[str, Checked]:
    """Return the directory of the source on the pod, and its check. Raises a LinkError if the pod
    or its agent cannot be reached, and otherwise as `received` and `held` do.
    """
    believed = [BELIEVED[options.trainer]] if options.trainer else BELIEVED.values()
    cwd = options.cwd or registry.of(options.trainer).home
    async with linked(pods(options.pod)[0], deploy=False) as live:
        got = await received(live, files(believed), cwd=cwd, container="", env={})
    return got.root, held(got.code, f"{got.root} on {options.pod}", options.trainer or "")


def _print(result: Checked, *, everything: bool) -> None:
    """Print a check as text: one line, the beliefs that do not hold, and what is weaker for it."""
    print(result.headline)
    states: tuple[str, ...] = _WORST_FIRST
    if everything:
        states = (*_WORST_FIRST, "holds")
    rows = []
    for state in states:
        for verdict in result.verdicts:
            if verdict.state == state:
                place = verdict.where or str(verdict.belief.place)
                rows.append([state, verdict.belief.id, place, one_line(verdict.note)])
    if rows:
        print()
        table(rows, ["state", "belief", "where", "note"])
    if result.weaker:
        print("\nWeaker with this version:")
        for feature, count in result.weaker.items():
            print(f"  {feature} ({count})")
