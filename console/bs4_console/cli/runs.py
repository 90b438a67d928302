"""runs: what runs a pod has, and taking over one that was started by hand."""

from __future__ import annotations

import argparse
import asyncio

from bs4_console.cli.actions import act, exit_code
from bs4_console.cli.output import emit, table
from bs4_console.cli.sessions import linked, pods
from bs4_console.core.inventory import Inventory
from bs4_console.core.state import RunState


def configure(parser: argparse.ArgumentParser) -> None:
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    listing = verbs.add_parser("list", help="the runs of a pod, or of all pods")
    listing.add_argument("--pod", metavar="NAME", help="only this pod (default: all)")
    listing.add_argument("--json", action="store_true", help="one JSON object instead of text")
    adopt = verbs.add_parser("adopt", help="watch a run that was started by hand")
    adopt.add_argument("--pod", required=True, metavar="NAME", help="which pod of the inventory")
    adopt.add_argument("--pid", type=int, help="its launcher; without it, all that are found are named")
    adopt.add_argument("--run", dest="name", metavar="NAME", help="how to call it")
    adopt.add_argument("--json", action="store_true", help="one JSON object instead of text")


def run(options: argparse.Namespace) -> int:
    return asyncio.run(_list(options) if options.verb == "list" else _adopt(options))


async def _list(options: argparse.Namespace) -> int:
    found: list[tuple[str, RunState]] = []
    for pod in pods(options.pod):
        async with linked(pod, deploy=False) as live:
            found += [(pod.name, state) for state in live.state.runs.values()]
    if options.json:
        emit("runs", runs=[_as_dict(pod, state) for pod, state in found])
        return 0
    if not found:
        print("No run is known.")
        return 0
    rows = [
        [pod, s.name, s.view.trainer, s.word, str(s.step if s.step is not None else "-"), str(len(s.view.attempts)), s.view.output_dir]
        for pod, s in found
    ]
    table(rows, ["pod", "run", "trainer", "state", "step", "attempts", "output"])
    return 0


def _as_dict(pod: str, state: RunState) -> dict[str, object]:
    view = state.view
    return {
        "pod": pod,
        "name": view.name,
        "trainer": view.trainer,
        "state": state.word,
        "step": state.step,
        "max_steps": view.max_steps,
        "adopted": view.adopted,
        "output_dir": view.output_dir,
        "attempts": [vars(a) for a in view.attempts.values()],
    }


async def _adopt(options: argparse.Namespace) -> int:
    async with linked(Inventory().get(options.pod)) as live:
        action = await act(live, "adopt", as_json=options.json, pid=options.pid, run=options.name or "")
        for candidate in action.result.get("candidates", []):
            print(f"  pid {candidate['pid']} {candidate['trainer']} {candidate['command']}")
    return exit_code(action)
