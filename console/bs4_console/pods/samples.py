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
from typing import Any

#: Records of one pack. The newest records stay unpacked, at most twice as many.
PACKED = 60

Sample = dict[str, Any]


@dataclass(frozen=True)
class _Pack:
    """Some records, compressed, with the times of the oldest and the newest of them."""

    begin: float
    end: float
    data: bytes

    def samples(self) -> list[Sample]:
        """Return the records of the pack."""
        return _unpacked(self.data)


class Samples:
    """The newest telemetry records of one pod in the order in which they came, compressed in
    memory. About `most` records are held; when more come, the oldest are dropped. Records come
    about once a second, and the key `t` of each is its Unix time in seconds. Records must not be
    changed after they were added.
    """

    def __init__(self, most: int) -> None:
        self._packs: deque[_Pack] = deque(maxlen=max(1, most // PACKED - 1))
        self._newest: list[Sample] = []

    def __len__(self) -> int:
        return len(self._packs) * PACKED + len(self._newest)

    def __iter__(self) -> Iterator[Sample]:
        for pack in self._packs:
            yield from pack.samples()
        yield from self._newest

    def append(self, record: Sample) -> None:
        """Add a telemetry record, which becomes the newest. If too many are held, the oldest are
        dropped.
        """
        self._newest.append(record)
        if len(self._newest) >= 2 * PACKED:
            old, self._newest = self._newest[:PACKED], self._newest[PACKED:]
            times = [float(one["t"]) for one in old]
            self._packs.append(
                _Pack(
                    min(times),
                    max(times),
                    zlib.compress(json.dumps(old, separators=(",", ":")).encode(), 1),
                )
            )

    def clear(self) -> None:
        """Remove all telemetry records."""
        self._packs.clear()
        self._newest.clear()

    @property
    def newest(self) -> Sample | None:
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

    def between(self, begin: float, end: float) -> list[Sample]:
        """Return the records with begin <= t <= end, where all times are Unix times in seconds. The
        list is empty if none fits.
        """
        held: list[Sample] = []
        for pack in self._packs:
            if pack.begin <= end and begin <= pack.end:
                held += pack.samples()
        found = []
        for one in (*held, *self._newest):
            if begin <= one["t"] <= end:
                found.append(one)
        return found

    def near(self, t: float, within: float) -> Sample | None:
        """Return the record whose time is nearest to `t` (Unix time in seconds), or None if none
        lies within `within` seconds of it.
        """
        return min(
            self.between(t - within, t + within), key=lambda one: abs(one["t"] - t), default=None
        )


@functools.lru_cache(maxsize=12)  # of the one pod whose curves are on the screen
def _unpacked(data: bytes) -> list[Sample]:
    unpacked: list[Sample] = json.loads(zlib.decompress(data))
    return unpacked
