"""Hold times, one incident a cause, cascades, clearing, and signatures that only their own source can fire."""

from __future__ import annotations

import dataclasses
import json

from bs4_agent.detect.engine import Engine
from bs4_agent.detect.facts import Side, StepFiles
from bs4_agent.playbooks.compiled import Library
from bs4_agent.trainers.base import LogLine
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


DESYNC = playbook(id="step-desync", detect={"detector": "step-desync", "for": 10.0, "keep_firing_for": 5.0}, explains=["noise"])
NOISE = playbook(id="noise", detect={"logs": [{"source": "inference", "levels": ["ERROR"], "pattern": "boom"}]})


def desynced():
    return healthy(files=StepFiles({40: WALL - 400}, {0: WALL - 50}), trainer_side=Side(), orchestrator_side=Side(0, NOW, 1))


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
    return LogLine(text, level)


def place(text):
    return {"source": "inference", "stream": "log/demo/inference", "cursor": "1:5", "file": "", "offset": 5, "line": 1, "text": text}


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
