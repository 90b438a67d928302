"""What a shim of ours has just started is not taken on as somebody else's run, even before its
processes are noted.
"""

from __future__ import annotations

from types import SimpleNamespace

from bs4_agent.runs import adopt
from bs4_agent.telemetry.processes import Proc, Snapshot
from tests.agent.facts import identity, spec


def proc(pid: int, ppid: int, *cmdline: str) -> Proc:
    return Proc(identity(pid), ppid, "S", cmdline[0], cmdline, 0, 0, None, 0.0)


def found(*procs: Proc, monkeypatch) -> list[int]:
    snapshot = Snapshot({p.identity.pid: p for p in procs})
    monkeypatch.setattr(adopt, "_cwd", lambda proc: spec().cwd)
    nobody = SimpleNamespace(knows=lambda identity: False, observe=lambda snapshot: None)
    runs = SimpleNamespace(
        scope=SimpleNamespace(uid=0),
        membership=nobody,
        all=list,
        trainer=lambda spec: SimpleNamespace(component=lambda *words: None),
    )
    candidates = adopt.candidates(
        runs, snapshot, recognise=lambda table, environment: [(30, spec())]
    )
    return [candidate.root.pid for candidate in candidates]


def test_a_launcher_below_a_shim_is_ours_already(monkeypatch) -> None:
    shell, launcher = proc(20, 1, "bash"), proc(30, 20, "uv", "run", "rl")
    shim = proc(
        20, 1, "python3", "-c", "from bs4_agent.shim import main; main()", "--attempt", "/x"
    )
    assert found(shell, launcher, monkeypatch=monkeypatch) == [30]
    reaper = proc(20, 1, "python3", "-IS", "/home/u/.bs4/agent/0123/bs4_agent/runs/reap.py", "/x")
    assert found(shim, launcher, monkeypatch=monkeypatch) == []
    assert found(reaper, launcher, monkeypatch=monkeypatch) == []
