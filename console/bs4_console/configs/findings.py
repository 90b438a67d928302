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
    """One change of a config that is certain to repair a finding. `op` is "set" (write `value` at
    `path`), "remove" (remove the value at `path`), or "move" (move the value at `path` to `to`).
    `path` and `to` are tuples of keys and list indices.
    """

    op: Literal["set", "remove", "move"]
    path: Path
    value: Any = None
    to: Path = ()


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing that is wrong with a config. `level` is "error" or "warning".

    `id` is the id of the rule that has found it, or "schema" (only the trainer's schema refuses the
    value), or "toml" or "yaml" (the file cannot be read). `line` is the 1-based line in the config,
    and `message` says what is wrong. `fix` is a sentence that says what to do. `edits` are the
    changes that `config fix` makes for it; empty if no change is certain.
    """

    id: str
    level: Level
    line: int
    message: str
    fix: str
    edits: tuple[Edit, ...] = ()
    by_schema: bool = False
    """True if the console's copy of the trainer's schema refuses the value. Such a finding is
    dropped if the trainer's own classes accept the value (see classes.py).
    """

    def as_dict(self) -> dict[str, str | int]:
        """Return the finding as a JSON object, in the form in which `config lint --json` prints it,
        without its edits.
        """
        return {
            "id": self.id,
            "level": self.level,
            "line": self.line,
            "message": self.message,
            "fix": self.fix,
        }


def by_line(found: Iterable[Finding]) -> list[Finding]:
    """Return the findings without duplicates, sorted by line. Findings on the same line have errors
    first.
    """
    unique = {(item.id, item.line, item.message): item for item in found}
    return sorted(unique.values(), key=lambda item: (item.line, item.level != "error", item.id))


def dotted(path: Path) -> str:
    """Return `path`, a tuple of keys and list indices, as one text, such as
    "orchestrator.env[0].id". A key that TOML needs in quotes gets them, and a key longer than 80
    characters is shortened.
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
    """Return the dotted key `place` as a path, the tuple of its parts. Return () for ""."""
    return tuple(place.split(".")) if place else ()


def below(top: Any, path: Path) -> Any:
    """Return the value at `path` inside the nested tables and lists of `top`, or None if there is
    none. A path is a tuple of keys and list indices.
    """
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
    """Return the value at `path` inside the nested tables and lists of `top`. A path is a tuple of
    keys and list indices. Raises KeyError, IndexError or TypeError if there is no such value.
    """
    return functools.reduce(operator.getitem, path, top)


def names_of(path: Path) -> tuple[str, ...]:
    """Return the keys of a path (a tuple of keys and list indices), without its list indices."""
    return tuple(part for part in path if isinstance(part, str))
