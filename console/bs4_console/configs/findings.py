"""What lint says about a config, and the edits that are certain enough to be made by a machine."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Literal

Level = Literal["error", "warning"]

#: Where a value is: table names, keys and list indices from the top of the file.
Path = tuple[str | int, ...]
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_LONGEST = 80


@dataclass(frozen=True)
class Edit:
    """One certain change: `set` path to value, `remove` path, or `move` path to `to`."""

    op: Literal["set", "remove", "move"]
    path: Path
    value: Any = None
    to: Path = ()


@dataclass(frozen=True, kw_only=True)
class Finding:
    """`id` is a rule's, or `schema` (only the trainer's own schema says so), or `toml`/`yaml` (the
    file cannot be read). `line` is 1-based. `fix` is a sentence for a person; `edits` are made by
    `config fix` when there are any.
    """

    id: str
    level: Level
    line: int
    message: str
    fix: str
    edits: tuple[Edit, ...] = ()
    by_schema: bool = False
    """Whether the shipped schema refuses it: what the trainer's own classes say counts more (see
    classes.py).
    """

    def as_dict(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "level": self.level,
            "line": self.line,
            "message": self.message,
            "fix": self.fix,
        }


def dotted(path: Path) -> str:
    """`orchestrator.env[0].id`, as a person would write it; a key that TOML wants in quotes has
    them, on one line and not without end.
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
    """The path without list indices."""
    return tuple(part for part in path if isinstance(part, str))
