"""Compare two configs by meaning. Order, comments and the spelling of numbers and tables do not
count.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path as File
from typing import Any, Literal

from bs4_console.configs.document import Document, read_toml
from bs4_console.configs.findings import Path, dotted
from bs4_console.errors import UsageError


@dataclass(frozen=True)
class Change:
    """One difference between two configs. `kind` is "added", "removed" or "changed", and `key` the
    dotted key of the value. `before` is its value in the first config, or None if only the second
    has it. `after` is its value in the second config, or None if only the first has it.
    """

    kind: Literal["added", "removed", "changed"]
    key: str
    before: Any
    after: Any


def valid(file: File, follow: bool = False) -> Document:
    """Return the config in `file` as a Document (its values with their lines). With `follow`, the
    files that the config's key `toml_files` names are read too; each of them replaces whole
    top-level tables of the config. Raises UsageError if a file cannot be read or is not TOML.
    """
    document = read_toml(file, follow)
    if document.findings:
        raise UsageError(
            f"{file}, line {document.findings[0].line}: {document.findings[0].message}",
            "Correct it first.",
        )
    return document


def compare(before: dict[str, Any], after: dict[str, Any]) -> list[Change]:
    """Return the values in which two configs differ, sorted by key. Return an empty list if both
    mean the same. `before` and `after` are the values of the configs as nested tables.
    """
    old, new = dict(leaves(before, ())), dict(leaves(after, ()))
    found = []
    for path in sorted({**old, **new}, key=dotted):
        was, now = old.get(path), new.get(path)
        kind: Literal["added", "removed", "changed"] = "changed"
        if path not in new:
            kind = "removed"
        elif path not in old:
            kind = "added"
        elif was == now and isinstance(was, bool) == isinstance(now, bool):
            continue
        found.append(Change(kind, dotted(path), was, now))
    return found


def leaves(value: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    """Yield (path, value) for every value inside `value` that is not a table: numbers, texts, lists
    of such values, and also empty tables. A path is a tuple of keys and list indices. Every yielded
    path begins with the argument `path`, which is the place of `value` itself in the config.
    """
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from leaves(item, (*path, key))
    elif isinstance(value, list) and any(isinstance(item, dict) for item in value):
        for n, item in enumerate(value):
            yield from leaves(item, (*path, n))
    elif path:
        yield path, value
