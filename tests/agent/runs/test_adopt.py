"""Runs that a person started by hand: found, watched, stopped; never a stranger's."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from bs4_agent.launch.start import launch
from bs4_agent.runs.adopt import Candidate, adopt, candidates
from bs4_agent.runs.registry import Runs
from bs4_agent.runs.stop import StopRun
from bs4_common.errors import NotApplicable, RunExists
from bs4_common.identity import Identity
from bs4_common.trainers.base import LaunchSpec
from tests.agent.runs.practice import Pod, components, ended, kill, tree, until


def by_hand(pod: Pod, program: str) -> subprocess.Popen[bytes]:
    """`rl` as a person types it, from the work directory, without a shim."""
    return subprocess.Popen(
        ["/bin/sh", "-c", program, "rl", "outputs", "None"], cwd=pod.root / "work"
    )


def look(runs: Runs, pod: Pod) -> list[Candidate]:
    """With the practice trainer's eyes: of each process alone, the topmost first."""

    def recognise(
        table: Sequence[tuple[int, int, Sequence[str], Path]], environ: object
    ) -> list[tuple[int, LaunchSpec]]:
        own = {
            pid: spec
            for pid, _, cmdline, cwd in table
            if cwd == pod.root / "work" and (spec := pod.trainer.recognise(cmdline, cwd))
        }
        return [(pid, own[pid]) for pid, parent, *_ in table if pid in own and parent not in own]

    return candidates(runs, runs.table.refresh(), recognise=recognise)


def found(runs: Runs, pod: Pod) -> list[int]:
    return [candidate.root.pid for candidate in look(runs, pod)]


def test_a_run_started_by_hand_is_found_watched_and_stopped(pod: Pod) -> None:
    root = by_hand(
        pod,
        tree(children={"trainer": {}, "engine": {"setsid": True}}).removeprefix("exec ") + "; :",
    )
    try:
        runs = pod.runs()
        until(lambda: found(runs, pod) == [root.pid])
        (candidate,) = look(runs, pod)
        attempt = adopt(runs, candidate, "manual").attempt
        assert attempt is not None
        assert (attempt.adopted, attempt.shim, attempt.launcher, attempt.state) == (
            True,
            None,
            candidate.root,
            "running",
        )
        assert runs.get("manual").spec.output_dir == pod.root / "work/outputs"
        members = components(runs, "trainer", "engine", name="manual")
        assert {member.proof for member in runs.members("manual")} == {"observed"}
        assert found(runs, pod) == [], "it is nobody's no longer"
        again = pod.runs()
        again.poll()
        assert again.get("manual").live
        assert again.membership.owner_of(members["engine"]) == ("manual", "engine")
        StopRun(again, "manual").execute()
        root.wait(60)
        assert not any(identity.alive() for identity in members.values())
        end = ended(again, "manual")
        assert (end.code, end.good) == (None, False)
        assert end.detail.startswith("the run was adopted, so its exit code is not known")
        events = [event for run, attempt, event in pod.journal.events()]
        assert events == ["registered", "adopted", "attempt-started", "attempt-ended"]
    finally:
        root.kill()
        root.wait()


def test_what_outlives_an_adopted_root_is_a_leftover_and_the_next_attempt_is_launched(
    pod: Pod,
) -> None:
    root = by_hand(pod, tree(children={"engine": {}}).removeprefix("exec ") + " & wait")
    try:
        runs = pod.runs()
        (candidate,) = until(lambda: look(runs, pod))
        adopt(runs, candidate, "manual")
    except BaseException:
        root.kill()
        raise
    found = components(runs, "engine", "launcher", name="manual")
    engine = found["engine"]
    root.kill()
    root.wait()
    kill(found["launcher"])
    ended(runs, "manual")
    assert runs.membership.dead_run_holder(engine) == ("manual", "engine")
    kill(engine)
    until(lambda: not runs.leftovers("manual"))
    attempt = launch(runs, runs.get("manual").spec, key="k2")
    assert (attempt.number, attempt.adopted) == (2, False)
    assert not runs.get("manual").adopted


def test_two_runs_of_one_name_get_two_names(pod: Pod) -> None:
    roots = [by_hand(pod, "sleep 60; :"), by_hand(pod, "sleep 60; :")]
    runs = pod.runs()
    try:
        both = until(lambda: look(runs, pod) if len(look(runs, pod)) == 2 else None)
        assert both is not None
        assert [adopt(runs, candidate).name for candidate in both] == ["by-hand", "by-hand-2"]
        assert look(runs, pod) == []
    finally:
        for root in roots:
            for proc in runs.table.refresh().descendants(Identity.of(root.pid)):
                kill(proc.identity)
            root.kill()
            root.wait()


def test_a_run_that_goes_on_by_hand_is_the_same_run_whatever_it_is_called_there(pod: Pod) -> None:
    runs = pod.runs()
    launch(runs, pod.spec(output_dir=pod.root / "work/outputs"), key="k1")
    StopRun(runs, "alpha").execute()
    ended(runs)
    root = by_hand(pod, "sleep 60; :")
    try:
        (candidate,) = until(lambda: look(runs, pod))
        assert candidate.spec.run == "by-hand"
        run = adopt(runs, candidate)
        assert (run.name, run.adopted, [attempt.number for attempt in run.attempts]) == (
            "alpha",
            True,
            [1, 2],
        )
        assert [one.name for one in runs.all()] == ["alpha"]
    finally:
        end(runs, root)


def test_the_name_of_a_run_in_another_directory_is_refused(pod: Pod) -> None:
    runs = pod.runs()
    launch(runs, pod.spec(), key="k1")
    StopRun(runs, "alpha").execute()
    ended(runs)
    root = by_hand(pod, "sleep 60; :")
    try:
        (candidate,) = until(lambda: look(runs, pod))
        with pytest.raises(RunExists, match="alpha is the name of another run"):
            adopt(runs, candidate, "alpha")
        assert adopt(runs, candidate).name == "by-hand"
        assert runs.get("alpha").spec == pod.spec()
    finally:
        end(runs, root)


def end(runs: Runs, root: subprocess.Popen[bytes]) -> None:
    for proc in runs.table.refresh().descendants(Identity.of(root.pid)):
        kill(proc.identity)
    root.kill()
    root.wait()


def test_runs_of_ours_are_no_candidates(pod: Pod) -> None:
    runs = pod.runs()
    launch(runs, pod.spec(), key="k1")
    runs.poll()
    assert found(runs, pod) == []


def test_a_name_that_is_taken_and_a_process_that_has_ended(pod: Pod) -> None:
    root = by_hand(pod, "sleep 60; :")
    runs = pod.runs()
    try:
        (candidate,) = until(lambda: look(runs, pod))
        launch(runs, pod.spec(), key="k1")
        with pytest.raises(RunExists, match="alpha is the name of a run that is live"):
            adopt(runs, candidate, "alpha")
    finally:
        for proc in runs.table.refresh().descendants(Identity.of(root.pid)):
            kill(proc.identity)
        root.kill()
        root.wait()
    with pytest.raises(NotApplicable, match="has ended or is known already"):
        adopt(runs, candidate, "manual")
    assert [run.name for run in runs.all()] == ["alpha"]
