"""Which of the kernel's words become lines of a run."""

from __future__ import annotations

import dataclasses
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bs4_agent.observe import kernel_feed
from bs4_agent.observe.kernel_feed import FIRST_PIDNS, KernelFeed
from bs4_agent.telemetry.kernel import KernelLog
from bs4_common.failures.compiled import Library
from bs4_common.failures.engine import Engine
from bs4_console.failures.playbooks import compile_all
from tests.agent.facts import facts, healthy, member, spec

_KILL = "Memory cgroup out of memory: Killed process {pid} (python) total-vm:1kB, anon-rss:1kB"


class Runs:
    """Two runs with processes of their own, and one that ended a minute ago."""

    def __init__(self) -> None:
        self.pids = {"demo": 10, "other": 20, "old": 30}
        self.membership = self
        self.ended = SimpleNamespace(t=time.time() - 60)

    def all(self) -> list[Any]:
        def run(name: str, end: Any = None) -> Any:
            return SimpleNamespace(
                name=name, spec=spec("prime-rl"), attempt=SimpleNamespace(number=1, end=end)
            )

        return [run("demo"), run("other"), run("old", self.ended)]

    def members(self, run: str, attempt: int) -> list[Any]:
        return [member(self.pids[run], "rank")]


class Kernel:
    """A kernel log that somebody writes, and what the feed makes of it."""

    def __init__(self, dev: Path) -> None:
        os.mkfifo(dev / "kmsg")
        self.log = KernelLog(dev)
        self._pipe = os.open(dev / "kmsg", os.O_WRONLY)
        self.fed: list[tuple[str, str]] = []
        self.kills: int | None = 0
        self.gpus = dev / "gpus"
        self.gpus.mkdir()
        runs = Runs()
        self.pids = runs.pids
        self.feed = KernelFeed(self.log, runs, self._line, gpus=self.gpus, kills=lambda: self.kills)  # type: ignore[arg-type]

    def _line(
        self, run: str, attempt: int, trainer: str, source: str, line: Any, place: Any
    ) -> None:
        assert (attempt, trainer, source, place["source"]) == (1, "prime-rl", "kernel", "kernel")
        self.fed.append((run, line.text))

    def says(self, text: str) -> list[str]:
        """The runs of which this became a line."""
        self.fed.clear()
        os.write(self._pipe, f"4,811,123456789,-;{text}\n".encode())
        self.feed.poll()
        return [run for run, line in self.fed if line == text]

    def close(self) -> None:
        os.close(self._pipe)
        self.log.close()


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Kernel]:
    monkeypatch.setattr(kernel_feed, "own_pidns", lambda: FIRST_PIDNS)
    made = Kernel(tmp_path)
    yield made
    made.close()


def test_a_line_about_nobody_is_everybodys_who_lives(kernel: Kernel) -> None:
    assert kernel.says("EXT4-fs (vda): Remounting filesystem read-only") == ["demo", "other"]


@pytest.mark.parametrize(
    "text",
    [
        _KILL,
        (
            "oom-kill:constraint=CONSTRAINT_MEMCG,oom_memcg=/a,task_memcg=/a,task=python,"
            "pid={pid},uid=0"
        ),
        "oom_reaper: reaped process {pid} (python), now anon-rss:0kB",
        "python[{pid}]: segfault at 0 ip 00007f sp 00007f error 4 in x.so",
        "INFO: task python:{pid} blocked for more than 120 seconds.",
        "NVRM: Xid (PCI:0000:1b:00): 31, pid={pid}, name=python",
    ],
)
def test_a_line_about_a_process_is_its_runs(kernel: Kernel, text: str) -> None:
    if "Xid" not in text:
        assert kernel.says(text.format(pid=20)) == ["other"]
        assert kernel.says(text.format(pid=99)) == []
        assert kernel.says(text.format(pid=30)) == []
    else:  # a fault of the GPU is everybody's who may use it
        assert kernel.says(text.format(pid=99)) == ["demo", "other"]


def test_a_line_about_a_thread_is_its_processes(kernel: Kernel) -> None:
    kernel.pids["demo"] = os.getpid()
    done = threading.Event()
    thread = threading.Thread(target=done.wait)
    thread.start()
    assert thread.native_id != os.getpid()
    try:
        assert kernel.says(
            f"INFO: task pt_nccl:{thread.native_id} blocked for more than 120 seconds."
        ) == ["demo"]
    finally:
        done.set()
        thread.join()


def test_whose_memory_ran_out_is_told_by_who_is_killed(kernel: Kernel) -> None:
    assert (
        kernel.says(
            "python invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0"
        )
        == []
    )


def test_a_strangers_gpu_is_not_ours(kernel: Kernel) -> None:
    (kernel.gpus / "0000:1b:00.0").mkdir()
    assert kernel.says("NVRM: Xid (PCI:0000:1b:00): 79, GPU has fallen off the bus.") == [
        "demo",
        "other",
    ]
    assert kernel.says("NVRM: The NVIDIA GPU 0000:1b:00.0 has fallen off the bus.") == [
        "demo",
        "other",
    ]
    assert kernel.says("NVRM: Xid (PCI:0000:9c:00): 79, GPU has fallen off the bus.") == []
    assert kernel.says(
        "nvidia-nvswitch3: SXid (PCI:0000:c3:00.0): 12028, Non-fatal, Link 32 egress"
    ) == ["demo", "other"]


def test_in_a_container_only_the_groups_own_count_tells_whose_kill_it_was(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel_feed, "own_pidns", lambda: 7)
    assert kernel.says(_KILL.format(pid=20)) == []
    kernel.kills = 1
    assert kernel.says(_KILL.format(pid=99)) == ["demo", "other"]
    assert kernel.says(_KILL.format(pid=99)) == []
    kernel.kills = None
    assert kernel.says(_KILL.format(pid=20)) == []
    assert kernel.feed.blind() != []


def test_what_is_hidden_is_said(tmp_path: Path) -> None:
    feed = KernelFeed(KernelLog(tmp_path), Runs(), lambda *_: None)  # type: ignore[arg-type]
    feed.poll()
    assert feed.blind() == [
        f"kernel log is hidden ({tmp_path / 'kmsg'}: No such file or directory)"
    ]


def test_a_kill_becomes_an_incident_with_the_kernels_line(kernel: Kernel) -> None:
    engine = Engine(list(Library(compile_all())))
    monitored = healthy("prime-rl")
    kernel.feed._feed = engine.feed  # type: ignore[assignment]
    kernel.says(_KILL.format(pid=10))
    now = facts(
        dataclasses.replace(
            monitored, members=[*monitored.members, member(10, "rank", alive=False)]
        )
    )
    opened = [t.finding for t in engine.evaluate(now) if t.event == "opened"]
    opened += [
        t.finding
        for t in engine.evaluate(dataclasses.replace(now, now_m=now.now_m + 60))
        if t.event == "opened"
    ]
    (found,) = [item for item in opened if item.failure == "host-oom-kill"]
    assert (found.run, found.evidence[0]["source"], found.evidence[0]["offset"]) == (
        "demo",
        "kernel",
        811,
    )


@pytest.mark.parametrize(
    ("xid", "failure"),
    [
        (79, "gpu-off-bus"),
        (48, "gpu-xid-ecc"),
        (119, "gpu-xid-gsp"),
        (74, "gpu-xid-nvlink"),
        (31, "gpu-xid-app"),
        (154, "gpu-recovery-action"),
        (94, "gpu-row-remap-pending"),
        (998, "gpu-xid-other"),
    ],
)
def test_where_the_kernel_log_is_hidden_the_drivers_events_say_the_same(
    tmp_path: Path, xid: int, failure: str
) -> None:
    """As in most containers: no /dev/kmsg, and Xids only from NVML, as the sampler hands them
    out.
    """
    engine = Engine(list(Library(compile_all())))
    runs: Any = Runs()

    def line(run: str, attempt: int, trainer: str, source: str, parsed: Any, place: Any) -> None:
        engine.feed(run, attempt, trainer, source, parsed, place)

    feed = KernelFeed(KernelLog(tmp_path), runs, line, gpus=tmp_path, kills=lambda: None)
    feed.driver_events([{"index": 3, "xid": xid, "t": time.time()}])
    feed.poll()
    found = [
        t.finding
        for t in engine.evaluate(facts(healthy("prime-rl")), complete=True)
        if t.finding.run == "demo"
    ]
    assert [item.failure for item in found] == [failure]
    assert "GPU 3, told by NVML" in found[0].evidence[0]["text"]


def test_the_drivers_events_of_nobodys_gpu_and_beside_a_kernel_log_say_nothing(
    tmp_path: Path, kernel: Kernel
) -> None:
    kernel.feed.driver_events([{"index": 0, "xid": 79, "t": time.time()}])
    kernel.feed.poll()
    assert kernel.fed == [], "the kernel log itself has it"
    fed: list[str] = []
    hidden = KernelFeed(
        KernelLog(tmp_path / "none"),
        Runs(),
        lambda *a: fed.append(a[0]),
        gpus=tmp_path,
        kills=lambda: None,
    )  # type: ignore[arg-type]
    hidden.driver_events([{"index": None, "xid": 79, "t": time.time()}])
    hidden.poll()
    assert fed == []
