"""The page of rollouts: what the model was asked and wrote, read once from the pod, without secrets
and without what a terminal acts on.
"""

from __future__ import annotations

from typing import Any

import pytest

from bs4_console.tui.app import ConsoleApp
from bs4_console.tui.screens.rollouts import RolloutsScreen
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
