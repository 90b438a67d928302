#!/usr/bin/env python3
"""A pod's `uv run rl @ config --output-dir DIR`: writes numbered lines to the trainer's log until
it is told to stop, or only starts and stays if DIR is called `second`.

Runs on the pod, from a directory in its PATH. It looks at the directory /tmp/control for orders:
`hostile` holds lines that it adds between two of its own, and `stop` ends the writing. It then
writes how many lines it has written to `written`. Like a trainer it goes on when its log is
truncated, and opens a new one when its log is renamed or deleted. On a full disk it tries again.
"""

import errno
import os
import sys
import time
from pathlib import Path

RATE = 1000
TICK_S = 0.05
CONTROL = Path("/tmp/control")


def write(fd: int, data: bytes) -> None:
    """Write all of `data`, however often the disk is full."""
    while data:
        try:
            data = data[os.write(fd, data) :]
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            time.sleep(TICK_S)


def opened(path: Path, fd: int) -> int:
    """Return a descriptor of the file that is at `path` now: `fd` if it is still that one."""
    try:
        if fd >= 0 and path.stat().st_ino == os.fstat(fd).st_ino:
            return fd
    except FileNotFoundError:
        pass
    try:
        new = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    except OSError as error:
        if error.errno != errno.ENOSPC or fd < 0:
            raise
        return fd
    if fd >= 0:
        os.close(fd)
    return new


def text(first: int, last: int) -> bytes:
    """Return the lines with the numbers from `first` up to `last`, without `last`."""
    clock = time.strftime("%H:%M:%S").encode()
    line = b"%s    INFO line %08d of a log that is long enough to look real\n"
    return b"".join(line % (clock, number) for number in range(first, last))


def hostile() -> bytes:
    """Return the lines that were ordered, once."""
    order = CONTROL / "hostile"
    try:
        data = order.read_bytes()
    except FileNotFoundError:
        return b""
    order.unlink()
    return data


def main() -> None:
    """Write until `stop` is ordered, then stay."""
    out = Path(sys.argv[sys.argv.index("--output-dir") + 1])
    starts = os.open("/tmp/starts", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(starts, f"{out.name} {os.getpid()}\n".encode())
    os.close(starts)
    print("launcher is up", flush=True)
    if out.name == "second":
        time.sleep(600)
        return
    log = out / "logs" / "trainer.stdout"
    log.parent.mkdir(parents=True, exist_ok=True)
    fd, began, number = -1, time.monotonic(), 0
    while not (CONTROL / "stop").exists():
        fd = opened(log, fd)
        # After a pause (the pod was frozen, its disk was full) it goes on at its own pace.
        due = min(int((time.monotonic() - began) * RATE), number + RATE)
        lines = text(number, due)
        # In two writes, so that readers meet unfinished lines too.
        write(fd, lines[: len(lines) // 2])
        write(fd, lines[len(lines) // 2 :])
        write(fd, hostile())
        number = due
        time.sleep(TICK_S)
    (CONTROL / "written.new").write_text(str(number))
    (CONTROL / "written.new").rename(CONTROL / "written")
    time.sleep(600)


if __name__ == "__main__":
    main()
