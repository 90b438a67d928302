"""Pictures of every screen, compared. `--snapshot-update` accepts new ones: look at them first."""

from __future__ import annotations

from typing import Any

import pytest

from bs4_console.tui.app import ConsoleApp
from tests.console.tui import fixtures
from tests.console.tui.driving import drive

SMALL, MIDDLE, LARGE = (80, 24), (120, 40), (200, 60)

SCENES: list[tuple[str, str, tuple[int, int], tuple[str, ...]]] = [
    ("fleet", "everything", SMALL, ()),
    ("fleet", "everything", MIDDLE, ()),
    ("fleet", "everything", LARGE, ()),
    ("fleet-empty", "nothing", SMALL, ()),
    ("fleet-filter", "everything", SMALL, ("/h100",)),
    ("fleet-grouped", "everything", SMALL, (":group state", ":sort gpu")),
    ("fleet-grouped", "everything", MIDDLE, (":group pod",)),
    ("fleet-grouped", "everything", LARGE, (":group trainer", ":sort age")),
    ("note", "desync", SMALL, ("e",)),
    ("first-contact", "first_contact", SMALL, ()),
    ("command-line", "everything", SMALL, (":run ",)),
    ("command-wrong", "everything", SMALL, (":rum x",)),
    ("run", "desync", SMALL, ("enter",)),
    ("run", "healthy", MIDDLE, ("enter",)),
    ("run", "healthy", LARGE, ("enter",)),
    ("run-desync", "desync", MIDDLE, ("enter",)),
    ("run-stale-gpus", "stale_gpus", MIDDLE, ("enter",)),
    ("run-unreachable", "unreachable", MIDDLE, ("enter",)),
    ("run-moment", "healthy", MIDDLE, ("enter", ":at 180", "~log")),
    ("curves", "desync", SMALL, ("enter", "c")),
    ("curves", "healthy", MIDDLE, ("enter", "c", ":at 180", "~log", "E", "E")),
    ("curves", "healthy", LARGE, ("enter", "c")),
    ("curves-one", "desync", MIDDLE, ("enter", ":curves ent", "L", "plus")),
    ("run-finished", "finished", SMALL, ("enter",)),
    ("incident", "desync", SMALL, ("i",)),
    ("incident", "desync", MIDDLE, ("i",)),
    ("incident", "desync", LARGE, ("i",)),
    ("plan", "planned", SMALL, ("i",)),
    ("plan", "planned", MIDDLE, ("i",)),
    ("confirm", "planned", SMALL, ("i", "r")),
    ("action", "acting", MIDDLE, ("i",)),
    ("recovered", "acting", MIDDLE, ("i", "!recovered")),
    ("not-recovered", "failed_fix", SMALL, ("i",)),
    ("logs", "healthy", SMALL, ("l",)),
    ("logs", "healthy", MIDDLE, ("l",)),
    ("logs-evidence", "desync", MIDDLE, ("i", "enter")),
    ("logs-filter", "desync", SMALL, ("l", "/barrier|pack", "pageup")),
    ("pod", "idle", SMALL, ("enter",)),
    ("gpus", "everything", SMALL, ("U",)),
    ("gpus", "everything", MIDDLE, ("U",)),
    ("gpus", "everything", LARGE, ("U",)),
    ("gpus-compact", "everything", SMALL, ("U", "C")),
    ("help", "healthy", SMALL, ("question_mark",)),
    ("help", "healthy", LARGE, ("enter", "question_mark")),
    ("journal", "acting", SMALL, ("J",)),
    ("journal", "acting", MIDDLE, ("J",)),
    ("journal", "acting", LARGE, ("J",)),
    ("messages", "everything", SMALL, ("dollar_sign", ":run nowhere", "m")),
]


def _app(scene: str) -> tuple[ConsoleApp, list[fixtures.RecordedSession]]:
    made = getattr(fixtures, scene)()
    sessions = made if isinstance(made, list) else [made]
    return ConsoleApp(fixtures.fleet(*sessions), clock=fixtures.CLOCK), sessions


def _compare(snap_compare: Any, scene: str, size: tuple[int, int], keys: tuple[str, ...], theme: str = "") -> bool:
    app, sessions = _app(scene)

    async def before(pilot: Any) -> None:
        if theme:
            app.theme = theme
        await drive(pilot, sessions, keys)
        app.clear_notifications()

    return bool(snap_compare(app, terminal_size=size, run_before=before))


@pytest.mark.parametrize(("name", "scene", "size", "keys"), SCENES, ids=[f"{n}-{s[0]}x{s[1]}" for n, _, s, _ in SCENES])
def test_dark(snap_compare: Any, name: str, scene: str, size: tuple[int, int], keys: tuple[str, ...]) -> None:
    assert _compare(snap_compare, scene, size, keys)


@pytest.mark.parametrize(("scene", "keys"), [("everything", ()), ("desync", ("enter",)), ("planned", ("i",)), ("acting", ("J",))])
def test_light(snap_compare: Any, scene: str, keys: tuple[str, ...]) -> None:
    assert _compare(snap_compare, scene, (100, 30), keys, "bs4-light")


@pytest.mark.parametrize("theme", ["bs4-safe", "bs4-safe-light", "bs4-no-colour"])
def test_other_themes(snap_compare: Any, theme: str) -> None:
    assert _compare(snap_compare, "everything", (100, 30), (), theme)


@pytest.mark.parametrize(
    ("scene", "keys"), [("everything", ()), ("desync", ("enter",)), ("planned", ("i", "r")), ("acting", ("J",)), ("healthy", ("l",))]
)
def test_no_colour(snap_compare: Any, monkeypatch: pytest.MonkeyPatch, scene: str, keys: tuple[str, ...]) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert _compare(snap_compare, scene, (100, 30), keys)
