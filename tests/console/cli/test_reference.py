"""docs/cli.md says what the parsers say, and names every object that a command prints."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from bs4_console.cli import main, reference

ROOT = Path(__file__).resolve().parents[3]


def test_the_page_is_the_one_that_the_parsers_make() -> None:
    assert (ROOT / "docs" / "cli.md").read_text() == reference.markdown(), (
        "write it anew: python -m bs4_console.cli.reference docs/cli.md"
    )


def test_every_option_is_explained() -> None:
    for command, parser in reference._subparsers(main.build()):
        for verb, parsed in [*reference._subparsers(parser), ("", parser)]:
            for action in parsed._actions:
                assert action.help or not action.option_strings, (
                    f"{command} {verb} {action.option_strings} has no help"
                )


def test_every_json_object_is_described() -> None:
    printed = set()
    for path in (ROOT / "console" / "bs4_console" / "cli").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.func.id == "emit"
            ):
                assert isinstance(node.args[0], ast.Constant)
                printed.add(node.args[0].value)
    assert printed == set(reference.SHAPES)


def test_everything_that_prints_can_print_json() -> None:
    without = set()
    for command, parser in reference._subparsers(main.build()):
        verbs = list(reference._subparsers(parser)) or [("", parser)]
        for verb, parsed in verbs:
            if not any("--json" in action.option_strings for action in parsed._actions):
                without.add(f"{command} {verb}".strip())
    assert without == {"completions"}, "a script for a shell is no data"


@pytest.mark.parametrize(
    "words", [["--version"], ["--help"], ["check", "--help"], ["pods", "add", "--help"]]
)
def test_help_and_version_end_well(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    try:
        code = main.main(words)
    except SystemExit as ended:
        code = ended.code  # type: ignore[assignment]
    assert code == 0
    assert capsys.readouterr().out


def test_only_the_module_of_the_command_is_imported() -> None:
    """A health check in cron starts often: it must not load the screen or a practice pod."""
    import subprocess
    import sys

    code = (
        "import sys; from bs4_console.cli.main import build; build(['check']); print('textual' "
        "in sys.modules, 'asyncssh' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]


def test_a_check_imports_nothing_that_only_other_commands_need() -> None:
    """Imports are half of the time of a check of one pod. These were a seventh of them: how logs of
    trainers are read, how a checkout packs the agent, and who guesses what was meant.
    """
    import subprocess
    import sys

    trainers = ["bs4_common.trainers.base", "bs4_common.trainers.lines"]
    others = [*trainers, "tarfile", "zipfile", "gzip", "tomllib", "difflib"]
    code = (
        "import sys; from bs4_console.cli.main import build; build(['check']); "
        f"import bs4_console.transport.ssh; print([m for m in {others!r} if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
