"""Writes a log at a fixed rate and rotates it as logrotate does. Runs alone, inside a pod: needs
nothing but Python.

    python flood.py DIRECTORY RATE LINES

Begins with LINES lines of DIRECTORY/trainer.stdout; then, from when the file DIRECTORY/go is there
until it is gone, RATE lines a second in twenty writes. What was written is told in DIRECTORY/wrote:
{"sha256", "lines", "files"}. Then it waits to be ended.
"""

from __future__ import annotations

import hashlib
import json
import sys
import time
from pathlib import Path

ROTATE_BYTES = 100_000_000
#: Seconds between two writes.
PAUSE_S = 0.05


def lines(begin: int, end: int, rate: int) -> bytes:
    """Lines number `begin` to `end`, each with the clock of its second."""
    return b"".join(
        b"%02d:%02d:%02d    INFO rollout %d of the flood is done: reward 0.3603, 512 tokens\n"
        % (n // rate // 3600 % 24, n // rate // 60 % 60, n // rate % 60, n)
        for n in range(begin, end)
    )


def write(directory: Path, rate: int, first: int) -> None:
    path, go = directory / "trainer.stdout", directory / "go"
    digest, n, files = hashlib.sha256(), 0, 1
    handle = path.open("ab", buffering=0)

    def add(count: int) -> None:
        nonlocal n
        data = lines(n, n + count, rate)
        handle.write(data)
        digest.update(data)
        n += count

    add(first)
    while not go.exists():
        time.sleep(PAUSE_S)
    began = time.monotonic()
    while go.exists():
        now = time.monotonic() - began
        # A machine that lags is not overrun afterwards: at most half a second is made up for.
        add(min(first + int(now * rate) - n, rate // 2))
        if handle.tell() > ROTATE_BYTES:
            handle.close()
            path.rename(path.with_name(f"{path.name}.{files}"))
            files += 1
            handle = path.open("ab", buffering=0)
        time.sleep(max(0.0, PAUSE_S - (time.monotonic() - began - now)))
    told = {
        "sha256": digest.hexdigest(),
        "lines": n,
        "files": files,
        "seconds": round(time.monotonic() - began, 1),
    }
    (directory / "wrote.new").write_text(json.dumps(told))
    (directory / "wrote.new").rename(directory / "wrote")
    time.sleep(1e6)


if __name__ == "__main__":
    write(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
