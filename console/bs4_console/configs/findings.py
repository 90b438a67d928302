"""Describe what lint finds in a config, and the edits that are certain enough to be made by a
machine.
"""

from __future__ import annotations

import json
import re
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


def dotted(path: Path) -> str:
    """Return a path as a person would write it: `orchestrator.env[0].id`. A key that TOML needs in
    quotes has them. A key has at most 80 characters here.
    """
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
            continue
        if _BARE.fullmatch(part):
            key = part
        else:
            key = json.dumps(part, ensure_ascii=False)
        if len(key) < _LONGEST:
            key = key
        else:
            key = key[: _LONGEST - 3] + "..."
        if text:
            text += f".{key}"
        else:
            text += key
    return text


def names_of(path: Path) -> tuple[str, ...]:
    """Return the path without its list indices."""
    return tuple(part for part in path if isinstance(part, str))
