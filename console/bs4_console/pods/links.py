"""PCIe and NVLink of each GPU: the agent reads them seldom and tells them for a moment, so what was
told last is carried on.
"""

from __future__ import annotations

from typing import Any

#: (key of a device, seconds for which a reading counts): six turns of PCIe's ten seconds, three of
#: NVLink's minute.
KEPT_S = {"pcie": 60.0, "nvlink": 180.0}


class Links:
    """Fed with telemetry records in the order of time; fills in what a record leaves out. Unknown
    stays unknown.
    """

    def __init__(self) -> None:
        self._told: dict[tuple[int, str], tuple[float, Any]] = {}

    def fill(self, record: dict[str, Any]) -> None:
        t = float(record["t"])
        for device in (record.get("gpus") or {}).get("devices") or []:
            for key, seconds in KEPT_S.items():
                place = (device.get("index"), key)
                if key in device:
                    self._told[place] = (t, device[key])
                elif (told := self._told.get(place)) is not None and 0 <= t - told[0] <= seconds:
                    device[key] = told[1]
