"""Fixes are certain, keep comments, and never touch the only copy of a file."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from bs4_console.core.configs.diff import compare
from bs4_console.core.configs.findings import Edit
from bs4_console.core.configs.fix import apply, fix, write
from bs4_console.core.errors import NotApplicableError
from tests.console.core.configs.bases import CURRENT, JANUARY, changed
from tests.console.core.configs.test_rules import WRONG


def fixed(directory: Path, text: str, trainer: str = "prime-rl-2026-01") -> tuple[str, list[str]]:
    file = directory / "config.toml"
    file.write_text(text)
    result = fix(file, trainer)
    assert file.read_text() == text, "fix alone writes nothing"
    return result.after, [item.id for item in result.left if item.level == "error"]


def test_a_wrong_config_becomes_right_and_keeps_its_comments(tmp_path: Path) -> None:
    text = changed(
        "prime-rl-2026-01",
        ("[trainer.model.lora]", "[trainer.model.experimental.lora] # small"),
        ("temperature = 0.7", "temperature = 0.7 # warm\ntop_p = 0.9"),
        ("online_difficulty_filtering = true", 'type = "online-difficulty"'),
        ("max_tokens = 2048", "max_tokens = 4000"),
        ("enforce_eager = true", "enforce_eager = true\nmax_num_seqs = 5"),
    )
    after, left = fixed(tmp_path, text)
    assert left == []
    assert "# warm" in after
    assert "# Config version: v3" in after
    data = tomllib.loads(after)
    assert data["trainer"]["model"]["lora"] == {"rank": 8, "alpha": 32}
    assert "experimental" not in data["trainer"]["model"]
    assert data["orchestrator"]["buffer"] == {"online_difficulty_filtering": True}
    assert data["orchestrator"]["sampling"] == {"max_tokens": 2500, "temperature": 0.7}
    assert "max_num_seqs" not in data["inference"]["model"]


@pytest.mark.parametrize("text", [JANUARY, CURRENT])
def test_nothing_to_fix_changes_nothing(tmp_path: Path, text: str) -> None:
    after, left = fixed(tmp_path, text, "prime-rl-2026-01" if text == JANUARY else "prime-rl")
    assert after == text
    assert left == []


def test_no_fix_ever_makes_it_worse(tmp_path: Path) -> None:
    for _, trainer, changes in WRONG:
        if trainer == "verl":
            continue
        file = tmp_path / "config.toml"
        file.write_text(changed(trainer, *changes))
        try:
            result = fix(file, trainer)
        except NotApplicableError:
            continue
        tomllib.loads(result.after)
        assert not result.made or result.after != result.before


def test_a_new_top_level_key_stands_before_the_tables() -> None:
    assert tomllib.loads(apply("[a]\nx = 1\n", (Edit("set", ("y",), 2),))) == {"a": {"x": 1}, "y": 2}
    assert tomllib.loads(apply("z = 0\n[a]\nx = 1\n", (Edit("move", ("a", "x"), to=("y",)),))) == {"z": 0, "a": {}, "y": 1}


def test_the_old_file_is_kept_and_never_overwritten(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text("one")
    file.chmod(0o640)
    first = write(file, "two")
    second = write(file, "three")
    assert [first.name, second.name] == ["config.toml.orig", "config.toml.orig.1"]
    assert [first.read_text(), second.read_text(), file.read_text()] == ["one", "two", "three"]
    assert file.stat().st_mode & 0o777 == 0o640


def test_verl_and_broken_toml_are_for_a_person(tmp_path: Path) -> None:
    file = tmp_path / "c.toml"
    file.write_text("a = [")
    with pytest.raises(NotApplicableError, match="by hand"):
        fix(file, "prime-rl")
    with pytest.raises(NotApplicableError, match="prime-rl"):
        fix(file, "verl")


def test_differences_by_meaning() -> None:
    before = {"a": {"x": 1, "y": [1, 2]}, "env": [{"id": "p"}], "gone": True}
    after = {"env": [{"id": "q"}, {"id": "r"}], "a": {"y": [1, 2], "x": 1.0, "new": "n"}}
    assert [(c.kind, c.key, c.before, c.after) for c in compare(before, after)] == [
        ("added", "a.new", None, "n"),
        ("changed", "env[0].id", "p", "q"),
        ("added", "env[1].id", None, "r"),
        ("removed", "gone", True, None),
    ]
