"""A config as the rules read it: what is written, what counts after the shared values, and on which
line.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path as File
from typing import Any

from bs4_console.configs.document import Document
from bs4_console.configs.findings import Path
from bs4_console.configs.schema import default, prefix_of

#: Beyond it Python's floats end.
_COUNTABLE = 10**300


@dataclass(frozen=True, kw_only=True)
class Given:
    """What is known beside the file. Everything empty: the file alone."""

    launch: str = ""
    gpus: int | None = None
    prompt_tokens: int = 1500
    run_dir: File | None = None
    registry: File | None = None
    env_version: str = ""
    installed: tuple[str, ...] = ()
    running: tuple[str, ...] = ()
    beside: tuple[File, ...] = ()


@dataclass
class View:
    """`data` holds the values as the trainer converts them. `component`: whose config the document
    is; the values of a part (trainer, orchestrator, inference) stand under its name, as in the
    config of the whole.
    """

    generation: str
    document: Document
    data: dict[str, Any]
    given: Given = field(default_factory=Given)
    component: str = "rl"

    def written(self, dotted: str) -> Any:
        """The value in the file, or None."""
        value: Any = self.data
        for name in dotted.split("."):
            if not isinstance(value, dict) or name not in value:
                return None
            value = value[name]
        return value

    def has(self, dotted: str) -> bool:
        return self.written(dotted) is not None

    def get(self, dotted: str) -> Any:
        """The value in the file, else the schema's default."""
        value = self.written(dotted)
        if value is None:
            return default(self.generation, *dotted.split("."), component=self.component)
        return value

    def number(self, *places: str) -> float | None:
        """The first of the places that is written and a number, else the last one's default; None
        for anything else.
        """
        for place in places:
            value = self.written(place)
            if value is not None:
                break
        else:
            value = self.get(places[-1])
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return (
            value if is_number and (isinstance(value, float) or abs(value) < _COUNTABLE) else None
        )

    def line(self, *places: str) -> int:
        """Of the first place that is written, else of the nearest table around the first."""
        for place in places:
            if self.has(place):
                return self.at(tuple(place.split(".")))
        if places:
            return self.at(tuple(places[0].split(".")))
        return 1

    def at(self, path: Path) -> int:
        prefix = prefix_of(self.component)
        return self.document.line(path[len(prefix) :] if path[: len(prefix)] == prefix else path)

    def table(self, dotted: str) -> dict[str, Any]:
        value = self.written(dotted)
        if isinstance(value, dict):
            return value
        return {}

    def tables(self, dotted: str) -> list[dict[str, Any]]:
        value = self.written(dotted)
        if isinstance(value, list):
            found = []
            for item in value:
                if isinstance(item, dict):
                    found.append(item)
            return found
        return []
