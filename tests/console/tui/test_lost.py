"""A pod that does not answer: what became of it is said first, with its signs, and with what to
press; the link's age stays.
"""

from __future__ import annotations

from typing import Any

import pytest

from bs4_console.tui import status
from bs4_console.tui.alerts import Alerts
from bs4_console.tui.app import ConsoleApp
from bs4_console.tui.screens.pod import PodScreen
from bs4_console.tui.styled_text import text_of, width_of
from bs4_console.tui.views import lost
from bs4_console.tui.views.fleet import rows
from bs4_console.tui.widgets.panel import Panel
from tests.console.tui import fixtures
from tests.console.tui.driving import drive, until

KEYS = {"retry": "R", "pod": "d"}


def shown(app: Any) -> str:
    return "\n".join(
        text_of(line) for panel in app.screen.query(Panel) if panel.display for line in panel.lines
    )


@pytest.mark.parametrize(
    ("scene", "word", "rank", "says"),
    [
        ("reclaimed", "✖ reclaimed", 4, "The provider took h200-eu back (outbid"),
        ("hung", "? hung", 3, "takes connections without a word"),
        ("cut_off", "▲ link only", 2, "Only the way there is broken"),
        ("rebooted", "▲ rebooted", 2, "its boot id is another one"),
        ("unreachable_elsewhere", "? unreachable", 3, "unreachable since"),
    ],
)
def test_each_has_a_word_and_a_sign_of_its_own(scene: str, word: str, rank: int, says: str) -> None:
    pod = getattr(fixtures, scene)().state
    (row,) = rows([pod], fixtures.CLOCK)
    assert (text_of(row.cells["state"]), row.rank) == (word, rank)
    assert text_of(row.cells["wrong"]).startswith(says) or says in text_of(row.cells["wrong"])
    assert text_of(row.cells["age"]) == ("now" if scene == "rebooted" else "3m old"), (
        "the age of what is shown stays visible"
    )
    assert ("unreachable since" in text_of(row.cells["wrong"])) is (scene != "rebooted"), (
        "and so does the link"
    )


def test_where_nothing_trained_nothing_was_lost_with_the_pod() -> None:
    pod = fixtures.reclaimed().state
    fixtures.journal(
        pod,
        "run",
        400,
        event="attempt-ended",
        run="reason-32b",
        attempt=1,
        code=0,
        signal=None,
        good=True,
        detail="",
    )
    assert status.status_of(pod, pod.runs["reason-32b"]).rank == 1


def test_the_pod_is_gone_before_what_was_wrong_on_it() -> None:
    pod = fixtures.reclaimed().state
    fixtures.journal(
        pod,
        "incident",
        900,
        event="opened",
        incident="i",
        failure="run-stalled",
        run="reason-32b",
        attempt=1,
        role="root",
        severity="critical",
        title="The run stands still",
        summary="",
        evidence=[],
        coverage=[],
        playbook=None,
    )
    assert status.status_of(pod, pod.runs["reason-32b"]).word == "reclaimed"
    assert "took h200-eu back" in status.wrong(pod, pod.runs["reason-32b"], fixtures.CLOCK)[0][0]


def test_one_more_look_is_no_new_alert() -> None:
    pod = fixtures.reclaimed().state
    alerts = Alerts()
    alerts.update(rows([pod], fixtures.CLOCK), 0.0)
    first = alerts.update(rows([pod], fixtures.CLOCK), 100.0)
    assert pod.lost is not None
    pod.lost = type(pod.lost)(
        pod.lost.word,
        pod.lost.sentence.replace("3 looks", "4 looks"),
        pod.lost.evidence,
        pod.lost.next_step,
    )
    assert [*first, *alerts.update(rows([pod], fixtures.CLOCK), 101.0)] == []


@pytest.mark.parametrize("width", [78, 118, 198])
def test_the_signs_have_their_times_and_the_way_on_is_whole(width: int) -> None:
    pod = fixtures.reclaimed().state
    lines = lost.lines(pod, fixtures.CLOCK, KEYS, width)
    text = "\n".join(text_of(line) for line in lines)
    assert "03:10:01  provider" in text or "03:09:51  provider" in text
    assert "link         unreachable" in text
    whole = " ".join(text.split())
    assert (
        "bs4-console checkpoints restore --pod NEW --run reason-32b --from "
        "b2://rl-checkpoints/runs --launch" in whole
    )
    assert "R reconnect now" in text
    assert all(width_of(line) <= width for line in lines)


@pytest.mark.parametrize("width", [78, 118])
def test_the_keys_that_were_on_it_are_named_for_rotation(width: int) -> None:
    pod = fixtures.reclaimed().state
    lines = lost.lines(pod, fixtures.CLOCK, KEYS, width)
    whole = " ".join("\n".join(text_of(line) for line in lines).split())
    assert "Rotate what was on h200-eu" in whole
    assert "B2 key 0012ab34cd56ef78900000001, W&B key." in whole
    assert all(width_of(line) <= width for line in lines)
    silent = fixtures.unreachable_elsewhere().state
    assert "otate" not in "\n".join(
        text_of(line) for line in lost.lines(silent, fixtures.CLOCK, KEYS, width)
    ), "a pod that is only silent is not lost"


def test_without_a_store_the_screen_promises_nothing() -> None:
    pod = fixtures.reclaimed().state
    pod.ledger.syncs.clear()
    text = "\n".join(text_of(line) for line in lost.lines(pod, fixtures.CLOCK, KEYS, 118))
    assert "No run of it was synced" in text
    assert "restore" not in text


async def test_from_the_fleet_to_the_signs_in_one_key() -> None:
    sessions = fixtures.lost_pods()
    app: Any = ConsoleApp(fixtures.fleet(*sessions), clock=fixtures.CLOCK)
    async with app.run_test(size=(120, 40)) as pilot:
        await drive(pilot, sessions, ())
        assert app.screen.table.cursor == ("h200-eu", "reason-32b"), "what is lost stands first"
        assert "signs and what to do" in shown(app)
        assert "go on elsewhere from the newest step" in shown(app)
        await drive(pilot, sessions, ("d",))
        assert isinstance(app.screen, PodScreen)
        for part in (
            "✖ reclaimed: The provider took h200-eu back",
            "vast says that machine 4711 is outbid",
            "step 720 verified 15m00s ago",
        ):
            assert part in shown(app)
        await drive(pilot, sessions, ("escape", "enter"))
        assert "✖  reclaimed: The provider took" in shown(app)
        await drive(pilot, sessions, ("d",))
        assert isinstance(app.screen, PodScreen)


async def test_pod_without_a_pod_says_so() -> None:
    app: Any = ConsoleApp(fixtures.fleet(), clock=fixtures.CLOCK)
    async with app.run_test(size=(100, 30)) as pilot:
        await drive(pilot, [], ("d",))
        await until(pilot, lambda: any("Select a pod" in said.text for said in app.messages))
