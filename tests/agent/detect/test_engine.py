"""Hold times, one incident a cause, cascades, clearing, and signatures that only their own source
can fire.
"""

from __future__ import annotations

import dataclasses
import json
import time

import pytest

from bs4_common.failures import engine as detectors
from bs4_common.failures.compiled import Library
from bs4_common.failures.engine import Engine
from bs4_common.failures.facts import Finding, Side, StepFiles
from bs4_common.trainers.base import LogLine
from tests.agent.facts import NOW, WALL, facts, healthy


def playbook(**fields):
    base = {
        "id": "x",
        "title": "X",
        "family": "f",
        "role": "root",
        "severity": "critical",
        "danger": "none",
        "where": "pod",
        "applies": ["any"],
    }
    return {**base, **fields}


def engine(*entries):
    return Engine(list(Library(json.dumps({"playbooks": entries}).encode())))


DESYNC = playbook(
    id="step-desync",
    detect={"detector": "step-desync", "for": 10.0, "keep_firing_for": 5.0},
    explains=["noise"],
)
NOISE = playbook(
    id="noise", detect={"logs": [{"source": "inference", "levels": ["ERROR"], "pattern": "boom"}]}
)


def desynced():
    return healthy(
        files=StepFiles({40: WALL - 400}, {0: WALL - 50}),
        trainer_side=Side(),
        orchestrator_side=Side(0, NOW, 1),
    )


def events(transitions):
    return [(t.event, t.finding.failure) for t in transitions]


def test_it_must_hold_before_it_is_an_incident():
    watch = engine(DESYNC)
    assert watch.evaluate(facts(desynced(), now=NOW)) == []
    assert watch.evaluate(facts(desynced(), now=NOW + 9.9)) == []
    assert events(watch.evaluate(facts(desynced(), now=NOW + 10))) == [("opened", "step-desync")]
    assert watch.evaluate(facts(desynced(), now=NOW + 20)) == [], "one cause is one incident"


def test_a_short_appearance_is_forgotten():
    watch = engine(DESYNC)
    watch.evaluate(facts(desynced(), now=NOW))
    watch.evaluate(facts(healthy(), now=NOW + 5))
    assert watch.evaluate(facts(desynced(), now=NOW + 12)) == []


def test_it_clears_only_after_it_was_gone_for_a_while():
    watch = engine(DESYNC)
    watch.evaluate(facts(desynced(), now=NOW))
    watch.evaluate(facts(desynced(), now=NOW + 10))
    assert watch.evaluate(facts(healthy(), now=NOW + 12)) == []
    assert events(watch.evaluate(facts(healthy(), now=NOW + 15))) == [("cleared", "step-desync")]


def test_two_observers_of_one_cause_make_one_incident():
    first, second = engine(DESYNC), engine(DESYNC)
    (a,) = first.evaluate(facts(desynced()), complete=True)
    (b,) = second.evaluate(facts(desynced(), now=NOW + 500), complete=True)
    assert a.incident == b.incident


def line(text, level="ERROR"):
    return LogLine(text=text, level=level)


def place(text):
    return {
        "source": "inference",
        "stream": "log/demo/inference",
        "cursor": "1:5",
        "file": "",
        "offset": 5,
        "line": 1,
        "text": text,
    }


SLOW_CAUSE = playbook(
    id="slow-cause",
    detect={
        "for": 180.0,
        "logs": [{"source": "inference", "levels": ["ERROR"], "pattern": "boom"}],
    },
    explains=["trainer-exited"],
)
SLOW_STANDSTILL = {**SLOW_CAUSE, "id": "slow-standstill", "explains": ["run-stalled"]}


def seconds_until_named(cause, **changes):
    """Return the seconds from the end of a run until `cause`, which its log has shown two seconds
    before, is an incident. The run's facts have `changes` from its end on.
    """
    watch = engine(cause)
    watch.feed("demo", 1, "prime-rl", "inference", line("boom"), place("boom"))
    assert watch.evaluate(facts(healthy(), now=NOW - 2)) == []
    for second in range(200):
        run = healthy(**changes)
        if watch.evaluate(facts(run, now=NOW + second)):
            return second
    raise AssertionError("it is never named")


@pytest.mark.parametrize("state", ["ended", "lost"])
def test_what_explains_an_end_is_named_when_its_run_has_ended_by_itself(state):
    """While it is held it hides the end, so until then nothing is named."""
    assert seconds_until_named(SLOW_CAUSE, state=state) == 0


@pytest.mark.parametrize(
    ("cause", "changes"),
    [
        pytest.param(SLOW_CAUSE, {}, id="the run goes on"),
        pytest.param(SLOW_CAUSE, {"state": "ended", "good_end": True}, id="a good end"),
        pytest.param(SLOW_CAUSE, {"state": "ended", "stop_requested": True}, id="a stop"),
        pytest.param(SLOW_CAUSE, {"state": "ended", "with_pod": True}, id="the pod ended"),
        pytest.param(SLOW_STANDSTILL, {"state": "ended"}, id="it explains no end"),
    ],
)
def test_everything_else_waits_for_its_hold_time(cause, changes):
    assert seconds_until_named(cause, **changes) == 178


def test_a_signature_fires_only_from_its_own_source_and_level():
    watch = engine(NOISE)
    watch.feed("demo", 1, "prime-rl", "orchestrator", line("boom"), place("boom"))
    watch.feed("demo", 1, "prime-rl", "inference", line("boom", "INFO"), place("boom"))
    assert watch.evaluate(facts(healthy())) == []
    watch.feed("demo", 1, "prime-rl", "inference", line("boom"), place("boom"))
    assert events(watch.evaluate(facts(healthy()))) == [("opened", "noise")]


def test_what_a_root_explains_is_not_shown_beside_it():
    watch = engine(DESYNC, NOISE)
    watch.feed("demo", 1, "prime-rl", "inference", line("boom"), place("boom"))
    assert events(watch.evaluate(facts(desynced()), complete=True)) == [("opened", "step-desync")]


def test_what_a_log_said_stays_until_a_later_attempt_makes_steps():
    watch = engine(NOISE)
    watch.feed("demo", 1, "prime-rl", "inference", line("boom"), place("boom"))
    watch.evaluate(facts(healthy()))
    assert watch.evaluate(facts(healthy(), now=NOW + 1000)) == []
    later = dataclasses.replace(healthy(), attempt=2)
    assert events(watch.evaluate(facts(later, now=NOW + 1001))) == [("cleared", "noise")]


def test_what_an_action_resolved_needs_a_new_line():
    watch = engine(NOISE)
    watch.feed("demo", 1, "prime-rl", "inference", line("boom"), place("boom"))
    (opened,) = watch.evaluate(facts(healthy()))
    watch.forget(opened.incident)
    assert watch.evaluate(facts(healthy(), now=NOW + 10)) == []
    watch.feed(
        "demo",
        1,
        "prime-rl",
        "inference",
        line("boom"),
        {**place("boom"), "cursor": "1:99", "line": 9},
    )
    (again,) = watch.evaluate(facts(healthy(), now=NOW + 20))
    assert again.event == "opened"
    assert again.incident != opened.incident


def test_what_a_log_said_outlives_the_agent():
    before, after = engine(NOISE), engine(NOISE)
    before.feed("demo", 1, "prime-rl", "inference", line("boom"), place("boom"))
    (opened,) = before.evaluate(facts(healthy()))
    known = dataclasses.replace(opened.finding, anchor="")
    after.adopt(opened.incident, known, NOW)
    assert after.evaluate(facts(healthy(), now=NOW + 1000)) == [], "it is known and still true"
    after.feed("demo", 1, "prime-rl", "inference", line("all is well"), {**place("x"), "line": 7})
    assert after.evaluate(facts(healthy(), now=NOW + 1001)) == [], "reading on changes nothing"
    later = dataclasses.replace(healthy(), attempt=2)
    assert events(after.evaluate(facts(later, now=NOW + 1002))) == [("cleared", "noise")]


def test_a_line_that_ends_it_ends_it_for_an_adopted_one_too():
    signature = {**NOISE["detect"]["logs"][0], "cleared_by": "recovered"}
    entry = playbook(id="noise", detect={"logs": [signature]})
    before, after = engine(entry), engine(entry)
    before.feed("demo", 1, "prime-rl", "inference", line("boom"), place("boom"))
    (opened,) = before.evaluate(facts(healthy()))
    after.adopt(opened.incident, opened.finding, NOW)
    after.feed(
        "demo", 1, "prime-rl", "inference", line("recovered", "INFO"), {**place("x"), "line": 7}
    )
    assert events(after.evaluate(facts(healthy(), now=NOW + 1))) == [("cleared", "noise")]


def test_many_lines_make_few_updates():
    watch = engine(NOISE)
    seen = []
    for number in range(1, 1000):
        watch.feed(
            "demo",
            1,
            "prime-rl",
            "inference",
            line("boom"),
            {**place("boom"), "cursor": f"1:{number}", "line": number},
        )
        seen += events(watch.evaluate(facts(healthy(), now=NOW + number)))
    assert seen == [("opened", "noise"), ("updated", "noise")]


def test_new_words_alone_are_told_every_half_minute(monkeypatch):
    """Each update is a line of a journal that is kept; a disk's percent changes every second."""

    def filling(look, run, parameters):
        seconds = look.now_m - NOW
        found = Finding(
            failure="step-desync",
            run=run.name,
            attempt=run.attempt,
            summary=f"{seconds:.0f} of 100 s",
            evidence=[{"source": "disk", "stream": "s", "cursor": "1:0"}],
            anchor="disk",
        )
        return [found]

    monkeypatch.setitem(detectors.DETECTORS, "step-desync", filling)
    watch = engine(playbook(id="step-desync", detect={"detector": "step-desync"}))
    told = {}
    for second in range(100):
        for transition in watch.evaluate(facts(healthy(), now=NOW + second)):
            told[second] = transition.event
    assert told == {0: "opened", 30: "updated", 60: "updated", 90: "updated"}


def test_a_detector_and_a_log_line_of_the_same_failure_are_one_incident():
    both = playbook(
        id="step-desync",
        detect={"detector": "step-desync", "logs": [{"source": "inference", "pattern": "boom"}]},
    )
    watch = engine(both)
    watch.feed("demo", 1, "prime-rl", "inference", line("boom"), place("boom"))
    (opened,) = watch.evaluate(facts(healthy()))
    assert events(watch.evaluate(facts(desynced(), now=NOW + 1))) == [("updated", "step-desync")]
    assert watch.evaluate(facts(healthy(), now=NOW + 2))[0].incident == opened.incident


def test_sources_that_nobody_saw_are_known():
    watch = engine(NOISE)
    watch.feed("demo", 1, "prime-rl", "trainer", line("x"), place("x"))
    assert watch.seen("demo", 1) == {"trainer"}


def test_what_logs_say_while_we_stop_the_run_is_no_failure():
    watch = engine(NOISE)
    stopping = healthy(stop_requested=True)
    watch.feed(
        stopping.name,
        stopping.attempt,
        "prime-rl-2026-01",
        "inference",
        LogLine(text="boom", level="ERROR"),
        place(1),
    )
    assert watch.evaluate(facts(stopping, now=NOW)) == []


def test_what_logs_said_before_the_stop_stays():
    watch = engine(NOISE)
    run = healthy()
    watch.feed(
        run.name,
        run.attempt,
        "prime-rl-2026-01",
        "inference",
        LogLine(text="boom", level="ERROR"),
        place(1),
    )
    assert events(watch.evaluate(facts(run, now=NOW))) == [("opened", "noise")]
    stopping = dataclasses.replace(run, stop_requested=True)
    assert watch.evaluate(facts(stopping, now=NOW + 2)) == [], "neither again nor cleared"


def told_by_the_stopped_attempt(text_t, *, read_s=-10.0, held_before=False):
    """What an engine opens for a run that was started again after a stop: attempt 1 said "boom" at
    the wall second `text_t`, which was read `read_s` after attempt 2 began, at WALL. Attempt 2 has
    no step yet.
    """
    watch = engine(NOISE)
    first = healthy(started_t=WALL - 600)
    boom = LogLine(text="boom", level="ERROR", timestamp=text_t)
    stopping = dataclasses.replace(first, stop_requested=True)
    if not held_before:
        assert watch.evaluate(facts(stopping, now=NOW)) == []
    read_m = time.monotonic()
    watch.feed("demo", 1, "prime-rl-2026-01", "inference", boom, place(1))
    if held_before:
        assert events(watch.evaluate(facts(first, now=NOW))) == [("opened", "noise")]
    assert watch.evaluate(facts(stopping, now=NOW + 1)) == []
    again = healthy(
        attempt=2,
        started_t=WALL,
        started_m=read_m - read_s,
        trainer_side=Side(),
        stopped_before=frozenset({1}),
    )
    return events(watch.evaluate(facts(again, now=NOW + 5)))


@pytest.mark.parametrize("text_t", [WALL - 10, None], ids=["with a time", "without"])
def test_what_a_stopped_attempt_said_stays_our_own_doing_when_the_run_starts_again(text_t):
    assert told_by_the_stopped_attempt(text_t) == []


def test_what_a_stopped_attempt_said_and_was_read_late_stays_our_own_doing():
    assert told_by_the_stopped_attempt(WALL - 10, read_s=2) == []


@pytest.mark.parametrize("text_t", [WALL + 2, WALL - 0.9, None], ids=["t", "whole seconds", "none"])
def test_a_log_that_a_start_by_hand_goes_on_with_is_believed_from_that_start_on(text_t):
    """`>> train.log` keeps the file, and so the attempt to which its lines are ascribed. Its first
    lines are read before the attempt is known.
    """
    assert told_by_the_stopped_attempt(text_t, read_s=2) == [("opened", "noise")]


def test_what_a_stopped_attempt_said_before_its_stop_stays_open_over_the_next_start():
    assert told_by_the_stopped_attempt(WALL - 10, held_before=True) == []


def test_what_was_wrong_with_an_earlier_attempt_is_over_once_a_later_one_makes_steps():
    watch = engine({**DESYNC, "detect": {**DESYNC["detect"], "keep_firing_for": 600.0}})
    watch.evaluate(facts(desynced(), now=NOW))
    watch.evaluate(facts(desynced(), now=NOW + 10))
    later = dataclasses.replace(healthy(), attempt=desynced().attempt + 1)
    starting = dataclasses.replace(later, trainer_side=Side())
    assert watch.evaluate(facts(starting, now=NOW + 12)) == [], (
        "it has yet to show that it is better"
    )
    assert events(watch.evaluate(facts(later, now=NOW + 14))) == [("cleared", "step-desync")]


def test_a_line_that_makes_a_signature_fire_is_news_once():
    """So that the watcher looks at once, also for a line without a level of its own, and not again
    for each repetition.
    """
    quiet = playbook(
        id="quiet",
        detect={"logs": [{"source": "trainer", "levels": [""], "pattern": "boom", "count": 2}]},
    )
    watch = engine(quiet)
    place = {"source": "trainer", "stream": "s", "cursor": "0:1", "file": "x", "offset": 1}
    lines = [LogLine(text="fine"), LogLine(text="boom"), LogLine(text="boom"), LogLine(text="boom")]
    assert [
        watch.feed("r", 1, "prime-rl", "trainer", line, {**place, "line": n})
        for n, line in enumerate(lines, 1)
    ] == [
        False,
        False,
        True,
        False,
    ]


def boom(watch, run="demo"):
    watch.feed(run, 1, "prime-rl", "inference", line("boom"), place("boom"))


def unseen(now, *runs):
    """Return the facts of a scan that could not look at the run "demo"."""
    return dataclasses.replace(facts(*runs, now=now), unseen=frozenset({"demo"}))


def test_a_run_that_is_not_seen_for_a_while_keeps_its_incident():
    watch = engine({**DESYNC, "detect": {"detector": "step-desync"}})
    (opened,) = watch.evaluate(facts(desynced(), now=NOW))
    assert watch.evaluate(unseen(NOW + 3)) == []
    assert watch.evaluate(unseen(NOW + 600)) == []
    assert watch.evaluate(facts(desynced(), now=NOW + 603)) == []
    assert opened.event == "opened"
    assert events(watch.evaluate(facts(healthy(), now=NOW + 606))) == [("cleared", "step-desync")]


def test_no_hold_time_goes_on_while_a_run_is_not_seen():
    watch = engine(DESYNC)
    watch.evaluate(facts(desynced(), now=NOW))
    watch.evaluate(facts(desynced(), now=NOW + 4))
    assert watch.evaluate(unseen(NOW + 5)) == []
    assert watch.due() is None, "no scan is brought forward for it"
    assert watch.evaluate(unseen(NOW + 100)) == []
    assert watch.evaluate(facts(desynced(), now=NOW + 103)) == []
    assert watch.due() == NOW + 109, "4 of its 10 seconds were seen"
    assert watch.evaluate(facts(desynced(), now=NOW + 108.9)) == []
    assert events(watch.evaluate(facts(desynced(), now=NOW + 109))) == [("opened", "step-desync")]


def test_no_keep_time_goes_on_while_a_run_is_not_seen():
    watch = engine(DESYNC)
    watch.evaluate(facts(desynced(), now=NOW))
    watch.evaluate(facts(desynced(), now=NOW + 10))
    assert watch.evaluate(facts(healthy(), now=NOW + 12)) == []
    assert watch.evaluate(unseen(NOW + 100)) == []
    assert watch.evaluate(facts(healthy(), now=NOW + 103)) == []
    assert watch.evaluate(facts(healthy(), now=NOW + 105.9)) == []
    assert events(watch.evaluate(facts(healthy(), now=NOW + 106))) == [("cleared", "step-desync")]


def test_what_stays_until_its_attempt_ends_stays_while_its_run_is_not_seen():
    entry = playbook(
        id="step-desync", detect={"detector": "step-desync", "until_attempt_ends": True}
    )
    watch = engine(entry)
    assert events(watch.evaluate(facts(desynced(), now=NOW))) == [("opened", "step-desync")]
    assert watch.evaluate(unseen(NOW + 3)) == []
    assert watch.evaluate(facts(healthy(), now=NOW + 6)) == []
    ended = healthy(state="ended")
    assert events(watch.evaluate(facts(ended, now=NOW + 9))) == [("cleared", "step-desync")]


@pytest.mark.parametrize(
    ("stop", "then"),
    [(True, []), (False, [("opened", "noise")])],
    ids=["we have stopped it", "nobody has stopped it"],
)
def test_what_logs_say_of_a_run_that_is_not_seen_waits_until_it_is_seen(stop, then):
    watch = engine(NOISE)
    assert watch.evaluate(facts(healthy(stop_requested=stop), now=NOW)) == []
    boom(watch)
    assert watch.evaluate(unseen(NOW + 3)) == [], "nobody knows whether we have stopped it"
    assert watch.evaluate(unseen(NOW + 6)) == []
    run = healthy(stop_requested=stop)
    assert events(watch.evaluate(facts(run, now=NOW + 9))) == then


def test_a_run_that_is_not_seen_keeps_no_other_from_being_judged():
    watch = engine(NOISE, {**DESYNC, "detect": {"detector": "step-desync"}})
    boom(watch)
    boom(watch, "other")
    other = dataclasses.replace(desynced(), name="other")
    opened = watch.evaluate(unseen(NOW, other))
    assert {(t.event, t.finding.run) for t in opened} == {("opened", "other")}


def test_an_incident_that_an_earlier_agent_opened_stays_while_its_run_is_not_seen():
    before, after = engine(NOISE), engine(NOISE)
    boom(before)
    (opened,) = before.evaluate(facts(healthy()))
    after.adopt(opened.incident, dataclasses.replace(opened.finding, anchor=""), NOW)
    assert after.evaluate(unseen(NOW + 3)) == []
    assert after.evaluate(facts(healthy(), now=NOW + 6)) == []


COLLISION = playbook(id="run-dir-collision", detect={"detector": "run-dir-collision"})


def test_two_runs_in_one_directory_stay_an_incident_while_one_of_them_is_not_seen():
    watch, other = engine(COLLISION), healthy(name="other")
    first = watch.evaluate(facts(healthy(), other, now=NOW))
    assert {t.finding.run for t in first} == {"demo", "other"}
    assert watch.evaluate(unseen(NOW + 3, other)) == []
    assert watch.evaluate(facts(healthy(), other, now=NOW + 6)) == []
    over = dataclasses.replace(other, state="ended", members=[])
    assert [(t.event, t.finding.run) for t in watch.evaluate(unseen(NOW + 9, over))] == [
        ("cleared", "other")
    ], "that the other run is over does not depend on the one that is not seen"


def test_a_reason_of_an_end_that_is_over_when_its_run_is_seen_again_is_cleared(monkeypatch):
    """A scan after the end still found it, and the next one that sees the run does not."""

    def written(look, run, parameters):
        if not run.files.rollouts:
            return []
        found = Finding(
            failure="step-desync",
            run=run.name,
            attempt=run.attempt,
            summary="x",
            evidence=[],
            anchor="files",
        )
        return [found]

    monkeypatch.setitem(detectors.DETECTORS, "step-desync", written)
    fatal = playbook(id="step-desync", detect={"detector": "step-desync"}, explains=["the-symptom"])
    symptom = {**NOISE, "id": "the-symptom", "role": "symptom"}
    watch = engine(fatal, symptom)
    over = dataclasses.replace(desynced(), state="ended")
    assert events(watch.evaluate(facts(desynced(), now=NOW))) == [("opened", "step-desync")]
    assert watch.evaluate(facts(over, now=NOW + 3)) == []
    assert watch.evaluate(unseen(NOW + 6)) == []
    gone = healthy(state="ended")
    assert events(watch.evaluate(facts(gone, now=NOW + 9))) == [("cleared", "step-desync")]
