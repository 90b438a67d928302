"""Keys in command lines: one incident for a run, and no key in the evidence of any detector."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from bs4_common.credentials.forms import shown_command
from bs4_common.failures.detectors import DETECTORS
from bs4_common.failures.engine import Engine, Transition
from bs4_common.failures.facts import Facts, GpuFacts, Holder, RunFacts, ServerProbe, Side
from bs4_common.runs.model import Member
from tests.agent.facts import NOW, event, facts, healthy, identity, member
from tests.playbooks.library import library

WANDB_KEY = "5f" * 20
ENVIRONMENT = f"WANDB_API_KEY={WANDB_KEY}"
OWN_KEY = "kS0dJtX5b3oYw_5cVnq-Yg"


def leaking(pid: int, component: str | None) -> Member:
    words = ("env", ENVIRONMENT, "python3", "worker.py")
    return Member(
        identity=identity(pid),
        component=component,
        cmdline=words,
        alive=True,
        proof="descent",
        attempt=1,
    )


def exposed(transitions: list[Transition]) -> list[Transition]:
    return [one for one in transitions if one.finding.failure == "secrets-exposed"]


def a_leak(children: range) -> RunFacts:
    return healthy(members=[leaking(10, "launcher"), *(leaking(pid, None) for pid in children)])


def test_a_launcher_and_its_children_with_one_key_are_one_incident() -> None:
    engine = Engine(list(library()))
    (opened,) = exposed(engine.evaluate(facts(a_leak(range(11, 19)), now=NOW)))
    assert opened.event == "opened"
    assert "launcher" in opened.finding.summary
    told = " ".join(str(one["text"]) for one in opened.finding.evidence)
    assert "8 more of the run" in told
    assert "pid 10:" in told
    assert WANDB_KEY not in json.dumps([opened.finding.summary, list(opened.finding.evidence)])


def test_processes_that_come_and_go_with_the_key_change_nothing() -> None:
    """A program for each rollout that is handed a real key: no second incident and no update."""
    engine = Engine(list(library()))
    first = healthy(members=[member(10, "launcher"), leaking(11, None), leaking(12, None)])
    assert len(exposed(engine.evaluate(facts(first, now=NOW)))) == 1
    for turn in range(1, 20):
        programs = [leaking(pid, None) for pid in range(20 * turn, 20 * turn + turn)]
        changed = healthy(members=[member(10, "launcher"), *programs])
        assert exposed(engine.evaluate(facts(changed, now=NOW + 40 * turn))) == []
    assert exposed(engine.evaluate(facts(healthy(), now=NOW + 1000))) == []


def test_short_children_with_a_key_are_one_incident_that_ends_with_the_attempt() -> None:
    """A child of 10 s every 2 minutes, for 3 hours: what was seen in a command line is out."""
    engine = Engine(list(library()))
    told: list[Transition] = []
    for second in range(0, 3 * 3600, 5):
        children = [leaking(100 + second // 120, None)] if second % 120 < 10 else []
        run = healthy(members=[member(10, "launcher"), *children])
        told += exposed(engine.evaluate(facts(run, now=NOW + second)))
    assert [one.event for one in told] == ["opened"]
    ended = healthy(state="ended", members=[member(10, "launcher", alive=False)])
    told += exposed(engine.evaluate(facts(ended, now=NOW + 20_000)))
    told += exposed(engine.evaluate(facts(ended, now=NOW + 20_061)))
    assert [one.event for one in told] == ["opened", "cleared"]


def test_a_new_attempt_that_leaks_again_is_a_new_incident() -> None:
    engine = Engine(list(library()))
    (first,) = exposed(engine.evaluate(facts(a_leak(range(11, 13)), now=NOW)))
    again = dataclasses.replace(a_leak(range(21, 23)), attempt=2)
    (opened,) = exposed(engine.evaluate(facts(again, now=NOW + 10)))[:1]
    assert (opened.event, opened.incident == first.incident) == ("opened", False)


def test_it_stays_open_over_a_restart_of_the_agent() -> None:
    before = Engine(list(library()))
    (opened,) = exposed(before.evaluate(facts(a_leak(range(11, 13)), now=NOW)))
    after = Engine(list(library()))
    after.adopt(opened.incident, opened.finding, NOW + 100)
    for second in range(100, 4000, 60):
        assert exposed(after.evaluate(facts(healthy(), now=NOW + second))) == []


def test_a_second_key_is_told_once_and_stays_told() -> None:
    engine = Engine(list(library()))
    assert len(exposed(engine.evaluate(facts(a_leak(range(11, 13)), now=NOW)))) == 1
    other = dataclasses.replace(leaking(40, None), cmdline=("x", "--judge-api-key=" + OWN_KEY))
    both = healthy(members=[leaking(10, "launcher"), other])
    (updated,) = exposed(engine.evaluate(facts(both, now=NOW + 60)))
    assert updated.event == "updated"
    assert "--judge-api-key" in json.dumps(list(updated.finding.evidence))
    assert OWN_KEY not in json.dumps(list(updated.finding.evidence))
    for turn in range(1, 20):
        later = both if turn % 2 else a_leak(range(11, 13))
        assert exposed(engine.evaluate(facts(later, now=NOW + 60 + 60 * turn))) == []


def test_a_child_that_ended_before_it_was_judged_counts_while_the_run_goes_on() -> None:
    gone = dataclasses.replace(leaking(40, None), alive=False)
    engine = Engine(list(library()))
    run = healthy(members=[member(10, "launcher"), gone])
    assert len(exposed(engine.evaluate(facts(run, now=NOW)))) == 1
    over = healthy(state="ended", members=[gone])
    assert exposed(Engine(list(library())).evaluate(facts(over, now=NOW))) == []


def test_the_incident_stays_one_when_the_first_process_ends() -> None:
    engine = Engine(list(library()))
    (opened,) = exposed(engine.evaluate(facts(a_leak(range(11, 13)), now=NOW)))
    rest = healthy(members=[leaking(12, None)])
    after = exposed(engine.evaluate(facts(rest, now=NOW + 1)))
    assert [one.incident for one in after if one.event != "updated"] == []
    assert {one.incident for one in after} <= {opened.incident}


def told_by(detector: str, run: RunFacts, **around: Any) -> str:
    """The summary and the evidence of what one detector finds, as text; fails when it finds
    nothing.
    """
    seen: Facts = facts(run, **around)
    found = DETECTORS[detector](seen, run, {})
    assert found
    return json.dumps([[one.summary, list(one.evidence)] for one in found])


#: The key stands where every detector still looks: within the first 60 characters.
ROLLOUT = ("/venv/bin/python3", f"--api-key={OWN_KEY}", "--base-url=http://127.0.0.1:4/v1")


def test_what_is_left_of_a_run_is_named_without_its_key() -> None:
    left = Member(
        identity=identity(20),
        component=None,
        cmdline=ROLLOUT,
        alive=True,
        proof="descent",
        attempt=1,
    )
    text = told_by("ray-leftover-processes", healthy("verl", state="ended", members=[left]))
    assert OWN_KEY not in text
    assert "/venv/bin/python3" in text


def test_who_holds_a_gpu_is_named_without_its_key() -> None:
    holder = Holder(
        identity=identity(30),
        gpu=1,
        mem=20 << 30,
        cmdline=ROLLOUT,
        run=None,
        component=None,
        dead_run=None,
        same_user=True,
    )
    gpus = GpuFacts(
        state="ok",
        pids="local",
        used={0: 0, 1: 20 << 30},
        total={0: 24 << 30, 1: 24 << 30},
        holders=(holder,),
    )
    refused = event(
        "gpu-memory", "inference", "ValueError: Free memory on device cuda:1 is too little"
    )
    waiting = healthy(state="starting", trainer_side=Side(), events=[refused])
    text = told_by("stale-gpu-process", waiting, gpus=gpus)
    assert OWN_KEY not in text
    assert "/venv/bin/python3" in text


def test_a_hung_engine_is_named_without_a_key() -> None:
    launcher = [member(10, "launcher"), member(11, "inference")]
    engine = Member(
        identity=identity(12),
        component="engine",
        cmdline=ROLLOUT,
        alive=True,
        proof="descent",
        attempt=1,
    )
    server = ServerProbe(
        url="http://127.0.0.1:8000",
        ever_ok_m=NOW - 50,
        health="ok",
        health_m=NOW,
        answer="timeout",
        answer_m=NOW,
        failures=5,
    )
    text = told_by("inference-silent", healthy(members=[*launcher, engine], server=server))
    assert OWN_KEY not in text


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("python3", "train.py"), "python3 train.py"),
        (("python3", "a" * 300), "python3 " + "a" * 72),
        (ROLLOUT, "/venv/bin/python3 ... (holds what looks like a secret by its name)"),
        (("serve", "--api-key=short"), "serve ... (holds what looks like a secret by its name)"),
        ((f"worker {ENVIRONMENT}",), "worker ... (holds what looks like a W&B key)"),
        ((ENVIRONMENT,), "(holds what looks like a W&B key)"),
        ((), ""),
    ],
)
def test_a_command_line_is_shown_whole_or_without_its_words(
    words: tuple[str, ...], text: str
) -> None:
    assert shown_command(words, 80) == text
