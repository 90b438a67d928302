"""Every screen as a scene: the frozen pods, the keys that lead there, and which screen that is."""

from __future__ import annotations

import importlib
import pkgutil
from dataclasses import dataclass
from typing import Any

from textual.screen import Screen
from textual.widgets import Input

import bs4_console.tui.screens
from bs4_console.tui.app import ConsoleApp
from bs4_console.tui.screens.base import ConsoleScreen, Question
from bs4_console.tui.widgets.bars import TopBar
from tests.console.tui import fixtures
from tests.console.tui.driving import drive, settle, until

SIZES = ((80, 24), (120, 40), (200, 60))
THEMES = {"dark": "bs4-dark", "light": "bs4-light", "no-colour": "bs4-no-colour"}


@dataclass(frozen=True)
class Scene:
    """`pods`: a function of the fixtures. `keys`: pressed in turn at 80x24. `screen`: the class
    that is then on top. `fresh`: Textual's own screens keep the colours that they were opened with,
    so they are opened anew under each theme.
    """

    name: str
    pods: str
    keys: tuple[str, ...]
    screen: str
    fresh: bool = False


#: In every size and in every one of THEMES.
SCENES = (
    Scene("fleet", "everything", (), "FleetScreen"),
    Scene("fleet-grouped", "everything", (":group state", ":sort gpu"), "FleetScreen"),
    Scene("run", "desync", ("enter",), "RunScreen"),
    Scene("run-healthy", "healthy", ("enter",), "RunScreen"),
    Scene("curves", "healthy", ("enter", "c", ":at 180", "~log"), "RunScreen"),
    Scene("fleet-lost", "lost_pods", (), "FleetScreen"),
    Scene("pod", "idle", ("enter",), "PodScreen"),
    Scene("pod-lost", "reclaimed", ("d",), "PodScreen"),
    Scene("witnesses", "witnessed", ("i", "end"), "IncidentScreen"),
    Scene("incident", "desync", ("i",), "IncidentScreen"),
    Scene("plan", "planned", ("i",), "IncidentScreen"),
    Scene("confirm", "planned", ("i", "r"), "ConfirmScreen"),
    Scene("stop", "desync", ("K",), "StopScreen"),
    Scene("merge", "mergeable", ("enter", "X"), "ConfirmScreen"),
    Scene("checkpoints", "saved", ("D",), "CheckpointsScreen"),
    Scene("keep", "saved", ("D", ":keep 2 50", "~question"), "OrderScreen"),
    Scene("launch", "idle", ("W",), "LaunchScreen"),
    Scene("log", "desync", ("l",), "LogScreen"),
    Scene("file", "with_a_file", (":file ~/judge/server.log",), "FileScreen"),
    Scene("log-entry", "desync", ("l", "x"), "LogDetail"),
    Scene("gpus", "everything", ("U",), "GpusScreen"),
    Scene("journal", "acting", ("J",), "JournalScreen"),
    Scene("notes", "noted", ("J",), "JournalScreen"),
    Scene("run-notes", "noted", ("A",), "NotesScreen"),
    Scene("rollouts", "with_rollouts", ("enter", ":rollouts", "~rollouts"), "RolloutsScreen"),
    Scene("help", "healthy", ("question_mark",), "HelpScreen"),
    Scene("messages", "everything", ("dollar_sign", ":run nowhere", "m"), "MessagesScreen"),
    Scene("palette", "everything", ("ctrl+p",), "CommandPalette", fresh=True),
    Scene("first-contact", "first_contact", (), "HostKeyScreen"),
    Scene("recorded", "recorded", ("enter",), "RunScreen"),
)


def opened(pods: str, **more: Any) -> tuple[ConsoleApp, list[fixtures.RecordedSession]]:
    made = getattr(fixtures, pods)()
    sessions = made if isinstance(made, list) else [made]
    return ConsoleApp(fixtures.fleet(*sessions), clock=fixtures.CLOCK, **more), sessions


async def lead(pilot: Any, sessions: list[fixtures.RecordedSession], keys: tuple[str, ...]) -> None:
    """Along the keys, until nothing moves any more."""
    await drive(pilot, sessions, keys)
    await still(pilot)


async def still(pilot: Any) -> None:
    """Until everything is painted, without toasts and without a cursor that blinks."""
    app: Any = pilot.app
    await settle(pilot)
    await until(pilot, lambda: not (app.time._wanted or app.time._wanted_stretches))
    if type(app.screen).__name__ == "CommandPalette":
        # It looks for its entries in a worker, and shows a moving line while it does.
        await until(
            pilot,
            lambda: (
                not any(worker.is_running for worker in app.workers if worker.node is app.screen)
            ),
        )
    app.clear_notifications()
    for field in app.screen.query(Input):
        field.cursor_blink = False
    # After a change of size the widths are known one layout later; the second look is by those.
    # Behind a question the screen is seen too, and learns of the size in its own time.
    seen = [screen for screen in app.screen_stack if isinstance(screen, ConsoleScreen)][-1]
    await until(pilot, lambda: seen.query_one(TopBar).size.width == app.size.width)
    for _ in range(2):
        for screen in app.screen_stack:
            if isinstance(screen, Question):
                screen.tell()
            elif isinstance(screen, ConsoleScreen):
                screen.redraw()
        await settle(pilot)


def screen_classes() -> set[str]:
    """Every screen that the console can show: the classes without a subclass."""
    for module in pkgutil.iter_modules(
        bs4_console.tui.screens.__path__, "bs4_console.tui.screens."
    ):
        importlib.import_module(module.name)

    def leaves(of: type[Screen[Any]]) -> set[str]:
        below = of.__subclasses__()
        return set().union(*(leaves(one) for one in below)) if below else {of.__name__}

    return {name for root in (ConsoleScreen, Question) for name in leaves(root)}
