"""Host facts against the machine itself, control groups included."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from bs4_agent.telemetry import host as host_module
from bs4_agent.telemetry.host import HostSampler, one_per_device
from bs4_agent.telemetry.memory import MemoryMeter
from bs4_common.files import disk_usage

MIB = 1 << 20


@pytest.fixture
def host(tmp_path: Path) -> Iterator[HostSampler]:
    sampler = HostSampler(lambda: [tmp_path / "outputs", tmp_path])
    yield sampler
    sampler.close()


def test_the_first_sample_has_no_rates_and_the_second_has(host: HostSampler) -> None:
    assert host.wait_first(30)
    first = host.sample()
    assert (first["cpu"], first["net"]) == (None, {"rx": None, "tx": None})
    assert first["cores"] == psutil.cpu_count()
    assert 0 < first["mem_used"] < first["mem_total"] <= psutil.virtual_memory().total
    assert first["shm_total"] == shutil.disk_usage("/dev/shm").total
    stop = threading.Event()
    threading.Timer(0.5, stop.set).start()
    while not stop.is_set():
        pass
    second = host.sample()
    # One thread of ours was busy; others may be too.
    assert 80 / first["cores"] < second["cpu"] <= 100
    assert second["net"]["rx"] >= 0


def test_loopback_is_no_network(host: HostSampler) -> None:
    host.sample()
    start = time.monotonic()
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver,
    ):
        receiver.bind(("127.0.0.1", 0))
        for _ in range(2000):
            sender.sendto(bytes(8000), receiver.getsockname())
    sent = 16_000_000 / (time.monotonic() - start)
    rate = host.sample()["net"]["tx"]
    assert rate is not None
    assert rate < sent / 4


def test_disks_are_counted_once_a_filesystem(tmp_path: Path, host: HostSampler) -> None:
    missing = tmp_path / "not" / "yet" / "there"
    assert one_per_device([missing, tmp_path, Path("/dev/shm/x"), Path("/dev/shm")]) == [
        missing,
        Path("/dev/shm/x"),
    ]
    assert host.wait_first(30)
    (disk,) = host.sample()["disks"]
    truth = shutil.disk_usage(tmp_path)
    assert disk["path"] == str(tmp_path / "outputs")
    assert disk["total"] == truth.total
    assert disk["free"] == pytest.approx(truth.free, abs=512 * MIB)
    assert disk["read_only"] is False


def test_a_read_only_filesystem_is_told(tmp_path: Path) -> None:
    if os.getuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("needs root and unshare to mount a filesystem of its own")
    program = (
        "import json; from bs4_agent.telemetry.host import *; "
        f"print(json.dumps(disk_usage(Path({str(tmp_path)!r}))))"
    )
    script = 'mount -t tmpfs -o ro,size=5m none "$1" && exec "$2" -c "$3"'
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", script, "sh", tmp_path, sys.executable, program],
        capture_output=True,
        timeout=20,
    )
    if done.returncode:
        pytest.skip(f"no mount here: {done.stderr.decode().strip()}")
    assert json.loads(done.stdout) == {
        "path": str(tmp_path),
        "used": 0,
        "total": 5 * MIB,
        "free": 5 * MIB,
        "read_only": True,
    }


def test_a_disk_that_does_not_answer_is_unknown_and_blocks_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, until: Callable[..., None]
) -> None:
    """statvfs of a dead network volume cannot be had in a test, so the look at it is made to
    hang.
    """
    hang = threading.Event()
    real = host_module.disk_usage
    looks: list[Path] = []

    def look(path: Path) -> dict[str, object]:
        if path == tmp_path:
            looks.append(path)
            if len(looks) > 1:
                hang.wait(30)
        return real(path)

    monkeypatch.setattr(host_module, "disk_usage", look)
    monkeypatch.setattr(host_module, "_DISKS_S", 0.01)
    monkeypatch.setattr(host_module, "_DISKS_STALE_S", 0.1)
    host = HostSampler(lambda: [tmp_path])
    until(
        lambda: (
            host.sample()["disks"]
            == [
                {
                    "path": str(tmp_path),
                    "used": None,
                    "total": None,
                    "free": None,
                    "read_only": None,
                }
            ]
        )
    )
    start = time.monotonic()
    host.sample()
    assert time.monotonic() - start < 20, "the look itself hangs for 30 s"
    hang.set()
    until(lambda: host.sample()["disks"][0]["total"])
    host.close()


def test_a_disk_that_may_not_be_looked_at_is_unknown(tmp_path: Path) -> None:
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    assert disk_usage(loop)["total"] is None
    assert one_per_device([loop]) == [loop]


@pytest.mark.parametrize(
    ("version", "membership", "files"),
    [
        (
            1,
            "4:memory:/job/task\n0::/\n",
            ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
        ),
        (2, "0::/job/task\n", ("memory.max", "memory.current", "inactive_file")),
    ],
)
def test_the_narrowest_control_group_above_us_counts(
    tmp_path: Path, version: int, membership: str, files: tuple[str, str, str]
) -> None:
    mount = tmp_path / "cgroup"
    base = mount / "memory" if version == 1 else mount
    unlimited = "9223372036854771712" if version == 1 else "max"
    limit, usage, inactive = files
    for place, text in (
        (base, unlimited),
        (base / "job", str(64 * MIB)),
        (base / "job/task", unlimited),
    ):
        place.mkdir(parents=True)
        (place / limit).write_text(text + "\n")
        (place / usage).write_text(f"{40 * MIB}\n")
        (place / "memory.stat").write_text(f"cache 1\n{inactive} {10 * MIB}\n")
    (tmp_path / "own").write_text(membership)
    meter = MemoryMeter(mount, tmp_path / "own")
    assert meter.used_and_total() == (30 * MIB, 64 * MIB)
    (base / "job" / usage).unlink()
    assert meter.used_and_total()[1] == psutil.virtual_memory().total, (
        "a group that is gone says nothing"
    )


def test_the_path_of_the_host_inside_a_container(tmp_path: Path) -> None:
    """/proc/self/cgroup may name a path that exists only outside; the mount's root is then our own
    group.
    """
    mount = tmp_path / "cgroup" / "memory"
    mount.mkdir(parents=True)
    (mount / "memory.limit_in_bytes").write_text(f"{64 * MIB}\n")
    (mount / "memory.usage_in_bytes").write_text(f"{8 * MIB}\n")
    (tmp_path / "own").write_text("4:memory:/docker/0123abcd\n")
    assert MemoryMeter(tmp_path / "cgroup", tmp_path / "own").used_and_total() == (
        8 * MIB,
        64 * MIB,
    )


def test_without_control_groups_it_is_the_machine(tmp_path: Path) -> None:
    before = psutil.virtual_memory()
    used, total = MemoryMeter(tmp_path, tmp_path / "none").used_and_total()
    after = psutil.virtual_memory()
    assert total == before.total
    # What else runs here takes and gives back memory between the looks.
    looks = [machine.total - machine.available for machine in (before, after)]
    assert min(looks) - 256 * MIB < used < max(looks) + 256 * MIB


@pytest.fixture
def memory_group() -> Iterator[Path]:
    """A real control group of 64 MiB."""
    own = next(
        (
            line.split(":", 2)[2]
            for line in Path("/proc/self/cgroup").read_text().splitlines()
            if ":memory:" in line
        ),
        None,
    )
    group = Path("/sys/fs/cgroup/memory") / f"bs4-test-{os.getpid()}"
    if own is None or os.getuid() != 0:
        pytest.skip("needs root and the memory controller of cgroup v1")
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"no control group can be made here: {error}")
    (group / "memory.limit_in_bytes").write_text(str(64 * MIB))
    yield group
    deadline = time.monotonic() + 5
    while (group / "cgroup.procs").read_text() and time.monotonic() < deadline:
        time.sleep(0.01)
    group.rmdir()


def test_a_real_control_group(memory_group: Path) -> None:
    program = (
        "import json, sys; open(sys.argv[1] + '/cgroup.procs', 'w').write('0')\n"
        "from bs4_agent.telemetry.memory import MemoryMeter\n"
        "before = MemoryMeter().used_and_total(); ballast = bytearray(20 << 20)\n"
        "print(json.dumps([before, MemoryMeter().used_and_total()]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, memory_group], capture_output=True, check=True, timeout=20
    )
    before, after = json.loads(done.stdout)
    assert before[1] == after[1] == 64 * MIB
    assert 19 * MIB < after[0] - before[0] < 24 * MIB


def test_a_real_oom_kill_is_read_from_the_kernel_log(memory_group: Path) -> None:
    from bs4_agent.telemetry.kernel import KernelLog

    log = KernelLog(Path("/dev"))
    if log.state == "hidden":
        pytest.skip(f"the kernel log may not be read here: {log.detail}")
    program = (
        "import sys; open(sys.argv[1] + '/cgroup.procs', 'w').write('0'); print('in', "
        "flush=True); bytearray(500 << 20)"
    )
    victim = subprocess.Popen([sys.executable, "-c", program, memory_group], stdout=subprocess.PIPE)
    assert victim.wait(20) == -9
    assert victim.stdout is not None
    victim.stdout.close()
    # By name, not by pid: in a container the kernel's log has the host's numbers.
    kills = [
        line
        for line in log.read()
        if b"ut of memory: Killed process" in line and b"(python" in line
    ]
    log.close()
    assert kills
