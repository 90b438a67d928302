"""Compiled once for the same files and code, again for any other byte, and never an obstacle."""

from __future__ import annotations

from pathlib import Path

import pytest

from bs4_console.failures import compiled_cache


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[int]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return []


def ask(made: list[int], file: Path) -> bytes:
    def make() -> bytes:
        made.append(1)
        return b"%d" % len(made)

    return compiled_cache.cached("kind", [file], make)


def test_the_same_bytes_are_compiled_once(made: list[int], tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text("one")
    assert [ask(made, file), ask(made, file)] == [b"1", b"1"]
    file.write_text("two")
    assert ask(made, file) == b"2"
    assert len(list(compiled_cache.directory().glob("*"))) == 2


def test_a_cache_that_cannot_be_written_is_no_obstacle(
    made: list[int], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert [ask(made, tmp_path / "file"), ask(made, tmp_path / "file")] == [b"1", b"2"]


def test_few_are_kept(made: list[int], tmp_path: Path) -> None:
    for number in range(20):
        (tmp_path / "a").write_text(str(number))
        ask(made, tmp_path / "a")
    assert len(list(compiled_cache.directory().glob("*.json"))) == 8
