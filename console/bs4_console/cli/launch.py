"""launch: start a training run on a pod, and call it good only when it has done a step."""

from __future__ import annotations

import argparse
import asyncio

from bs4_console.cli.actions import act, exit_code
from bs4_console.cli.sessions import linked, to_act_on

TRAINERS = ("prime-rl-2026-01", "prime-rl")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("config", help="the training config, as a path on the pod")
    parser.add_argument("--pod", required=True, metavar="NAME", help="which pod of the inventory")
    parser.add_argument("--run", dest="name", required=True, metavar="NAME", help="the run's name, unique on the pod")
    parser.add_argument("--trainer", required=True, choices=TRAINERS, help="its generation: of January 2026, or the current one")
    parser.add_argument("--cwd", default="prime-rl", help="where prime-rl is installed on the pod (default: ~/prime-rl)")
    parser.add_argument("--output-dir", default="outputs", help="relative to --cwd, or absolute (default: outputs)")
    parser.add_argument("--resume", type=int, metavar="STEP", help="resume from this step; it must be complete on every side")
    parser.add_argument("--component", choices=("rl", "inference"), default="rl", help="the whole run, or a server apart from it")
    parser.add_argument("--no-wait", action="store_true", help="do not wait for the first step")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of text")
    parser.add_argument("overrides", nargs="*", metavar="-- ARGUMENT", help="further arguments for the trainer")


def run(options: argparse.Namespace) -> int:
    return asyncio.run(_launch(options))


async def _launch(options: argparse.Namespace) -> int:
    async with linked(to_act_on(options)) as live:
        action = await act(
            live,
            "launch",
            as_json=options.json,
            run=options.name,
            trainer=options.trainer,
            config=options.config,
            cwd=options.cwd,
            output_dir=options.output_dir,
            resume=options.resume,
            component=options.component,
            overrides=options.overrides,
            wait=not options.no_wait,
        )
    return exit_code(action)
