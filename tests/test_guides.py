"""The guides for contributors name files and commands that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bs4_console.cli.main import build
from bs4_console.cli.reference import _subparsers

ROOT = Path(__file__).resolve().parents[1]
GUIDES = [*sorted((ROOT / "docs").glob("adding-a-*.md")), ROOT / "CONTRIBUTING.md"]
#: A path in backquotes or in a command that begins with a folder of the repository.
_PATH = re.compile(
    r"(?<![\w/.-])((?:agents|console|playbooks|configs|tests|tools|docs)/[\w./-]*\w)"
)
_LINK = re.compile(r"\]\(([^)#]+?)(?:#[^)]*)?\)")
_COMMAND = re.compile(r"bs4-console ((?:[a-z]+ ?)+)")
#: What the guides let the reader make.
_MADE = re.compile(r"/(?:acme|links)\.py$|tokenizer-truncated")


@pytest.mark.parametrize("guide", GUIDES, ids=lambda path: path.stem)
def test_every_file_that_a_guide_names_is_there(guide: Path) -> None:
    text = guide.read_text()
    named = {path for path in _PATH.findall(text) if not _MADE.search(path)}
    missing = {path for path in named if not (ROOT / path).exists()}
    for link in _LINK.findall(text):
        if "://" not in link and not (guide.parent / link).exists():
            missing.add(link)
    assert missing == set()


@pytest.mark.parametrize("guide", GUIDES, ids=lambda path: path.stem)
def test_every_command_that_a_guide_names_is_there(guide: Path) -> None:
    commands = dict(_subparsers(build()))
    wrong = set()
    for words in _COMMAND.findall(guide.read_text()):
        name, _, rest = words.strip().partition(" ")
        verbs = dict(_subparsers(commands[name])) if name in commands else {}
        verb = rest.split(" ")[0]
        if name not in commands or (verbs and verb not in verbs):
            wrong.add(words.strip())
    assert wrong == set()


def test_every_module_of_the_journeys_is_there() -> None:
    """They are named as they are imported; a bare name stands beside the one before it."""
    page = (ROOT / "docs" / "architecture.md").read_text()
    journeys = page.partition("## What happens when the trainer")[2].partition("## Folders")[0]
    missing = set()
    folder = ROOT
    for name in re.findall(r"`([\w/]+(?:\.py|/))`", journeys):
        path = folder / name
        if "/" in name:
            path = ROOT / ("console" if name.startswith("bs4_console") else "agents") / name
            folder = path.parent
        if not path.exists():
            missing.add(name)
    assert folder != ROOT
    assert missing == set()


def test_the_guides_are_found_from_where_people_begin() -> None:
    for page in ("CONTRIBUTING.md", "README.md", "docs/architecture.md"):
        text = (ROOT / page).read_text()
        assert [guide.name for guide in GUIDES[:-1] if guide.name not in text] == []


@pytest.mark.parametrize("walk", ["A launch", "A merge", "A restore"])
def test_a_launch_a_merge_and_a_restore_are_each_walked_in_under_ten_modules(walk: str) -> None:
    text = (ROOT / "docs/architecture.md").read_text()
    section = re.split(r"^##+ ", text.split(f"\n### {walk}\n")[1], flags=re.MULTILINE)[0]
    modules = re.findall(r"`(bs4_[\w/]+\.py)`", section)
    assert 5 <= len(set(modules)) < 10
