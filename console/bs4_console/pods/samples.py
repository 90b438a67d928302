"""Hold the newest telemetry of one pod in little memory: ten minutes of eight GPUs are 13 MB as
dictionaries and 2 MB packed, and a fleet has hundreds of pods.
"""

from __future__ import annotations

import functools
import json
import zlib
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from bs4_common.telemetry import (
    Device,
    DiskUsage,
    GpuProcess,
    Gpus,
    Host,
    Process,
    StepRecord,
    Telemetry,
    Xid,
)
from bs4_console import ceilings
from bs4_console.pods.gate.weight import weight_of

__all__ = [
    "Device",
    "DiskUsage",
    "GpuProcess",
    "Gpus",
    "Host",
    "Process",
    "Samples",
    "StepRecord",
    "Telemetry",
    "Xid",
]

#: Records of one pack at most. The newest records stay unpacked, at most twice as many.
PACKED = 60


@dataclass(frozen=True)
class _Pack:
    """Some records, compressed, with the times of the oldest and the newest of them."""

    begin: float
    end: float
    count: int
    data: bytes

    def samples(self) -> list[Telemetry]:
        """Return the records of the pack."""
        return _unpacked(self.data)


class Samples:
    """The newest telemetry records of one pod in the order in which they came, compressed in
    memory. About `most` records are held, or fewer if they are very long; when more come, the
    oldest are dropped. Records come about once a second, and the key `t` of each is its Unix time
    in seconds by the pod's clock. Records must not be changed after they were added.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._packs: deque[_Pack] = deque()
        self._newest: list[Telemetry] = []
        self._weights: list[int] = []
        """Bytes of memory that each of the newest records takes at most."""

    def __len__(self) -> int:
        return sum(pack.count for pack in self._packs) + len(self._newest)

    def __iter__(self) -> Iterator[Telemetry]:
        for pack in self._packs:
            yield from pack.samples()
        yield from self._newest

    def append(self, record: Telemetry) -> None:
        """Add a telemetry record, which becomes the newest. If about `most` records are held
        already, or if they take too much memory, the oldest are dropped, some dozens at once.
        """
        self._newest.append(record)
        self._weights.append(weight_of(record))
        if len(self._newest) < 2 * PACKED and sum(self._weights) <= ceilings.TELEMETRY_MEMORY:
            return
        count = 0
        while count < min(PACKED, len(self._newest) - 1):
            count += 1
            if sum(self._weights[:count]) > ceilings.TELEMETRY_MEMORY // 2:
                break
        old, self._newest = self._newest[:count], self._newest[count:]
        del self._weights[:count]
        if old:
            times = [float(one["t"]) for one in old]
            data = zlib.compress(json.dumps(old, separators=(",", ":")).encode(), 1)
            self._packs.append(_Pack(min(times), max(times), count, data))
        while self._packs and (
            len(self) > self._most or sum(len(p.data) for p in self._packs) > ceilings.PACKED_MEMORY
        ):
            self._packs.popleft()

    def clear(self) -> None:
        """Remove all telemetry records."""
        self._packs.clear()
        self._newest.clear()
        self._weights.clear()

    @property
    def newest(self) -> Telemetry | None:
        """Return the record that was added last, or None if there is none yet."""
        return self._newest[-1] if self._newest else None

    @property
    def begin(self) -> float | None:
        """Return the time of the oldest record that is still held, as a Unix time in seconds, or
        None if no record is held.
        """
        if self._packs:
            return self._packs[0].begin
        if self._newest:
            return float(self._newest[0]["t"])
        return None

    def between(self, begin: float, end: float) -> list[Telemetry]:
        """Return the records with begin <= t <= end, where all times are Unix times in seconds. The
        list is empty if none fits.
        """
        held: list[Telemetry] = []
        for pack in self._packs:
            if pack.begin <= end and begin <= pack.end:
                held += pack.samples()
        found = []
        for one in (*held, *self._newest):
            if begin <= one["t"] <= end:
                found.append(one)
        return found

    def near(self, t: float, within: float) -> Telemetry | None:
        """Return the record whose time is nearest to `t` (Unix time in seconds), or None if none
        lies within `within` seconds of it.
        """
        return min(
            self.between(t - within, t + within), key=lambda one: abs(one["t"] - t), default=None
        )


@functools.lru_cache(maxsize=12)  # of the one pod whose curves are on the screen
def _unpacked(data: bytes) -> list[Telemetry]:
    unpacked: list[Telemetry] = json.loads(zlib.decompress(data))
    return unpacked
