"""Keep the PCIe and NVLink readings of each GPU. The agent reads them seldom and sends them once,
so the last reading is carried on.
"""

from __future__ import annotations

from typing import Any

#: Seconds for which a reading counts, by key of a device: six readings of PCIe (every ten seconds),
#: three of NVLink (every minute).
KEPT_S = {"pcie": 60.0, "nvlink": 180.0}


class Links:
    """The last PCIe and NVLink readings by GPU. It takes telemetry records in the order of time. A
    reading that was never sent stays unknown.
    """

    def __init__(self) -> None:
        self._told: dict[tuple[int, str], tuple[float, Any]] = {}

    def fill(self, record: dict[str, Any]) -> None:
        """Put the last PCIe and NVLink readings into a telemetry record that leaves them out, if
        they are recent enough (KEPT_S). Remember the readings that the record has.
        """
        t = float(record["t"])
        for device in (record.get("gpus") or {}).get("devices") or []:
            for key, seconds in KEPT_S.items():
                place = (device.get("index"), key)
                if key in device:
                    self._told[place] = (t, device[key])
                elif (told := self._told.get(place)) is not None and 0 <= t - told[0] <= seconds:
                    device[key] = told[1]
