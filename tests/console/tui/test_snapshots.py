"""Pictures of every screen, compared. `--snapshot-update` accepts new ones: look at them first
(`tools/contact_sheet.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pytest_textual_snapshot import SVGImageExtension  # type: ignore[import-untyped]

from bs4_console.tui.app import ConsoleApp
from tests.console.tui import fixtures
from tests.console.tui.driving import drive, until
from tests.console.tui.scenes import (
    SCENES,
    SIZES,
    THEMES,
    Scene,
    lead,
    opened,
    screen_classes,
    still,
)
from tests.console.tui.test_launch import FULL, UNSEEN, WARNED, looked, planned  # noqa: F401

SMALL, MIDDLE, LARGE = SIZES

#: What a screen shows in a moment of its own: once each, dark.
MOMENTS: list[tuple[str, str, tuple[int, int], tuple[str, ...]]] = [
    ("fleet-empty", "nothing", SMALL, ()),
    ("fleet-filter", "everything", SMALL, ("/h100",)),
    ("fleet-by-pod", "everything", MIDDLE, (":group pod",)),
    ("fleet-noted", "noted", MIDDLE, ()),
    ("fleet-recorded", "recorded", SMALL, ()),
    ("note", "desync", SMALL, ("e",)),
    ("command-line", "everything", SMALL, (":run ",)),
    ("command-wrong", "everything", SMALL, (":rum x",)),
    ("run-stale-gpus", "stale_gpus", MIDDLE, ("enter",)),
    ("run-unreachable", "unreachable", MIDDLE, ("enter",)),
    ("run-moment", "healthy", MIDDLE, ("enter", ":at 180", "~log")),
    ("run-finished", "finished", SMALL, ("enter",)),
    ("run-lost", "reclaimed", MIDDLE, ("enter",)),
    ("run-lost-small", "reclaimed", SMALL, ("enter",)),
    ("run-store", "synced", MIDDLE, ("enter",)),
    ("run-store-fails", "sync_fails", SMALL, ("enter",)),
    ("pod-hung", "hung", MIDDLE, ("d",)),
    ("pod-cut-off", "cut_off", MIDDLE, ("d",)),
    ("pod-rebooted", "rebooted", MIDDLE, ("d",)),
    ("pod-doing", "synced", MIDDLE, ("d",)),
    ("curves-smooth", "healthy", MIDDLE, ("enter", "c", "E", "E")),
    ("curves-one", "desync", MIDDLE, ("enter", ":curves ent", "L", "plus")),
    ("action", "acting", MIDDLE, ("i",)),
    ("recovered", "acting", MIDDLE, ("i", "!recovered")),
    ("not-recovered", "failed_fix", SMALL, ("i",)),
    ("logs-evidence", "desync", MIDDLE, ("i", "enter")),
    ("logs-filter", "desync", SMALL, ("l", "/barrier|pack", "pageup")),
    ("gpus-compact", "everything", SMALL, ("U", "C")),
    ("help-run", "healthy", LARGE, ("enter", "question_mark")),
    ("palette-search", "everything", SMALL, ("ctrl+p", "m", "a", "t", "h")),
]


@pytest.fixture
def same(snapshot: Any, tmp_path: Path) -> Callable[[str, str], str]:
    """(name, SVG) -> "", or what is wrong with it; the new picture is then in a file to look at."""
    pictures = snapshot.use_extension(SVGImageExtension)

    def compare(name: str, svg: str) -> str:
        if pictures(name=name) == svg:
            return ""
        new = tmp_path / f"{name}.svg"
        new.write_text(svg, encoding="utf-8")
        return f"{name} is another picture, see {new}"

    return compare


@pytest.mark.long
@pytest.mark.beside
@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.name)
async def test_screen(scene: Scene, same: Callable[[str, str], str]) -> None:
    """One start for all sizes and themes: the terminal is resized and the theme changed, as a
    person does.
    """
    wrong = []
    for words in [[word] for word in THEMES] if scene.fresh else [list(THEMES)]:
        app, sessions = opened(scene.pods)
        async with app.run_test(size=SMALL) as pilot:
            app.theme = THEMES[words[0]]
            await lead(pilot, sessions, scene.keys)
            assert type(app.screen).__name__ == scene.screen
            for size in SIZES:
                await pilot.resize_terminal(*size)
                for word in words:
                    app.theme = THEMES[word]
                    await still(pilot)
                    wrong.append(
                        same(
                            f"{size[0]}x{size[1]}-{word}",
                            app.export_screenshot(title=scene.name, simplify=True),
                        )
                    )
            await pilot.resize_terminal(400, 120)
            await still(pilot)
            assert not [said.text for said in app.messages if "cannot be drawn" in said.text]
    assert not [one for one in wrong if one]


@pytest.mark.parametrize(
    "scene",
    [s for s in SCENES if s.name in ("fleet", "plan", "log", "help")],
    ids=lambda scene: scene.name,
)
async def test_a_screen_that_was_resized_is_as_one_that_was_opened_so(
    scene: Scene, same: Callable[[str, str], str]
) -> None:
    app, sessions = opened(scene.pods)
    async with app.run_test(size=SMALL) as pilot:
        await lead(pilot, sessions, scene.keys)
        await pilot.resize_terminal(*LARGE)
        app.theme = THEMES["light"]
        await still(pilot)
        resized = app.export_screenshot(title=scene.name, simplify=True)
    app, sessions = opened(scene.pods)
    async with app.run_test(size=LARGE) as pilot:
        app.theme = THEMES["light"]
        await lead(pilot, sessions, scene.keys)
        assert app.export_screenshot(title=scene.name, simplify=True) == resized


@pytest.mark.parametrize(
    ("name", "pods", "size", "keys"), MOMENTS, ids=[moment[0] for moment in MOMENTS]
)
async def test_moment(
    name: str,
    pods: str,
    size: tuple[int, int],
    keys: tuple[str, ...],
    same: Callable[[str, str], str],
) -> None:
    app, sessions = opened(pods)
    async with app.run_test(size=size) as pilot:
        await lead(pilot, sessions, keys)
        assert same(f"{size[0]}x{size[1]}", app.export_screenshot(title=name, simplify=True)) == ""


@pytest.mark.parametrize("name", ["launch-plan", "launch-refused"])
async def test_the_plan_of_a_launch(
    name: str,
    looked: list[Any],  # noqa: F811
    same: Callable[[str, str], str],
) -> None:
    """The exact command, what is moved aside, findings with their lines, memory, and the name to
    type; or what forbids the start.
    """
    session = fixtures.desync()
    planned(session, typed=True)
    looked += [WARNED, UNSEEN, *([FULL] if name == "launch-refused" else [])]
    app = ConsoleApp(fixtures.fleet(session), clock=fixtures.CLOCK)
    wrong = []
    async with app.run_test(size=SMALL) as pilot:
        await drive(pilot, [session], (":launch configs/math.toml again-1", "enter"))
        await until(
            pilot,
            lambda: (
                bool(getattr(app.screen, "checks", None))
                and not getattr(app.screen, "_working", "x")
            ),
        )
        for size in SIZES:
            await pilot.resize_terminal(*size)
            await still(pilot)
            wrong.append(
                same(f"{size[0]}x{size[1]}", app.export_screenshot(title=name, simplify=True))
            )
    assert not [one for one in wrong if one]


@pytest.mark.parametrize("theme", ["bs4-safe", "bs4-safe-light"])
async def test_colour_blind_safe(theme: str, same: Callable[[str, str], str]) -> None:
    app, sessions = opened("everything")
    async with app.run_test(size=(100, 30)) as pilot:
        app.theme = theme
        await lead(pilot, sessions, ())
        assert same(theme, app.export_screenshot(title=theme, simplify=True)) == ""


@pytest.mark.parametrize("name", ["fleet", "run", "plan", "confirm", "log"])
async def test_no_color_in_the_environment(
    name: str, monkeypatch: pytest.MonkeyPatch, same: Callable[[str, str], str]
) -> None:
    """The same words in the same places as under the theme without colours, and not one colour of
    its own.
    """
    monkeypatch.setenv("NO_COLOR", "1")
    scene = next(scene for scene in SCENES if scene.name == name)
    app, sessions = opened(scene.pods)
    async with app.run_test(size=SMALL) as pilot:
        await lead(pilot, sessions, scene.keys)
        assert same(name, app.export_screenshot(title=name, simplify=True)) == ""


def test_every_screen_has_its_pictures() -> None:
    assert screen_classes() <= {scene.screen for scene in SCENES}, (
        "add a Scene to tests/console/tui/scenes.py"
    )


def test_no_picture_is_left_of_a_screen_that_is_no_more() -> None:
    names = {
        f"test_screen[{scene.name}][{w}x{h}-{theme}].svg"
        for scene in SCENES
        for w, h in SIZES
        for theme in THEMES
    }
    kept = {
        path.name
        for path in (Path(__file__).parent / "__snapshots__" / "test_snapshots").iterdir()
        if "test_screen" in path.name
    }
    assert kept == names
