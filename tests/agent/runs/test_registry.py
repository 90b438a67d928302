"""What is known of runs: from disk, from processes, once in the journal."""

from __future__ import annotations

import os
import shutil
import signal

import pytest

from bs4_agent.launch.start import launch
from bs4_common.errors import SpoolFull, UnknownRun
from tests.agent.runs.practice import Pod, components, ended, kill, tree, until


def test_a_run_that_is_not_known_is_answered_with_the_one_that_was_meant(pod: Pod) -> None:
    runs = pod.runs()
    with pytest.raises(UnknownRun, match="has no run 'alpha'; its runs are: none yet"):
        runs.get("alpha")
    runs.register(pod.spec("alphabet"))
    with pytest.raises(UnknownRun, match="did you mean 'alphabet'"):
        runs.get("alphabeth")


def test_a_new_agent_finds_everything_on_disk(pod: Pod) -> None:
    before = pod.runs()
    launch(before, pod.spec(resume=7, overrides=("--max-steps", "9")), key="k1")
    after = pod.runs()
    assert after.get("alpha").spec == before.get("alpha").spec
    assert after.get("alpha").attempt == before.get("alpha").attempt
    after.poll()
    assert pod.journal.events() == [("alpha", None, "registered"), ("alpha", 1, "attempt-started")]


@pytest.mark.parametrize(("code", "said"), [(0, True), (0, False), (1, True), (1, False)])
def test_a_good_end_is_proved_by_both_final_lines_and_by_nothing_else(
    pod: Pod, code: int, said: bool
) -> None:
    both = 'echo finished > "$1/logs/trainer.stdout"; echo finished > "$1/logs/orchestrator.stdout"'
    one = (
        'echo finished > "$1/logs/trainer.stdout"; echo step 3 0.5 > "$1/logs/orchestrator.stdout"'
    )
    pod.trainer.program = f'mkdir -p "$1/logs"; {both if said else one}; exit {code}'
    runs = pod.runs()
    launch(runs, pod.spec(), key="k1")
    ended(runs)
    end = runs.get("alpha").attempt.end
    assert end is not None
    assert (end.code, end.signal, end.good) == (code, None, said)
    last = list(pod.journal.records())[-1]
    assert (last["event"], last["code"], last["good"]) == ("attempt-ended", code, said)
    assert last["detail"].startswith(f"the launcher ended with exit code {code}; ")


def test_final_lines_of_an_earlier_attempt_prove_nothing(pod: Pod) -> None:
    logs = pod.root / "work/alpha/logs"
    logs.mkdir(parents=True)
    for side in ("trainer", "orchestrator"):
        (logs / f"{side}.stdout").write_text("finished\n")
    pod.trainer.program = "exit 0"
    for side in ("trainer", "orchestrator"):
        os.utime(logs / f"{side}.stdout", (1_700_000_000, 1_700_000_000))
    runs = pod.runs()
    launch(runs, pod.spec(), key="k1")
    ended(runs)
    assert not runs.get("alpha").attempt.end.good


def test_an_end_that_nobody_saw_is_told_by_the_next_agent_and_only_once(pod: Pod) -> None:
    pod.trainer.program = "exit 143"
    launch(pod.runs(), pod.spec(), key="k1")
    until(lambda: (pod.attempt() / "end.json").exists())
    for _ in range(3):
        pod.runs().poll()
    assert pod.journal.events()[-1] == ("alpha", 1, "attempt-ended")
    assert len(pod.journal.events()) == 3


def test_a_record_is_not_doubled_when_the_agent_died_before_it_could_mark_it(pod: Pod) -> None:
    launch(pod.runs(), pod.spec(), key="k1")
    for mark in pod.home.runs.rglob("told.json"):
        mark.unlink()
    pod.runs().poll()
    assert pod.journal.events() == [("alpha", None, "registered"), ("alpha", 1, "attempt-started")]


def test_a_full_spool_delays_a_record_and_loses_none(
    pod: Pod, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = pod.runs()
    with monkeypatch.context() as full:

        def refuse(*args: object, **fields: object) -> None:
            raise SpoolFull("The disk is full.")

        full.setattr(pod.journal, "append", refuse)
        launch(runs, pod.spec(), key="k1")
        assert pod.journal.events() == []
    runs.poll()
    assert pod.journal.events() == [("alpha", None, "registered"), ("alpha", 1, "attempt-started")]


def test_training_that_goes_on_without_its_launcher_is_a_live_run(pod: Pod) -> None:
    """2026-01 on SIGTERM: the launcher goes at once, nobody else. When orchestrator and trainer go
    too it is over; the engine is left.
    """
    pod.trainer.program = tree(children={"orchestrator": {}, "trainer": {}, "engine": {}})
    runs = pod.runs()
    attempt = launch(runs, pod.spec(), key="k1")
    named = components(runs, "trainer", "orchestrator", "engine")
    assert attempt.launcher is not None
    attempt.launcher.send(signal.SIGTERM)
    until(lambda: (pod.attempt() / "launcher_end.json").exists())
    for _ in range(3):
        runs.poll()
    assert runs.get("alpha").live
    assert [(e.identity, e.code, e.signal) for e in runs.exits("alpha", 1)] == [
        (attempt.launcher, None, 15)
    ]
    assert runs.membership.owner_of(named["engine"]) == ("alpha", "engine")
    for name in ("trainer", "orchestrator"):
        kill(named[name])
    ended(runs)
    end = runs.get("alpha").attempt.end
    assert end is not None
    assert (end.code, end.signal, runs.get("alpha").live) == (None, 15, False)
    assert f"engine (pid {named['engine'].pid})" in end.detail
    assert runs.membership.owner_of(named["engine"]) is None
    assert runs.membership.dead_run_holder(named["engine"]) == ("alpha", "engine")
    later = pod.runs()
    later.poll()
    assert later.membership.dead_run_holder(named["engine"]) == ("alpha", "engine")


def test_exits_name_the_component_that_ended(pod: Pod) -> None:
    pod.trainer.program = tree(lasts=0.3, children={"engine": {"lasts": 0.6, "code": 7}})
    runs = pod.runs()
    launch(runs, pod.spec(), key="k1")
    ended(runs)
    until(lambda: (pod.attempt() / "end.json").exists())
    exits = {(e.component, e.code) for e in runs.exits("alpha", 1)}
    assert ("engine", 7) in exits


def test_a_run_that_cannot_be_read_does_not_hide_the_others(pod: Pod) -> None:
    runs = pod.runs()
    for name in ("alpha", "damaged", "newer"):
        runs.register(pod.spec(name))
    (pod.home.run("damaged") / "run.json").write_text("")
    (pod.home.run("newer") / "run.json").write_text('{"adopted": false, "spec": {"run": "newer"}}')
    again = pod.runs()
    assert [run.name for run in again.all()] == ["alpha"]
    assert sorted(again.unreadable) == ["damaged", "newer"]
    with pytest.raises(UnknownRun, match="files of run 'damaged' cannot be read"):
        again.get("damaged")


def test_files_that_a_power_cut_left_empty_are_no_obstacle(pod: Pod) -> None:
    launch(pod.runs(), pod.spec(), key="k1")
    for name in ("members.json", "descendants.json"):
        (pod.attempt() / name).write_text("")
    runs = pod.runs()
    runs.poll()
    assert runs.get("alpha").live


def test_half_written_directories_are_no_runs(pod: Pod) -> None:
    (pod.home.runs / "half").mkdir()
    runs = pod.runs()
    launch(runs, pod.spec(), key="k1")
    pod.attempt("alpha", 2).mkdir()
    pod.attempt("alpha", 3).mkdir()
    shutil.copy(pod.attempt() / "spec.json", pod.attempt("alpha", 3))
    again = pod.runs()
    assert [run.name for run in again.all()] == ["alpha"]
    assert [attempt.number for attempt in again.get("alpha").attempts] == [1]
