"""Builds fake_nvml.c and holds the file it answers from: a test writes a field, and the library
sees it at once.
"""

from __future__ import annotations

import ctypes
import mmap
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

GIB = 1 << 30
_SOURCE = Path(__file__).with_name("fake_nvml.c")


class Process(ctypes.Structure):
    _fields_ = [
        ("pid", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32),
        ("memory", ctypes.c_uint64),
    ]


class Gpu(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char * 64),
        ("uuid", ctypes.c_char * 64),
        *[(name, ctypes.c_uint64) for name in ("total", "used", "reserved", "throttle", "ecc")],
        *[
            (name, ctypes.c_uint32)
            for name in (
                "util",
                "mem_util",
                "temp",
                "power",
                "power_limit",
                "sm_clock",
                "mem_clock",
            )
        ],
        *[
            (name, ctypes.c_uint32)
            for name in ("minor", "result", "hang", "xid", "xid_count", "events")
        ],
        *[(name, ctypes.c_uint32) for name in ("power_result", "process_count", "handle_result")],
        *[
            (name, ctypes.c_uint32)
            for name in ("pcie_width", "pcie_result", "links", "links_up", "link_errors")
        ],
        ("processes", Process * 8),
    ]

    def hold(self, processes: Sequence[tuple[int, int]]) -> None:
        """(pid, bytes) of what the driver lists on this GPU."""
        for place, (pid, memory) in zip(self.processes, processes, strict=False):
            place.pid, place.memory = pid, memory
        self.process_count = len(processes)
        self.used = sum(memory for _, memory in processes) + GIB

    def fail(self, xid: int) -> None:
        self.xid = xid
        self.xid_count += 1


class State(ctypes.Structure):
    _fields_ = [
        ("driver", ctypes.c_char * 64),
        *[(name, ctypes.c_uint32) for name in ("count", "init_result", "driver_result", "calls")],
        ("gpus", Gpu * 16),
    ]


def compiler() -> str | None:
    return shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")


def build(directory: Path, *flags: str) -> Path:
    """The library, named so that pynvml finds it through LD_LIBRARY_PATH."""
    found = compiler()
    assert found is not None
    directory.mkdir(parents=True, exist_ok=True)
    library = directory / "libnvidia-ml.so.1"
    subprocess.run(
        [found, "-shared", "-fPIC", "-O1", "-Wall", "-Werror", *flags, "-o", library, _SOURCE],
        check=True,
        timeout=60,
    )
    return library


def state(path: Path, count: int) -> State:
    """`count` healthy H100s in the file `path`."""
    path.write_bytes(bytes(ctypes.sizeof(State)))
    with path.open("r+b") as handle:
        mapped = State.from_buffer(mmap.mmap(handle.fileno(), ctypes.sizeof(State)))
    mapped.driver, mapped.count = b"580.65.06", count
    for index, gpu in enumerate(mapped.gpus[:count]):
        gpu.name, gpu.uuid = b"NVIDIA H100 80GB HBM3", f"GPU-{index:08x}".encode()
        gpu.total, gpu.used, gpu.reserved = 80 * GIB, GIB, GIB // 2
        gpu.util, gpu.mem_util, gpu.temp, gpu.power, gpu.power_limit = (
            90 + index,
            30,
            55 + index,
            400_500,
            700_000,
        )
        gpu.sm_clock, gpu.mem_clock, gpu.minor, gpu.events = 1980, 2619, index, 8
        gpu.pcie_width, gpu.links, gpu.links_up = 16, 18, 18
    return mapped
