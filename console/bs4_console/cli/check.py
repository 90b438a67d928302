"""check: one verdict over a pod or all pods, for cron, Nagios and people in a hurry. It never deploys."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence

from bs4_console.cli.output import emit
from bs4_console.cli.sessions import linked, pods
from bs4_console.core.check import UNKNOWN, WORDS, Verdict, aggregate, judge, unreachable
from bs4_console.core.errors import ConsoleError
from bs4_console.core.inventory import Pod

#: Nagios' code for "the check itself did not work".
USAGE_CODE = UNKNOWN


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--pod", metavar="NAME", help="only this pod (default: all)")
    parser.add_argument(
        "--format", choices=("text", "json"), default="text", help="a Nagios line with perfdata for each pod, or one JSON object"
    )
    parser.add_argument("--json", dest="format", action="store_const", const="json", help="the same as --format json")
    parser.add_argument("--timeout", type=float, default=30.0, metavar="S", help="seconds for each pod (default 30)")


def run(options: argparse.Namespace) -> int:
    known = pods(options.pod)
    verdicts = asyncio.run(_judge_all(known, options.timeout))
    level = aggregate(verdicts)
    if options.format == "json":
        emit("check", status=WORDS[level], code=level, pods=[verdict.as_dict() for verdict in verdicts])
    elif not verdicts:
        print("UNKNOWN - no pod is in the inventory; add one with `bs4-console pods add`")
    else:
        for verdict in sorted(verdicts, key=lambda v: aggregate([v]) != level):
            print(verdict.line())
    return level


async def _judge_all(known: Sequence[Pod], timeout: float) -> list[Verdict]:
    return list(await asyncio.gather(*(_judge(pod, timeout) for pod in known)))


async def _judge(pod: Pod, timeout: float) -> Verdict:
    try:
        async with linked(pod, deploy=False, timeout=timeout) as live:
            return judge(live.state)
    except ConsoleError as error:
        return unreachable(pod.name, str(error))
