"""Tables of a Markdown document, and those among them that list runs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from bs4_console.run_log.record import FINAL
from bs4_console.run_log.text import Chunk, Line, lines

_ROW = re.compile(r"\s*\|(.+)\|\s*")
_RULE = re.compile(r"[\s|:-]+")
#: The bar between two cells. One with a backslash before it belongs to the text of its cell.
_BAR = re.compile(r"(?<!\\)\|")
#: The first cell of a row about a run: `name`, **name** or the bare name.
_NAME = re.compile(r"(?P<bold>\*\*)?(?P<code>`)?(?P<name>[\w.][^\s*`]*)(?(code)`)(?(bold)\*\*)")


@dataclass(frozen=True)
class Table:
    """A table of a Markdown document. `start` is the number of its first line, counted from 0.
    `heads` are the cells of that line, and `rows` those of the lines below its rule.
    """

    start: int
    heads: list[str]
    rows: list[list[str]] = field(default_factory=list)

    @property
    def columns(self) -> list[str]:
        """Return the names of the columns: the heads in lower case, without bold type."""
        return [head.strip("*` ").lower() for head in self.heads]

    @property
    def end(self) -> int:
        """Return the number of the line behind the last row, counted from 0."""
        return self.start + 2 + len(self.rows)


@dataclass(frozen=True)
class RunTable:
    """A table whose first column has names of runs. It stands in the chunk with the number `chunk`.
    `status` is the status word of its runs as the heading above it says, such as "FAILED" for
    "Failed Runs", or "" if that names none.
    """

    chunk: int
    status: str
    table: Table


def tables(body: Sequence[Line]) -> list[Table]:
    """Return the tables among the lines of a document. Fenced code blocks have none."""
    found: list[Table] = []
    at = 0
    while at + 1 < len(body):
        heads = _cells(body[at])
        if heads is None or _cells(body[at + 1]) is None or not _RULE.fullmatch(body[at + 1].prose):
            at += 1
            continue
        table = Table(at, heads)
        while table.end < len(body) and (cells := _cells(body[table.end])) is not None:
            table.rows.append(cells)
        found.append(table)
        at = table.end
    return found


def run_tables(parts: Sequence[Chunk]) -> Iterator[RunTable]:
    """Yield the tables of runs of a whole document, whose chunks are `parts`: those whose first
    column is "Run ID" or "Run". A table in the section of a run is about that run, and is none.
    """
    above: list[tuple[int, str]] = []
    for number, chunk in enumerate(parts):
        if chunk.run:
            continue
        body = lines(chunk.text)
        found = {table.start: table for table in tables(body)}
        for at, line in enumerate(body):
            if line.level:
                above = [entry for entry in above if entry[0] < line.level]
                above.append((line.level, line.title))
            table = found.get(at)
            if table is not None and table.columns[0] in ("run id", "run"):
                yield RunTable(number, _status([title for _, title in above]), table)


def run_named(cell: str) -> str:
    """Return the name of the run that the first cell of a row names, or "" if it names none, as in
    "*none yet*".
    """
    found = _NAME.fullmatch(cell)
    return found["name"] if found else ""


def row(cells: Sequence[str]) -> str:
    """Return the cells as a row of a table, which reads back as the same cells if each is on one
    line and has no spaces around it.
    """
    escaped = [cell.replace("|", "\\|") for cell in cells]
    return f"| {' | '.join(escaped)} |\n"


def _cells(line: Line) -> list[str] | None:
    """Return the cells of a table's row, or None if the line is none."""
    found = _ROW.fullmatch(line.prose)
    if found is None:
        return None
    return [cell.strip().replace("\\|", "|") for cell in _BAR.split(found[1])]


def _status(titles: Sequence[str]) -> str:
    """Return the status word that the nearest of the headings `titles` names, the nearest being
    the last. A heading with several such words, or with "not", says it of no run.
    """
    for title in reversed(titles):
        words = re.findall(r"\w+", title.upper())
        named = [word for word in FINAL if word in words]
        if named:
            return "" if len(named) > 1 or "NOT" in words else named[0]
    return ""
