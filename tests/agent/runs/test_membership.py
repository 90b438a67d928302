"""Membership by descent: what counts, what is remembered, and what a reused pid cannot inherit."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from bs4_agent.launch.start import launch
from bs4_agent.runs.membership import AttemptMembers, Membership
from bs4_agent.scope import Scope
from bs4_agent.telemetry.processes import Proc, ProcessTable, Snapshot
from bs4_common.identity import Identity, stat_fields
from bs4_common.trainers.launcher import component
from tests.agent.runs.practice import Pod, components, identity, kill, read, until

DAEMON = (
    f"{sys.executable} -c 'import os, time; os.fork() and os._exit(0); os.setsid(); os.fork() "
    "and os._exit(0); time.sleep(60)' engine"
)


def test_a_daemon_that_left_session_group_and_parent_is_still_ours(pod: Pod) -> None:
    pod.trainer.program = f"{DAEMON}; exec sleep 60"
    runs = pod.runs()
    launch(runs, pod.spec(), key="k1")
    engine = components(runs, "engine")["engine"]
    assert runs.membership.owner_of(engine) == ("alpha", "engine")
    (member,) = [one for one in runs.members("alpha") if one.identity == engine]
    assert (member.proof, member.alive, member.attempt, member.component) == (
        "descent",
        True,
        1,
        "engine",
    )


def test_descent_stays_provable_after_the_shim_and_the_agent_have_died(pod: Pod) -> None:
    """The shim's own record bridges the time without an agent: the daemon is born when nobody but
    the shim is there.
    """
    pod.trainer.program = f"sleep 0.3; {DAEMON}; exec sleep 60"
    launch(pod.runs(), pod.spec(), key="k1")
    engine = until(lambda: _daemon(pod.attempt()))
    for who in ("shim", "launcher"):
        kill(identity(pod.attempt(), who))
    until(lambda: not identity(pod.attempt(), "launcher").alive())
    runs = pod.runs()
    assert engine in {member.identity for member in runs.members("alpha") if member.alive}
    until(lambda: [runs.poll(), runs.get("alpha").attempt.end][1])
    assert runs.membership.dead_run_holder(engine) == ("alpha", "engine")
    assert pod.runs().membership.dead_run_holder(engine) == ("alpha", "engine")


def test_children_of_a_member_are_members_after_the_shim_has_died(pod: Pod) -> None:
    pod.trainer.program = "while [ ! -e go ]; do sleep 0.05; done; sh -c 'sleep 60; :' engine"
    runs = pod.runs()
    launch(runs, pod.spec(), key="k1")
    runs.poll()
    kill(identity(pod.attempt(), "shim"))
    until(lambda: not identity(pod.attempt(), "shim").alive())
    (pod.root / "work/go").touch()
    assert components(runs, "engine")


def test_another_process_with_a_members_pid_is_a_stranger(tmp_path: Path) -> None:
    """A remembered identity is compared with its start ticks, at the load as in the snapshot."""
    stranger = subprocess.Popen(["sleep", "60"])
    try:
        now = Identity.of(stranger.pid)
        assert now is not None
        before = replace(now, start_ticks=now.start_ticks - 1)
        entries = [
            {
                "identity": before.as_dict(),
                "comm": "sleep",
                "cmdline": ["sleep", "60"],
                "component": "engine",
            }
        ]
        (tmp_path / "members.json").write_text(json.dumps({"members": entries}))
        members = AttemptMembers(tmp_path, 1, before, lambda cmdline, comm: "engine", adopted=False)
        assert [(m.identity, m.alive) for m in members.members()] == [(before, False)]
        members.observe(ProcessTable(Scope.from_environment()).snapshot())
        assert [(m.identity, m.alive) for m in members.members()] == [(before, False)]
    finally:
        stranger.kill()
        stranger.wait()


def test_the_agent_itself_is_never_a_member(tmp_path: Path) -> None:
    """Even when its own ancestor is taken for a run's root."""
    parent, me = Identity.of(os.getppid()), Identity.of(os.getpid())
    child = subprocess.Popen(["sleep", "60"])
    try:
        membership = Membership()
        membership.track(
            "alpha", AttemptMembers(tmp_path, 1, parent, lambda cmdline, comm: None, adopted=True)
        )
        membership.observe(ProcessTable(Scope.from_environment()).snapshot(max_age=0))
        identities = {member.identity for member in membership.members("alpha")}
        assert me not in identities
        assert Identity.of(child.pid) in identities, "a child of ours has that root above it too"
    finally:
        child.kill()
        child.wait()


def test_members_are_written_once_a_second_at_most(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [100.0]
    monkeypatch.setattr("bs4_agent.runs.membership.time.monotonic", lambda: clock[0])
    root = Identity.of(os.getpid())
    assert root is not None

    def look(*titles: str) -> int:
        """A snapshot in which the root has children with these titles; the inode of members.json
        after it.
        """
        snapshot = Snapshot({root.pid: Proc(root, 1, "S", "root", ("root",), 0, 0, None, 0.0)})
        for number, title in enumerate(titles):
            child = replace(root, pid=10_000_000 + number)
            snapshot[child.pid] = Proc(child, root.pid, "S", title, (title,), 0, 0, None, 0.0)
        members.observe(snapshot)
        return (tmp_path / "members.json").stat().st_ino

    members = AttemptMembers(tmp_path, 1, root, lambda cmdline, comm: None, adopted=False)
    first = look("engine")
    clock[0] += 0.9
    assert look("engine", "trainer") == first, "too early"
    clock[0] += 0.2
    second = look("engine", "trainer")
    assert second != first
    clock[0] += 2
    assert look("engine", "trainer") == second, "nothing changed"
    assert look("engine") != second
    saved = {
        entry["comm"]: entry["alive"]
        for entry in (read(tmp_path / "members.json") or {})["members"]
    }
    assert saved == {"engine": True, "trainer": False}


def test_an_ended_engine_is_remembered_whatever_ended_after_it(tmp_path: Path) -> None:
    """A program for each rollout is a thousand ended processes within minutes."""
    root = Identity.of(os.getpid())
    assert root is not None
    members = AttemptMembers(tmp_path, 1, root, _engine_only, adopted=False)

    def look(pid: int, comm: str) -> None:
        snapshot = Snapshot({root.pid: Proc(root, 1, "S", "root", ("root",), 0, 0, None, 0.0)})
        child = replace(root, pid=pid)
        snapshot[pid] = Proc(child, root.pid, "S", comm, (comm,), 0, 0, None, 0.0)
        members.observe(snapshot)

    look(10_000_000, "engine")
    for number in range(1, 1001):
        look(10_000_000 + number, "program")
    ended = [one for one in members.members() if not one.alive]
    assert [one.component for one in ended].count("engine") == 1
    assert len(ended) == 256
    assert ended[-1].identity.pid == 10_000_999, "of the nameless, the newest are kept"
    members.save(at_once=True)
    recalled = AttemptMembers(tmp_path, 1, root, _engine_only, adopted=False)
    assert [one.component for one in recalled.members()].count("engine") == 1


def test_what_an_environment_server_spawns_is_part_of_it(tmp_path: Path) -> None:
    """The worker of the real one has no title; a resource tracker is no part of the trainer."""
    root = Identity.of(os.getpid())
    assert root is not None
    spawn = ("python3", "-c", "from multiprocessing.spawn import spawn_main; spawn_main(tracker_fd")
    tracker = ("python3", "-c", "from multiprocessing.resource_tracker import main;main(17)")
    processes = [
        (1, root.pid, ("PRIME-RL::EnvServer",)),
        (2, 10_000_001, (*spawn, "--multiprocessing-fork")),
        (3, 10_000_001, tracker),
        (4, root.pid, ("PRIME-RL::Trainer",)),
        (5, 10_000_004, (*spawn, "--multiprocessing-fork")),
    ]
    snapshot = Snapshot({root.pid: Proc(root, 1, "S", "root", ("root",), 0, 0, None, 0.0)})
    for number, parent, words in processes:
        child = replace(root, pid=10_000_000 + number)
        snapshot[child.pid] = Proc(child, parent, "S", words[0][:15], words, 0, 0, None, 0.0)
    members = AttemptMembers(tmp_path, 1, root, component, adopted=False)
    members.observe(snapshot)
    assert {one.identity.pid % 10: one.component for one in members.members()} == {
        1: "env-server",
        2: "env-server",
        3: None,
        4: "rank",
        5: None,
    }


def _engine_only(cmdline: Sequence[str], comm: str) -> str | None:
    return "engine" if comm == "engine" else None


def _daemon(attempt: Path) -> Identity | None:
    """The daemon itself, in the shim's record: its two forefathers have ended and the shim is its
    parent. The second of them, whose parent the shim becomes as well, has its own session or that
    of the launcher.
    """
    for entry in (read(attempt / "descendants.json") or {"members": []})["members"]:
        found, fields = Identity.from_dict(entry["identity"]), stat_fields(entry["identity"]["pid"])
        if (
            entry["cmdline"].endswith("engine")
            and found.alive()
            and fields
            and int(fields[1]) == identity(attempt, "shim").pid
            and int(fields[3]) not in (found.pid, identity(attempt, "launcher").pid)
        ):
            return found
    return None


def test_a_member_is_one_row_whatever_snapshot_is_older_than_what_is_known(tmp_path: Path) -> None:
    root = Identity.of(os.getpid())
    attempt = AttemptMembers(tmp_path, 1, root, lambda *_: "engine", adopted=False)
    table = ProcessTable(Scope(os.getuid(), root.pidns, None, Path("/dev")))
    child = subprocess.Popen(["sleep", "60"])
    engine = Identity.of(child.pid)

    def rows() -> list[bool]:
        return [member.alive for member in attempt.members() if member.identity == engine]

    alive = table.refresh()
    attempt.observe(alive)
    attempt.observe(Snapshot())  # from before its birth
    assert rows() == [True]
    child.kill()
    child.wait()
    attempt.refresh()
    assert rows() == [False]
    attempt.observe(alive)  # from before its death
    assert len(rows()) == 1
    attempt.observe(table.refresh())
    assert rows() == [False]
