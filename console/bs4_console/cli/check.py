"""The command `check`: one verdict on a pod, all pods or finished files, for cron, monitoring and
people in a hurry. It never deploys an agent.
"""

from __future__ import annotations

import argparse
import asyncio
import functools
import sys
from collections.abc import Sequence
from pathlib import Path

from bs4_console.checks.outside import ask
from bs4_console.checks.verdict import OK, UNKNOWN, WORDS, Verdict, aggregate, judge, unreachable
from bs4_console.cli.output import clock, complain, emit
from bs4_console.cli.sessions import linked, pods, session
from bs4_console.errors import ConsoleError, UsageError, described
from bs4_console.locations import config_dir
from bs4_console.pods.inventory import Pod
from bs4_console.pods.observer import link_incidents
from bs4_console.pods.state import PodState

#: Stands in place of pods that there are not: a budget alone says nothing about runs.
NO_POD = Verdict(pod="inventory", level=UNKNOWN, sentences=["no pod is in it"])
#: The exit code of a usage error. It is Nagios' code for a check that did not work.
USAGE_CODE = UNKNOWN
#: Seconds. More frequent checks would be a load, and telemetry has only one sample a second.
LEAST_EVERY_S = 1.0


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of `check` to its parser."""
    parser.add_argument(
        "paths",
        nargs="*",
        metavar="PATH",
        help="a log or a run's output directory to judge instead of pods",
    )
    parser.add_argument("--pod", metavar="NAME", help="only this pod (default: all)")
    parser.add_argument(
        "--format",
        choices=("text", "json", "prom", "github", "junit"),
        default="text",
        help="a Nagios line with perfdata for each pod, one JSON object, Prometheus' text format, "
        "GitHub annotations, or JUnit XML",
    )
    parser.add_argument(
        "--json",
        dest="format",
        action="store_const",
        const="json",
        help="the same as --format json",
    )
    parser.add_argument(
        "--timeout", type=float, default=30.0, metavar="S", help="seconds for each pod (default 30)"
    )
    parser.add_argument(
        "--source", metavar="NAME", help="for a PATH: what wrote the log, as in diagnose"
    )
    parser.add_argument("--trainer", metavar="ID", help="for a PATH: which trainer, as in diagnose")
    parser.add_argument(
        "--watch",
        action="store_true",
        help="check again and again, and tell what changes to the channels of notify.toml",
    )
    parser.add_argument(
        "--every",
        type=float,
        default=60.0,
        metavar="S",
        help="with --watch: seconds from check to check (default 60)",
    )
    parser.add_argument(
        "--cycles",
        type=int,
        metavar="N",
        help="with --watch: end after so many checks (default: never)",
    )
    parser.add_argument(
        "--test-notify",
        action="store_true",
        help="send one test message to every channel of notify.toml, and end",
    )


def run(options: argparse.Namespace) -> int:
    """Judge whether runs are healthy, print the verdicts, and return the level of the worst one as
    the exit code: 0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN. The options name logs or run directories
    on this machine, or one pod; without them, all pods are judged. With --watch, judge again and
    again. With --test-notify, send a test message to each notification channel and judge nothing.
    Raises UsageError for options that exclude each other.
    """
    if options.paths and options.pod:
        raise UsageError("Files and a pod cannot be checked in one call.", "Leave one of them out.")
    if not options.paths and (options.source or options.trainer):
        raise UsageError("--source and --trainer are for files.", "Give a PATH, or leave them out.")
    if options.test_notify:
        return asyncio.run(_test_channels())
    if options.watch:
        return asyncio.run(_watch(options))
    if options.paths:
        verdicts = _files(options)
    else:
        verdicts = asyncio.run(_judge_all(pods(options.pod), options.timeout))
        if not options.pod and (money := asyncio.run(_judge_budgets())):
            verdicts = [*(verdicts or [NO_POD]), *money]
    _show(verdicts, options.format)
    return aggregate(verdicts)


def _show(verdicts: Sequence[Verdict], form: str) -> None:
    """Print the verdicts in one of the formats."""
    if form == "json":
        level = aggregate(verdicts)
        emit(
            "check",
            status=WORDS[level],
            code=level,
            pods=verdicts,
        )
        return
    from bs4_console.checks.formats import FORMATS

    # A pod can send half a surrogate pair, which no terminal and no file accepts.
    sys.stdout.write(FORMATS[form](verdicts).encode("utf-8", "replace").decode())


def _files(options: argparse.Namespace) -> list[Verdict]:
    """Return the verdict on each path of the command line."""
    from bs4_console.checks.on_files import judge_files

    judge = functools.partial(judge_files, source=options.source, trainer=options.trainer)
    return [judge(Path(path)) for path in options.paths]


async def _judge_all(known: Sequence[Pod], timeout: float) -> list[Verdict]:
    """Return the verdicts on several pods, which are read at the same time."""
    return list(await asyncio.gather(*(_judge(pod, timeout) for pod in known)))


async def _judge_budgets() -> list[Verdict]:
    """Return the verdict on each budget of notify.toml."""
    if not (config_dir() / "notify.toml").exists():
        return []  # what reads it takes longer to import than a pod to answer
    from bs4_console.cli.run_costs import paid
    from bs4_console.fleet.budgets import not_known, watched

    try:
        return list(await asyncio.gather(*(budget.judge() for budget in watched(paid))))
    except (ConsoleError, OSError) as error:
        return [not_known("budget of notify.toml", error)]


async def _judge(pod: Pod, timeout: float) -> Verdict:
    """Return the verdict on one pod, whatever it sends. A defect in judging gives UNKNOWN for that
    pod and does not affect the other pods.
    """
    try:
        return await _looked_at(pod, timeout)
    except Exception as error:  # noqa: BLE001 (see above; the verdict names it)
        return unreachable(
            pod.name, f"{pod.name} could not be judged ({described(error)}); report it as a bug."
        )


async def _looked_at(pod: Pod, timeout: float) -> Verdict:
    """Return the verdict on one pod after reading it."""
    try:
        async with linked(pod, deploy=False, timeout=timeout) as live:
            return judge(live.state, await ask(live.state))
    except ConsoleError as error:
        # Its library for the clouds' APIs takes a fifth of a second to import.
        from bs4_console.fleet.liveness_probe import beside_the_link

        incidents = link_incidents(pod.name, error.link_state, error.message)
        told = f"{error} {await beside_the_link(pod, error)}".strip()
        return unreachable(pod.name, told, incidents, await ask(_kept(pod)))


def _kept(pod: Pod) -> PodState:
    """Return the state of a pod as this console has kept it. It says where W&B shows the pod's
    runs.
    """
    kept = session(pod, deploy=False, keep="nothing")
    kept.replay()
    return kept.state


async def _watch(options: argparse.Namespace) -> int:
    """Check again and again, and return the worst level of the last cycle."""
    from bs4_console.checks.delivery import Notifier
    from bs4_console.checks.recipients import channels
    from bs4_console.checks.transitions import Notice
    from bs4_console.checks.watch import Judged, WatchedFiles, WatchedPod, watch
    from bs4_console.cli.run_costs import paid
    from bs4_console.fleet import budgets

    if options.format not in ("text", "json"):
        raise UsageError(
            f"--watch prints what changes, and has no {options.format} for it.",
            "Use text or json, or check from cron.",
        )
    if not options.every >= LEAST_EVERY_S or (options.cycles is not None and options.cycles < 1):
        raise UsageError("--every is at least 1 second and --cycles at least 1.", "Correct it.")
    known = [] if options.paths else pods(options.pod)
    if not options.paths and not known:
        raise UsageError(
            "No pod is in the inventory, so there is nothing to watch.",
            "Add one with `bs4-console pods add`.",
        )
    notifier = Notifier(channels(), complain)
    if not notifier.channels:
        complain(
            "notify.toml names no channel: what changes is only printed here. docs/check.md shows "
            "how to be told elsewhere."
        )
    live = [session(pod, deploy=False, keep="records") for pod in known]
    watched: list[Judged] = []
    for path in options.paths:
        watched.append(WatchedFiles(Path(path), options.source, options.trainer))
    for one in live:
        watched.append(WatchedPod(one, options.timeout))
    if not options.paths and not options.pod:
        watched += budgets.watched(paid)

    def show(notice: Notice) -> None:
        if options.format == "json":
            emit("notice", **notice.as_dict())
        else:
            print(f"{clock(notice.t)} {notice.title} - {notice.text}", flush=True)

    tasks = []
    for one in live:
        tasks.append(asyncio.create_task(one.run(), name=f"pod {one.state.name}"))
    try:
        return await watch(watched, notifier, show, options.every, options.cycles)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(*(one.close() for one in live))


async def _test_channels() -> int:
    """Send a test message to every channel. Return CRITICAL if a channel did not take it. Raises
    UsageError if there is no channel.
    """
    from bs4_console.checks.delivery import NotSent, send
    from bs4_console.checks.recipients import channels
    from bs4_console.checks.transitions import Notice
    from bs4_console.checks.verdict import CRITICAL

    known = channels()
    if not known:
        raise UsageError(
            "There is no channel: notify.toml is missing or empty.",
            "docs/check.md shows an example.",
        )
    level = OK
    for channel in known:
        try:
            await asyncio.to_thread(
                send, channel, Notice("", OK, OK, "bs4-console can reach this channel.")
            )
        except NotSent as error:
            level = CRITICAL
            complain(str(error))
        else:
            print(f"{channel.name} ({channel.kind}) took a test message.")
    return level
