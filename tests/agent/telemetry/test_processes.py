"""The process table against real processes."""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from bs4_agent.scope import Scope
from bs4_agent.telemetry import processes
from bs4_agent.telemetry.processes import ProcessTable, Snapshot
from bs4_common.identity import Identity
from tests.agent.telemetry.conftest import Child

#: Seconds of the unit in which the kernel counts CPU time.
TICK_S = 1 / os.sysconf("SC_CLK_TCK")

# A root with a child and a grandchild. The root is a subreaper when told so; all three end when the
# test closes the root's input.
TREE = """
import ctypes, os, sys
if "reap" in sys.argv: ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
told, tell = os.pipe()
child = os.fork()
if child == 0:
    grandchild = os.fork()
    if grandchild == 0:
        os.write(tell, str(os.getpid()).encode())
    while os.read(0, 1): pass
    os._exit(0)
grandchild = int(os.read(told, 100))
print(child, grandchild, flush=True)
while os.read(0, 1): pass
"""


def test_a_process_is_what_it_is(scope: Scope, spawn: Callable[..., Child]) -> None:
    before = time.time()
    child = spawn("import sys; print('up', flush=True); sys.stdin.read()", "--lr", "", "1e-6")
    proc = ProcessTable(scope).refresh()[child.pid]
    assert proc.identity == child.identity
    assert proc.ppid == os.getpid()
    assert proc.cmdline[-3:] == ("--lr", "", "1e-6")
    assert proc.uid == os.getuid()
    assert 1 << 20 < proc.rss < 1 << 30
    assert before - 2.0 < proc.started_t < time.time() + 2.0
    assert not proc.ended


def test_kernel_threads_are_no_processes_of_ours(scope: Scope) -> None:
    kernel = [
        int(entry.name)
        for entry in Path("/proc").iterdir()
        if entry.name.isdigit() and _stat(entry) and int(_stat(entry)[6]) & 0x00200000
    ]
    if not kernel:
        pytest.skip("no kernel threads are visible here (a container)")
    table = ProcessTable(scope)
    for _ in range(3):
        assert not set(kernel) & set(table.refresh())


def _stat(entry: Path) -> list[str]:
    try:
        return (entry / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def test_cpu_is_percent_of_one_core_since_the_last_look(
    scope: Scope, spawn: Callable[..., Child]
) -> None:
    busy = spawn("print('up', flush=True)\nwhile True: pass")
    idle = spawn("import sys; print('up', flush=True); sys.stdin.read()")
    table = ProcessTable(scope)

    def look() -> tuple[Snapshot, dict[int, tuple[Spent, Spent]]]:
        """A snapshot, and what each process had spent before it and after it."""
        before = {child.pid: _spent(child.pid) for child in (busy, idle)}
        snapshot = table.refresh()
        return snapshot, {pid: (earlier, _spent(pid)) for pid, earlier in before.items()}

    first, begin = look()
    assert first[busy.pid].cpu is None
    time.sleep(2.0)
    second, end = look()
    for child in (busy, idle):
        cpu = second[child.pid].cpu
        assert cpu is not None
        # The table has read its own numbers somewhere between ours, on a busy machine late.
        (a, b), (c, d) = begin[child.pid], end[child.pid]
        least = (c.seconds - b.seconds - TICK_S) / (d.at_m - a.at_m)
        most = (d.seconds - a.seconds + TICK_S) / (c.at_m - b.at_m)
        assert 100 * least - 0.1 <= cpu <= 100 * most + 0.1, "it is rounded to 0.1"
    assert second[busy.pid].cpu > second[idle.pid].cpu
    busy.kill()


def test_a_look_right_after_another_has_nothing_to_measure(
    scope: Scope, spawn: Callable[..., Child], monkeypatch: pytest.MonkeyPatch
) -> None:
    busy = spawn("print('up', flush=True)\nwhile True: pass")
    monkeypatch.setattr(processes, "_CPU_INTERVAL_S", 0.0)
    table = ProcessTable(scope)
    table.refresh()
    measured = table.refresh()[busy.pid].cpu
    assert measured is not None
    monkeypatch.setattr(processes, "_CPU_INTERVAL_S", 3600.0)
    assert table.refresh()[busy.pid].cpu == measured
    busy.kill()


class Spent(NamedTuple):
    """Seconds of CPU time that a process had spent at a moment of the monotonic clock."""

    at_m: float
    seconds: float


def _spent(pid: int) -> Spent:
    fields = _stat(Path(f"/proc/{pid}"))
    return Spent(time.monotonic(), (int(fields[11]) + int(fields[12])) * TICK_S)


def test_descendants(scope: Scope, spawn: Callable[..., Child]) -> None:
    root = spawn(TREE)
    child, grandchild = map(int, root.answer.split())
    snapshot = ProcessTable(scope).refresh()
    assert [proc.identity.pid for proc in snapshot.descendants(root.identity)] == [
        child,
        grandchild,
    ]


def test_another_process_with_the_same_pid_is_nobody(
    scope: Scope, spawn: Callable[..., Child]
) -> None:
    root = spawn(TREE)
    snapshot = ProcessTable(scope).refresh()
    earlier = dataclasses.replace(root.identity, start_ticks=root.identity.start_ticks - 500)
    assert snapshot.find(root.identity) is not None
    assert snapshot.find(earlier) is None
    assert snapshot.descendants(earlier) == []


def test_who_is_younger_than_its_child_is_not_its_parent(
    scope: Scope, spawn: Callable[..., Child]
) -> None:
    root = spawn(TREE)
    snapshot = ProcessTable(scope).refresh()
    reused = dataclasses.replace(root.identity, start_ticks=root.identity.start_ticks + 100_000)
    snapshot[root.pid] = snapshot[root.pid]._replace(identity=reused)
    assert snapshot.descendants(reused) == []


def test_a_pid_taken_by_another_process_counts_as_an_exit(
    scope: Scope, spawn: Callable[..., Child]
) -> None:
    child = spawn("import sys; print('up', flush=True); sys.stdin.read()")
    table = ProcessTable(scope)
    table.refresh()
    earlier = dataclasses.replace(child.identity, start_ticks=child.identity.start_ticks - 500)
    table._entries[child.pid].identity = earlier
    assert table.refresh()[child.pid].identity == child.identity
    assert earlier in table.exit_seen
    assert child.identity not in table.exit_seen


def test_exits_are_seen_zombies_included(
    scope: Scope, spawn: Callable[..., Child], until: Callable[..., None]
) -> None:
    source = "import sys; print('up', flush=True); sys.stdin.read()"
    reaped, zombie = spawn(source), spawn(source)
    table = ProcessTable(scope)
    name = table.refresh()[zombie.pid].cmdline
    reaped.kill()
    zombie.kill(reap=False)
    until(lambda: table.refresh()[zombie.pid].ended)
    snapshot = table.refresh()
    assert reaped.pid not in snapshot
    assert {reaped.identity, zombie.identity} <= table.exit_seen.keys()
    assert snapshot[zombie.pid].cmdline == name, "a zombie keeps the name it had"


@pytest.mark.parametrize(
    "young_s", [10.0, 0.0], ids=["in its first seconds", "long after its start"]
)
def test_a_title_that_is_set_late(
    scope: Scope, spawn: Callable[..., Child], monkeypatch: pytest.MonkeyPatch, young_s: float
) -> None:
    pytest.importorskip("setproctitle")
    monkeypatch.setattr(processes, "_YOUNG_S", young_s)
    child = spawn(
        "import sys, setproctitle; print('up', flush=True); sys.stdin.readline()\n"
        "setproctitle.setproctitle('VLLM::EngineCore'); print('titled', flush=True); "
        "sys.stdin.read()"
    )
    table = ProcessTable(scope)
    assert "VLLM" not in table.refresh()[child.pid].cmdline[0]
    assert child.say() == "titled"
    proc = table.refresh()[child.pid]
    assert proc.cmdline == ("VLLM::EngineCore",)
    assert proc.comm == "VLLM::EngineCor"


@pytest.mark.parametrize("name", ["a) R 1 (", "(((", "two words", "ümlaut"])
def test_a_command_name_may_be_anything(
    scope: Scope, spawn: Callable[..., Child], name: str
) -> None:
    child = spawn(
        "import sys; open('/proc/self/comm', 'w').write(sys.argv[1]); print('up', "
        "flush=True); sys.stdin.read()",
        name,
    )
    proc = ProcessTable(scope).refresh()[child.pid]
    assert proc.comm == name
    assert proc.ppid == os.getpid()


def test_with_a_root_only_its_subtree_exists(scope: Scope, spawn: Callable[..., Child]) -> None:
    root, outsider = spawn(TREE), spawn(TREE)
    family = {root.pid, *map(int, root.answer.split())}
    table = ProcessTable(dataclasses.replace(scope, root=root.identity))
    assert set(table.refresh()) == family
    outsider.kill()
    table.refresh()
    assert outsider.identity not in table.exit_seen


@pytest.mark.parametrize("how", ["reap", "orphan"])
def test_an_orphan_stays_in_its_scope(
    scope: Scope, spawn: Callable[..., Child], until: Callable[..., None], how: str
) -> None:
    """With a subreaper by descent; without one because it was seen inside while its parent
    lived.
    """
    root = spawn(TREE, how)
    child, grandchild = map(int, root.answer.split())
    table = ProcessTable(dataclasses.replace(scope, root=root.identity))
    table.refresh()
    identity = Identity.of(child)
    assert identity is not None
    assert identity.send(9)
    until(lambda: child not in table.refresh() or table.refresh()[child].ended)
    snapshot = table.refresh()
    assert grandchild in snapshot
    assert (snapshot[grandchild].ppid == root.pid) == (how == "reap")
    assert bool(
        [proc for proc in snapshot.descendants(root.identity) if proc.identity.pid == grandchild]
    ) == (how == "reap")


def test_a_scope_whose_root_is_another_process_now_is_empty(
    scope: Scope, spawn: Callable[..., Child]
) -> None:
    root = spawn(TREE)
    earlier = dataclasses.replace(root.identity, start_ticks=root.identity.start_ticks - 500)
    assert ProcessTable(dataclasses.replace(scope, root=earlier)).refresh() == {}
