"""The numbers of the house: what is counted, and when `--check` fails."""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tools import house

SOURCE = '''
"""A docstring is no statement."""
chosen = 1 if ready else 2
chosen = ready and "a" or "b"
chosen = ("a", "b")[ready]
truth = ready and able or willing
listed = [row for row in rows]
listed = list(map(str, rows))
crowded = [row or 0 for row in rows if row and ready]
'''


def counted(source: str) -> house.Counts:
    counts = house.Counts()
    house.count_file(source, counts)
    return counts


def test_a_docstring_is_no_statement() -> None:
    assert counted(SOURCE).statements == 7


def test_what_is_written_in_place_of_a_conditional_expression_counts_as_one() -> None:
    assert counted(SOURCE).conditionals == 3


def test_what_is_written_in_place_of_a_comprehension_counts_as_one() -> None:
    assert counted(SOURCE).comprehensions == 3


def test_three_expressions_crowd_a_statement_and_those_of_an_inner_statement_do_not() -> None:
    assert counted(SOURCE).crowded == 1
    assert counted("if a or b:\n    x = [c or d for c in e]\n").crowded == 0


def test_long_lines_and_skipped_lines() -> None:
    counts = counted(f"x = 1  # fmt: skip\n# {'-' * 98}\n# {'-' * 99}\n")
    assert (counts.skips, counts.long_lines) == (1, 1)


@pytest.mark.parametrize(
    ("decorator", "fields", "found"),
    [
        ("dataclass", 7, 1),
        ("dataclass(frozen=True)", 7, 1),
        ("dataclasses.dataclass", 7, 1),
        ("dataclass(frozen=True, kw_only=True)", 7, 0),
        ("dataclass", 6, 0),
    ],
)
def test_a_record_of_seven_fields_is_made_by_their_names(
    decorator: str, fields: int, found: int
) -> None:
    body = "".join(f"    x{index}: int\n" for index in range(fields))
    assert counted(f"@{decorator}\nclass Record:\n{body}").positional == found


def used(**sources: str) -> house.Counts:
    """Count modules by their paths, in which `__` stands for a slash."""
    counts = house.Counts()
    modules = {name.replace("__", "/"): ast.parse(text) for name, text in sources.items()}
    house.count_uses(modules, counts)
    return counts


@pytest.mark.parametrize(
    ("kind", "found"),
    [
        ("dict[str, Any]", 1),
        ("dict[str, object]", 1),
        ("Mapping[str, Any] | None", 1),
        ("list[dict[int, list[dict[str, Any]]]]", 1),
        ("tuple[dict, dict]", 2),
        ("'dict[str, Any]'", 1),
        ("dict[str, int]", 0),
        ("Literal['dict']", 0),
    ],
)
def test_a_mapping_of_anything_is_a_loose_record(kind: str, found: int) -> None:
    assert used(agents__one=f"def f(x: {kind}): ...").loose == found
    assert used(agents__one=f"def f(*, x=0) -> {kind}: ...").loose == found


def test_a_loose_record_under_another_name_counts_in_every_module_that_imports_it() -> None:
    first = "Row = dict[str, Any]\nRows = list[Row]\nplace = TABLE['.txt']\ndef f(x: Rows): ..."
    second = "from one import Rows as Many\ndef f(x: Many, y: Row): ..."
    assert used(agents__one=first, agents__two=second).loose == 2


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("x == 'verl'", 1),
        ("x in ('prime-rl', 'other')", 1),
        ("x == VERL", 1),
        ("x == verl.VERL", 1),
        ("x == other.VERL", 0),
        ("y = {'prime-rl': 1, 'verl': 2}", 1),
        ("match x:\n    case 'verl': pass", 1),
        ("y = {'torch': 1, 'vllm': 2, 'verl': 3}", 0),
        ("y = 'verl'", 0),
    ],
)
def test_a_comparison_with_the_id_of_a_trainer(text: str, found: int) -> None:
    text = f"from trainers import verl\nfrom trainers.verl import VERL\n{text}"
    home = "VERL = 'verl'\nx == VERL"
    assert used(agents__one=text, agents__trainers__verl=home).trainers == found


def test_only_the_console_is_asked_for_imports_of_the_agent() -> None:
    text = "import bs4_agent.wire, os\nfrom bs4_agent import ids\nfrom bs4_agentic import x\n"
    assert used(console__bs4_console__one=text).agent_imports == 2
    assert used(agents__bs4_agent__one=text).agent_imports == 0


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A small repository with the real tool, its limits, and one module."""
    (tmp_path / "tools").mkdir()
    for name in ("house.py", "house.toml"):
        shutil.copy(house.ROOT / "tools" / name, tmp_path / "tools" / name)
    for folder in house.SOURCES:
        (tmp_path / folder).mkdir()
    (tmp_path / "agents/one.py").write_text("x = 1\n" * 100)
    return tmp_path


def run(tree: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(tree / "tools/house.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_number_that_gets_worse_fails_and_is_named(tree: Path) -> None:
    assert run(tree, "--check").returncode == 0
    (tree / "agents/two.py").write_text("x = [y for y in z]\n" * 100)
    result = run(tree, "--check")
    assert result.returncode == 1
    assert "comprehensions" in result.stderr
    assert "crowded" not in result.stderr


def test_lowered_ceilings_hold_from_then_on(tree: Path) -> None:
    (tree / "agents/two.py").write_text("x = 1 if y else 2\n")
    assert run(tree, "--lower").returncode == 0
    assert run(tree, "--check").returncode == 0
    (tree / "agents/two.py").write_text("x = 1 if y else 2\n" * 2)
    assert run(tree, "--check").returncode == 1


def test_a_ceiling_is_never_raised(tree: Path) -> None:
    before = (tree / "tools/house.toml").read_text()
    (tree / "agents/two.py").write_text("x = 1 if y else 2\n" * 900)
    run(tree, "--lower")
    ceilings = house.read_limits(tree / "tools/house.toml")
    old = tree / "old.toml"
    old.write_text(before)
    assert ceilings["conditionals"] == house.read_limits(old)["conditionals"]


def test_the_practice_world_and_the_commands_are_left_out(tree: Path) -> None:
    cli = tree / house.COMMANDS
    demo = tree / house.PRACTICE[0]
    for folder in (cli, demo):
        folder.mkdir(parents=True)
    (demo / "one.py").write_text("x = 1 if y else 2\n")
    for index in range(30):
        (cli / f"command_{index}.py").write_text("x = 1\n")
    numbers = {n.name: n.value for n in house.measure(house.source_files(tree), tree)}
    assert numbers["statements"] == 130
    assert numbers["conditionals"] == 0
    assert numbers["folder"] == 1
