"""Keys in command lines: one incident for a run, and no key in the evidence of any detector."""

from __future__ import annotations

import json
from typing import Any

import pytest

from bs4_agent.detect.detectors import DETECTORS
from bs4_agent.detect.engine import Engine, Transition
from bs4_agent.detect.facts import Facts, GpuFacts, Holder, RunFacts, ServerProbe, Side
from bs4_agent.keys import shown_command
from bs4_agent.runs.model import Member
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
    assert str(identity(10)) in told
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
    assert len(exposed(engine.evaluate(facts(healthy(), now=NOW + 1000)))) == 1


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
