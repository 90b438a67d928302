"""A run whose engine dies falls apart by itself minutes later: why it died stays the reason of its
end, for as long as nobody acts.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import pytest

from bs4_common.failures.compiled import Library
from bs4_common.failures.engine import Engine
from bs4_common.failures.facts import LogEvent, RunFacts, Side
from bs4_common.trainers.lines import parse
from bs4_console.failures.playbooks import compile_all
from tests.agent.facts import NOW, event, facts, healthy, member
from tests.playbooks.facts.made import saved

HOUR_S = 3600
DEAD = "vllm-silent-death"
#: What the logs say after the death, as the real runs said it: (trainer id, source, line).
COLLAPSE = {
    "prime-rl-2026-01": [
        (
            "trainer",
            (
                "21:39:00   ERROR An error has been caught in function 'train', process "
                "'MainProcess' (7), thread 'MainThread' (8):"
            ),
        ),
        ("trainer", "IndexError: list index out of range"),
        ("orchestrator", "httpx.ConnectError: All connection attempts failed"),
        ("launcher", "21:39:02   ERROR Error: Trainer failed with exit code 1"),
        ("launcher", "21:39:02   ERROR Terminating all processes..."),
    ],
    "prime-rl": [
        *(
            (
                "orchestrator",
                f"21:38:0{n} WARNING No admitted train payload after {8 * n} finalized units "
                f"(consecutive zero-output batch equivalents: {n}/10)",
            )
            for n in range(1, 6)
        ),
        ("orchestrator", "21:39:00   ERROR Fatal error in run_orchestrator"),
        ("orchestrator", "httpx.ConnectError: All connection attempts failed"),
        ("launcher", "21:39:02   ERROR Error: Orchestrator failed with exit code 1"),
        ("launcher", "21:39:02   ERROR Terminating all processes..."),
    ],
}

pytestmark = pytest.mark.parametrize("trainer", list(COLLAPSE))


class Watch:
    """One run under a watch with a simulated clock; `open` is the set of open incidents."""

    def __init__(self, trainer: str) -> None:
        self.trainer = trainer
        self.engine = Engine(list(Library(compile_all())))
        self.now = NOW
        self.open: set[tuple[str, int]] = set()

    def look(self, run: RunFacts, seconds: int, every: int = 3) -> None:
        """Look at `run` for `seconds`."""
        for _ in range(0, seconds, every):
            self.now += every
            for transition in self.engine.evaluate(facts(run, now=self.now)):
                key = (transition.finding.failure, transition.finding.attempt)
                if transition.event == "opened":
                    self.open.add(key)
                elif transition.event == "cleared":
                    self.open.discard(key)

    def read_collapse(self) -> None:
        for number, (source, text) in enumerate(COLLAPSE[self.trainer], 1):
            line = parse(source, text.encode())
            place = {
                "source": source,
                "stream": f"log/demo/{source}",
                "cursor": f"1:{number}",
                "file": source,
                "offset": number,
            }
            self.engine.feed(
                "demo", 1, self.trainer, source, line, {**place, "line": number, "text": line.text}
            )

    def dead(self) -> RunFacts:
        """The engine is dead and the run goes on; returns the facts after the incident has
        opened.
        """
        alive = healthy(self.trainer)
        self.look(alive, 6)
        gone = [
            dataclasses.replace(m, alive=m.alive and m.component not in ("inference", "engine"))
            for m in alive.members
        ]
        dead = dataclasses.replace(alive, members=gone)
        self.look(dead, 12)
        assert self.open == {(DEAD, 1)}
        return dead

    def collapsed(self) -> RunFacts:
        """The run has ended by itself, with all that its logs say of it."""
        dead = self.dead()
        self.read_collapse()
        self.look(dead, 3)
        return ended(dead)


def ended(run: RunFacts, **changes: Any) -> RunFacts:
    members = [dataclasses.replace(m, alive=False) for m in run.members]
    return dataclasses.replace(run, state="ended", members=members, **changes)


def test_an_hour_after_the_collapse_its_cause_is_the_only_incident(trainer: str) -> None:
    watch = Watch(trainer)
    run = watch.collapsed()
    for _ in range(HOUR_S // 600):
        watch.look(run, 600)
        assert watch.open == {(DEAD, 1)}


def test_the_cause_stays_while_the_launcher_cleans_up(trainer: str) -> None:
    """The real launcher names the child that failed, and needs a minute to end the others."""
    watch = Watch(trainer)
    dead = watch.dead()
    watch.read_collapse()
    said = [event("child-failed", "launcher"), event("terminating", "launcher")]
    ending = dataclasses.replace(dead, events=[*dead.events, *said])
    watch.look(ending, 60)
    assert watch.open == {(DEAD, 1)}
    watch.look(ended(ending), HOUR_S, 60)
    assert watch.open == {(DEAD, 1)}


def test_what_a_good_end_has_kept_open_closes_with_it(trainer: str) -> None:
    watch = Watch(trainer)
    dead = watch.dead()
    ending = dataclasses.replace(dead, events=[event("terminating", "launcher")])
    watch.look(ending, 60)
    watch.look(ended(ending, good_end=True), 60)
    assert watch.open == set()


def test_a_checkpoint_that_the_end_has_torn_is_a_consequence(trainer: str) -> None:
    """The orchestrator often saves its half just before the end. The fix moves it away."""
    watch = Watch(trainer)
    run = watch.collapsed()
    halves = [saved(5), saved(10, complete=False)]
    watch.look(dataclasses.replace(run, checkpoints=halves), 600)
    assert watch.open == {(DEAD, 1)}


def test_an_agent_that_restarts_after_the_collapse_keeps_it(trainer: str) -> None:
    watch = Watch(trainer)
    dead = watch.dead()
    known = next((i, h.finding) for i, h in watch.engine._held.items() if h.fired)
    after = Watch(trainer)
    after.engine.adopt(known[0], dataclasses.replace(known[1], anchor=""), after.now)
    after.open = {(DEAD, 1)}
    after.look(ended(dead), HOUR_S, 60)
    assert after.open == {(DEAD, 1)}


def test_a_stop_that_was_asked_for_clears_it(trainer: str) -> None:
    watch = Watch(trainer)
    dead = watch.dead()
    watch.look(ended(dead, stop_requested=True), 60)
    assert watch.open == set()


def test_a_stop_after_the_collapse_clears_it_too(trainer: str) -> None:
    watch = Watch(trainer)
    run = watch.collapsed()
    watch.look(run, 60)
    watch.look(dataclasses.replace(run, stop_requested=True), 60)
    assert watch.open == set()


def test_a_good_end_clears_it(trainer: str) -> None:
    watch = Watch(trainer)
    dead = watch.dead()
    watch.look(ended(dead, good_end=True), 60)
    assert watch.open == set()


LOGGED = (
    event(
        "server-error",
        "inference",
        'INFO: "POST /v1/chat/completions HTTP/1.1" 500 Internal Server Error',
        m=NOW + 6,
    ),
    event("terminating", "inference", "Shutting down", m=NOW + 7),
    event("rollout-failed", "orchestrator", "APIConnectionError: Connection error.", m=NOW + 12),
)


@pytest.mark.parametrize(
    "events", [(), LOGGED], ids=["the logs tell nothing", "the logs tell it too"]
)
def test_a_later_attempt_that_makes_steps_clears_it_and_all_that_the_collapse_said(
    trainer: str, events: Sequence[LogEvent]
) -> None:
    watch = Watch(trainer)
    run = dataclasses.replace(watch.collapsed(), events=events)
    watch.look(run, 60)
    members = [
        dataclasses.replace(member(20 + m.identity.pid, str(m.component)), attempt=2)
        for m in run.members
    ]
    starting = dataclasses.replace(
        healthy(trainer),
        attempt=2,
        state="starting",
        members=members,
        trainer_side=Side(),
        orchestrator_side=Side(),
    )
    for _ in range(200):
        watch.look(starting, 3)
        assert watch.open == {(DEAD, 1)}
    watch.look(
        dataclasses.replace(starting, state="running", trainer_side=Side(6, watch.now, 1)), 6
    )
    assert watch.open == set()
