"""The command `deploy`: install and start the agent on a pod, or find it running there."""

from __future__ import annotations

import argparse

from bs4_console.cli.output import emit
from bs4_console.cli.sessions import linked, to_act_on


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of `deploy` to its parser."""
    parser.add_argument("--pod", required=True, metavar="NAME", help="which pod of the inventory")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of text")


async def run(options: argparse.Namespace) -> int:
    """Connect to the pod, print the version of its agent and what the agent can see there, and
    return 0. The agent is installed or started if needed. Raises RefusedError if the pod or the
    console is read-only, and a LinkError if the agent cannot be reached.
    """
    async with linked(to_act_on(options)) as live:
        hello, coverage = live.state.hello, live.state.latest.get("coverage", {})
        if options.json:
            emit(
                "deploy",
                pod=options.pod,
                agent=hello["agent"],
                bundle=hello["bundle"],
                python=hello["python"],
                coverage=coverage,
            )
        else:
            print(
                f"{options.pod}: agent {hello['agent']} ({hello['bundle']}) on Python "
                f"{hello['python']}, pid {hello['pid']}."
            )
            for what, seen in coverage.items():
                print(f"  {what.replace('_', ' ')}: {seen}")
    return 0
