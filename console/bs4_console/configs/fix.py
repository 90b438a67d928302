"""Make the edits of findings that are certain. Every comment stays, and the old file is kept beside
the new one.
"""

from __future__ import annotations

import difflib
import os
import re
import secrets
import tomllib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path as File
from typing import Any

import tomlkit
from tomlkit.exceptions import TOMLKitError

from bs4_console.configs.diff import leaves
from bs4_console.configs.document import Document, read_raw, read_toml
from bs4_console.configs.findings import Edit, Finding, Path, at, dotted
from bs4_console.configs.lint import lint_document
from bs4_console.configs.toml_lines import comments_of, lines_of
from bs4_console.configs.view import Given
from bs4_console.errors import NotApplicableError

#: Returns the findings of lint about a text.
Linted = Callable[[str], list[Finding]]

#: Every fix leaves fewer findings, so fixing ends by itself. A config that needs more fixes than
#: this should be written anew.
MOST = 200


@dataclass(frozen=True)
class Fixed:
    """The result of fixing a config. `before` and `after` are its texts before and after the
    changes. `made` are the findings that the changes have repaired, and `left` those that lint
    still has about the new text.
    """

    before: str
    after: str
    made: list[Finding]
    left: list[Finding]


def fix(file: File, trainer: str, given: Given | None = None, component: str = "rl") -> Fixed:
    """Repair everything in a config that can be repaired with certainty. Return the new text,
    together with what was repaired and what is left. The file is not changed. Comments and line
    ends stay. `trainer` is "prime-rl-2026-01" or "prime-rl". `given` is what is known besides the
    file, such as the launch command (None: nothing). `component` says for which program the config
    is: rl (the whole training), trainer, orchestrator, inference, sft or eval.

    Raises NotApplicableError for verl and for a text that is not TOML, because a person must
    correct those, and UsageError if the file cannot be read.
    """
    if trainer == "verl":
        raise NotApplicableError(
            "Only TOML configs of prime-rl can be fixed by machine.",
            "Change the lines that `config lint` names.",
        )
    document = read_toml(file)
    if document.findings:
        raise NotApplicableError(
            f"{file}, line {document.findings[0].line}: {document.findings[0].message}",
            "Correct that by hand first.",
        )
    text = document.text
    made: list[Finding] = []

    def linted(text: str) -> list[Finding]:
        return lint_document(
            Document(file=file, text=text, data=tomllib.loads(text), lines=lines_of(text)),
            trainer,
            given,
            component,
        )

    while len(made) < MOST:
        step = _step(text, linted)
        if step is None:
            break
        item, text = step
        made.append(item)
    raw = read_raw(file)
    return Fixed(raw, with_line_ends(raw, text), made, linted(text))


def _step(text: str, linted: Linted) -> tuple[Finding, str] | None:
    """Return the first finding whose edits leave less to find, with the edited text. Return None if
    there is no such finding.
    """
    found = linted(text)
    for item in found:
        try:
            after = apply(text, item.edits)
        except (TOMLKitError, KeyError, TypeError, IndexError, ValueError):
            continue
        if item.edits and _amount(linted(after)) < _amount(found):
            return item, after
    return None


def _amount(found: list[Finding]) -> tuple[int, int]:
    """Return (number of errors, number of findings)."""
    return sum(item.level == "error" for item in found), len(found)


def apply(text: str, edits: tuple[Edit, ...]) -> str:
    """Make the changes `edits` in a TOML text and return the new text. Comments stay, except those
    inside a value that is removed. Raises KeyError or TypeError if the path of an edit does not
    exist or leads through a value that is not a table.
    """
    for edit in edits:
        if edit.op == "set":
            root = tomlkit.parse(text)
            _set(root, edit.path, edit.value)
            text = _with_comments(text, tomlkit.dumps(root), edit.path)
        elif edit.op == "move":
            text = _with_comments(text, _moved(text, edit), edit.to)
        else:
            text = _removed(text, edit)
    tomllib.loads(text)
    return text


def _removed(text: str, edit: Edit) -> str:
    """Return the text without a value. The comments of a table that earlier moves have emptied
    stay where it stood.
    """
    root = tomlkit.parse(text)
    value: Any = tomllib.loads(text)
    try:
        value = at(value, edit.path)
        _remove(root, edit.path)
    except KeyError:  # an earlier move has emptied and taken it
        return text
    after = tomlkit.dumps(root)
    if dict(leaves(value, ())):
        return after
    return _with_comments(text, after, (), lines_of(text).get(edit.path, 1))


def _moved(text: str, edit: Edit) -> str:
    """Return the text with a value at another place: under its new name where it stands, else with
    what is written around it, else the value alone.
    """
    root = tomlkit.parse(text)
    value = at(root, edit.path)
    _remove(root, edit.path)
    _set(root, edit.to, value.unwrap() if hasattr(value, "unwrap") else value)
    alone = tomlkit.dumps(root)
    wanted = tomllib.loads(alone)
    for way in (_renamed, _moved_whole):
        try:
            after = way(text, edit)
            if tomllib.loads(after) == wanted:
                return after
        except (TOMLKitError, KeyError, TypeError, IndexError, ValueError, AttributeError):
            continue
    return alone


def _renamed(text: str, edit: Edit) -> str:
    """Return the text with another name on the line of a key. ValueError when it is moved."""
    if edit.path[:-1] != edit.to[:-1]:
        raise ValueError("a move to another table")
    old, new = str(edit.path[-1]), dotted(edit.to[-1:])
    lines = text.split("\n")
    number = lines_of(text)[edit.path] - 1
    pattern = rf"""(?<![\w"'-])(["']?){re.escape(old)}\1(?=\s*[=.\]])"""
    lines[number] = re.sub(pattern, lambda _: new, lines[number], count=1)
    return "\n".join(lines)


def _moved_whole(text: str, edit: Edit) -> str:
    """Return the text with a value moved as it is written, its comments with it."""
    root = tomlkit.parse(text)
    item = at(root, edit.path)
    _remove(root, edit.path)
    _forget_header(item)
    _set(root, edit.to, item)
    return tomlkit.dumps(root)


def _forget_header(item: Any) -> None:
    """Let a table's header, and those of the tables in it, be made anew from where it stands."""
    if not isinstance(item, tomlkit.items.Table):
        return
    item.display_name = None
    for inner in item.values():
        _forget_header(inner)


def _with_comments(before: str, after: str, place: Path, line: int = 0) -> str:
    """Return the text with the comments that an edit lost, each on a line of its own: above the
    line of `place`, or at `line`.
    """
    lost = Counter(comments_of(before)) - Counter(comments_of(after))
    if not lost:
        return after
    number = lines_of(after).get(place, max(line, 1)) - 1
    lines = after.split("\n")
    saved = list(lost.elements())
    commented = "\n".join([*lines[:number], *saved, *lines[number:]])
    try:
        if tomllib.loads(commented) == tomllib.loads(after):
            return commented
    except tomllib.TOMLDecodeError:
        pass  # that line is inside a value
    return after.rstrip("\n") + "\n" + "\n".join(saved) + "\n"


def with_line_ends(raw: str, text: str) -> str:
    """Return `text` with the same line ends (LF or CRLF) as the file had before a change. `raw` is
    the file before the change, and `text` the changed text, whose lines all end with LF. A line
    that did not change keeps its line end; a new line gets the line end that most lines of `raw`
    have.
    """
    returns, all_lines = raw.count("\r\n"), raw.count("\n")
    if returns == 0:
        return text
    if returns == all_lines:
        return text.replace("\n", "\r\n")
    old, new = raw.split("\n"), text.split("\n")
    plain = [line.removesuffix("\r") for line in old]
    ends = [returns * 2 > all_lines] * len(new)
    for block in difflib.SequenceMatcher(None, plain, new).get_matching_blocks():
        for n in range(block.size):
            ends[block.b + n] = old[block.a + n].endswith("\r")
    ended = ""
    for line, has_return in zip(new[:-1], ends, strict=False):
        ended += line + ("\r\n" if has_return else "\n")
    return ended + new[-1]


def _remove(root: Any, path: Path) -> None:
    del at(root, path[:-1])[path[-1]]


def _set(root: Any, path: Path, value: Any) -> None:
    table = root
    for part in path[:-1]:
        if isinstance(part, str) and part not in table:
            table[part] = tomlkit.table(is_super_table=True)
        table = table[part]
    key = path[-1]
    is_plain = isinstance(value, dict) and not isinstance(value, tomlkit.items.Item)
    if is_plain and not isinstance(table, tomlkit.items.InlineTable):
        new = tomlkit.table()
        new.update(value)
        value = new
    if key in table or isinstance(value, tomlkit.items.Table) or table is not root:
        table[key] = value
    else:
        _before_tables(root, str(key), value)


def _before_tables(root: tomlkit.TOMLDocument, key: str, value: Any) -> None:
    """Add a key to the root of a document, before the first table: below a header it would belong
    to that table.
    """
    has_table, last = False, None
    for name, item in root.body:
        if isinstance(item, tomlkit.items.Table | tomlkit.items.AoT):
            has_table = True
        elif name is not None:
            last = name.key
    if not has_table:
        root[key] = value
    elif last is not None:
        root._insert_after(last, key, value)
    else:
        root._insert_at(0, key, value)


def write(file: File, text: str) -> File:
    """Replace a config file by `text`, in one step, after copying the old file beside it. Return
    the path of the copy: FILE.orig, or FILE.orig.N if that name is taken; no older copy is
    overwritten. Raises OSError if the file cannot be written, and NotApplicableError after a
    thousand copies.
    """
    kept = keep(file)
    temporary = file.with_name(f".{file.name}.{secrets.token_hex(4)}")
    descriptor = _new(temporary, file)
    try:
        with open(descriptor, "w", encoding="utf-8", newline="") as handle:
            handle.write(text)
            handle.flush()
            os.fsync(handle.fileno())
        os.replace(temporary, file.resolve())
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    return kept


def keep(file: File) -> File:
    """Copy a file beside itself and return the path of the copy: FILE.orig, or FILE.orig.N if that
    name is taken. Raises NotApplicableError if a thousand copies are there already.
    """
    data = file.read_bytes()
    for number in range(1000):
        kept = file.with_name(f"{file.name}.orig" + (f".{number}" if number else ""))
        try:
            descriptor = _new(kept, file)
        except FileExistsError:
            continue
        with open(descriptor, "wb") as handle:
            handle.write(data)
        return kept
    raise NotApplicableError(f"{file} has a thousand old copies beside it.", "Remove some of them.")


def _new(path: File, like: File) -> int:
    """Create a file with the mode of `like` and return its descriptor. Raises FileExistsError if
    the path is taken.
    """
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, like.stat().st_mode & 0o777)
