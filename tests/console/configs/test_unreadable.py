"""Files that are no config, and numbers that nobody counts with: one sentence with its line, and
never a traceback.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from bs4_console.configs.document import read_toml
from bs4_console.configs.lint import lint
from bs4_console.configs.overrides import overlay
from bs4_console.configs.view import Given, View
from bs4_console.errors import UsageError
from tests.console.configs.bases import CURRENT, JANUARY

OLD, NEW, VERL = "prime-rl-2026-01", "prime-rl", "verl"
DIGITS = "9" * 5000
#: Each line has two of the line before, so that the last stands for 2**40 values.
DOUBLED = "a0: &a0 {x: 1}\n" + "".join(
    f"a{n}: &a{n} {{x: *a{n - 1}, y: *a{n - 1}}}\n" for n in range(1, 41)
)


@pytest.mark.parametrize(
    ("text", "line", "told"),
    [
        ("\ufeff" + CURRENT, 1, "byte order mark"),
        (f"max_steps = 5\nseq_len = {DIGITS}\n", 2, "digits"),
        (f"\n\n[trainer.optim]\nlr = {'9' * 400}\n", 4, "digits"),
        (f"\nmax_steps = 0x{'f' * 5000}\n", 2, "digits"),
        ("clean = true\na = " + "[" * 3000 + "]" * 3000, 2, "nested deeper"),
        ("\n[trainer]\nx" + ".x" * 600 + " = 1\n", 3, "nested deeper"),
        ("\n\n[" + "a." * 2000 + "a]\n", 3, "nested deeper"),
    ],
)
@pytest.mark.parametrize("trainer", [OLD, NEW, VERL])
def test_toml_that_is_none(tmp_path: Path, trainer: str, text: str, line: int, told: str) -> None:
    (tmp_path / "x.toml").write_text(text)
    found = lint(tmp_path / "x.toml", trainer)
    assert [(item.id, item.level, item.line) for item in found] == [("toml", "error", line)]
    assert told in found[0].message


def test_a_byte_that_is_no_text_has_a_line(tmp_path: Path) -> None:
    (tmp_path / "x.toml").write_bytes(b"max_steps = 5\n# caf\xe9\n")
    with pytest.raises(UsageError, match="line 2, byte 19"):
        lint(tmp_path / "x.toml", NEW)


def test_named_files_that_are_none(tmp_path: Path) -> None:
    (tmp_path / "digits.toml").write_text(f"max_steps = {DIGITS}\n")
    (tmp_path / "x.toml").write_text(
        'toml_files = ["digits.toml", "a\\u0000.toml"]\n[trainer]\n[orchestrator]\n'
    )
    told = [
        (item.line, item.message)
        for item in lint(tmp_path / "x.toml", OLD)
        if item.level == "error"
    ]
    assert [line for line, _ in told] == [1, 1]
    assert any("digits" in message for _, message in told)
    (tmp_path / "y.toml").write_text("[trainer]\n[orchestrator]\n")
    view = View(
        OLD, read_toml(tmp_path / "y.toml"), {}, Given(launch="rl @ y.toml --trainer @ digits.toml")
    )
    overlaid = overlay(view)
    assert overlaid is not None
    assert "digits" in overlaid.unread[0].message


@pytest.mark.parametrize(
    ("text", "line", "told"),
    [
        ("a: 1\ntrainer:\n  save_freq: 5\n  save_freq: -1\n", 4, "duplicate key trainer.save_freq"),
        ("trainer:\n  a: 1\ntrainer:\n  b: 1\n", 3, "duplicate key trainer"),
        (f"trainer:\n  save_freq: {DIGITS}\n", 2, "not what it looks like"),
        ("a: 1\nb: 2026-13-45\n", 2, "not what it looks like"),
        ("a: 1\nb: !!int x\n", 2, "not what it looks like"),
        ("a: 1\n\nb: !!python/object:os.system x\n", 3, "constructor"),
        ("a: 1\nb: \x00\n", 2, "characters are not allowed"),
        ("trainer: &x\n  a: *x\n", 1, "stands inside the part that it repeats"),
        ("a: " + "[" * 3000 + "]" * 3000, 1, "nests deeper than 64 levels"),
        (DOUBLED, 1, "repeat so much"),
    ],
)
def test_yaml_that_is_none(tmp_path: Path, text: str, line: int, told: str) -> None:
    (tmp_path / "x.yaml").write_text(text)
    found = lint(tmp_path / "x.yaml", VERL)
    assert [(item.id, item.level, item.line) for item in found] == [("yaml", "error", line)]
    assert told in found[0].message


def test_a_number_in_quotes_that_python_cannot_count(tmp_path: Path) -> None:
    (tmp_path / "x.toml").write_text(CURRENT.replace("max_steps = 1000", f'max_steps = "{DIGITS}"'))
    assert [item.line for item in lint(tmp_path / "x.toml", NEW) if item.level == "error"] == [2]
    (tmp_path / "y.toml").write_text(
        JANUARY.replace("max_tokens = 2048", f'max_tokens = "{"9" * 400}"')
    )
    assert lint(tmp_path / "y.toml", OLD) == []


@pytest.mark.parametrize(
    ("key", "shown"),
    [('"a\\nb"', '"a\\nb"'), ('"model.name"', '"model.name"'), ("a" * 5000, "aaa...")],
)
def test_a_strange_key_is_shown_on_one_line(tmp_path: Path, key: str, shown: str) -> None:
    (tmp_path / "x.toml").write_text(f"{key} = 1\n" + CURRENT)
    (told,) = lint(tmp_path / "x.toml", NEW)
    assert shown in told.message
    assert "\n" not in told.message
    assert len(told.message) < 200
