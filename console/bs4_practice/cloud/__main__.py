"""`python -m bs4_practice.cloud --root DIR`: the practice clouds in the foreground, until
standard input or the process ends.

Prints one JSON line: the base URLs, the key that they take, and the environment with which
`bs4-console provision` uses them.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from pathlib import Path
from types import FrameType

from bs4_practice.cloud.market import NoMetal, PracticePods
from bs4_practice.cloud.server import running


def main() -> None:
    """Run the practice clouds (imitations of GPU providers' APIs) in the foreground and print their
    addresses as one JSON line. Returns when standard input ends; SIGTERM ends the program.
    """
    parser = argparse.ArgumentParser(
        prog="python -m bs4_practice.cloud",
        description="Run the practice clouds until standard input ends.",
    )
    parser.add_argument("--root", type=Path, required=True, help="where the machines' files go")
    parser.add_argument(
        "--no-pods", action="store_true", help="machines that exist in the books only"
    )
    parser.add_argument("--generation", choices=("2026-01", "current"), default="current")
    parser.add_argument("--bare", action="store_true", help="machines without uv and prime-rl")
    parser.add_argument("--step-seconds", type=float, default=1.0)
    parser.add_argument("--boot-seconds", type=float, default=1.0)
    parser.add_argument(
        "--env", type=json.loads, default={}, help="more environment for every process, as JSON"
    )
    options = parser.parse_args()
    pods = PracticePods(
        options.root,
        options.generation,
        bare=options.bare,
        step_seconds=options.step_seconds,
        env=options.env,
    )
    signal.signal(signal.SIGTERM, _end)
    with running(
        metal=NoMetal() if options.no_pods else pods, boot_s=options.boot_seconds
    ) as cloud:
        environment = {f"BS4_{name.upper()}_URL": url for name, url in cloud.urls().items()}
        said = {
            "url": f"http://127.0.0.1:{cloud.port}",
            "key": cloud.KEY,
            "urls": cloud.urls(),
            "environment": environment,
        }
        sys.stdout.write(json.dumps(said) + "\n")
        sys.stdout.flush()
        while sys.stdin.read(1):
            pass


def _end(number: int, frame: FrameType | None) -> None:
    raise SystemExit(0)


if __name__ == "__main__":
    main()
