"""Describe what lint finds in a config, and the edits that are certain enough to be made by a
machine.
"""

from __future__ import annotations

import functools
import json
import operator
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

Level = Literal["error", "warning"]

#: The path of a value: table names, keys and list indices from the top of the file.
Path = tuple[str | int, ...]
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_LONGEST = 80


@dataclass(frozen=True)
class Edit:
    """One certain change of a config: `set` the path to a value, `remove` the path, or `move` it to
    `to`.
    """

    op: Literal["set", "remove", "move"]
    path: Path
    value: Any = None
    to: Path = ()


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing that is wrong with a config.

    `id` is a rule's id, or `schema` (only the trainer's own schema refuses the value), or `toml` or
    `yaml` (the file cannot be read). `line` is 1-based. `fix` is a sentence for a person. `edits`
    are what `config fix` changes; empty if no change is certain.
    """

    id: str
    level: Level
    line: int
    message: str
    fix: str
    edits: tuple[Edit, ...] = ()
    by_schema: bool = False
    """True if the shipped schema refuses the value. The trainer's own classes count more (see
    classes.py).
    """

    def as_dict(self) -> dict[str, Any]:
        """Return the finding as JSON of `config lint`, without its edits."""
        return {
            "id": self.id,
            "level": self.level,
            "line": self.line,
            "message": self.message,
            "fix": self.fix,
        }


def by_line(found: Iterable[Finding]) -> list[Finding]:
    """Return the findings without duplicates, sorted by line. On each line errors come first."""
    unique = {(item.id, item.line, item.message): item for item in found}
    return sorted(unique.values(), key=lambda item: (item.line, item.level != "error", item.id))


def dotted(path: Path) -> str:
    """Return a path as a person would write it: `orchestrator.env[0].id`. A key that TOML needs in
    quotes has them. A key has at most 80 characters here.
    """
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
            continue
        key = part if _BARE.fullmatch(part) else json.dumps(part, ensure_ascii=False)
        if len(key) >= _LONGEST:
            key = key[: _LONGEST - 3] + "..."
        text += f".{key}" if text else key
    return text


def path_of(place: str) -> Path:
    """Return the path of a dotted key, or () for ""."""
    return tuple(place.split(".")) if place else ()


def below(top: Any, path: Path) -> Any:
    """Return the value at a path in tables and lists, or None if there is none."""
    value = top
    for part in path:
        if isinstance(value, dict):
            value = value.get(part)
        elif isinstance(value, list) and isinstance(part, int) and part < len(value):
            value = value[part]
        else:
            return None
    return value


def at(top: Any, path: Path) -> Any:
    """Return the value at a path. Raises KeyError, IndexError or TypeError if there is none."""
    return functools.reduce(operator.getitem, path, top)


def names_of(path: Path) -> tuple[str, ...]:
    """Return the path without its list indices."""
    return tuple(part for part in path if isinstance(part, str))
