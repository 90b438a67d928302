"""Fixes are certain, keep comments, and never touch the only copy of a file."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from bs4_console.configs.diff import compare
from bs4_console.configs.findings import Edit
from bs4_console.configs.fix import apply, fix, write
from bs4_console.configs.toml_lines import comments_of, lines_of
from bs4_console.errors import NotApplicableError
from tests.console.configs.bases import CURRENT, JANUARY, changed
from tests.console.configs.test_rules import WRONG


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
    assert left == ["R08"], "whether the answer or the context gives way is a choice"
    assert "# warm" in after
    assert "# Config version: v3" in after
    data = tomllib.loads(after)
    assert data["trainer"]["model"]["lora"] == {"rank": 8, "alpha": 32}
    assert "experimental" not in data["trainer"]["model"]
    assert data["orchestrator"]["buffer"] == {"online_difficulty_filtering": True}
    assert data["orchestrator"]["sampling"] == {"max_tokens": 4000, "temperature": 0.7}
    assert "max_num_seqs" not in data["inference"]["model"]


def test_settings_below_a_config_header_go_back_to_the_top(tmp_path: Path) -> None:
    """TOML counts what follows [config] as its keys, up to the next header."""
    text = '[config]\nversion = "v3"\nbased_on = "v2"\n' + JANUARY
    inside = set(tomllib.loads(text)["config"]) - {"version", "based_on"}
    assert {"inference_gpu_ids", "trainer_gpu_ids", "max_steps"} <= inside
    after, left = fixed(tmp_path, text)
    assert left == []
    assert tomllib.loads(after) == tomllib.loads(JANUARY)


def test_a_config_header_over_a_setting_that_also_stands_elsewhere_is_left_to_a_person(
    tmp_path: Path,
) -> None:
    text = "max_steps = 5\n[config]\nmax_steps = 9\n[trainer]\n[orchestrator]\n"
    after, left = fixed(tmp_path, text)
    assert after == text
    assert "R15" in left


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('executor_backend = "local"', 'executor_backend = "prime"'),
        ("network_access = false", "network_access = true"),
        ("max_tokens = 2048", "max_tokens = 10000"),
    ],
)
def test_what_is_a_choice_is_advice_and_no_fix(before: str, after: str, tmp_path: Path) -> None:
    text = changed("prime-rl-2026-01", (before, after))
    assert fixed(tmp_path, text)[0] == text


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
    assert tomllib.loads(apply("[a]\nx = 1\n", (Edit("set", ("y",), 2),))) == {
        "a": {"x": 1},
        "y": 2,
    }
    assert tomllib.loads(apply("z = 0\n[a]\nx = 1\n", (Edit("move", ("a", "x"), to=("y",)),))) == {
        "z": 0,
        "a": {},
        "y": 1,
    }


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


def test_what_is_moved_keeps_its_comments(tmp_path: Path) -> None:
    text = (
        "max_steps = 5\n[trainer.model.experimental.lora] # head\n# inside\nrank = 8 # why 8\n"
        "[orchestrator]\n# above\nbatch_sise  = 64 # eight each\nseq_len = [ # odd\n  1, # one\n]\n"
    )
    after, _ = fixed(tmp_path, text)
    assert comments_of(after) == comments_of(text)
    assert "# above\nbatch_size  = 64 # eight each\n" in after, "it is renamed where it stands"
    assert "[trainer.model.lora] # head\n# inside\nrank = 8 # why 8\n" in after


def test_comments_that_have_no_place_in_an_inline_table_stand_above_it() -> None:
    text = "b = {c = 1}\n[a]\nx = 2 # two\n"
    after = apply(text, (Edit("move", ("a", "x"), to=("b", "x")),))
    assert tomllib.loads(after) == {"b": {"c": 1, "x": 2}, "a": {}}
    assert after.startswith("# two\nb = {c = 1")


def test_an_emptied_table_leaves_its_comments() -> None:
    text = "[a] # head\n# inside\nx = 1\n[b]\n"
    edits = (Edit("move", ("a", "x"), to=("b", "x")), Edit("remove", ("a",)))
    after = apply(text, edits)
    assert tomllib.loads(after) == {"b": {"x": 1}}
    assert comments_of(after) == ["# head", "# inside"]


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_only_what_is_removed_loses_its_comment(tmp_path: Path, number: int) -> None:
    _, trainer, changes = WRONG[number]
    if trainer == "verl":
        pytest.skip("verl's are not fixed")
    file = tmp_path / "config.toml"
    file.write_text(commented(changed(trainer, *changes)))
    try:
        result = fix(file, trainer)
    except NotApplicableError:
        pytest.skip("it is no TOML")
    gone = [edit.path for item in result.made for edit in item.edits if edit.op == "remove"]
    lines = lines_of(result.before)
    went = {lines[path] for path in lines if any(path[: len(g)] == g for g in gone)}
    for lost in set(comments_of(result.before)) - set(comments_of(result.after)):
        assert int(lost.removeprefix("# c")) in went, lost


def commented(text: str) -> str:
    """Return the text with a comment after every key and header: the number of its line."""
    lines = text.split("\n")
    for number in set(lines_of(text).values()):
        lines[number - 1] = lines[number - 1].split(" #")[0] + f" # c{number}"
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("max_steps = 5\r\n[orchestrator]\r\nbatch_sise = 64\r\n", "batch_size = 64\r\n"),
        ("max_steps = 5\n[orchestrator]\r\nbatch_sise = 64\r\n", "batch_size = 64\r\n"),
        ("max_steps = 5\n[orchestrator]\nbatch_sise = 64\r\n", "batch_size = 64\n"),
    ],
)
def test_lines_end_as_they_did(before: str, after: str, tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_bytes(before.encode())
    result = fix(file, "prime-rl")
    write(file, result.after)
    assert result.before == before
    assert file.read_bytes().decode() == before[: before.index("batch")] + after
