"""Present a config to the rules: what is written, what counts with the defaults, and the lines."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path as File
from typing import Any

from bs4_console.configs.document import Document
from bs4_console.configs.findings import Path, below, path_of
from bs4_console.configs.schema import default, prefix_of

#: Near the largest float of Python.
_COUNTABLE = 10**300


@dataclass(frozen=True, kw_only=True)
class Given:
    """What is known beside the config file. With nothing given, the rules judge the file alone.

    `launch` is the launch command. `gpus` is the number of GPUs of the pod. `prompt_tokens` is the
    length of a prompt. `run_dir` is the run's directory and `registry` the file of config versions.
    `installed` are installed environments, `running` output directories of runs, and `beside` other
    configs.
    """

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
    """A config as the rules read it.

    `data` holds the values as the trainer converts them. `component` is the part of the training
    that the document is for. The values of a part (trainer, orchestrator, inference) stand under
    its name, as in the config of the whole training.
    """

    generation: str
    document: Document
    data: dict[str, Any]
    given: Given = field(default_factory=Given)
    component: str = "rl"

    def written(self, dotted: str) -> Any:
        """Return the value in the file at a dotted key, or None if it is not written."""
        return below(self.data, path_of(dotted))

    def has(self, dotted: str) -> bool:
        """Return True if a dotted key is written in the file."""
        return self.written(dotted) is not None

    def is_table(self, dotted: str) -> bool:
        """Return True if a table is written in the file at a dotted key."""
        return isinstance(self.written(dotted), dict)

    def first(self, *places: str) -> str:
        """Return the first of the places that is written, or else the last of them."""
        for place in places:
            if self.has(place):
                return place
        return places[-1]

    def get(self, dotted: str) -> Any:
        """Return the value in the file at a dotted key, or else the schema's default."""
        value = self.written(dotted)
        if value is None:
            return default(self.generation, *dotted.split("."), component=self.component)
        return value

    def number(self, *places: str) -> float | None:
        """Return the number at the first of the places that is written, or else the default of the
        last place. Return None if that value is no number.
        """
        value = self.get(self.first(*places))
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        fits = is_number and (isinstance(value, float) or abs(value) < _COUNTABLE)
        return value if fits else None

    def line(self, *places: str) -> int:
        """Return the 1-based line of the first place that is written, or else of the nearest table
        around the first place.
        """
        return self.at(path_of(self.first(*places, places[0])))

    def line_or(self, place: str, otherwise: int) -> int:
        """Return the 1-based line of a place, or `otherwise` if it is not written."""
        if self.has(place):
            return self.line(place)
        return otherwise

    def at(self, path: Path) -> int:
        """Return the 1-based line of a path, or of the nearest table around it in the file."""
        prefix = prefix_of(self.component)
        return self.document.line(path[len(prefix) :] if path[: len(prefix)] == prefix else path)

    def table(self, dotted: str) -> dict[str, Any]:
        """Return the table that is written at a dotted key, or {} if there is none."""
        return table_in(self.written(dotted))

    def tables(self, dotted: str) -> list[dict[str, Any]]:
        """Return the tables of the list that is written at a dotted key. Empty without a list."""
        return tables_in(self.written(dotted))


def table_in(value: Any) -> dict[str, Any]:
    """Return `value` if it is a table, or else {}."""
    return value if isinstance(value, dict) else {}


def tables_in(value: Any) -> list[dict[str, Any]]:
    """Return the tables of a list. Empty if `value` is no list."""
    if not isinstance(value, list):
        return []
    return [item for item in value if isinstance(item, dict)]
