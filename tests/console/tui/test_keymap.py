"""keys.toml: what is wrong in it costs that line, one clear sentence each, and never the
console.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from bs4_console.tui import app as apps
from bs4_console.tui import commands, keymap
from bs4_console.tui.app import ConsoleApp
from bs4_console.tui.screens.incident import IncidentScreen
from bs4_console.tui.widgets.table import RowTable
from tests.console.tui import fixtures
from tests.console.tui.driving import drive


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BS4_CONFIG_DIR", str(tmp_path))
    return tmp_path / "keys.toml"


def test_the_file(config: Path) -> None:
    assert keymap.load_keymap() == ({}, [])
    config.write_text('[keys]\napply = "ctrl+r"\n')
    assert keymap.load_keymap() == ({"apply": "ctrl+r"}, [])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"[keys", "not valid TOML"),
        (b'[keys]\napply = "\xff"\n', "not valid TOML"),
        (b"keys = 3\n", "no table"),
        (b"[keys]\napply = 3\n", 'write apply = "key"'),
        (b'apply = "x"\n', "outside of [keys]"),
    ],
)
def test_a_file_that_cannot_be_used_is_one_sentence(config: Path, text: bytes, said: str) -> None:
    config.write_bytes(text)
    keys, (complaint,) = keymap.load_keymap()
    assert keys == {}
    assert said in complaint
    assert "keys.toml" in complaint
    assert complaint.endswith(".")


def test_a_file_that_cannot_be_read_is_one_sentence(config: Path) -> None:
    config.mkdir()
    keys, (complaint,) = keymap.load_keymap()
    assert keys == {}
    assert "cannot be read" in complaint
    assert os.fspath(config) in complaint


@pytest.mark.parametrize(
    ("wanted", "accepted", "said"),
    [
        ({"incident": "w"}, {"incident": "w"}, []),
        ({"incident": "?x"}, {}, ["'?x' for incident is no key"]),
        ({"incident": "ctrl+"}, {}, ["'ctrl+' for incident is no key"]),
        ({"incident": ""}, {}, ["'' for incident is no key"]),
        ({"apply": "ctrl+r, f5"}, {"apply": "ctrl+r,f5"}, []),
        ({"apply": "+"}, {"apply": "plus"}, []),
        ({"apply": ";"}, {"apply": "semicolon"}, []),
        ({"aply": "x"}, {}, ["no command 'aply', did you mean apply"]),
        (
            {"incident": "l"},
            {},
            ["'l' is the key of both logs and incident; incident keeps its usual one"],
        ),
        ({"incident": "l", "logs": "i"}, {"incident": "l", "logs": "i"}, []),
        ({"incident": "j"}, {}, ["'j' for incident is taken (it moves about)"]),
        ({"messages": "ctrl+c"}, {}, ["'^c' for messages is taken (it always leaves)"]),
        (
            {"incident": "w", "logs": "w"},
            {"incident": "w"},
            ["'w' is the key of both incident and logs; logs keeps"],
        ),
    ],
)
def test_each_line_is_checked(
    wanted: dict[str, str], accepted: dict[str, str], said: list[str]
) -> None:
    keys, complaints = keymap.check(wanted)
    assert keys == accepted
    assert len(complaints) == len(said)
    for complaint, part in zip(complaints, said, strict=True):
        assert part in complaint


def test_the_usual_keys_do_not_clash_and_can_all_be_written_in_the_file() -> None:
    usual = {c.id: ",".join(c.keys) for c in commands.COMMANDS if c.keys and c.id != "quit"}
    assert keymap.check(usual) == (usual, [])


def test_what_moves_is_what_the_table_binds() -> None:
    bound = {key for binding in RowTable.BINDINGS for key in binding.key.split(",")}  # type: ignore[union-attr]
    assert bound <= keymap.MOVING


async def test_complaints_are_told_and_the_usual_key_works(
    config: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("BS4_STATE_DIR", str(tmp_path / "state"))
    config.write_text('[keys]\nincident = "l"\nnonsense = "x"\n')
    app: Any = apps.configured(fixtures.fleet(fixtures.desync()))
    app.clock = fixtures.CLOCK
    async with app.run_test(size=(120, 40)) as pilot:
        await drive(pilot, [], ())
        assert [
            ("'nonsense'" in said.text, "both logs and incident" in said.text)
            for said in app.messages
        ] == [
            (True, False),
            (False, True),
        ]
        await drive(pilot, [], ("i",))
        assert isinstance(app.screen, IncidentScreen)


async def test_a_key_of_two_works_on_either() -> None:
    app = ConsoleApp(
        fixtures.fleet(fixtures.desync()), clock=fixtures.CLOCK, keymap={"incident": "w,f6"}
    )
    async with app.run_test(size=(120, 40)) as pilot:
        await drive(pilot, [], ("f6",))
        assert isinstance(app.screen, IncidentScreen)
