#!/usr/bin/env python3
"""A pod's `uv run rl @ config --output-dir DIR`: writes numbered lines to the trainer's log until
it is told to stop, with a step after each thousand. It only starts and stays if DIR is not `out`,
and takes memory without end when it is told to if DIR is `hog`.

Runs on the pod, from a directory in its PATH. It looks at the directory CONTROL for orders:
`hostile` holds lines that it adds between two of its own, and `stop` ends the writing. It then
writes how many lines it has written to `written`. Like a trainer it goes on when its log is
truncated, and opens a new one when its log is renamed or deleted. On a full disk it tries again.

Started again after the pod was killed, it goes on with the next number. An unfinished last line
stays as it is, and is kept in `torn`.
"""

import errno
import os
import re
import sys
import time
from pathlib import Path

RATE = 1000
TICK_S = 0.05
CONTROL = Path("/var/lib/chaos")
PROGRESS = CONTROL / "progress"
#: Bytes at the end of a log in which the last number is looked for.
TAIL_BYTES = 1 << 20
LINE = b"%s    INFO line %08d of a log that is long enough to look real\n"
STEP = (
    b"%s SUCCESS Step %d | Time: 1.00s | Loss: 0.5000 | Entropy: 0.4000 | Mismatch KL: 0.0010 | "
    b"Grad. Norm: 0.3000 | LR: 1.00e-06 | Throughput: 1000 tokens/s | MFU: 30.0%% | Peak Mem.: "
    b"20.0 GiB\n"
)
NUMBER = re.compile(rb" line (\d{8}) of a log that is long enough to look real\n")


def write(fd: int, data: bytes) -> None:
    """Write all of `data`, however often the disk is full."""
    while data:
        try:
            data = data[os.write(fd, data) :]
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            time.sleep(TICK_S)


def opened(path: Path, fd: int, current: Path) -> int:
    """Return a descriptor of the file that is at `path` now: `fd` if it is still that one. A new
    one gets the further name `current`, under which it is found after the pod was killed.
    """
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
    # By a rename, so that a kill in between leaves a name for the old file.
    newer = current.with_name(f"{current.name}.new")
    newer.unlink(missing_ok=True)
    try:
        # With a directory Python calls linkat, which follows /proc's link to the file.
        os.link(f"/proc/self/fd/{new}", newer, src_dir_fd=new)
        newer.replace(current)
    except OSError:  # it was deleted at once, or the disk is full
        current.unlink(missing_ok=True)
    if fd >= 0:
        os.close(fd)
    return new


def text(first: int, last: int) -> bytes:
    """Return the lines with the numbers from `first` up to `last`, without `last`."""
    clock = time.strftime("%H:%M:%S").encode()
    lines = []
    for number in range(first, last):
        if number % RATE == 0:
            lines.append(STEP % (clock, number // RATE))
        lines.append(LINE % (clock, number))
    return b"".join(lines)


def hostile() -> bytes:
    """Return the lines that were ordered, once."""
    order = CONTROL / "hostile"
    try:
        data = order.read_bytes()
    except FileNotFoundError:
        return b""
    order.unlink()
    return data


def resumed(current: Path) -> tuple[int, bytes]:
    """Return the next number, and the unfinished line at the end of the log. The number stands in
    PROGRESS if no line is left in the log.
    """
    try:
        tail = current.read_bytes()[-TAIL_BYTES:]
        number = int(PROGRESS.read_bytes())
    except FileNotFoundError:
        return 0, b""
    found = NUMBER.findall(tail)
    if found:
        number = int(found[-1]) + 1
    return number, tail.rpartition(b"\n")[2]


def flood(out: Path) -> None:
    """Write lines until `stop` is ordered."""
    log, current = out / "logs" / "trainer.stdout", out / ".current"
    log.parent.mkdir(parents=True, exist_ok=True)
    first, torn = resumed(current)
    fd, began, number, fresh = -1, time.monotonic(), first, True
    if torn:
        (CONTROL / "torn").write_bytes(torn)
        fd = os.open(current, os.O_WRONLY | os.O_APPEND)
        write(fd, b"\n")
    progress = os.open(PROGRESS, os.O_WRONLY | os.O_CREAT, 0o600)
    while not (CONTROL / "stop").exists():
        before, fd = fd, opened(log, fd, current)
        fresh = fresh or fd != before
        # After a pause (the pod was frozen, its disk was full) it goes on at its own pace.
        due = min(first + int((time.monotonic() - began) * RATE), number + RATE)
        lines = text(number, due)
        if not fresh:
            # Whether these lines were written before a kill is not known if the log is cut to
            # nothing after it. They lie in its gap then. Nothing excuses those of a new file.
            os.pwrite(progress, b"%d" % due, 0)
        # In two writes, so that readers meet unfinished lines too.
        write(fd, lines[: len(lines) // 2])
        write(fd, lines[len(lines) // 2 :])
        write(fd, hostile())
        os.pwrite(progress, b"%d" % due, 0)
        number, fresh = due, fresh and not lines
        time.sleep(TICK_S)
    (CONTROL / "written.new").write_text(str(number))
    (CONTROL / "written.new").rename(CONTROL / "written")


def hog() -> None:
    """Take memory without end once that is ordered."""
    while not (CONTROL / "hog").exists():
        time.sleep(TICK_S)
    taken = []
    while True:
        taken.append(bytearray(b"x") * (1 << 20))


def main() -> None:
    """Do what belongs to the output directory, then stay."""
    out = Path(sys.argv[sys.argv.index("--output-dir") + 1])
    starts = os.open(CONTROL / "starts", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(starts, f"{out.name} {os.getpid()}\n".encode())
    os.close(starts)
    print("launcher is up", flush=True)
    if out.name == "out":
        flood(out)
    elif out.name == "hog":
        hog()
    time.sleep(600)


if __name__ == "__main__":
    main()
