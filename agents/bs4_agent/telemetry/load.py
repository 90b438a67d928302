"""How busy each GPU is now and was over the last ten minutes."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypedDict

from bs4_common.telemetry import Device

#: Seconds of the mean. One batch has idle and busy phases of minutes, so only a mean over several
#: steps shows that a GPU is idle.
WINDOW_S = 600.0
_BUCKET_S = 10.0


if TYPE_CHECKING:
    # Only for the type checker: at run time, each would take 10 KiB of the agent.

    class LoadFields(TypedDict):
        """Fields of GpuFacts, each by the GPU's index."""

        names: dict[int, str]
        util: dict[int, float]
        """Percent, of the last sample."""
        power: dict[int, float]
        """The share of the power limit, from 0 to 1."""
        mean_util: dict[int, float]
        """Percent, over ten minutes."""


class GpuLoad:
    """Computes how busy each GPU is now and how busy it was on average over the last ten minutes.
    Call `of` each time the GPUs were sampled. For the average, one value of each GPU is kept for
    every ten seconds.
    """

    def __init__(self) -> None:
        self._buckets: dict[int, deque[tuple[float, float, int]]] = {}

    def of(self, devices: Sequence[Device], now_m: float) -> LoadFields:
        """Add one sample: `devices` are the GPUs of a telemetry record that was made at `now_m`, in
        seconds of the monotonic clock. Return four dictionaries by GPU index: `names`, `util`
        (percent, now), `power` (share of the power limit, 0 to 1) and `mean_util` (percent, over
        ten minutes). A value that is not known of a GPU is left out; its `mean_util` is left out
        until samples cover most of ten minutes.
        """
        facts: LoadFields = {"names": {}, "util": {}, "power": {}, "mean_util": {}}
        for device in devices:
            index, name, util = device["index"], device.get("name"), device.get("util")
            power, limit = device.get("power"), device.get("power_limit")
            if name:
                facts["names"][index] = name
            if util is not None:
                facts["util"][index] = float(util)
            if power is not None and limit:
                facts["power"][index] = power / limit
        for index, value in facts["util"].items():
            self._take(index, value, now_m)
            if (mean := self._mean(index, now_m)) is not None:
                facts["mean_util"][index] = mean
        return facts

    def _take(self, index: int, value: float, now_m: float) -> None:
        """Add one value to the newest ten seconds of a device."""
        buckets = self._buckets.setdefault(index, deque())
        if buckets and now_m - buckets[-1][0] < _BUCKET_S:
            begun, total, count = buckets.pop()
            buckets.append((begun, total + value, count + 1))
        else:
            buckets.append((now_m, value, 1))
        while now_m - buckets[0][0] > WINDOW_S:
            buckets.popleft()

    def _mean(self, index: int, now_m: float) -> float | None:
        """Return the mean of a device over ten minutes, or None if it was not polled for most of
        them.
        """
        buckets = self._buckets[index]
        if now_m - buckets[0][0] < 0.8 * WINDOW_S or len(buckets) < 0.5 * WINDOW_S / _BUCKET_S:
            return None
        return sum(total / count for _, total, count in buckets) / len(buckets)
