"""Simulated GPUs, seen through the real pynvml: memory belongs to its holder, pids may be foreign,
the driver can hang and fail.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bs4_practice import faults, tree
from bs4_practice.gpus import library, recorder
from bs4_practice.gpus.board import Board
from bs4_practice.pod import PracticePod
from tests.practice.running import Run, Start, trained
from tests.support.processes import open_files

NEEDS_COMPILER = pytest.mark.skipif(
    not any(shutil.which(name) for name in ("cc", "gcc", "clang")),
    reason="no C compiler here: practice pods use the recorded source",
)

READ = """
import json, pynvml, sys
pynvml.nvmlInit()
answer = []
for index in range(pynvml.nvmlDeviceGetCount()):
    handle = pynvml.nvmlDeviceGetHandleByIndex(index)
    memory = pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2)
    running = pynvml.nvmlDeviceGetComputeRunningProcesses(handle)
    procs = [[proc.pid, proc.usedGpuMemory] for proc in running]
    answer.append({"name": pynvml.nvmlDeviceGetName(handle),
                   "uuid": pynvml.nvmlDeviceGetUUID(handle), "total": memory.total,
                   "used": memory.used, "procs": procs,
                   "util": pynvml.nvmlDeviceGetUtilizationRates(handle).gpu,
                   "power": pynvml.nvmlDeviceGetPowerUsage(handle) // 1000,
                   "temp": pynvml.nvmlDeviceGetTemperature(handle, 0),
                   "ecc": pynvml.nvmlDeviceGetTotalEccErrors(handle, 1, 0),
                   "clock": pynvml.nvmlDeviceGetClockInfo(handle, 1),
                   "throttle": pynvml.nvmlDeviceGetCurrentClocksEventReasons(handle)})
print(json.dumps({"driver": pynvml.nvmlSystemGetDriverVersion(), "devices": answer}))
"""


def nvml(root: Path, code: str = READ) -> Any:
    """What pynvml says in a process that finds the simulated driver first."""
    environment = {**os.environ, "LD_LIBRARY_PATH": str(root / "lib")}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def board(tmp_path: Path) -> Board:
    made = Board(tmp_path / "gpu")
    made.configure(n=2, total_bytes=80 << 30)
    library.build(tmp_path / "lib")
    return made


def devices(on: PracticePod) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = nvml(on.root)["devices"]
    return found


@NEEDS_COMPILER
async def test_memory_comes_and_goes_with_its_holder(start: Start) -> None:
    async with start("2026-01") as pod:
        assert [device["used"] for device in devices(pod)] == [0, 0]
        async with Run(pod):
            await trained(pod, 5)
            worker, rank = faults.find(pod, "worker")[0], faults.find(pod, "rank")[0]
            first, second = devices(pod)
            assert [pid for pid, _ in first["procs"]] == [worker.pid]
            assert [pid for pid, _ in second["procs"]] == [rank.pid]
            assert first["used"] == first["procs"][0][1] == int(first["total"] * 0.9)
            await faults.until(
                lambda: (rank_gpu := devices(pod)[1])["util"] > 50 and rank_gpu["power"] > 300,
                60,
                "a GPU that computes",
            )
            for pid, index in ((worker.pid, 0), (rank.pid, 1)):
                assert f"{pod.root}/dev/nvidia{index}" in open_files(pid)
            faults.pause(worker)
            assert devices(pod)[0]["used"] > 0
            faults.kill(worker)
            await faults.until(
                lambda: devices(pod)[0]["used"] == 0, 60, "the memory of a worker that is gone"
            )


@NEEDS_COMPILER
@pytest.mark.long
async def test_an_orphaned_engine_holds_its_memory_and_looks_idle(start: Start) -> None:
    async with start("2026-01") as pod:
        orphans = await faults.start_orphan_engine(pod, 1)
        await faults.until(lambda: devices(pod)[1]["util"] == 0, 60, "an idle GPU")
        assert devices(pod)[1]["used"] > 70 << 30
        for process in orphans:
            faults.kill(process)
        await faults.until(
            lambda: devices(pod)[1]["used"] == 0, 60, "the memory of those that are gone"
        )


@NEEDS_COMPILER
async def test_foreign_pids_may_name_an_innocent(start: Start) -> None:
    async with start("2026-01", foreign_pids=True) as pod:
        worker = next(
            process
            for process in await faults.start_orphan_engine(pod, 0)
            if faults.component(process) == "worker"
        )
        assert devices(pod)[0]["procs"][0][0] == worker.pid + 100_000
        innocent = await faults.start_decoy(pod, ["sleepy", "argument"])
        pod.gpus.report_pids({worker.pid: innocent.pid})
        assert devices(pod)[0]["procs"][0][0] == innocent.pid
        faults.kill(innocent)
        assert devices(pod)[0]["used"] > 0


@NEEDS_COMPILER
def test_settings_are_what_the_driver_says(board: Board, tmp_path: Path) -> None:
    board.set(1, util=37, temp=88, power=512, ecc=3, throttle=0x20, sm_clock=345)
    first, second = nvml(tmp_path)["devices"]
    assert (first["util"], first["power"]) == (0, 72)
    assert [second[key] for key in ("util", "temp", "power", "ecc", "throttle", "clock")] == [
        37,
        88,
        512,
        3,
        0x20,
        345,
    ]
    assert first["uuid"] != second["uuid"]
    with pytest.raises(KeyError, match="no setting 'utilisation'"):
        board.set(0, utilisation=1)


@NEEDS_COMPILER
def test_the_agent_reads_its_links(board: Board, tmp_path: Path) -> None:
    """A width that fell and links that are down come through pynvml as they are set, and in the
    recorded source too.
    """
    board.set(0, pcie_width=8, nvlinks=16, nvlink_errors=3, util=10)
    code = """
import json
from bs4_agent.telemetry.nvml import NvmlGpus
gpus = NvmlGpus()
device = gpus.sample()["devices"][0]
gpus.close()
print(json.dumps([device["error"], device["pcie"], device["nvlink"]]))
"""
    error, pcie, nvlink = nvml(tmp_path, code)
    assert error is None
    assert nvlink == {"active": 16, "links": 18, "errors": 3}
    assert (pcie["width"], pcie["width_max"], pcie["gen"]) == (8, 16, 5)
    assert pcie["rx"] > pcie["tx"] > 0
    recorded = recorder.snapshot(board)["devices"][0]
    assert recorded["nvlink"] == nvlink
    assert recorded["pcie"].keys() == pcie.keys()
    assert recorded["pcie"]["width"] == 8


@NEEDS_COMPILER
def test_errors_hangs_and_xids(board: Board, tmp_path: Path) -> None:
    board.set(0, error=15)
    board.hang(1, 300)
    code = """
import json, time, pynvml
pynvml.nvmlInit()
lost, slow = (pynvml.nvmlDeviceGetHandleByIndex(index) for index in (0, 1))
try:
    pynvml.nvmlDeviceGetTemperature(lost, 0)
except pynvml.NVMLError as error:
    kind = type(error).__name__
before = time.monotonic()
pynvml.nvmlDeviceGetName(slow)
print(json.dumps([kind, time.monotonic() - before]))
"""
    kind, seconds = nvml(tmp_path, code)
    assert kind == "NVMLError_GpuIsLost"
    assert 0.29 < seconds < 60, "milliseconds, not seconds"


@NEEDS_COMPILER
def test_an_xid_is_an_event(board: Board, tmp_path: Path) -> None:
    code = """
import json, pynvml, sys
pynvml.nvmlInit()
handle = pynvml.nvmlDeviceGetHandleByIndex(1)
events = pynvml.nvmlEventSetCreate()
pynvml.nvmlDeviceRegisterEvents(handle, pynvml.nvmlEventTypeXidCriticalError, events)
print("ready", flush=True)
event = pynvml.nvmlEventSetWait_v2(events, 10000)
print(json.dumps([event.eventType, event.eventData, pynvml.nvmlDeviceGetIndex(event.device)]))
"""
    environment = {**os.environ, "LD_LIBRARY_PATH": str(tmp_path / "lib")}
    with subprocess.Popen(
        [sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        board.set(1, xid=79)
        assert json.loads(process.stdout.readline()) == [8, 79, 1]


@NEEDS_COMPILER
def test_no_driver_is_an_error_of_its_own(board: Board, tmp_path: Path) -> None:
    board.fail_init(9)
    code = (
        "import pynvml, json\ntry:\n pynvml.nvmlInit()\nexcept pynvml.NVMLError as error:\n "
        "print(json.dumps(type(error).__name__))"
    )
    assert nvml(tmp_path, code) == "NVMLError_DriverNotLoaded"


@NEEDS_COMPILER
@pytest.mark.long
async def test_the_recorded_source_says_the_same(start: Start) -> None:
    """What stands in where there is no compiler is made of the same facts."""
    async with start("2026-01", foreign_pids=7000) as pod:
        await faults.start_orphan_engine(pod, 0)
        await faults.until(lambda: devices(pod)[0]["util"] == 0, 60, "an idle GPU")
        recorded, real = recorder.snapshot(pod.gpus), nvml(pod.root)
        assert recorded["driver"] == real["driver"]
        for ours, theirs in zip(recorded["devices"], real["devices"], strict=True):
            assert [
                ours["mem_used"],
                ours["mem_total"],
                ours["util"],
                ours["power"],
                ours["name"],
                ours["uuid"],
            ] == [theirs[key] for key in ("used", "total", "util", "power", "name", "uuid")]
            assert [[proc["pid"], proc["mem"]] for proc in ours["procs"]] == theirs["procs"]


async def test_without_a_compiler_the_pod_records(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(library, "build", lambda directory: None)
    async with start("2026-01") as pod:
        path = Path(pod.environment["BS4_GPU_SOURCE"])
        assert "LD_LIBRARY_PATH" not in pod.environment
        await faults.until(path.exists, 60, "the recording")
        pod.gpus.set(1, xid=63)
        await faults.until(lambda: json.loads(path.read_text())["xids"] != [], 60, "the xid")
        assert json.loads(path.read_text())["xids"][0]["xid"] == 63


@NEEDS_COMPILER
def test_only_the_very_process_that_lives_counts(board: Board, tmp_path: Path) -> None:
    """Not a pid that is gone, not another process under a reused pid, not a zombie."""
    with subprocess.Popen(["true"]) as zombie:
        os.waitid(os.P_PID, zombie.pid, os.WEXITED | os.WNOWAIT)
        for pid, ticks in (
            (999_999, 1),
            (os.getpid(), 1),
            (zombie.pid, start_ticks(zombie.pid)),
            (os.getpid(), start_ticks(os.getpid())),
        ):
            (board.root / "holders" / f"0-{pid}-{ticks}-1024").touch()
        assert board.used(0) == 1024
        assert nvml(tmp_path)["devices"][0]["procs"] == [[os.getpid(), 1024]]


def start_ticks(pid: int) -> int:
    process = tree.look(pid)
    assert process is not None
    return process.start_ticks
