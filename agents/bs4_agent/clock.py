"""Time as it is recorded: wall, monotonic and the boot they belong to."""

from __future__ import annotations

import functools
import time
from pathlib import Path
from typing import TypedDict

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class Stamp(TypedDict):
    """When a record was made. `t`: wall seconds since 1970; `m`: monotonic seconds since some point
    of this boot; `b`: boot id.
    """

    t: float
    m: float
    b: str


@functools.lru_cache(maxsize=1)
def boot_id() -> str:
    """This boot's id, or "unknown" where the kernel has none (macOS)."""
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        return "unknown"


def stamp() -> Stamp:
    """Now. Deadlines, holds and ages use `m`; `t` is for people and for merging pods."""
    return {"t": round(time.time(), 3), "m": round(time.monotonic(), 3), "b": boot_id()}
