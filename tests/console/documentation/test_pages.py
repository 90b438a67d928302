"""Pages are cut at their headings, and the generated ones into what they list."""

from __future__ import annotations

from pathlib import Path

from bs4_console.assets import pages
from bs4_console.documentation.pages import cells, entries, sections
from bs4_console.tui.commands import COMMANDS


def test_a_page_is_cut_at_its_headings_and_not_in_code() -> None:
    text = "# One\nfirst\n\n```sh\n# a comment\n```\n## Two\nsecond\n#### four\n"
    found = [(each.level, each.heading, each.text) for each in sections("p", text)]
    assert found == [
        (1, "One", "first\n\n```sh\n# a comment\n```"),
        (2, "Two", "second\n#### four"),
    ]


def test_a_bar_inside_of_a_cell_does_not_end_it() -> None:
    table = "|---|---|\n| `a` | `:b [X\\|Y]` |\nno row\n| c | d |\n"
    assert list(cells(table)) == [["a", ":b [X|Y]"]]


def test_every_key_of_the_screen_is_an_entry() -> None:
    (page,) = [path for path in pages() if path.name == "commands.md"]
    found = [entry for entry in entries([page]) if entry.kind == "key"]
    assert [entry.names[1] for entry in found] == [command.id for command in COMMANDS]


def test_an_empty_page_is_one_entry(tmp_path: Path) -> None:
    (tmp_path / "empty.md").write_text("")
    (entry,) = entries([tmp_path / "empty.md"])
    assert (entry.names[0], entry.text) == ("empty: empty", "")
