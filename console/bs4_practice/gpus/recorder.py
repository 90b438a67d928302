"""Where no C compiler is: the same GPUs as a JSON file, kept up to date. `python -m
bs4_practice.gpus.recorder GPU_DIR`.

`GPU_DIR/recorded.json`, replaced twice a second:

    {"t": wall seconds, "driver": "580.65.06", "devices": [{"index", "uuid", "name", "util",
    "mem_util", "mem_used", "mem_total", "temp",
     "power", "power_limit", "sm_clock", "mem_clock", "ecc", "throttle", "error": null or text,
     "procs": [{"pid", "mem"}],
     "pcie": {"gen", "gen_max", "width", "width_max", "tx", "rx"}, "nvlink": {"active", "links",
     "errors"}}],
     "xids": [{"index", "xid", "t"}]}

Units as in telemetry: percent, bytes, watts, MHz, °C. `pid` is what NVML would report. `throttle`
is a list of names as nvidia-smi prints them. The pod names the file in BS4_GPU_SOURCE.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from .board import Board, Holder

_INTERVAL = 0.5
_THROTTLE = {
    0x4: "sw_power_cap",
    0x8: "hw_slowdown",
    0x20: "sw_thermal_slowdown",
    0x40: "hw_thermal_slowdown",
}


def snapshot(board: Board) -> dict[str, Any]:
    """Return what NVML would say about the GPUs now. "t" is the time in seconds since the epoch,
    "driver" the driver's version, "devices" has a dict for each GPU, and "xids" one for the last
    Xid event of each GPU that had one. A GPU has, for example, "util" (percent), "mem_used" and
    "mem_total" (bytes), "temp" (°C) and "power" (watts); the description of this module lists all.
    """
    holders = board.holders()
    driver = [line.split() for line in (board.root / "driver").read_text().splitlines()]
    offset = next((int(words[1]) for words in driver if words[0] == "offset"), 0)
    mapping = {int(words[1]): int(words[2]) for words in driver if words[0] == "map"}
    version = next((words[1] for words in driver if words[0] == "version"), "")
    devices, xids = [], []
    for index in range(board.count()):
        settings = board.settings(index)
        mine = [holder for holder in holders if holder.gpu == index]
        devices.append(_device(index, settings, mine, lambda pid: mapping.get(pid, pid + offset)))
        if int(settings["xid_seq"]):
            xids.append(
                {"index": index, "xid": int(settings["xid"]), "t": int(settings["xid_ms"]) / 1000}
            )
    return {"t": time.time(), "driver": version, "devices": devices, "xids": xids}


def _device(
    index: int, settings: dict[str, str], holders: list[Holder], reported: Any
) -> dict[str, Any]:
    util = (
        int(settings["util"])
        if int(settings["util"]) >= 0
        else max((_busy(holder) for holder in holders), default=0)
    )
    used, limit = sum(holder.bytes for holder in holders), int(settings["power_limit"])
    idle = 118 if used else 72
    return {
        "index": index,
        "uuid": settings["uuid"],
        "name": settings["name"],
        "util": util,
        "mem_util": util * 2 // 5,
        "mem_used": used,
        "mem_total": int(settings["total"]),
        "temp": int(settings["temp"]) if int(settings["temp"]) >= 0 else 31 + util * 2 // 5,
        "power": int(settings["power"])
        if int(settings["power"]) >= 0
        else idle + (limit - idle) * util // 110,
        "power_limit": limit,
        "sm_clock": int(settings["sm_clock"]),
        "mem_clock": int(settings["mem_clock"]),
        "ecc": int(settings["ecc"]),
        "throttle": [name for bit, name in _THROTTLE.items() if int(settings["throttle"]) & bit],
        "error": None if settings["error"] == "0" else f"NVML error {settings['error']}",
        "procs": [{"pid": reported(holder.pid), "mem": holder.bytes} for holder in holders],
        "pcie": {
            "gen": int(settings["pcie_gen"]),
            "gen_max": 5,
            "width": int(settings["pcie_width"]),
            "width_max": 16,
            "tx": 400 + util * 2500,
            "rx": 400 + util * 9000,
        },
        "nvlink": {
            "active": int(settings["nvlinks"]),
            "links": 18,
            "errors": int(settings["nvlink_errors"]),
        },
    }


def _busy(holder: Holder) -> int:
    """The percentage of its lease, fading over a second after the lease ended."""
    words = holder.entry.read_text().split()
    if len(words) != 2:
        return 0
    until, percent = int(words[0]), int(words[1])
    late = time.monotonic() * 1000 - until
    return 0 if late >= 1000 else percent if late < 0 else int(percent * (1000 - late) / 1000)


def main() -> None:
    """Write the present state of the simulated GPUs into `recorded.json`, twice a second, until the
    process is ended. The first argument of the command line is the directory of the file, in which
    the GPUs are described (see `Board`). Each time the whole file is replaced.
    """
    board = Board(Path(sys.argv[1]))
    target = board.root / "recorded.json"
    while True:
        partial = target.with_suffix(".tmp")
        partial.write_text(json.dumps(snapshot(board)))
        os.replace(partial, target)
        time.sleep(_INTERVAL)


if __name__ == "__main__":
    main()
