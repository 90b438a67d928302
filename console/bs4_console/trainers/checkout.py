"""Reads the source of a trainer without running it. A checkout may be in anybody's hands, so what
is read of it is bounded, and nothing outside it is opened.
"""

from __future__ import annotations

import ast
import os
import re
import stat
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bs4_console.errors import UsageError

#: Bytes of one file. The largest Python file of prime-rl or verl has 180 KB.
FILE_MOST = 1 << 20
#: Bytes and files of one checkout that are read in search of what is not in its place.
TOTAL_MOST = 48 << 20
FILES_MOST = 5000
#: Directory entries that are looked at, and directories inside one another.
ENTRIES_MOST = 50_000
DEEPEST = 30
#: Brackets inside one another and levels of indentation. More could exhaust the parser's stack.
NESTING_MOST = 60
INDENT_MOST = 400
#: Dots, operators and signs in a row or in one statement make the tree as deep as they are many.
_CHAIN = re.compile(r"(?:[-+~]\s*){60}|(?:\bnot\s+){60}|(?:\.\s*\w{1,80}\s*){60}")
_LINE_MOST = 20_000
#: A named pipe must not hold up the one that opens it.
_PLAIN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

_Named = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


class Unreadable(Exception):
    """Raised when a file of a trainer's source cannot be read. The text is the end of a sentence
    that says why, such as "is too large".
    """


@dataclass(frozen=True)
class Source:
    """One Python file of a trainer: `file` is its path in the checkout, `tree` its syntax tree, and
    `named` has the syntax trees of its functions and classes by their qualified names, such as
    "Class.method". A name that is defined twice has two.
    """

    file: str
    tree: ast.Module
    named: dict[str, list[_Named]] = field(default_factory=dict)

    def scope(self, name: str) -> list[ast.AST]:
        """Return the syntax trees for which `name` stands: that of the whole file for "", otherwise
        that of each function or class with this qualified name. The list is empty if there is none.
        """
        if not name:
            return [self.tree]
        return list(self.named.get(name, ()))


class Code:
    """The source code of a trainer. Each file is read when it is first needed, and only once.
    `whole` is False if only some of the trainer's files are at hand, so that what is found in none
    of them may be in another one.
    """

    #: False if only some files can be read, so that what is in none of them may be in another.
    whole = True

    def __init__(self) -> None:
        self._sources: dict[str, Source | Unreadable] = {}

    def has(self, file: str) -> bool:
        """Return True if the source has a file, or anything else, with the path `file`."""
        raise NotImplementedError

    def source(self, file: str) -> Source:
        """Return the Python file with the path `file`. Raises Unreadable if it is missing, is no
        plain file in the checkout, is larger than 1 MiB (FILE_MOST), or is not Python.
        """
        found = self._sources.get(file)
        if found is None:
            try:
                found = parsed(file, self._text(file))
            except Unreadable as error:
                found = error
            self._sources[file] = found
        if isinstance(found, Unreadable):
            raise found
        return found

    def table(self, file: str) -> object:
        """Return the contents of the TOML file with the path `file`, of which nothing is checked.
        Raises Unreadable if it is missing, is no plain file in the checkout, is too large, or is
        not TOML.
        """
        try:
            return tomllib.loads(self._text(file))
        except (tomllib.TOMLDecodeError, RecursionError) as error:
            raise Unreadable("is no TOML") from error

    def sources(self, folders: tuple[str, ...]) -> Iterator[Source]:
        """Yield the Python files in these folders of the checkout, in the order of their paths.
        Files that cannot be read are left out. At most 5,000 files (FILES_MOST) with 48 MiB in all
        (TOTAL_MOST) are yielded.
        """
        for file in self._files(folders):
            try:
                yield self.source(file)
            except Unreadable:
                continue

    def _files(self, folders: tuple[str, ...]) -> list[str]:
        """Return the paths of the Python files in these folders."""
        raise NotImplementedError

    def _text(self, file: str) -> str:
        """Return the text of a file. Raises Unreadable."""
        raise NotImplementedError


class Sent(Code):
    """The files of a trainer's source that another machine has sent, which are only some of all.
    `files` maps the path of each to its contents, or to the end of a sentence that says why it was
    not sent, such as "is too large to be sent".
    """

    whole = False

    def __init__(self, files: Mapping[str, bytes | str]) -> None:
        super().__init__()
        self._sent = files

    def has(self, file: str) -> bool:
        """Return True if the other machine has a file with the path `file`, also if it did not send
        it.
        """
        return file in self._sent

    def _files(self, folders: tuple[str, ...]) -> list[str]:
        beginnings = tuple(f"{folder}/" for folder in folders)
        return sorted(name for name in self._sent if name.startswith(beginnings))

    def _text(self, file: str) -> str:
        found = self._sent.get(file, "does not exist")
        if isinstance(found, str):
            raise Unreadable(found)
        return _decoded(found)


class Checkout(Code):
    """The source code of a trainer in one directory on this machine."""

    def __init__(self, path: Path) -> None:
        """Raises UsageError if `path` is no directory."""
        super().__init__()
        if not path.is_dir():
            raise UsageError(
                f"{path} is no directory.", "Name the directory of a trainer's source."
            )
        self.root = path.resolve()
        self._read = 0

    def has(self, file: str) -> bool:
        """Return True if the directory has a file, or anything else, with the path `file`."""
        return os.path.lexists(self.root / file)

    def _files(self, folders: tuple[str, ...]) -> list[str]:
        """Return the paths of the Python files in these folders. Links are not followed."""
        files: list[str] = []
        waiting = [self.root / folder for folder in folders]
        entries = 0
        while waiting:
            folder = waiting.pop()
            if not self._inside(folder):
                continue
            for entry in _entries(folder):
                entries += 1
                if entries > ENTRIES_MOST or len(files) >= FILES_MOST:
                    return sorted(files)
                path = Path(entry.path)
                if entry.is_dir(follow_symlinks=False):
                    if len(path.relative_to(self.root).parts) < DEEPEST:
                        waiting.append(path)
                elif entry.name.endswith(".py") and entry.is_file(follow_symlinks=False):
                    files.append(path.relative_to(self.root).as_posix())
        return sorted(files)

    def _inside(self, path: Path) -> bool:
        """Return True if a path leads to a place in the checkout, all links followed."""
        try:
            return path.resolve().is_relative_to(self.root)
        except (OSError, RuntimeError):
            return False

    def _text(self, file: str) -> str:
        """Return the text of a file. Raises Unreadable."""
        path = self.root / file
        if not self._inside(path):
            raise Unreadable("leads out of the checkout")
        try:
            handle = os.open(path.resolve(), _PLAIN)
        except FileNotFoundError as error:
            raise Unreadable("does not exist") from error
        except (OSError, ValueError) as error:
            raise Unreadable("cannot be opened") from error
        try:
            data = self._data(handle)
        finally:
            os.close(handle)
        self._read += len(data)
        return _decoded(data)

    def _data(self, handle: int) -> bytes:
        """Return the bytes of an open file. Raises Unreadable."""
        state = os.fstat(handle)
        if not stat.S_ISREG(state.st_mode):
            raise Unreadable("is no plain file")
        if state.st_size > FILE_MOST:
            raise Unreadable(f"is larger than {FILE_MOST >> 10} KiB")
        if self._read + state.st_size > TOTAL_MOST:
            raise Unreadable(f"was not read, after {TOTAL_MOST >> 20} MiB of others")
        try:
            with open(handle, "rb", closefd=False) as stream:
                return stream.read(FILE_MOST)
        except OSError as error:
            raise Unreadable("cannot be read") from error


def _decoded(data: bytes) -> str:
    """Return the text of a file. Raises Unreadable."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Unreadable("is no UTF-8") from error


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    """Return the entries of a directory, at most `ENTRIES_MOST`. Empty if it cannot be listed."""
    found: list[os.DirEntry[str]] = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                found.append(entry)
                if len(found) >= ENTRIES_MOST:
                    break
    except OSError:
        # What cannot be listed holds nothing that can be found; a belief about it stays unknown.
        return []
    return found


def parsed(file: str, text: str) -> Source:
    """Return the Python file `file`, whose contents are `text`, as a Source. Raises Unreadable if
    the text is not Python, or is nested so deeply that the parser could fail.
    """
    if _too_deep(text):
        raise Unreadable("is nested too deep")
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError) as error:
        raise Unreadable("is no Python of this version") from error
    except (RecursionError, MemoryError) as error:
        raise Unreadable("is nested too deep") from error
    source = Source(file, tree)
    waiting: list[tuple[str, ast.AST]] = [("", tree)]
    while waiting:
        prefix, node = waiting.pop()
        for child in ast.iter_child_nodes(node):
            if isinstance(child, _Named):
                name = f"{prefix}{child.name}"
                source.named.setdefault(name, []).append(child)
                waiting.append((f"{name}.", child))
            else:
                waiting.append((prefix, child))
    return source


def _too_deep(text: str) -> bool:
    """Return True if a text could make a tree that is too deep for the parser's stack. Brackets in
    strings count too.
    """
    depth = 0
    for line in text.splitlines():
        indent = len(line) - len(line.lstrip())
        if indent > INDENT_MOST or len(line) > _LINE_MOST:
            return True
        for char in line:
            if char in "([{":
                depth += 1
                if depth > NESTING_MOST:
                    return True
            elif char in ")]}":
                depth = max(depth - 1, 0)
    return _CHAIN.search(text) is not None
