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
    """A live process with memory on a simulated GPU. `pid` is its real process id, whatever NVML
    reports. `entry` is the file that stands for the memory it holds.
    """

    gpu: int
    pid: int
    start_ticks: int
    bytes: int
    entry: Path


class Board:
    """The simulated GPUs whose files lie in `root` (a pod's `gpu` directory). `dev` is the
    directory with their device nodes, which is `dev` beside `root` unless given.
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
        """Make `n` GPUs with `total_bytes` of memory each. NVML reports every process id as
        `report_pids` describes for `foreign_pids`, as happens inside a container.
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
        """Set how NVML names the processes that hold memory: by their real process id (None), by
        that id plus a number, or by a mapping from real to reported ids.
        """
        kept = _read(self.root / "driver")
        lines = [f"version {kept['version']}", f"init_error {kept['init_error']}"]
        if isinstance(foreign, int):
            lines.append(f"offset {foreign}")
        elif foreign is not None:
            lines += [f"map {local} {reported}" for local, reported in foreign.items()]
        self._replace(self.root / "driver", "\n".join(lines) + "\n")

    def fail_init(self, code: int) -> None:
        """Let the driver refuse to start with the NVML return code `code` (9 means not loaded); 0
        lets it start again.
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
        """Return the settings of the GPU `index` and their values, as text."""
        return _read(self.root / "devices" / str(index))

    def set(self, index: int, **values: int) -> None:
        """Change settings of the GPU `index`: util, temp, power, ecc, throttle, error (an NVML
        return code) and so on. -1 leaves a value to be derived from what the processes on the GPU
        do. Setting `xid` also raises that driver error event. Raises KeyError for a setting that
        does not exist.
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
        """Make every driver call on the GPU `index` take `ms` milliseconds longer; 0 ends that."""
        self.set(index, hang_ms=ms)

    def holders(self) -> list[Holder]:
        """Return the live processes that hold memory now, with how much."""
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
    """Return True if exactly the process with this id and start time (clock ticks since boot)
    lives. A zombie does not live.
    """
    try:
        raw = Path(f"/proc/{pid}/stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return False
    fields = raw[raw.rindex(b")") + 2 :].split()
    return int(fields[19]) == start_ticks and fields[0] not in (b"Z", b"X")


def _read(path: Path) -> dict[str, str]:
    return dict(line.split(" ", 1) for line in path.read_text().splitlines() if " " in line)
