"""The current contents of the kernel's ring buffer, in the format in which dmesg prints them."""

from __future__ import annotations

import re
from collections import deque
from pathlib import Path

from bs4_agent.telemetry.kernel import KernelLog

#: The newest lines that are kept.
LINES = 2000
#: The form of a record: priority,sequence,microseconds,flags;text
_RECORD = re.compile(rb"\d+,\d+,(\d+),[^;]*;(.*)")


def kernel_lines(dev: Path, since_m: float = 0.0) -> bytes | None:
    """Return the kernel's newest lines as `[ 1234.567890] text`, at most 2,000 of them.

    Lines older than `since_m` (seconds since the machine booted) are left out. Return None if the
    agent may not read `dev`/kmsg.
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
