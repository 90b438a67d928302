"""The kernel's ring buffer as it lies there now, in the form in which dmesg prints it."""

from __future__ import annotations

import os
import re
from collections import deque
from pathlib import Path

#: Lines that are kept, the newest.
LINES = 2000
_RECORD_BYTES = 8192
#: priority,sequence,microseconds,flags;text
_RECORD = re.compile(rb"(\d+),\d+,(\d+),[^;]*;([^\n]*)")
#: What a process wrote into the log has a facility: priority = facility * 8 + level.
_LEVELS = 8


def kernel_lines(dev: Path, since_m: float = 0.0) -> bytes | None:
    """`[ 1234.567890] text` lines from second `since_m` of the machine's life on; None where `dev`/kmsg may not be read."""
    try:
        fd = os.open(dev / "kmsg", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    lines: deque[bytes] = deque(maxlen=LINES)
    try:
        while True:
            try:
                record = os.read(fd, _RECORD_BYTES)
            except BlockingIOError:
                break
            except BrokenPipeError:  # the ring overtook us; the next read continues at its oldest record
                continue
            if not record:
                break
            lines.extend(
                b"[%5d.%06d] %s" % (int(found[2]) // 1_000_000, int(found[2]) % 1_000_000, found[3])
                for found in _RECORD.finditer(record)
                if int(found[1]) < _LEVELS and int(found[2]) >= since_m * 1_000_000
            )
    except OSError:
        return None
    finally:
        os.close(fd)
    return b"".join(line + b"\n" for line in lines)
