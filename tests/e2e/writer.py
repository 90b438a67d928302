#!/usr/bin/env python3
"""A pod's `uv run rl @ config --output-dir DIR`: writes RATE numbered lines a second to the
trainer's log, COUNT in all, then stays.

Runs on the pod, from a directory in its PATH; whoever puts it there sets RATE and COUNT.
"""

import sys
import time
from pathlib import Path

RATE, COUNT = 5000, 200_000
TICK_S = 0.05


def main() -> None:
    logs = Path(sys.argv[sys.argv.index("--output-dir") + 1]) / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    print("launcher is up", flush=True)
    began, number = time.monotonic(), 0
    with (logs / "trainer.stdout").open("ab", buffering=0) as log:
        while number < COUNT:
            due = min(COUNT, int((time.monotonic() - began) * RATE))
            clock = time.strftime("%H:%M:%S")
            lines = b"".join(
                b"%s    INFO line %08d of a log that is long enough to look real\n"
                % (clock.encode(), n)
                for n in range(number, due)
            )
            # In two writes, so that readers meet unfinished lines too.
            log.write(lines[: len(lines) // 2])
            log.write(lines[len(lines) // 2 :])
            number = due
            time.sleep(TICK_S)
    print("all lines are written", flush=True)
    time.sleep(600)


if __name__ == "__main__":
    main()
