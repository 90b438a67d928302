"""fix: make the edits that are certain, keep every comment, and keep the file as it was beside
it.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path as File
from typing import Any

import tomlkit
from tomlkit.exceptions import TOMLKitError

from bs4_console.core.configs.document import Document, read_toml
from bs4_console.core.configs.findings import Edit, Finding, Path
from bs4_console.core.configs.lint import lint_document
from bs4_console.core.configs.toml_lines import lines_of
from bs4_console.core.configs.view import Given
from bs4_console.errors import NotApplicableError

#: What lint says of a text.
Linted = Callable[[str], list[Finding]]

#: Every fix leaves less to find, so it ends by itself; a config that needs more than this is better
#: written anew.
MOST = 200


@dataclass(frozen=True)
class Fixed:
    """`made`: findings that are gone; `left`: what lint says afterwards."""

    before: str
    after: str
    made: list[Finding]
    left: list[Finding]


def fix(file: File, trainer: str, given: Given | None = None, component: str = "rl") -> Fixed:
    """`component`: whose config it is. NotApplicableError for verl and for what is no TOML: there a
    person has to look.
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
    return Fixed(document.text, text, made, linted(text))


def _step(text: str, linted: Linted) -> tuple[Finding, str] | None:
    """The first finding whose edits leave less to find, and the text with them."""
    for item in linted(text):
        after = _improved(text, item, linted) if item.edits else None
        if after is not None:
            return item, after
    return None


def _improved(text: str, item: Finding, linted: Linted) -> str | None:
    """The text with a finding's edits made, or None when they cannot be made or would not leave
    fewer findings than before.
    """
    try:
        after = apply(text, item.edits)
    except (TOMLKitError, KeyError, TypeError, IndexError, ValueError):
        return None
    before, now = linted(text), linted(after)
    fewer = (sum(f.level == "error" for f in now), len(now)) < (
        sum(f.level == "error" for f in before),
        len(before),
    )
    return after if fewer else None


def apply(text: str, edits: tuple[Edit, ...]) -> str:
    """The edits on TOML text. KeyError or TypeError when a place is not there or not a table."""
    root = tomlkit.parse(text)
    for edit in edits:
        if edit.op == "set":
            _set(root, edit.path, edit.value)
        elif edit.op == "remove":
            with contextlib.suppress(KeyError):  # an earlier move has emptied and taken it
                _remove(root, edit.path)
        else:
            value = _at(root, edit.path)
            plain = value.unwrap() if hasattr(value, "unwrap") else value
            _remove(root, edit.path)
            _set(root, edit.to, plain)
    after = tomlkit.dumps(root)
    tomllib.loads(after)
    return after


def _at(root: Any, path: Path) -> Any:
    value = root
    for part in path:
        value = value[part]
    return value


def _remove(root: Any, path: Path) -> None:
    del _at(root, path[:-1])[path[-1]]


def _set(root: Any, path: Path, value: Any) -> None:
    table = root
    for part in path[:-1]:
        if isinstance(part, str) and part not in table:
            table[part] = tomlkit.table(is_super_table=True)
        table = table[part]
    key = path[-1]
    if isinstance(value, dict) and not isinstance(table, tomlkit.items.InlineTable):
        new = tomlkit.table()
        new.update(value)
        value = new
    if key in table or isinstance(value, tomlkit.items.Table) or table is not root:
        table[key] = value
    else:
        _before_tables(root, str(key), value)


def _before_tables(root: tomlkit.TOMLDocument, key: str, value: Any) -> None:
    """A new key of the root has to stand before the first table."""
    tables = [
        item
        for name, item in root.body
        if isinstance(item, tomlkit.items.Table | tomlkit.items.AoT)
    ]
    plain = [
        name.key
        for name, item in root.body
        if name is not None and not isinstance(item, tomlkit.items.Table | tomlkit.items.AoT)
    ]
    if not tables:
        root[key] = value
    elif plain:
        root._insert_after(plain[-1], key, value)
    else:
        root._insert_at(0, key, value)


def write(file: File, text: str) -> File:
    """Replace the file whole, and return where the old one was kept: FILE.orig, or FILE.orig.N when
    that is taken; never over another.
    """
    kept = keep(file)
    temporary = file.with_name(f".{file.name}.{secrets.token_hex(4)}")
    descriptor = os.open(
        temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, file.stat().st_mode & 0o777
    )
    try:
        with open(descriptor, "w", encoding="utf-8") as handle:
            handle.write(text)
            handle.flush()
            os.fsync(handle.fileno())
        os.replace(temporary, file.resolve())
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    return kept


def keep(file: File) -> File:
    data = file.read_bytes()
    for number in range(1000):
        kept = file.with_name(f"{file.name}.orig" + (f".{number}" if number else ""))
        try:
            descriptor = os.open(
                kept, os.O_WRONLY | os.O_CREAT | os.O_EXCL, file.stat().st_mode & 0o777
            )
        except FileExistsError:
            continue
        with open(descriptor, "wb") as handle:
            handle.write(data)
        return kept
    raise NotApplicableError(f"{file} has a thousand old copies beside it.", "Remove some of them.")
