"""Stopping real trees: by the generation's rules, then by descent, never a stranger, and again
after a kill -9 in the middle.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from bs4_agent.launch.start import launch
from bs4_agent.runs import ending, stop
from bs4_agent.runs.ending import Sent
from bs4_agent.runs.stop import StopRun
from bs4_common.errors import StepFailed
from bs4_common.identity import Identity, stat_fields
from bs4_common.runs.model import Member
from tests.agent.runs.practice import AGENTS, Pod, components, identity, kill, read, tree, until

BOTH = ("launcher", "trainer")


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine takes its time until the shim has written the end."""
    monkeypatch.setattr(stop, "_END_S", 60.0)


@pytest.fixture
def family(pod: Pod) -> Pod:
    """A launcher that cleans up nobody, with a trainer, and an engine in a session of its own."""
    pod.trainer.program = tree(children={"trainer": {}, "engine": {"setsid": True}})
    return pod


def test_a_tree_is_told_at_once_and_ends(family: Pod) -> None:
    runs = family.runs()
    # Longer than a test may take: the waits end with the processes, not with the clock.
    family.trainer.signals = (("SIGINT", 1000.0), ("SIGTERM", 1000.0), ("SIGKILL", 1000.0))
    launch(runs, family.spec(), key="k1")
    found = components(runs, "trainer", "engine", "launcher")
    before = [member for member in runs.members("alpha") if member.alive]
    report = StopRun(runs, "alpha").execute()
    assert report.ok
    assert report.seen >= len(before)
    assert not any(one.alive() for one in found.values())
    interrupted = {one.identity for one in report.sent if one.signal == "SIGINT"}
    assert interrupted == {member.identity for member in before}
    assert read(family.attempt() / "end.json")
    assert not runs.get("alpha").live
    assert runs.stop_requested("alpha", 1)
    assert StopRun(runs, "alpha").execute().sent == [], "a second stop finds nothing to do"


def test_a_stop_is_done_when_the_shim_has_written_the_end_so_that_a_start_may_follow_at_once(
    family: Pod,
) -> None:
    runs = family.runs()
    launch(runs, family.spec(), key="k1")
    components(runs, "trainer", "engine", "launcher")
    attempt = runs.get("alpha").attempt
    assert attempt is not None
    assert attempt.shim is not None
    shim = attempt.shim
    shim.send(signal.SIGSTOP)
    waking = threading.Timer(1.0, lambda: shim.send(signal.SIGCONT))
    waking.start()
    StopRun(runs, "alpha").execute()
    assert not runs.get("alpha").live
    launch(runs, family.spec(), key="k2")


def test_whoever_ignores_int_and_term_is_killed(pod: Pod, monkeypatch: pytest.MonkeyPatch) -> None:
    pod.trainer.program = tree(deaf=True, children={"trainer": {"deaf": True}})
    pod.trainer.signals = (("SIGINT", 2.0), ("SIGTERM", 2.0), ("SIGKILL", 60.0))
    told, really = iter(("SIGINT", "SIGTERM")), StopRun._wait

    def wait(self: StopRun, living: Any, launcher: Any, seconds: float) -> None:
        """The time is over when both have said that they heard it, and not before."""
        if (name := next(told, "")) == "":
            really(self, living, launcher, seconds)
            return
        log, said = pod.attempt() / "launcher.log", {f"{who} heard {name}" for who in BOTH}
        until(lambda: said <= set(log.read_text().splitlines()))

    monkeypatch.setattr(StopRun, "_wait", wait)
    runs = pod.runs()
    launch(runs, pod.spec(), key="k1")
    up(pod, 2)
    report = StopRun(runs, "alpha").execute()
    assert list(dict.fromkeys(one.signal for one in report.sent)) == [
        "SIGINT",
        "SIGTERM",
        "SIGKILL",
    ]
    assert not [member for member in runs.members("alpha") if member.alive]
    heard = (pod.attempt() / "launcher.log").read_text()
    for said in (
        "launcher heard SIGINT",
        "launcher heard SIGTERM",
        "trainer heard SIGINT",
        "trainer heard SIGTERM",
    ):
        assert said in heard
    assert (until(lambda: read(pod.attempt() / "end.json")) or {})["signal"] == 9


def test_the_launcher_alone_is_told_where_it_cleans_up_itself(pod: Pod) -> None:
    """Current: SIGTERM to the Python launcher, not to the `uv` around it; what it leaves is ended
    by descent.
    """
    pod.trainer.target, pod.trainer.signals = "launcher", (("SIGTERM", 600.0),)
    # The shell in front stands for `uv run`: it is the shim's child, and waits.
    children = {"trainer": {}, "engine": {"setsid": True, "children": {"inference": {}}}}
    pod.trainer.program = tree(cleans=True, children=children).removeprefix("exec ") + "; exit $?"
    runs = pod.runs()
    launch(runs, pod.spec(), key="k1")
    up(pod, 4)
    found = components(runs, "trainer", "engine", "launcher", "inference")
    plan = StopRun(runs, "alpha").plan()
    assert (plan[0].signal, len(plan[0].targets)) == ("SIGTERM", 1)
    assert plan[0].command == f"kill -TERM {found['launcher'].pid}"
    report = StopRun(runs, "alpha", scale=0.1).execute()
    first = report.sent[0]
    assert (first.signal, first.identity) == ("SIGTERM", found["launcher"])
    assert {one.identity for one in report.sent[1:]} == {found["inference"]}, (
        "the orphan was swept; the launcher ended the others itself"
    )
    assert (until(lambda: read(pod.attempt() / "end.json")) or {})["code"] == 1


def test_the_result_accounts_for_every_process_and_not_only_for_those_that_were_signalled() -> None:
    one = Sent("SIGINT", Identity(2, 1, "boot", 1), 0.0)
    report = stop.StopReport(run="alpha", attempt=1, started_t=0.0, sent=[one], seen=13)
    assert report.sentence.endswith("is left (13 processes, 1 of them signalled)")
    report.seen = 1
    assert report.sentence.endswith("is left (1 process signalled)")


def test_stopped_processes_are_ended_too(pod: Pod) -> None:
    """SIGSTOP is how an engine hangs: it hears TERM only when it is continued."""
    pod.trainer.program = tree(children={"engine": {"polite": True}})
    runs = pod.runs()
    launch(runs, pod.spec(), key="k1")
    up(pod, 2)
    engine = components(runs, "engine")["engine"]
    engine.send(signal.SIGSTOP)
    until(lambda: (stat_fields(engine.pid) or [""])[0] == "T")
    assert StopRun(runs, "alpha").execute().ok
    assert not engine.alive()
    assert "engine heard SIGINT" in (pod.attempt() / "launcher.log").read_text()


def test_a_decoy_is_never_touched(family: Pod) -> None:
    """The same argv, title, environment and working directory, and the tester's own child: no
    descendant of the shim.
    """
    runs = family.runs()
    launch(runs, family.spec(), key="k1")
    components(runs, "trainer", "engine")
    decoys = [
        subprocess.Popen(list(member.cmdline), cwd=family.root / "work", stdout=subprocess.DEVNULL)
        for member in runs.members("alpha")
        if member.component in ("trainer", "engine")
    ]
    assert len(decoys) == 2
    try:
        runs.poll()
        members = {member.identity.pid for member in runs.members("alpha")}
        assert not members & {decoy.pid for decoy in decoys}
        report = StopRun(runs, "alpha").execute()
        assert not {one.identity.pid for one in report.sent} & {decoy.pid for decoy in decoys}
        assert [decoy.poll() for decoy in decoys] == [None, None]
        decoy_identity = Identity.of(decoys[0].pid)
        assert decoy_identity is not None
        assert runs.membership.owner_of(decoy_identity) is None
        assert runs.membership.dead_run_holder(decoy_identity) is None
    finally:
        for decoy in decoys:
            decoy.kill()
            decoy.wait()


def test_what_an_ended_attempt_left_is_stopped(pod: Pod) -> None:
    pod.trainer.program = tree(lasts=0.3, code=1, children={"engine": {}})
    runs = pod.runs()
    launch(runs, pod.spec(), key="k1")
    until(lambda: [runs.poll(), runs.get("alpha").attempt.end][1])
    (left,) = [member for member in runs.leftovers("alpha") if member.component == "engine"]
    assert [step.signal for step in StopRun(runs, "alpha").plan()] == ["SIGTERM", "SIGKILL"]
    assert not StopRun(runs, "alpha").done()
    StopRun(runs, "alpha").execute()
    assert not left.identity.alive()
    assert StopRun(runs, "alpha").done()


def test_gpus_must_be_free_before_a_stop_has_worked(
    family: Pod, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = family.runs()
    launch(runs, family.spec(), key="k1")
    engine = components(runs, "engine")["engine"]
    holder = Member(
        identity=engine,
        component="engine",
        cmdline=("engine",),
        alive=True,
        proof="descent",
        attempt=1,
    )
    asked: list[str] = []

    def holders(run: str) -> list[Member]:
        asked.append(run)
        return [] if len(asked) > 3 else [holder]

    with monkeypatch.context() as patch:
        patch.setattr(stop, "_LOOK_S", 0.01)
        assert StopRun(runs, "alpha", gpu_holders=holders).execute().ok
    assert len(asked) > 3
    with pytest.raises(StepFailed, match=rf"of alpha there still live engine \(pid {engine.pid}\)"):
        StopRun(runs, "alpha", gpu_holders=lambda run: [holder], scale=0.01).execute()


def test_a_stop_broken_off_by_kill_9_goes_on_where_it_was(pod: Pod) -> None:
    """The first agent sends INT and dies while it waits; the second does not send it again, waits
    for the rest of the time, and goes on.
    """
    pod.trainer.program = tree(deaf=True)
    pod.trainer.signals = (("SIGINT", 1.2), ("SIGKILL", 5.0))
    launch(pod.runs(), pod.spec(), key="k1")
    up(pod, 1)
    agent = (
        "import os, sys; sys.path[:0] = sys.argv[1:3]\n"
        "from pathlib import Path\n"
        "from bs4_agent.runs import stop\n"
        "from tests.agent.runs.practice import Pod, PracticeTrainer\n"
        "pod = Pod(Path(sys.argv[3]), PracticeTrainer('', signals=(('SIGINT', 1.2), ('SIGKILL', "
        "5.0))))\n"
        "runs = pod.runs(); runs.poll()\n"
        "stop.StopRun._wait = lambda *a: os.kill(os.getpid(), 9)\n"
        "stop.StopRun(runs, 'alpha').execute()\n"
    )
    died = subprocess.run(
        [sys.executable, "-c", agent, str(AGENTS), str(AGENTS.parent), str(pod.root)],
        check=False,
        timeout=30,
    )
    assert died.returncode == -signal.SIGKILL
    sent = (read(pod.attempt() / "stop.json") or {})["steps"]
    assert [(step["signal"], step["sent"]) for step in sent] == [("SIGINT", True)]
    until(lambda: "heard SIGINT" in (pod.attempt() / "launcher.log").read_text())
    runs = pod.runs()
    report = StopRun(runs, "alpha").execute()
    assert [
        one.signal for one in report.sent if one.identity == identity(pod.attempt(), "launcher")
    ] == ["SIGKILL"]
    assert (pod.attempt() / "launcher.log").read_text().count("heard SIGINT") == 1
    assert time.monotonic() - sent[0]["m"] >= 1.2, "the first signal had its time"


def test_waiting_ends_when_the_last_has_ended() -> None:
    processes = [subprocess.Popen(["sleep", seconds]) for seconds in ("0.1", "0.3", "60")]
    identities = [one for process in processes if (one := Identity.of(process.pid)) is not None]
    begun = time.monotonic()
    assert ending.wait_gone(identities[:2], 30.0) == set()
    assert ending.wait_gone(identities, 0.05) == {identities[2]}
    sent, left = ending.end(identities)
    assert ([one.signal for one in sent], left) == (["SIGTERM"], set())
    assert time.monotonic() - begun < 40, "the last of them sleeps for 60 s"
    for process in processes:
        process.wait()
    assert ending.end(identities) == ([], set())


def test_a_process_of_another_user_is_reported_and_not_fought(
    pod: Pod, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a user: root's processes. As root there is no such process, so the kernel's answer is
    given by hand.
    """
    runs = pod.runs()
    launch(runs, pod.spec(), key="k1")
    launcher = identity(pod.attempt(), "launcher")

    def forbidden(self: Identity, signum: int) -> bool:
        raise PermissionError

    with monkeypatch.context() as other:
        other.setattr(Identity, "send", forbidden)
        with pytest.raises(StepFailed, match="still live"):
            StopRun(runs, "alpha", scale=0.01).execute()
    assert launcher.alive()
    kill(launcher)
    assert Path(pod.attempt() / "stop.json").exists()


def up(pod: Pod, count: int) -> None:
    """Until so many processes of tree.py have set up their signals."""
    until(lambda: (pod.attempt() / "launcher.log").read_text().count("is up") == count)
