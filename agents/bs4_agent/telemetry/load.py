"""How busy each GPU is now and was over the last ten minutes."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

#: Seconds of the mean. One batch has idle and busy phases of minutes, so only a mean over several
#: steps shows that a GPU is idle.
WINDOW_S = 600.0
_BUCKET_S = 10.0


class GpuLoad:
    """Computes how busy each GPU is now and how busy it was on average over the last ten minutes.
    Call `of` each time the GPUs were sampled. For the average, one value of each GPU is kept for
    every ten seconds.
    """

    def __init__(self) -> None:
        self._buckets: dict[int, deque[tuple[float, float, int]]] = {}

    def of(self, devices: Sequence[Mapping[str, Any]], now_m: float) -> dict[str, dict[int, Any]]:
        """Add one sample: `devices` are the GPUs of a telemetry record that was made at `now_m`, in
        seconds of the monotonic clock. Return a dictionary with the fields `names`, `util`, `power`
        and `mean_util` of GpuFacts, each of which maps GPU indexes to values.

        `util` is how busy the GPU is now and `mean_util` its average over ten minutes, both in
        percent. `power` is the share of the power limit, from 0 to 1. A value that is not known of
        a GPU is left out, and so is its `mean_util` until samples cover most of ten minutes.
        """
        facts: dict[str, dict[int, Any]] = {"names": {}, "util": {}, "power": {}, "mean_util": {}}
        for device in devices:
            index = device["index"]
            if device.get("name"):
                facts["names"][index] = device["name"]
            if device.get("util") is not None:
                facts["util"][index] = float(device["util"])
            if device.get("power") is not None and device.get("power_limit"):
                facts["power"][index] = device["power"] / device["power_limit"]
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
