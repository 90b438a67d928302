"""The board that the simulated GPUs sit on: how many there are, what they are, what is wrong with
them.

Nothing here can free memory. It belongs to the processes that hold it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

GIB = 1 << 30
_TOTAL = 81559 << 20
_RESERVED = 300 << 20
#: Device settings and their first values. -1: derived from what the holders do.
_SETTINGS: dict[str, int] = {
    "total": _TOTAL,
    "reserved": _RESERVED,
    "util": -1,
    "temp": -1,
    "power": -1,
    "power_limit": 700,
    "sm_clock": 1980,
    "mem_clock": 2619,
    "ecc": 0,
    "throttle": 0,
    "error": 0,
    "hang_ms": 0,
    "xid": 0,
    "xid_seq": 0,
    "xid_ms": 0,
    "pcie_gen": 5,
    "pcie_width": 16,
    "nvlinks": 18,
    "nvlink_errors": 0,
}


@dataclass(frozen=True)
class Holder:
    """A live process that holds memory of a simulated GPU. `gpu` is the GPU's number, and `bytes`
    how much it holds. `pid` is the real process id, whatever NVML reports, and `start_ticks` when
    the process was started, in clock ticks since boot. `entry` is the file that stands for the
    memory.
    """

    gpu: int
    pid: int
    start_ticks: int
    bytes: int
    entry: Path


class Board:
    """Shows and changes the simulated GPUs of a practice pod. Their files lie in `root`, the pod's
    directory `gpu`. `dev` is the directory of their device nodes; None takes the directory `dev`
    beside `root`.
    """

    def __init__(self, root: Path, dev: Path | None = None) -> None:
        self.root = root
        self.dev = dev or root.parent / "dev"

    def configure(
        self,
        n: int = 2,
        total_bytes: int = _TOTAL,
        foreign_pids: int | Mapping[int, int] | None = None,
        name: str = "NVIDIA H100 80GB HBM3",
        driver: str = "580.65.06",
    ) -> None:
        """Set up `n` simulated GPUs, each with `total_bytes` of memory and the model name `name`;
        `driver` is the driver's version. `foreign_pids` says how NVML is to name processes (see
        `report_pids`), because inside a container it reports the process ids of the host.
        """
        for directory in (self.root / "devices", self.root / "holders", self.dev):
            directory.mkdir(parents=True, exist_ok=True)
        for index in range(n):
            settings = {**_SETTINGS, "total": total_bytes}
            first = 0x5BD1E995 * (index + 1) & 0xFFFFFFFF
            lines = {
                "name": name,
                "uuid": f"GPU-{first:08x}-0000-4000-8000-{index:012x}",
                **settings,
            }
            self._write(index, lines)
            (self.dev / f"nvidia{index}").touch()
        (self.dev / "nvidiactl").touch()
        self._replace(self.root / "driver", f"version {driver}\ninit_error 0\n")
        self.report_pids(foreign_pids)

    def report_pids(self, foreign: int | Mapping[int, int] | None) -> None:
        """Set which process ids NVML reports for the processes that hold memory. If `foreign` is
        None, these are the real ids. If it is a number, that number is added to each. A mapping
        gives the reported id for each real one.
        """
        kept = _read(self.root / "driver")
        lines = [f"version {kept['version']}", f"init_error {kept['init_error']}"]
        if isinstance(foreign, int):
            lines.append(f"offset {foreign}")
        elif foreign is not None:
            lines += [f"map {local} {reported}" for local, reported in foreign.items()]
        self._replace(self.root / "driver", "\n".join(lines) + "\n")

    def fail_init(self, code: int) -> None:
        """Make the driver refuse to start with the NVML return code `code`, for example 9 (driver
        not loaded). With 0 it starts again.
        """
        lines = [
            line
            for line in (self.root / "driver").read_text().splitlines()
            if not line.startswith("init_error")
        ]
        self._replace(self.root / "driver", "\n".join([*lines, f"init_error {code}"]) + "\n")

    def count(self) -> int:
        """Return the number of GPUs."""
        return len(list((self.root / "devices").iterdir()))

    def settings(self, index: int) -> dict[str, str]:
        """Return the settings of the GPU with the number `index`, as {name: value as text}, for
        example "util" and "temp".
        """
        return _read(self.root / "devices" / str(index))

    def set(self, index: int, **values: int) -> None:
        """Change what the simulated GPU with the number `index` reports, such as util (percent),
        temp (°C), power (watts), throttle, or error (the NVML return code of every call). With -1 a
        value follows from what the processes on the GPU do. Setting `xid` also raises an Xid event
        with that number. Raises KeyError if there is no such setting.
        """
        for key in values:
            if key not in _SETTINGS:
                raise KeyError(
                    f"A simulated GPU has no setting {key!r}; it has {', '.join(_SETTINGS)}."
                )
        current = self.settings(index)
        if "xid" in values:
            values |= {
                "xid_seq": int(current.get("xid_seq", "0")) + 1,
                "xid_ms": int(time.time() * 1000),
            }
        self._write(index, {**current, **values})

    def hang(self, index: int, ms: int) -> None:
        """Make every driver call on the GPU with the number `index` take `ms` milliseconds longer
        from now on; 0 ends that.
        """
        self.set(index, hang_ms=ms)

    def holders(self) -> list[Holder]:
        """Return the live processes that hold memory of the GPUs now, one Holder for each process
        and GPU.
        """
        found = []
        for entry in sorted((self.root / "holders").iterdir()):
            gpu, pid, ticks, size = (int(part) for part in entry.name.split("-"))
            if alive(pid, ticks):
                found.append(Holder(gpu, pid, ticks, size, entry))
        return found

    def used(self, index: int) -> int:
        """Return how many bytes of the GPU `index` live processes hold."""
        return sum(holder.bytes for holder in self.holders() if holder.gpu == index)

    def _write(self, index: int, values: Mapping[str, object]) -> None:
        self._replace(
            self.root / "devices" / str(index),
            "".join(f"{key} {value}\n" for key, value in values.items()),
        )

    def _replace(self, path: Path, text: str) -> None:
        # not inside devices/: the driver counts what lies there
        partial = self.root / f".{path.name}.tmp"
        partial.write_text(text)
        os.replace(partial, path)


def alive(pid: int, start_ticks: int) -> bool:
    """Return True if the process `pid` that was started at `start_ticks`, in clock ticks since
    boot, is still alive. A zombie is not, nor is a later process with the same id.
    """
    try:
        raw = Path(f"/proc/{pid}/stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return False
    fields = raw[raw.rindex(b")") + 2 :].split()
    return int(fields[19]) == start_ticks and fields[0] not in (b"Z", b"X")


def _read(path: Path) -> dict[str, str]:
    return dict(line.split(" ", 1) for line in path.read_text().splitlines() if " " in line)
