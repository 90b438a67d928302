"""Time as records hold it: wall time, monotonic time, and the boot to which they belong."""

from __future__ import annotations

import functools
import time
from pathlib import Path
from typing import TypedDict

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class Stamp(TypedDict):
    """The time at which a record was made. `t` is the Unix time in seconds, `m` is in seconds of
    the monotonic clock of this boot, and `b` is the boot's id.
    """

    t: float
    m: float
    b: str


@functools.lru_cache(maxsize=1)
def boot_id() -> str:
    """Return the id of the machine's present boot, or "unknown" if the kernel has no such id
    (macOS).
    """
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        return "unknown"


def stamp() -> Stamp:
    """Return the present time as a Stamp. Use its `m`, a time of the monotonic clock, for deadlines
    and ages; its `t`, a Unix time in seconds, is for people, and for merging the records of several
    pods.
    """
    return {"t": round(time.time(), 3), "m": round(time.monotonic(), 3), "b": boot_id()}
