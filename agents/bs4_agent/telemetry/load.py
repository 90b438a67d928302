"""How busy each GPU is now and was over the last minutes."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

#: One batch has idle and busy phases of minutes: only a mean over several steps says that a GPU is
#: idle.
WINDOW_S = 600.0
_BUCKET_S = 10.0


class GpuLoad:
    """Fed with every look (2 s); keeps one mean per device and ten seconds."""

    def __init__(self) -> None:
        self._buckets: dict[int, deque[tuple[float, float, int]]] = {}

    def of(self, devices: Sequence[Mapping[str, Any]], now_m: float) -> dict[str, dict[int, Any]]:
        """`names`, `util`, `power` and `mean_util` of GpuFacts."""
        util = {}
        for d in devices:
            if d.get("util") is not None:
                util[d["index"]] = float(d["util"])
        power = {}
        for d in devices:
            if d.get("power") is not None and d.get("power_limit"):
                power[d["index"]] = d["power"] / d["power_limit"]
        for index, value in util.items():
            self._take(index, value, now_m)
        names = {}
        for d in devices:
            if d.get("name"):
                names[d["index"]] = d["name"]
        means = {index: mean for index in util if (mean := self._mean(index, now_m)) is not None}
        return {"names": names, "util": util, "power": power, "mean_util": means}

    def _take(self, index: int, value: float, now_m: float) -> None:
        buckets = self._buckets.setdefault(index, deque())
        if buckets and now_m - buckets[-1][0] < _BUCKET_S:
            begun, total, count = buckets.pop()
            buckets.append((begun, total + value, count + 1))
        else:
            buckets.append((now_m, value, 1))
        while now_m - buckets[0][0] > WINDOW_S:
            buckets.popleft()

    def _mean(self, index: int, now_m: float) -> float | None:
        buckets = self._buckets[index]
        if now_m - buckets[0][0] < 0.8 * WINDOW_S or len(buckets) < 0.5 * WINDOW_S / _BUCKET_S:
            return None
        return sum(total / count for _, total, count in buckets) / len(buckets)
