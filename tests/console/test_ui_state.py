"""How the screen was left: kept, found again, and never in the way."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from bs4_console import ui_state
from bs4_console.ui_state import Settings


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BS4_STATE_DIR", str(tmp_path / "state"))
    return tmp_path / "state" / ui_state.FILE


def test_what_was_kept_is_found(own_state: Path) -> None:
    left = Settings(
        theme="bs4-light",
        filter="h100",
        group="pod",
        sort="age",
        show_old=True,
        pod="h100-a",
        run="math-7b",
        place="log",
        source="trainer",
        quiet=True,
        silenced=["h100-b"],
    )
    assert ui_state.save(left) == ""
    assert ui_state.load() == (left, "")
    assert stat.S_IMODE(own_state.stat().st_mode) == 0o600


def test_without_a_file_all_is_as_new() -> None:
    assert ui_state.load() == (Settings(), "")


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff", b"3", b"[" * 5000])
def test_a_damaged_file_is_one_sentence(own_state: Path, content: bytes) -> None:
    own_state.parent.mkdir()
    own_state.write_bytes(content)
    known, complaint = ui_state.load()
    assert known == Settings()
    assert "is damaged" in complaint


def test_entries_of_another_type_or_unknown_are_left_out(own_state: Path) -> None:
    own_state.parent.mkdir()
    own_state.write_text('{"theme": 3, "filter": "x", "future": true, "silenced": ["a", 4]}')
    assert ui_state.load() == (Settings(filter="x", silenced=["a"]), "")


def test_what_cannot_be_written_is_said(own_state: Path) -> None:
    own_state.parent.write_text("a file where the directory should be")
    assert "cannot be written" in ui_state.save(Settings())


def test_two_consoles_keep_what_each_has_changed(own_state: Path) -> None:
    ui_state.save(Settings(theme="nord", pod="a", run="r", place="log", source="trainer"))
    (mine, _), (before, _) = ui_state.load(), ui_state.load()
    other, _ = ui_state.load()
    other.silenced, other.pod, other.place, other.source = ["b"], "b", "run", ""
    ui_state.save(other)
    mine.filter = "h100"
    assert ui_state.keep(mine, before) == ""
    kept, _ = ui_state.load()
    assert (kept.filter, kept.silenced, kept.pod, kept.place, kept.source) == (
        "h100",
        ["b"],
        "b",
        "run",
        "",
    )
    mine.place = "fleet"
    assert ui_state.keep(mine, before) == ""
    kept, _ = ui_state.load()
    assert (kept.pod, kept.run, kept.place, kept.source) == ("a", "r", "fleet", "trainer"), (
        "a place is kept whole or not at all"
    )
