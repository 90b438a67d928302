"""The command `demo`: practice pods. Without a scenario, three of them appear on the screen. With
one, a failure is played from its first sign to the proof of its repair.
"""

from __future__ import annotations

import argparse
import asyncio
import sys

from bs4_console.cli.output import emit, finding_code
from bs4_console.cli.sessions import is_terminal
from bs4_console.errors import UsageError


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of `demo` to its parser."""
    parser.add_argument("--scenario", metavar="ID", help="a failure id, id/variant, or random")
    parser.add_argument(
        "--trainer",
        choices=("prime-rl-2026-01", "prime-rl", "verl"),
        help="which generation (default: one that can fail that way)",
    )
    parser.add_argument("--seed", type=int, help="for --scenario random")
    parser.add_argument(
        "--no-fix", action="store_true", help="detect and plan, but leave it broken"
    )
    parser.add_argument("--list", action="store_true", help="name the scenarios")
    parser.add_argument(
        "--recorded",
        action="store_true",
        help="open a recorded incident instead of practice pods; works on any system",
    )
    parser.add_argument("--headless", action="store_true", help="no screen, also on a terminal")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of text")


def run(options: argparse.Namespace) -> int:
    """Show practice pods on this machine: three of them on the screen, one scenario that is played
    (--scenario), or a recorded incident; with --list, only print the scenarios. Returns 1 if the
    played scenario's run does not train again at the end (except with --no-fix), else 0. Without
    Linux's /proc only the recording can be shown; --scenario then raises UsageError.
    """
    if options.list:
        from bs4_practice.tries import TRIES

        for scenario in TRIES.values():
            print(f"{scenario.name:36} {', '.join(scenario.trainers)}")
        return 0
    headless = options.headless or options.json or not is_terminal()
    if options.recorded and options.scenario is not None:
        raise UsageError("A recording holds no scenario.", "Leave out --recorded or --scenario.")
    if options.recorded:
        return asyncio.run(
            _recorded(
                "This is a recorded incident; nothing here is live.",
                headless=headless,
                as_json=options.json,
            )
        )
    on_linux = sys.platform.startswith("linux")
    if options.scenario is not None:
        if not on_linux:
            raise UsageError(
                "Practice pods need Linux's /proc.",
                "Run this on Linux; `bs4-console demo` opens a recorded incident here.",
            )
        return asyncio.run(_play(options))
    if not on_linux:
        why = (
            "Practice pods need Linux's /proc, which this system lacks: this is a recorded "
            "incident."
        )
        return asyncio.run(_recorded(why, headless=headless, as_json=options.json))
    return asyncio.run(_printed() if headless else _on_screen())


async def _recorded(why: str, *, headless: bool, as_json: bool) -> int:
    """Show the recorded incident of a practice pod. `why` is a sentence that is shown with it."""
    from bs4_console.cli.recording import show
    from bs4_console.pods.recorded import RecordedSession
    from bs4_practice import recording

    return await show(
        RecordedSession(recording.NAME, recording.directory(), why),
        why,
        headless=headless,
        as_json=as_json,
    )


async def _on_screen() -> int:
    """Open the screen on three practice pods, while their runs are started and one of them is
    broken.
    """
    from bs4_console.tui.app import configured
    from bs4_practice.three import three_pods

    async with three_pods() as practice:
        tasks = [asyncio.create_task(practice.stage()), asyncio.create_task(practice.fail_later())]
        app = configured(practice.fleet, practice=True)
        await app.run_async()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return app.return_code or 0


async def _printed() -> int:
    """Print the verdict on the three pods once their runs train. Used without a terminal."""
    from bs4_console.checks.verdict import judge
    from bs4_practice.three import three_pods

    async with three_pods() as practice:
        practice.fleet.start()
        await practice.stage()
        for pod in practice.fleet.pods:
            print(judge(pod).line())
        await practice.fleet.stop()
    return 0


async def _play(options: argparse.Namespace) -> int:
    """Play one scenario and return the exit code."""
    from bs4_practice.play import play
    from bs4_practice.scenarios import choose
    from bs4_practice.tries import TRIES, summary

    known = TRIES.get(options.scenario)
    trainer = options.trainer or (known.trainers[0] if known else "prime-rl-2026-01")
    scenario = choose(options.scenario, trainer, options.seed)
    say = (lambda text: None) if options.json else print
    report = await play(scenario, trainer, fix=not options.no_fix, say=say)
    if options.json:
        emit("demo", trainer=trainer, **report)
    else:
        print(summary(report))
    return finding_code(not (report["recovered"] or options.no_fix))
