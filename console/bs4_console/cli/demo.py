"""demo: practice pods. Without a scenario three of them on the screen; with one, a failure from the first sign to the proof."""

from __future__ import annotations

import argparse
import asyncio
import sys

from bs4_console.cli.output import emit
from bs4_console.cli.sessions import is_terminal
from bs4_console.core.errors import FINDING, UsageError


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--scenario", metavar="ID", help="a failure id, id/variant, or random")
    parser.add_argument(
        "--trainer", choices=("prime-rl-2026-01", "prime-rl"), help="which generation (default: one that can fail that way)"
    )
    parser.add_argument("--seed", type=int, help="for --scenario random")
    parser.add_argument("--no-fix", action="store_true", help="detect and plan, but leave it broken")
    parser.add_argument("--list", action="store_true", help="name the scenarios")
    parser.add_argument("--headless", action="store_true", help="no screen, also on a terminal")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of text")


def run(options: argparse.Namespace) -> int:
    from bs4_console.demo.scenarios import SCENARIOS

    if options.list:
        for scenario in SCENARIOS.values():
            print(f"{scenario.name:36} {', '.join(scenario.trainers)}")
        return 0
    if options.scenario is None:
        if not sys.platform.startswith("linux"):
            raise UsageError("Practice pods need Linux's /proc.", "Run `make demo` on Linux, or point the console at a real pod.")
        return asyncio.run(_on_screen() if is_terminal() and not options.headless else _printed())
    return asyncio.run(_play(options))


async def _on_screen() -> int:
    """The screen on three practice pods, while their runs are started and one of them is broken."""
    from bs4_console.demo.three import three_pods
    from bs4_console.tui.app import ConsoleApp

    async with three_pods() as practice:
        tasks = [asyncio.create_task(practice.stage()), asyncio.create_task(practice.fail_later())]
        app = ConsoleApp(practice.fleet)
        await app.run_async()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return app.return_code or 0


async def _printed() -> int:
    """Without a terminal: the status of the three pods once their runs train, as `check` says it."""
    from bs4_console.core.check import judge
    from bs4_console.demo.three import three_pods

    async with three_pods() as practice:
        practice.fleet.start()
        await practice.stage()
        for pod in practice.fleet.pods:
            print(judge(pod).line())
        await practice.fleet.stop()
    return 0


async def _play(options: argparse.Namespace) -> int:
    from bs4_console.demo.play import play
    from bs4_console.demo.scenarios import SCENARIOS, choose

    known = SCENARIOS.get(options.scenario)
    trainer = options.trainer or (known.trainers[0] if known else "prime-rl-2026-01")
    scenario = choose(options.scenario, trainer, options.seed)
    say = (lambda text: None) if options.json else print
    report = await play(scenario, trainer, fix=not options.no_fix, say=say)
    if options.json:
        emit("demo", trainer=trainer, **report)
    else:
        words = "recovered" if report["recovered"] else "not recovered"
        after = f" after {report['recovered_s']} s" if report["recovered_s"] is not None else ""
        print(f"{words}{after}; steps {report['steps_before']} -> {report['steps_after']}, {report['data_lost']} files lost")
    return 0 if report["recovered"] or options.no_fix else FINDING
