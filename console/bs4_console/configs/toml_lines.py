"""Find the line of each key in a TOML text. tomllib and tomlkit keep no positions, and a finding
needs its line.

The text must be valid TOML (tomllib has read it): the scanner follows the grammar and checks
nothing.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field

from bs4_console.configs.findings import Path

_SPACE = " \t"
_BLANK = " \t\r\n"


@dataclass
class _Scanner:
    """A position in a TOML text, and the lines and comments that were found before it."""

    text: str
    at: int = 0
    lines: dict[Path, int] = field(default_factory=dict)
    explicit: set[Path] = field(default_factory=set)
    newest: dict[Path, int] = field(default_factory=dict)
    """The index of the newest entry, by the path of its array of tables."""
    comments: list[str] = field(default_factory=list)

    def scan(self) -> dict[Path, int]:
        """Read the whole text and return the 1-based line of each path."""
        table: Path = ()
        while True:
            self._skip_blank()
            if self.at >= len(self.text):
                return self.lines
            line = self._line()
            if self.text[self.at] == "[":
                table = self._header(line)
            else:
                self._pair(table, line)

    def _line(self) -> int:
        return self.text.count("\n", 0, self.at) + 1

    def _skip_blank(self) -> None:
        """Move to the next character that is no white space, newline or comment, and keep the
        comments.
        """
        while self.at < len(self.text):
            if self.text[self.at] in _BLANK:
                self.at += 1
            elif self.text[self.at] == "#":
                start = self.at
                self._to_line_end()
                self.comments.append(self.text[start : self.at].rstrip())
            else:
                return

    def _skip_space(self) -> None:
        while self.at < len(self.text) and self.text[self.at] in _SPACE:
            self.at += 1

    def _to_line_end(self) -> None:
        end = self.text.find("\n", self.at)
        self.at = len(self.text) if end < 0 else end

    def _header(self, line: int) -> Path:
        is_array = self.text.startswith("[[", self.at)
        brackets = 2 if is_array else 1
        self.at += brackets
        keys = self._keys()
        self.at += brackets
        path: Path = ()
        for number, key in enumerate(keys):
            path += (key,)
            last = number == len(keys) - 1
            if is_array or not last:
                self.lines.setdefault(path, line)
            if is_array and last:
                self.newest[path] = self.newest.get(path, -1) + 1
            if path in self.newest:
                path += (self.newest[path],)
        if path not in self.explicit:
            self.lines[path] = line
            self.explicit.add(path)
        return path

    def _pair(self, table: Path, line: int) -> None:
        path = table
        for key in self._keys():
            path += (key,)
            self.lines.setdefault(path, line)
        self._skip_space()
        self.at += 1  # the equals sign
        self._skip_space()
        self._value(path)

    def _keys(self) -> list[str]:
        """Return the parts of a dotted key and move to the character behind it."""
        keys = []
        while True:
            self._skip_space()
            keys.append(self._key())
            self._skip_space()
            if self.at >= len(self.text) or self.text[self.at] != ".":
                return keys
            self.at += 1

    def _key(self) -> str:
        start = self.at
        if self.text[self.at] in "\"'":
            self._string()
            return str(next(iter(tomllib.loads(f"{self.text[start : self.at]} = 0"))))
        while self.at < len(self.text) and (
            self.text[self.at].isalnum() or self.text[self.at] in "-_"
        ):
            self.at += 1
        return self.text[start : self.at]

    def _value(self, path: Path) -> None:
        opening = self.text[self.at]
        if opening in "\"'":
            self._string()
        elif opening == "[":
            self._array(path)
        elif opening == "{":
            self._inline(path)
        else:
            while self.at < len(self.text) and self.text[self.at] not in ",]}\n#":
                self.at += 1

    def _string(self) -> None:
        quote = self.text[self.at]
        closing = quote * 3 if self.text.startswith(quote * 3, self.at) else quote
        self.at += len(closing)
        while not self.text.startswith(closing, self.at):
            if quote == '"' and self.text[self.at] == "\\":
                self.at += 1  # the escaped character, which may be a quote
            self.at += 1
        self.at += len(closing)
        # A multi-line string may end with up to two quotes of its own before the closing three.
        while len(closing) == 3 and self.at < len(self.text) and self.text[self.at] == quote:
            self.at += 1

    def _array(self, path: Path) -> None:
        for index in self._entries("]"):
            self.lines[(*path, index)] = self._line()
            self._value((*path, index))

    def _inline(self, path: Path) -> None:
        for _ in self._entries("}"):
            self._pair(path, self._line())

    def _entries(self, closing: str) -> Iterator[int]:
        """Yield the number of each entry of a list or an inline table, with the scanner before the
        entry. The scanner must be before the opening bracket, and ends behind `closing`.
        """
        self.at += 1
        number = 0
        while True:
            self._skip_blank()
            sign = self.text[self.at]
            if sign in (",", closing):
                self.at += 1
            if sign == closing:
                return
            if sign != ",":
                yield number
                number += 1


def lines_of(text: str) -> dict[Path, int]:
    """Return {path: 1-based line} for everything in a TOML text. A path is a tuple of keys and list
    indices. The line of a path is that of the key, of the header of the table, or of the entry of
    the list.
    """
    return _Scanner(text).scan()


def comments_of(text: str) -> list[str]:
    """Return every comment in a TOML text, each with its # sign, in the order of the text."""
    scanner = _Scanner(text)
    scanner.scan()
    return scanner.comments
