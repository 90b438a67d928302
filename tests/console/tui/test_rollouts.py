"""The page of rollouts: what the model was asked and wrote, read once from the pod, without secrets
and without what a terminal acts on.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Sequence
from typing import Any

import pytest

from bs4_console.run_log import pod_rollouts
from bs4_console.run_log.rollout_lines import Message, Shown
from bs4_console.tui.app import ConsoleApp
from bs4_console.tui.screens.rollouts import RolloutsScreen
from bs4_console.tui.styled_text import Line, text_of, width_of
from bs4_console.tui.views import rollouts as view
from bs4_console.tui.widgets.panel import Panel
from tests.console.tui import fixtures
from tests.console.tui.driving import drive, until
from tests.console.tui.test_app import EVIL

SIZE = (100, 60)


def opened(session: fixtures.RecordedSession) -> Any:
    return ConsoleApp(fixtures.fleet(session), clock=fixtures.CLOCK)


def drawn(app: Any) -> str:
    """What the terminal gets of the page."""
    panel = app.screen.query_one("#text", Panel)
    return "\n".join(panel.render_line(y).text.rstrip() for y in range(panel.size.height))


async def test_the_last_rollouts_of_the_newest_step_and_of_another_one() -> None:
    session = fixtures.with_rollouts()
    app = opened(session)
    async with app.run_test(size=SIZE) as pilot:
        await drive(pilot, [session], ("enter", ":rollouts", "~rollouts"))
        assert app.screen.trail() == ("fleet", "h100-b", "code-14b", "rollouts")
        shown = drawn(app)
        for wanted in (
            fixtures.ROLLOUTS.format(187),
            "sorting example 4  reward 1.0000",
            "  user: Write a function that sorts. n=4",
            "  assistant: def order(xs):\n        return sorted(xs)",
            "(300 more characters)",
            "sorting example 7  no reward",
            "error: ProviderError: upstream 503",
            "bs4-console runs rollouts code-14b --pod h100-b --file",
        ):
            assert wanted in shown, (wanted, shown)
        assert "An older one" not in shown, "the last four"

        other = fixtures.rollout(1, 0.5, "Of step 12.")
        session.logs[f"file/{fixtures.ROLLOUTS.format(12)}"] = bytearray(other)
        await drive(pilot, [session], (":rollouts 12", "~rollouts"))
        await until(pilot, lambda: "Of step 12." in drawn(app))
        assert "n=4" not in drawn(app)
        session.logs["file/~/evals/traces.jsonl"] = bytearray(fixtures.rollout(2, 1.0, "Judged."))
        await drive(pilot, [session], (":rollouts ~/evals/traces.jsonl", "~rollouts"))
        await until(pilot, lambda: "Judged." in drawn(app))
        await drive(pilot, [session], ("escape",))
        assert not isinstance(app.screen, RolloutsScreen)


@pytest.mark.parametrize(
    ("pods", "words", "says"),
    [
        ("healthy", ":rollouts", "is not there"),
        ("desync", ":rollouts", "token ids and no text"),
        ("healthy", ":rollouts traces.jsonl", "is no whole path of the pod"),
        ("with_a_file", ":rollouts ~/judge/server.log", "holds lines that are no rollouts"),
    ],
)
async def test_why_there_are_none_and_how_to_name_others(pods: str, words: str, says: str) -> None:
    session = getattr(fixtures, pods)()
    app = opened(session)
    async with app.run_test(size=SIZE) as pilot:
        await drive(pilot, [session], ("enter", words, "~rollouts"))
        await until(pilot, lambda: says in " ".join(drawn(app).split()))
        assert ":rollouts PATH a file of the pod" in " ".join(drawn(app).split())
        assert not [said for said in app.messages if said.severity == "error"]


async def test_a_rollout_shows_no_secret_and_nothing_that_a_terminal_acts_on() -> None:
    """Neither behind the place at which a message is cut nor where a line is folded."""
    token = "ghp_" + "Q7" * 18
    session = fixtures.with_rollouts()
    lines = [
        fixtures.rollout(1, 1.0, "x" * 580 + " " + token),
        fixtures.rollout(2, 1.0, "y" * 70 + " " + token),
        fixtures.rollout(3, 1.0, f"a{EVIL}b \ud800"),
        fixtures.rollout(4, 1.0, "", error=f"{token} {EVIL}"),
    ]
    session.logs[f"file/{fixtures.ROLLOUTS.format(187)}"] = bytearray(b"".join(lines))
    app = opened(session)
    async with app.run_test(size=SIZE) as pilot:
        await drive(pilot, [session], ("enter", ":rollouts", "~rollouts"))
        await until(pilot, lambda: "sorting example 4" in drawn(app))
        shown = drawn(app)
        assert "ghp_" not in shown
        assert "Q7Q7" not in shown
        assert shown.replace("\n", "").isprintable()


def one(**other: Any) -> Shown:
    known: dict[str, Any] = {"environment": "sorting", "example": "1", "reward": 1.0, "error": ""}
    return Shown(**{**known, "messages": [Message("user", "Sort.")], **other})


@pytest.mark.parametrize(
    ("found", "says"),
    [
        (one(environment="e" * 100_000), ""),
        (one(example="7\n" * 100_000), ""),
        (one(reward=None, error="x" * 100_000), "(99400 more characters)"),
        (one(messages=[Message("r" * 100_000, "状" * 100_000)]), "(99400 more characters)"),
        (one(messages=[Message("user", f"{n}.") for n in range(1000)]), "… 960 more messages"),
    ],
)
def test_no_field_of_a_rollout_makes_the_page_long(found: Shown, says: str) -> None:
    """A pod can send fields of any length."""
    lines = view.page("/data/t.jsonl", [found], "bs4-console", 100)
    assert len(lines) < 60
    assert sum(len(text_of(line)) for line in lines) < 3000
    assert all(width_of(line) <= 100 for line in lines)
    shown = "\n".join(map(text_of, lines))
    assert says in shown
    assert (says != "") == ("Whole messages:" in shown)


def test_of_many_rollouts_and_messages_the_page_has_the_last_ones() -> None:
    talk = [Message("user", f"Number {n}.") for n in range(41)]
    found = [one(example=str(n), messages=talk) for n in range(1000)]
    shown = [text_of(line) for line in view.page("/data/t.jsonl", found, "bs4-console", 100)]
    heads = [line for line in shown if line.startswith("sorting")]
    assert heads == [f"sorting example {n}  reward 1.0000" for n in range(960, 1000)]
    assert "… 960 earlier rollouts" in shown
    assert "  user: Number 19.\n  … 1 more messages\n  user: Number 21." in "\n".join(shown)
    assert "  user: Number 40." in shown


async def test_a_thread_makes_the_lines_also_in_another_size(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    session, made = fixtures.with_rollouts(), []
    page = view.page

    def noted(path: str, found: Sequence[Shown], whole: str, width: int) -> list[Line]:
        made.append((width, threading.current_thread() is threading.main_thread()))
        return page(path, found, whole, width)

    monkeypatch.setattr(view, "page", noted)
    app = opened(session)
    async with app.run_test(size=SIZE) as pilot:
        await drive(pilot, [session], ("enter", ":rollouts", "~rollouts"))
        assert made == [(94, False)]
        wide = drawn(app)
        await pilot.resize_terminal(60, 60)
        await until(pilot, lambda: "(300 more characters)" in drawn(app) != wide)
        assert made == [(94, False), (54, False)]


async def test_what_is_no_rollout_is_named_by_its_kind_and_not_shown() -> None:
    """Its text may be long, and a part of it a secret."""
    session, token = fixtures.with_rollouts(), "ghp_" + "Q7" * 18
    wrong = {"prompt": "", "completion": "", "example_id": 1, "reward": "x" * 5000 + token}
    session.logs["file/~/results.jsonl"] = bytearray(json.dumps(wrong).encode() + b"\n")
    path = "~/" + "d" * 5000
    session.logs[f"file/{path}"] = bytearray(b"no rollout\n")
    app = opened(session)
    async with app.run_test(size=SIZE) as pilot:
        await drive(pilot, [session], ("enter", ":rollouts ~/results.jsonl", "~rollouts"))
        says = "holds lines that are no rollouts: no rollout (ValueError)."
        assert says in " ".join(drawn(app).split())
        assert "xxx" not in drawn(app)
        assert "Q7" not in drawn(app)
        await drive(pilot, [session], (f":rollouts {path}", "~rollouts"))
        assert "ddd" in drawn(app)
        assert drawn(app).count("d") < 300


class Readings:
    """Stands where the reading from the pod is: each waits until the test answers it."""

    def __init__(self) -> None:
        self.begun: list[asyncio.Future[list[Shown]]] = []

    async def __call__(self, live: object, path: str, count: int) -> list[Shown]:
        self.begun.append(asyncio.get_running_loop().create_future())
        return await self.begun[-1]


@pytest.fixture
def readings(monkeypatch: pytest.MonkeyPatch) -> Readings:
    made = Readings()
    monkeypatch.setattr(pod_rollouts, "read", made)
    return made


async def test_a_reading_is_given_up_for_the_next_one_and_when_the_page_is_left(
    readings: Readings,
) -> None:
    session = fixtures.with_rollouts()
    app = opened(session)
    async with app.run_test(size=SIZE) as pilot:
        await drive(pilot, [session], ("enter", ":rollouts"))
        await until(pilot, lambda: len(readings.begun) == 1)
        await drive(pilot, [session], (":rollouts",))
        await until(pilot, lambda: len(readings.begun) == 2)
        await until(pilot, readings.begun[0].cancelled)
        readings.begun[1].set_result([one(example="22")])
        await drive(pilot, [session], ("~rollouts",))
        assert "sorting example 22" in drawn(app)
        await drive(pilot, [session], (":rollouts 12",))
        await until(pilot, lambda: len(readings.begun) == 3)
        assert "is asked for them" in drawn(app)
        await drive(pilot, [session], ("escape",))
        await until(pilot, readings.begun[2].cancelled)
        assert not [said for said in app.messages if said.severity == "error"]


async def test_an_unforeseen_error_and_a_number_that_is_no_step_are_said(
    readings: Readings,
) -> None:
    session = fixtures.with_rollouts()
    app = opened(session)
    async with app.run_test(size=SIZE) as pilot:
        await drive(pilot, [session], ("enter", ":rollouts"))
        await until(pilot, lambda: len(readings.begun) == 1)
        readings.begun[0].set_exception(RuntimeError("unforeseen"))
        await drive(pilot, [session], ("~rollouts",))
        assert drawn(app).startswith("The rollouts could not be read.")
        assert "RuntimeError: unforeseen" in app.messages[-1].text
        await drive(pilot, [session], (":rollouts " + "9" * 5000,))
        assert drawn(app).startswith("No step has more than 9 digits.")
        assert len(readings.begun) == 1
