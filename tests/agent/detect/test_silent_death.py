"""A server that dies while it takes weights is one failure with one name, whoever hears of it
first.
"""

from __future__ import annotations

import dataclasses

import pytest

from bs4_common.failures.compiled import Library
from bs4_common.failures.engine import Engine
from bs4_common.trainers.lines import parse
from bs4_console.failures.playbooks import compile_all
from tests.agent.facts import NOW, event, facts, healthy

_REFUSED = 'INFO:     127.0.0.1:40012 - "POST /update_weights HTTP/1.1" 500 Internal Server Error'
_PLACE = {
    "source": "inference",
    "stream": "log/demo/inference",
    "cursor": "1:0",
    "file": "inference.log",
    "offset": 0,
    "line": 1,
}


def test_the_refused_weights_wait_for_the_dead_server() -> None:
    engine = Engine(list(Library(compile_all())))
    line = parse("inference", _REFUSED.encode())
    engine.feed("demo", 1, "prime-rl", "inference", line, {**_PLACE, "text": line.text})
    alive = healthy("prime-rl")
    dead = dataclasses.replace(
        alive,
        members=[
            dataclasses.replace(m, alive=m.alive and m.component not in ("inference", "engine"))
            for m in alive.members
        ],
        events=[event("server-error", "inference", _REFUSED)],
    )
    opened: list[str] = []
    for second in range(12):
        run = alive if second == 0 else dead  # the line is read before the process is missed
        opened += [
            t.finding.failure
            for t in engine.evaluate(facts(run, now=NOW + second))
            if t.event == "opened"
        ]
    assert opened == ["vllm-silent-death"]


@pytest.mark.parametrize("trainer", ["prime-rl", "prime-rl-2026-01"])
def test_a_launcher_that_ends_its_children_after_the_work_opens_nothing(trainer: str) -> None:
    """The real launcher ends the server first and then cleans up for 40 s and more."""
    engine = Engine(list(Library(compile_all())))
    alive = healthy(trainer)
    events = [
        event("finished", "trainer", "RL trainer finished!", m=NOW),
        event("inference-lost", "inference", "EngineCore died", m=NOW + 12),
    ]
    opened: list[str] = []
    for second in range(60):
        ended = ("trainer", "orchestrator", *(("inference", "engine") if second > 10 else ()))
        run = dataclasses.replace(
            alive,
            members=[dataclasses.replace(m, alive=m.component not in ended) for m in alive.members],
            events=[one for one in events if one.m <= NOW + second],
        )
        opened += [
            t.finding.failure
            for t in engine.evaluate(facts(run, now=NOW + second))
            if t.event == "opened"
        ]
    assert opened == []
