"""The kernel's ring buffer as it lies there now, in the form in which dmesg prints it."""

from __future__ import annotations

import re
from collections import deque
from pathlib import Path

from bs4_agent.telemetry.kernel import KernelLog

#: Lines that are kept, the newest.
LINES = 2000
#: priority,sequence,microseconds,flags;text
_RECORD = re.compile(rb"\d+,\d+,(\d+),[^;]*;(.*)")


def kernel_lines(dev: Path, since_m: float = 0.0) -> bytes | None:
    """`[ 1234.567890] text` lines from second `since_m` of the machine's life on; None where
    `dev`/kmsg may not be read.
    """
    log = KernelLog(dev, past=True)
    lines: deque[bytes] = deque(maxlen=LINES)
    while records := log.read():
        for found in filter(None, map(_RECORD.match, records)):
            if int(found[1]) >= since_m * 1_000_000:
                lines.append(b"[%5d.%06d] %s\n" % (*divmod(int(found[1]), 1_000_000), found[2]))
    readable = log.state == "visible"
    log.close()
    if readable:
        return b"".join(lines)
    return None
