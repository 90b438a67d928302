"""Read the pages of documentation into entries.

Three pages are made from the program itself and are read by their form: docs/failures.md (one
section a known failure, made from the playbooks), docs/cli.md (one section a command, made from the
parsers) and docs/commands.md (one row a key of the screen). `make check` fails while such a page is
out of date, so they say what the program does, and reading them takes a tenth of the time.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from bs4_console.documentation.entry import Entry

_HEADING = re.compile(r"(#{1,3}) (.+)")
_FENCE = "```"
#: The bold line of a known failure: its title, and its role, severity and trainers.
_FAILURE = re.compile(r"\*\*(?P<title>.+)\*\* \((?P<kinds>[^()]*)\)")
#: The head of the table on page commands, and that on page glossary.
_KEYS = "| id | key | typed | on | what it does |"
_WORDS = "| word | meaning |"


@dataclass(frozen=True)
class Section:
    """One heading of a page of documentation (`heading`), and the `text` below it up to the next
    heading. `page` is the page's name without its extension. `level` is 1 for the page's own title,
    2 for the headings below it, and so on.
    """

    page: str
    level: int
    heading: str
    text: str


def sections(page: str, text: str) -> Iterator[Section]:
    """Yield the sections of one page in their order. `page` is the page's name without its
    extension, and `text` is its Markdown. Headings inside of code do not count.
    """
    level, heading = 1, page
    lines: list[str] = []
    code = False
    for line in text.splitlines():
        if line.startswith(_FENCE):
            code = not code
        match = _HEADING.fullmatch(line)
        if match is None or code:
            lines.append(line)
            continue
        if any(lines):
            yield Section(page, level, heading, "\n".join(lines).strip())
        level, heading, lines = len(match[1]), match[2].strip(), []
    yield Section(page, level, heading, "\n".join(lines).strip())


def entries(files: Iterable[Path]) -> Iterator[Entry]:
    """Yield what the search of the documentation (`bs4-console docs TOPIC`) can find in the pages
    `files`: an entry for each of their sections and for each row of a table. Raises OSError if a
    file cannot be read.
    """
    for file in files:
        found = list(sections(file.stem, file.read_text(encoding="utf-8")))
        if file.stem == "failures":
            yield from _failures(found)
        elif file.stem == "cli":
            yield from _commands(found)
        else:
            for section in found:
                yield _page(section)
                yield from _rows(section)


def _failures(found: list[Section]) -> Iterator[Entry]:
    """Yield the known failures. A heading of the second level is a family, of the third a
    failure.
    """
    for section in found:
        match = _FAILURE.search(section.text)
        if section.level != 3 or match is None:
            if section.text:
                yield _page(section)
            continue
        yield Entry(
            kind="failure",
            names=(section.heading,),
            title=f"{match['title']} ({match['kinds']})",
            text=section.text[match.end() :].strip(),
            more=f"bs4-console playbook show {section.heading}",
        )


def _commands(found: list[Section]) -> Iterator[Entry]:
    """Yield the commands and their verbs, and what the page says beside them."""
    parents = set()
    for section in found:
        if section.level == 3:
            parents.add(section.heading.split()[0])
    for section in found:
        typed = f"bs4-console {section.heading}"
        if section.heading not in parents and f"{_FENCE}\n{typed}" not in section.text:
            yield _page(section)
            continue
        title, _, text = section.text.partition("\n")
        yield Entry(
            kind="command",
            names=(section.heading, typed),
            title=title,
            text=text.strip(),
            more=f"{typed} --help",
        )


def _page(section: Section) -> Entry:
    """Return the entry of a section of a page."""
    names: tuple[str, ...] = (f"{section.page}: {section.heading}", section.heading)
    if section.level == 1:
        names = (*names, section.page, f"{section.page}.md")
    return Entry(kind="page", names=names, title=section.heading, text=section.text)


def _rows(section: Section) -> Iterator[Entry]:
    """Yield an entry for each row of a table of keys or of words."""
    if _KEYS in section.text:
        for row in cells(section.text.split(_KEYS)[1]):
            name, key, typed, places, what = row
            yield Entry(
                kind="key",
                names=(f"key: {name}", name, typed.split(",")[0].split(" [")[0]),
                title=f"{key or 'no key'}, typed {typed}: {what.split('. ')[0].rstrip('.')}.",
                text=f"Key {key or 'none'}, typed {typed}, on: {places}.\n\n{what}",
            )
    if _WORDS in section.text:
        for name, meaning in cells(section.text.split(_WORDS)[1]):
            yield Entry(
                kind="word",
                names=(f"word: {name}", name),
                title=meaning,
                text=meaning,
            )


def cells(table: str) -> Iterator[list[str]]:
    """Yield a list with the texts of the cells of each row of a Markdown table, without the signs
    of Markdown. `table` is the text after the line with the column names. Reading ends with the
    table.
    """
    for line in table.strip("\n").splitlines():
        if not line.startswith("|"):
            return
        row = []
        for cell in line.replace("\\|", "\0").strip().strip("|").split("|"):
            row.append(cell.replace("\0", "|").replace("`", "").strip())
        if set("".join(row)) != {"-"}:
            yield row
