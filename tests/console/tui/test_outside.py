"""Beside what the pod says: what witnesses say, when they were asked, and that they are no ground;
its store; what is done there.
"""

from __future__ import annotations

from typing import Any

import pytest

from bs4_console.tui.app import ConsoleApp
from bs4_console.tui.styled_text import text_of
from bs4_console.tui.views import doing, observers, store
from bs4_console.tui.widgets.panel import Panel
from tests.console.tui import fixtures
from tests.console.tui.driving import drive


def shown(app: Any) -> str:
    return "\n".join(
        text_of(line) for panel in app.screen.query(Panel) if panel.display for line in panel.lines
    )


def said(session: fixtures.RecordedSession, run: str, width: int = 118) -> str:
    pod = session.state
    return "\n".join(
        text_of(line) for line in observers.lines(pod, [pod.runs[run]], fixtures.CLOCK, width)
    )


def test_each_witness_with_what_it_saw_and_when_it_was_asked() -> None:
    text = said(fixtures.witnessed(), "math-7b")
    assert "never enough alone to act on" in text
    assert "W&B       cannot tell, step 41, heard from 9m05s ago  asked 12s ago" in text
    assert "provider  lives  asked 1m35s ago  vast says that machine 5120 is running." in text
    assert "W&B has math-7b as crashed though it lives: trust the pod, not W&B." in text


def _keyless(pod: Any) -> None:
    pod.runs["math-7b"].view.tracked.append({"id": "x"})
    pod.unseen = ("W&B: this machine has no key for it",)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda pod: None, "the run has not said that W&B shows it"),
        (lambda pod: pod.runs["math-7b"].view.tracked.append({"id": "x"}), "no look was made yet"),
        (_keyless, "not asked: this machine has no key for it"),
    ],
)
def test_a_witness_that_was_not_asked_says_why(change: Any, says: str) -> None:
    session = fixtures.desync()
    change(session.state)
    text = said(session, "math-7b")
    assert says in text
    assert "provider  not asked: bs4-console does not know" in text


def test_a_silent_pods_run_that_is_heard_of_is_said_to_go_on() -> None:
    assert "the run goes on, the link is what is broken" in said(fixtures.cut_off(), "tool-14b")


async def test_the_incident_shows_evidence_then_the_fix_then_the_witnesses() -> None:
    session = fixtures.witnessed()
    app: Any = ConsoleApp(fixtures.fleet(session), clock=fixtures.CLOCK)
    async with app.run_test(size=(120, 60)) as pilot:
        await drive(pilot, [session], ("i",))
        text = shown(app)
        assert text.index("EVIDENCE") < text.index("THE FIX") < text.index("OTHER SIGNALS")
        assert "kernel log not visible (permission denied): it was not looked at" in text
        await drive(pilot, [session], ("p",))
        assert "OTHER SIGNALS" in shown(app)


def test_the_store_says_what_is_verified_there_and_how_far_the_next_is() -> None:
    pod = fixtures.synced().state
    text = text_of(store.line(pod, "code-14b", fixtures.CLOCK, 160))
    assert "step 180 verified 4m00s ago" in text
    assert "step 185" in text
    assert "62% of 13.0 GiB, 87.7 MiB/s, 57s left" in text
    assert "b2://rl-checkpoints/runs" in text
    assert store.line(fixtures.healthy().state, "code-14b", fixtures.CLOCK, 160) == []


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_a_store_that_refuses_is_shown_on_every_screen(size: tuple[int, int]) -> None:
    session = fixtures.sync_fails()
    app: Any = ConsoleApp(fixtures.fleet(session), clock=fixtures.CLOCK)
    async with app.run_test(size=size) as pilot:
        await drive(pilot, [session], ("enter",))
        assert "▲ 3 failures in a row: The store refuses the key: it may not write." in shown(app)
        await drive(pilot, [session], ("d",))
        assert "3 failures in a row" in shown(app)


async def test_what_is_done_is_shown_with_its_step_and_ends_with_it() -> None:
    session = fixtures.synced()
    pod = session.state
    (line,) = doing.lines(pod, "code-14b", fixtures.CLOCK, 160)
    assert (
        "↻ merge   2 of 3 Merge it into the base model  2m07s   18 of 40 layers   by bob@desk"
        in text_of(line)
    )
    assert doing.lines(pod, "another", fixtures.CLOCK, 160) == []
    app: Any = ConsoleApp(fixtures.fleet(session), clock=fixtures.CLOCK)
    async with app.run_test(size=(120, 40)) as pilot:
        await drive(pilot, [session], ("enter",))
        assert "Merge it into the base model" in shown(app)
        fixtures.journal(
            pod, "action", 1, action="01JD0000000000000000MERGE", run="code-14b", event="done"
        )
        pod.changed()
        await drive(pilot, [session], ())
        assert "Merge it into the base model" not in shown(app)


async def test_at_the_smallest_size_nothing_that_is_wrong_is_cut_off() -> None:
    session = fixtures.desync()
    app: Any = ConsoleApp(fixtures.fleet(session), clock=fixtures.CLOCK)
    async with app.run_test(size=(80, 24)) as pilot:
        session.state.runs["math-7b"].components[1]["state"] = "Z"
        await drive(pilot, [session], ("enter",))
        text = shown(app)
        for part in (
            "Trainer and orchestrator wait for each other at different steps",
            "no step for 9m20s (usually 31.5s)",
            "◌ kernel log",
            "procs ✖ inference dead",
        ):
            assert part in text


async def test_without_pods_the_keys_stand_at_the_bottom() -> None:
    app: Any = ConsoleApp(fixtures.fleet(), clock=fixtures.CLOCK)
    async with app.run_test(size=(80, 24)) as pilot:
        await drive(pilot, [], ())
        assert app.screen.query_one("KeyBar").region.y == 23
