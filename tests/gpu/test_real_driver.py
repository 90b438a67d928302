"""What only a real NVIDIA driver can tell: `make test-gpu`. Elsewhere every test here is skipped
and says so.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bs4_agent.scope import Scope
from bs4_agent.telemetry.gpus import open_gpus
from bs4_agent.telemetry.ownership import attribute, nvml_pids
from bs4_agent.telemetry.processes import ProcessTable
from bs4_common.identity import Identity

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        shutil.which("nvidia-smi") is None,
        reason="no NVIDIA driver on this machine: the GPU tests were not run",
    ),
]

GIB = 1 << 30
HELD = 2 * GIB

#: Takes memory through the driver's own API, so that no CUDA toolkit or torch is needed, and then
#: waits.
HOLDER = f"""
import ctypes, signal
cuda = ctypes.CDLL("libcuda.so.1")
context, pointer = ctypes.c_void_p(), ctypes.c_uint64()
assert cuda.cuInit(0) == 0
assert cuda.cuCtxCreate_v2(ctypes.byref(context), 0, 0) == 0
assert cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t({HELD})) == 0
print("held", flush=True)
signal.pause()
"""


def smi(query: str, fields: str) -> list[list[str]]:
    done = subprocess.run(
        ["nvidia-smi", f"--query-{query}={fields}", "--format=csv,noheader,nounits"],
        capture_output=True,
        text=True,
        check=True,
    )
    return [
        [cell.strip() for cell in line.split(",")]
        for line in done.stdout.splitlines()
        if line.strip()
    ]


@pytest.fixture
def gpus():
    source = open_gpus(Scope.from_environment())
    yield source
    source.close()


@pytest.fixture
def holder():
    process = subprocess.Popen([sys.executable, "-c", HOLDER], stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"held\n"
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def test_the_telemetry_agrees_with_nvidia_smi(gpus):
    sample = gpus.sample()
    assert sample["state"] == "ok"
    rows = smi("gpu", "index,uuid,name,memory.total,temperature.gpu")
    assert len(rows) == len(sample["devices"])
    for row, device in zip(rows, sample["devices"], strict=True):
        assert [str(device["index"]), device["uuid"], device["name"]] == row[:3]
        assert abs(device["mem_total"] / (1 << 20) - float(row[3])) < 1024
        assert abs(device["temp"] - float(row[4])) <= 5


def attributed(gpus, table):
    sample = gpus.sample()
    snapshot = table.refresh()
    return attribute(
        sample, snapshot, table.holders(Path("/dev"), nvml_pids(sample)), lambda identity: None
    )


def test_memory_of_a_real_cuda_process_is_seen_and_freed_with_it(gpus, holder):
    """What stale-gpu-process rests on: the holder is visible by its open device, and ending it by
    identity frees the memory.
    """
    table = ProcessTable(Scope.from_environment())
    seen = attributed(gpus, table)
    procs = [
        proc for device in seen["devices"] for proc in device["procs"] if proc["pid"] == holder.pid
    ]
    assert procs, (
        "the holder has the device open and must be listed, by NVML's pid or by its open device"
    )
    assert procs[0]["visible"] is True
    if seen["pids"] == "local":
        assert procs[0]["mem"] >= HELD
        assert str(holder.pid) in {row[0] for row in smi("compute-apps", "pid")}
    before = sum(device["mem_used"] for device in seen["devices"])
    identity = Identity.of(holder.pid)
    assert identity is not None
    assert identity.send(signal.SIGKILL)
    deadline = time.monotonic() + 30
    while sum(device["mem_used"] for device in gpus.sample()["devices"]) > before - HELD // 2:
        assert time.monotonic() < deadline, "the driver kept the memory of a dead process"
        holder.poll()
