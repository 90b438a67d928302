"""Keep the PCIe and NVLink readings of each GPU. The agent reads them seldom and sends them once,
so the last reading is carried on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from bs4_console.pods.samples import Telemetry

#: Seconds for which a reading counts, by key of a device: six readings of PCIe (every ten seconds),
#: three of NVLink (every minute).
KEPT_S: Mapping[Literal["pcie", "nvlink"], float] = {"pcie": 60.0, "nvlink": 180.0}


class Links:
    """The last PCIe and NVLink readings of each GPU of one pod. The agent sends these readings only
    in some of its telemetry records, and `fill` adds them to the others. Pass records to `fill` in
    the order of time.
    """

    def __init__(self) -> None:
        self._told: dict[tuple[int | None, str], tuple[float, Any]] = {}

    def fill(self, record: Telemetry) -> None:
        """Add to a telemetry record, in place, the last PCIe and NVLink readings of each GPU for
        which it has none. A reading is added only for 60 seconds (PCIe) or 180 seconds (NVLink)
        after it was sent. Readings that the record itself holds are remembered for later records.
        """
        t = float(record["t"])
        for device in (record.get("gpus") or {}).get("devices") or []:
            for key, seconds in KEPT_S.items():
                place = (device.get("index"), key)
                if key in device:
                    self._told[place] = (t, device[key])
                elif (told := self._told.get(place)) is not None and 0 <= t - told[0] <= seconds:
                    device[key] = told[1]
