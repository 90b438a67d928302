"""A server that dies while it takes weights is one failure with one name, whoever hears of it
first.
"""

from __future__ import annotations

import dataclasses

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
