"""The command table: complete, unambiguous, documented, and every command of it does what it
says.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bs4_console.tui import commands, keymap
from bs4_console.tui.app import ConsoleApp
from bs4_console.tui.commands import page
from bs4_console.tui.screens.base import ConsoleScreen
from bs4_console.tui.screens.checkpoints import CheckpointsScreen
from bs4_console.tui.screens.fleet import FleetScreen
from bs4_console.tui.screens.gpus import GpusScreen
from bs4_console.tui.screens.help import HelpScreen
from bs4_console.tui.screens.incident import IncidentScreen
from bs4_console.tui.screens.journal import JournalScreen
from bs4_console.tui.screens.log import FileScreen, LogScreen
from bs4_console.tui.screens.messages import MessagesScreen
from bs4_console.tui.screens.notes import NotesScreen
from bs4_console.tui.screens.pod import PodScreen
from bs4_console.tui.screens.rollouts import RolloutsScreen
from bs4_console.tui.screens.run import RunScreen
from tests.console.tui import fixtures
from tests.console.tui.driving import drive, settle, until

SCREENS: tuple[type[ConsoleScreen], ...] = (
    FleetScreen,
    PodScreen,
    RunScreen,
    IncidentScreen,
    LogScreen,
    HelpScreen,
    MessagesScreen,
    JournalScreen,
    GpusScreen,
    NotesScreen,
    CheckpointsScreen,
    RolloutsScreen,
)
DOC = Path(__file__).resolve().parents[3] / "docs" / "commands.md"


@pytest.mark.parametrize("command", commands.COMMANDS, ids=lambda c: c.id)
def test_every_command_has_help_and_a_handler_wherever_it_works(command: commands.Command) -> None:
    assert len(command.help) > 20
    assert command.help.endswith(".")
    assert command.title
    assert command.keys or command.names
    for screen in SCREENS:
        if screen.place in command.where:
            assert getattr(screen, command.handler, None) or getattr(
                ConsoleApp, command.handler, None
            ), screen.place


def test_every_place_has_a_screen_and_every_need_a_sentence() -> None:
    assert {screen.place for screen in SCREENS} == commands.EVERYWHERE
    assert {need for command in commands.COMMANDS for need in command.needs} <= set(commands.NEEDS)


def test_no_key_and_no_name_means_two_things() -> None:
    keys = [key for command in commands.COMMANDS for key in command.keys]
    names = [name for command in commands.COMMANDS for name in command.names]
    ids = [command.id for command in commands.COMMANDS]
    for found in (keys, names, ids):
        assert len(found) == len(set(found))
    assert keymap.MOVING.isdisjoint(keys), (
        "what moves the cursor on every screen is no command's key"
    )


def test_keys_that_belong_to_tmux_and_to_flow_control_are_left_alone() -> None:
    keys = {
        binding.key
        for binding in ConsoleApp.BINDINGS
        for binding in [binding]
        if hasattr(binding, "key")
    }  # type: ignore[union-attr]
    assert not {"ctrl+a", "ctrl+b", "ctrl+j", "ctrl+s", "ctrl+q"} & {
        key for keys_ in keys for key in keys_.split(",")
    }


async def test_no_hidden_key_of_the_library_quits() -> None:
    app = ConsoleApp(fixtures.fleet(fixtures.idle()), clock=fixtures.CLOCK)
    async with app.run_test() as pilot:
        await pilot.press("ctrl+q")
        await pilot.pause()
        assert app.is_running
        assert app.return_code is None


def test_the_page_in_docs_is_up_to_date() -> None:
    assert DOC.read_text(encoding="utf-8") == page.markdown(commands.COMMANDS), (
        "run `python -m bs4_console.tui.commands.page docs/commands.md`"
    )


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("q", "quit"),
        ("quit", "quit"),
        ("run math-7b", "run"),
        ("inc", "incident"),
        ("mess", "messages"),
        ("the", "theme"),
        ("xyz", None),
        ("", None),
    ],
)
def test_parsing(text: str, found: str | None) -> None:
    command, _ = commands.parse(text)
    assert (command.id if command else None) == found


def _is(screen: type) -> Callable[[Any], bool]:
    return lambda app: isinstance(app.screen, screen)


def _said(text: str) -> Callable[[Any], bool]:
    return lambda app: any(re.search(text, said.text + " " + said.more) for said in app.messages)


#: For every command: the fixture, the keys that lead there, the key or the words for it, and what
#: must be true afterwards.
DEEDS: dict[str, tuple[str, tuple[str, ...], tuple[str, ...], Callable[[Any], bool]]] = {
    "open": ("desync", (), ("enter",), _is(RunScreen)),
    "incident": ("desync", ("enter",), ("i",), _is(IncidentScreen)),
    "plan": (
        "desync",
        ("i",),
        ("p",),
        lambda app: [kind for kind, _ in app.sessions[0].submitted] == ["plan"],
    ),
    "apply": ("planned", ("i",), ("r",), lambda app: type(app.screen).__name__ == "ConfirmScreen"),
    "next-incident": (
        "two_incidents",
        ("i",),
        ("right_square_bracket",),
        lambda app: app.screen.incident.failure == "disk-near-full",
    ),
    "previous-incident": (
        "two_incidents",
        ("i",),
        ("left_square_bracket",),
        lambda app: app.screen.incident.failure == "disk-near-full",
    ),
    "logs": ("healthy", (), ("l",), _is(LogScreen)),
    "notes": ("noted", (), ("A",), lambda app: type(app.screen).__name__ == "NotesScreen"),
    "rollouts": ("with_rollouts", (), (":rollouts", "~rollouts"), _is(RolloutsScreen)),
    "file": ("with_a_file", (), (":open ~/judge/server.log",), _is(FileScreen)),
    "follow": ("healthy", ("l",), ("space",), lambda app: not app.screen.pane.view.following),
    "filter": ("healthy", ("l",), ("/Reward",), lambda app: len(app.screen.pane.view.lens) == 187),
    "find": (
        "healthy",
        ("l",),
        (":find Step 12 ", "enter"),
        lambda app: app.screen.pane.view.find_text == "Step 12",
    ),
    "next-match": (
        "healthy",
        ("l", ":find Step 150 ", "enter", "home"),
        ("n",),
        lambda app: "Step 150 " in app.screen.pane.view.visible_text(),
    ),
    "previous-match": (
        "healthy",
        ("l", ":find Step 15", "g", "n", "n"),
        ("N",),
        lambda app: app.screen.pane.view.spot < app.position,
    ),
    "hide": (
        "healthy",
        ("l",),
        (":hide Step",),
        lambda app: (
            0 < len(app.screen.pane.view.lens) < 300 and app.screen.pane.view.filter_text == "!Step"
        ),
    ),
    "highlight": (
        "healthy",
        ("l",),
        (":highlight Reward && Loss",),
        lambda app: app.screen.pane.view.highlights == ["Reward", "Loss"],
    ),
    "go": (
        "healthy",
        ("l", ":source trainer"),
        (":go 11", "~there"),
        lambda app: b"Step 10 " in app.screen.pane._store.line(app.screen.pane.view.current)[1],
    ),
    "bookmark": (
        "healthy",
        ("l", "up"),
        ("b",),
        lambda app: len(app.screen.pane.view.bookmarks) == 1,
    ),
    "next-bookmark": (
        "healthy",
        ("l", "up", "b", "up", "up", "b"),
        ("apostrophe",),
        lambda app: app.screen.pane.view.spot == app.position + 2,
    ),
    "previous-bookmark": (
        "healthy",
        ("l", "up", "b", "up", "up", "b"),
        ("quotation_mark",),
        lambda app: app.screen.pane.view.spot == app.position + 2,
    ),
    "fold": (
        "healthy",
        ("l",),
        ("z",),
        lambda app: (
            app.screen.pane.view.fold == "alike" and 0 < len(app.screen.pane.view.lens) < 3000
        ),
    ),
    "expand": (
        "healthy",
        ("l", "up"),
        ("x",),
        lambda app: type(app.screen).__name__ == "LogDetail",
    ),
    "copy-entry": ("healthy", ("l", "up"), ("Y",), _said("Copied the entry, 1 line")),
    "level": ("healthy", ("l",), (":level warning",), lambda app: app.screen.pane.view.floor == 30),
    "source": ("healthy", ("l",), ("o",), lambda app: app.screen.pane.source == "orchestrator"),
    "moment": ("healthy", ("enter",), ("t",), lambda app: app.screen.moment == 187),
    "time": (
        "healthy",
        ("enter", "at"),
        ("-", "9", "0", "s", "enter"),
        lambda app: app.time.at == fixtures.NOW - 90,
    ),
    "compare": (
        "desync",
        ("enter",),
        ("V", "enter"),
        lambda app: app.screen.compared == ("1",) and "B" in app.screen.others()[0].letter,
    ),
    "earlier": ("healthy", ("enter", ":at 180"), ("comma",), lambda app: app.screen.moment == 179),
    "later": (
        "healthy",
        ("enter", ":at 180"),
        ("full_stop",),
        lambda app: app.screen.moment == 181,
    ),
    "curves": (
        "healthy",
        ("enter",),
        ("c",),
        lambda app: app.screen.curves_large and not app.screen.pane.display,
    ),
    "log-scale": ("healthy", ("enter",), ("L",), lambda app: app.screen.curve_view.log),
    "smooth": ("healthy", ("enter",), ("E",), lambda app: app.screen.curve_view.weight == 0.6),
    "zoom-in": (
        "healthy",
        ("enter",),
        ("plus",),
        lambda app: app.screen.curve_view.window(1, 187) == (94, 187),
    ),
    "zoom-out": (
        "healthy",
        ("enter", "plus", "plus"),
        ("minus",),
        lambda app: app.screen.curve_view.steps == 94,
    ),
    "pan-left": (
        "healthy",
        ("enter", "plus"),
        ("less_than_sign",),
        lambda app: app.screen.curve_view.end == 163,
    ),
    "pan-right": (
        "healthy",
        ("enter", "plus", "less_than_sign", "less_than_sign"),
        ("greater_than_sign",),
        lambda app: app.screen.curve_view.end == 163,
    ),
    "gpus": (
        "everything",
        (),
        ("U",),
        lambda app: _is(GpusScreen)(app) and app.screen.table.rows[0].key == ("a100-lab", "0"),
    ),
    "compact": (
        "everything",
        ("U",),
        ("C",),
        lambda app: app.screen.compact and len(app.screen.table.rows) == 7,
    ),
    "shell": ("desync", (), ("s",), _said("ssh -t -p 2222 -- root@192.0.2.41")),
    "ssh": (
        "desync",
        (),
        ("dollar_sign",),
        _said("Shell on h100-a: ssh -t -p 2222 -- root@192.0.2.41"),
    ),
    "stop": ("desync", ("enter",), ("K",), lambda app: type(app.screen).__name__ == "StopScreen"),
    "checkpoints": ("saved", ("enter",), ("D",), _is(CheckpointsScreen)),
    "keep": (
        "saved",
        ("D",),
        (":keep 2", "~question"),
        lambda app: type(app.screen).__name__ == "OrderScreen",
    ),
    "sync": (
        "saved",
        ("D",),
        (":sync b2://bucket/runs", "~question"),
        lambda app: type(app.screen).__name__ == "OrderScreen",
    ),
    "restore": (
        "saved",
        ("D",),
        ("I", "~question"),
        lambda app: type(app.screen).__name__ == "ConfirmScreen",
    ),
    "merge": (
        "mergeable",
        ("enter",),
        ("X",),
        lambda app: type(app.screen).__name__ == "ConfirmScreen",
    ),
    "launch": ("desync", (), ("W",), lambda app: type(app.screen).__name__ == "LaunchScreen"),
    "note": (
        "desync",
        (),
        (":note lr halved",),
        lambda app: (
            app.sessions[0].submitted == [("note", {"run": "math-7b", "text": "lr halved"})]
        ),
    ),
    "journal": (
        "acting",
        (),
        ("J",),
        lambda app: _is(JournalScreen)(app) and "playbook" in app.screen.table.rows[0].text,
    ),
    "copy": ("desync", ("i",), ("y",), _said("Copied the incident")),
    "retry": ("unreachable", (), ("R",), lambda app: app.sessions[0].retried == 1),
    "old": (
        "long_finished",
        (),
        ("a",),
        lambda app: app.screen.table.rows[-1].key == ("h100-c", "reverse-text"),
    ),
    "sort": (
        "everything",
        (),
        (":sort pod",),
        lambda app: (
            [r.key[0] for r in app.screen.table.rows]
            == sorted(r.key[0] for r in app.screen.table.rows)
        ),
    ),
    "group": (
        "everything",
        (),
        (":group pod",),
        lambda app: app.screen.table.rows[0].banner is not None,
    ),
    "urgent": ("everything", (), ("u",), lambda app: app.screen.table.index == 1),
    "silence": ("desync", (), ("M",), lambda app: app.settings.silenced == ["h100-a/math-7b"]),
    "pin": (
        "desync",
        (),
        ("P",),
        lambda app: app.settings.pins == [{"pod": "h100-a", "run": "math-7b", "place": "fleet"}],
    ),
    "jump": (
        "healthy",
        ("l", ":source trainer", "P", ":fleet"),
        ("1",),
        lambda app: _is(LogScreen)(app) and app.screen.pane.source == "trainer",
    ),
    "run": (
        "everything",
        (),
        (":run code-14b",),
        lambda app: _is(RunScreen)(app) and app.screen.run_name == "code-14b",
    ),
    "pod": (
        "everything",
        ("enter",),
        (":pod h100-c",),
        lambda app: _is(FleetScreen)(app) and app.screen.table.cursor == ("h100-c", "reverse-text"),
    ),
    "fleet": ("desync", ("enter", "i"), (":fleet",), _is(FleetScreen)),
    "messages": ("desync", (), ("m",), _is(MessagesScreen)),
    "theme": ("desync", (), (":theme textual-light",), lambda app: app.theme == "textual-light"),
    "command": ("desync", (), ("colon",), lambda app: app.screen.prompt.is_open),
    "palette": (
        "desync",
        (),
        ("ctrl+p",),
        lambda app: type(app.screen).__name__ == "CommandPalette",
    ),
    "help": ("desync", (), ("question_mark",), _is(HelpScreen)),
    "back": ("desync", ("enter",), ("escape",), _is(FleetScreen)),
    "quit": ("desync", ("enter",), (":q",), lambda app: app.return_code == 0),
}


def test_every_command_is_tried() -> None:
    assert set(DEEDS) == set(commands.BY_ID)


@pytest.mark.parametrize("name", DEEDS)
async def test_every_command_does_its_deed(name: str) -> None:
    scene, way, deed, done = DEEDS[name]
    made = getattr(fixtures, scene)()
    sessions = made if isinstance(made, list) else [made]
    app: Any = ConsoleApp(fixtures.fleet(*sessions), clock=fixtures.CLOCK)
    app.sessions = sessions
    async with app.run_test(size=(120, 40)) as pilot:
        await drive(pilot, sessions, way)
        app.position = (app.screen.pane.view.spot or 0) if isinstance(app.screen, LogScreen) else 0
        assert not done(app), "the test proves nothing: it is so already"
        await drive(pilot, sessions, deed)
        await until(pilot, lambda: done(app))


async def test_every_command_is_in_the_palette_of_its_screen() -> None:
    from bs4_console.tui.palette import ConsoleCommands

    app = ConsoleApp(fixtures.fleet(fixtures.desync()), clock=fixtures.CLOCK)
    async with app.run_test() as pilot:
        await settle(pilot)
        provider = ConsoleCommands(app.screen)
        offered = {
            str(hit.text or hit.prompt) for hit in [hit async for hit in provider.discover()]
        }
        assert {c.title for c in commands.at("fleet") if c.id != "palette"} <= offered
        assert "run math-7b on h100-a" in offered
        hits = [hit async for hit in provider.search("math")]
        assert hits
        hits[0].command()
        await settle(pilot)
        assert isinstance(app.screen, RunScreen)


async def test_what_is_missing_is_said() -> None:
    app = ConsoleApp(fixtures.fleet(fixtures.idle()), clock=fixtures.CLOCK)
    async with app.run_test() as pilot:
        await drive(pilot, [], ("l", "i"))
        assert [said.text for said in app.messages] == [
            commands.NEEDS["run"],
            commands.NEEDS["incident"],
        ]
        await drive(pilot, [], (":apply ", "enter"))
        assert isinstance(app.screen, FleetScreen)
        assert app.screen.prompt.is_open, "the line stays, so that it can be corrected"


async def test_tab_completes_names_and_arguments() -> None:
    app = ConsoleApp(fixtures.fleet(*fixtures.everything()), clock=fixtures.CLOCK)
    async with app.run_test() as pilot:
        await drive(pilot, [], ("colon", "r", "u", "n", "tab", "m", "a", "tab"))
        assert app.screen.prompt.field.value == "run math-7b "  # type: ignore[attr-defined]
        await drive(pilot, [], ("enter",))
        assert isinstance(app.screen, RunScreen)


@pytest.mark.parametrize("what", sorted({c.completes for c in commands.COMMANDS} - {""}))
async def test_every_kind_of_argument_is_offered(what: str) -> None:
    from bs4_console.tui.offers import offers

    app = ConsoleApp(fixtures.fleet(*fixtures.everything()), clock=fixtures.CLOCK)
    async with app.run_test() as pilot:
        await drive(pilot, [], ("P",))
        found = offers(app, what)
        assert found
        assert all(found)


async def test_the_arrows_bring_back_what_was_typed() -> None:
    app = ConsoleApp(fixtures.fleet(*fixtures.everything()), clock=fixtures.CLOCK)
    async with app.run_test() as pilot:
        await drive(pilot, [], (":theme nord", ":theme bs4-dark", "colon", "up", "up"))
        assert app.screen.prompt.field.value == "theme nord"  # type: ignore[attr-defined]
        await drive(pilot, [], ("down",))
        assert app.screen.prompt.field.value == "theme bs4-dark"  # type: ignore[attr-defined]
