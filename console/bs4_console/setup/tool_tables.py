"""Secrets in the tables that tools print. A table has no `=` or `:` between a name and its value,
by which secrets are found in other texts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from bs4_common.credentials.forms import is_secret, names_secret
from bs4_common.credentials.redaction import marker

#: What stands between two cells: a bar, or at least two blanks. `<|im_end|>` has no bars.
_BAR = re.compile(r"(?<!<)[|│┃║](?!>)")
_GAP = re.compile(r"\t[\t ]*| {2,}\t*")
#: A line between rows.
_RULE = re.compile(r"[\s|+:=\-─-╿]+")
#: Words that only say that there is no secret, and a name that stands for one.
_NO_VALUE = re.compile(r"(?i:not set|unset|missing|empty|never|n/a|yes|no)|-+|[A-Z_]+")
#: A heading of a table without bars. A value of this form is taken for one too.
_HEADING = re.compile(r"[A-Za-z][A-Za-z _-]*")
#: The name of a variable, which is no heading.
_VARIABLE = re.compile(r"[A-Z]+_[A-Z_]+")
#: A cell that may be a name: three words at most. A sentence or a line of code is none.
_NAME = re.compile(r"[A-Za-z][\w.]*(?: [\w.]+){0,2}:?")
#: Names from a model's vocabulary, whose values are no secrets.
_VOCABULARY = re.compile(r"(?i)(?:bos|eos|pad|unk|stop|next|cls|sep|mask)[_ ]token:?")


@dataclass(frozen=True)
class _Cell:
    """A cell of a line: the text from `start` to `end`, without the blanks around it."""

    start: int
    end: int
    text: str


def without_secrets(text: str) -> str:
    """Return `text`, the output of a tool, without the secrets in its tables. A cell is replaced if
    the cell before it, or the heading of its column, is a name that a secret usually has, such as
    "API key". So is the rest of such a cell in the lines below. All other text is unchanged.
    """
    lines = text.split("\n")
    table = _Table()
    shown = []
    for line, below in zip(lines, [*lines[1:], ""], strict=True):
        cells = _cells(line)
        bars = _BAR.search(line) is not None
        if not _is_rule(line) and not table.goes_on(cells, bars=bars):
            table = _Table(bars=bars)
        shown.append(table.shown(line, cells, below))
    return "\n".join(shown)


class _Table:
    """The table that the lines read so far belong to."""

    def __init__(self, *, bars: bool = False) -> None:
        self._rows = 0
        self._bars = bars
        self._border = False
        """True if there is a border on the left: the first row begins with an empty cell."""
        self._columns: dict[int, _Cell] = {}
        """Headings that are names of secrets, by the number of their column."""
        self._replaced: set[int] = set()
        """The columns of the last row in which a secret was replaced."""

    def goes_on(self, cells: Sequence[_Cell], *, bars: bool) -> bool:
        """Return True if a line with these cells, with or without bars, is a row of the table."""
        return len(cells) > 1 and bars is self._bars

    def shown(self, line: str, cells: Sequence[_Cell], below: str) -> str:
        """Return a line of the table, or one that is in no table, without its secrets. `cells` are
        its cells, and `below` is the line after it.
        """
        if self._rows == 0:
            self._border = not cells[0].text if cells else False
        if self._border and cells and not cells[0].text:
            cells = cells[1:]
        if _is_rule(line) or len(cells) < 2:
            self._replaced = set()
            return line
        self._rows += 1
        heads = self._rows == 1 and self._are_headings(cells, below)
        self._replaced = set() if heads else self._secrets(cells)
        if heads:
            self._columns = _named(cells)
        return _replaced(line, [cells[number] for number in sorted(self._replaced)])

    def _are_headings(self, cells: Sequence[_Cell], below: str) -> bool:
        """Return True if the first row of the table has its headings. A row of a name and its value
        has none.
        """
        if self._bars:
            return _is_rule(below)
        if len(cells) == 2 and _is_name(cells[0].text):
            return False
        texts = [cell.text for cell in cells]
        if any(_VARIABLE.fullmatch(text) for text in texts):
            return False
        return all(_HEADING.fullmatch(text) for text in texts)

    def _secrets(self, cells: Sequence[_Cell]) -> set[int]:
        """Return the numbers of the cells that hold a secret, or may hold the rest of one."""
        found = set()
        for number, cell in enumerate(cells):
            named = number > 0 and _is_value_of(cells[number - 1].text, cell.text)
            goes_on = self._bars and number in self._replaced and not cells[0].text
            if (named or goes_on or self._is_below(number, cell)) and _may_be_secret(cell.text):
                found.add(number)
        return found

    def _is_below(self, number: int, cell: _Cell) -> bool:
        """Return True if the cell is in a column whose heading is the name of a secret."""
        if self._bars:
            return number in self._columns
        return any(
            cell.start < head.end and head.start < cell.end for head in self._columns.values()
        )


def _is_rule(line: str) -> bool:
    """Return True for a line that only draws a border of a table."""
    return _RULE.fullmatch(line) is not None and not line.isspace()


def _named(cells: Sequence[_Cell]) -> dict[int, _Cell]:
    """Return the cells that are names of secrets, by their number."""
    found = {}
    for number, cell in enumerate(cells):
        if _is_name(cell.text):
            found[number] = cell
    return found


def _cells(line: str) -> list[_Cell]:
    """Return the cells of a line, without an empty one at its end. If the table has a border on its
    left, the first cell is an empty one outside it.
    """
    between = _BAR if _BAR.search(line) else _GAP
    cells = []
    begin = 0
    for gap in between.finditer(line):
        cells.append(_cell(line, begin, gap.start()))
        begin = gap.end()
    cells.append(_cell(line, begin, len(line)))
    if not cells[-1].text:
        cells.pop()
    return cells


def _cell(line: str, begin: int, end: int) -> _Cell:
    """Return the cell between two places of a line."""
    text = line[begin:end]
    start = begin + len(text) - len(text.lstrip())
    return _Cell(start, start + len(text.strip()), text.strip())


def _is_name(text: str) -> bool:
    """Return True if a cell is a name of secrets. An option of a tool's help is none."""
    if _NAME.fullmatch(text) is None or _VOCABULARY.fullmatch(text) is not None:
        return False
    return names_secret(re.sub(r"[^\w.]+", "_", text).strip("_"))


def _is_value_of(name: str, text: str) -> bool:
    """Return True if the cell `name` is a name of secrets and `text`, the cell behind it, may be
    its value. Behind a name that people write, several words are a description.
    """
    return _is_name(name) and (" " not in text or _VARIABLE.fullmatch(name) is not None)


def _may_be_secret(text: str) -> bool:
    """Return True if a cell whose name is that of a secret holds one."""
    return is_secret("secret", text) and _NO_VALUE.fullmatch(text) is None


def _replaced(line: str, cells: list[_Cell]) -> str:
    """Return the line with these cells replaced, and as wide as before where that is possible."""
    for cell in reversed(cells):
        text = marker("").ljust(cell.end - cell.start)
        line = line[: cell.start] + text + line[cell.end :]
    return line
