"""Time as records hold it: wall time, monotonic time, and the boot to which they belong."""

from __future__ import annotations

import functools
import time
from pathlib import Path
from typing import TypedDict

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class Stamp(TypedDict):
    """When a record was made. `t` is wall seconds since 1970, `m` is monotonic seconds since some
    point of this boot, and `b` is the boot id.
    """

    t: float
    m: float
    b: str


@functools.lru_cache(maxsize=1)
def boot_id() -> str:
    """Return this boot's id, or "unknown" if the kernel has none (macOS)."""
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        return "unknown"


def stamp() -> Stamp:
    """Return the present time. Deadlines, hold times and ages use `m`; `t` is for people and for
    merging the records of several pods.
    """
    return {"t": round(time.time(), 3), "m": round(time.monotonic(), 3), "b": boot_id()}
