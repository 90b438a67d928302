"""Writes numbered lines to a log at a steady rate and does to the file what programs and log
rotation do. What it is late by, on a busy machine or because it was stopped, it does not make up
for: several rotations in one moment would be another case. For the same reason it waits before it
unlinks a file until the agent has linked it.

`python writer.py PATH LINES PER_SECOND ROTATE_EVERY how`, how: rename (keeps PATH.1, PATH.2, ...
and unlinks all but three), copytruncate.

Once the file writer.hold is there beside PATH, it writes as many lines more as that says, makes
writer.held, and waits until writer.hold is gone.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from pathlib import Path

BATCH = 50
LATE_S = 0.05


def forget(oldest: Path) -> None:
    """Unlink a file that an agent keeps by a link of its own; wait up to a minute for that link."""
    if oldest.exists():
        until = time.monotonic() + 60
        while oldest.stat().st_nlink < 2 and time.monotonic() < until:
            time.sleep(0.01)
        oldest.unlink()


def main() -> None:
    path, how = Path(sys.argv[1]), sys.argv[5]
    lines, rate, rotate_every = (int(argument) for argument in sys.argv[2:5])
    handle = path.open("ab", buffering=0)
    due = time.monotonic()
    rotations, until = 0, lines
    hold, held = path.with_name("writer.hold"), path.with_name("writer.held")
    for first in range(0, lines, BATCH):
        handle.write(
            b"".join(b"%09d %s\n" % (n, b"x" * (n % 150)) for n in range(first, first + BATCH))
        )
        if (first + BATCH) % rotate_every == 0:
            rotations += 1
            if how == "rename":
                path.rename(f"{path}.{rotations}")
                handle.close()
                handle = path.open("ab", buffering=0)
                forget(Path(f"{path}.{rotations - 3}"))
            else:
                shutil.copyfile(path, f"{path}.copy")
                os.ftruncate(handle.fileno(), 0)
        if until == lines and hold.exists():
            until = first + BATCH + int(hold.read_text())
        if first + BATCH >= until and hold.exists():
            held.touch()
            while hold.exists():
                time.sleep(0.01)
            held.unlink()
            until = lines
        now = time.monotonic()
        due = max(due + BATCH / rate, now - LATE_S)
        time.sleep(max(0.0, due - now))


if __name__ == "__main__":
    main()
