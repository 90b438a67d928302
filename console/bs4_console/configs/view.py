"""Present a config to the rules: what is written, what counts with the defaults, and the lines."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path as File
from typing import Any

from bs4_console.configs.document import Document
from bs4_console.configs.findings import Path, below, path_of
from bs4_console.configs.schema import Problem, default, prefix_of

#: Near the largest float of Python.
_COUNTABLE = 10**300
#: Tokens of the longest prompt where nobody says how many it has.
USUAL_PROMPT = 1500


@dataclass(frozen=True, kw_only=True)
class Given:
    """What is known besides a config when lint checks it. By default nothing is, and the config
    alone is judged. The caller of lint fills it in, such as the command `config lint` from its
    options.

    `launch` is the launch command. `gpus` is the pod's number of GPUs, `prompt_tokens` the longest
    prompt's length in tokens, and `context` how many tokens the model takes. `run_dir` is the run's
    directory, and `registry` the file of recorded config versions. `env_version` is the installed
    version of the environment, and `installed` are the names of all installed environments.
    `running` are the output directories of runs that are running now. `beside` are other config
    files, whose names of W&B runs and adapters must differ from those of this config.
    """

    launch: str = ""
    gpus: int | None = None
    prompt_tokens: int | None = None
    context: int | None = None
    run_dir: File | None = None
    registry: File | None = None
    env_version: str = ""
    installed: tuple[str, ...] = ()
    running: tuple[str, ...] = ()
    beside: tuple[File, ...] = ()


@dataclass(frozen=True)
class Table:
    """One table of a config. A trainer's config is an open tree: the values may have any type. A
    table that the config does not have is treated as an empty one.
    """

    values: Mapping[str, Any] = field(default_factory=dict)

    def __iter__(self) -> Iterator[str]:
        """Yield the keys."""
        return iter(self.values)

    def get(self, key: str, default: Any = None) -> Any:
        """Return the value of a key, or `default` if the table does not have it."""
        return self.values.get(key, default)

    def table(self, key: str) -> Table:
        """Return the table that this one has at a key. It is empty if there is none."""
        return table_in(self.get(key))

    def tables(self) -> dict[str, Table]:
        """Return those of the values that are tables, by their keys."""
        return {key: Table(item) for key, item in self.values.items() if isinstance(item, dict)}


@dataclass
class View:
    """A config as the rules of lint read it.

    `generation` is the version of prime-rl that it is for ("prime-rl-2026-01", or "prime-rl" for
    the current one), and `document` the file from which it was read. `data` has the values as the
    trainer converts them. `given` is what is known besides the config. `component` says which
    program the config is for (rl for the whole training, trainer, orchestrator, inference, sft or
    eval). A config of trainer, orchestrator or inference alone is read as if it stood under that
    name in the config of a whole training, so that the same rules apply.
    """

    generation: str
    document: Document
    data: dict[str, Any]
    given: Given = field(default_factory=Given)
    component: str = "rl"

    def written(self, dotted: str) -> Any:
        """Return the value that the config sets at a dotted key, or None if it does not set it."""
        return below(self.data, path_of(dotted))

    def has(self, dotted: str) -> bool:
        """Return True if the config itself sets the dotted key. A default of the schema does not
        count.
        """
        return self.written(dotted) is not None

    def is_table(self, dotted: str) -> bool:
        """Return True if the config has a table at the dotted key."""
        return isinstance(self.written(dotted), dict)

    def first(self, *places: str) -> str:
        """Return the first of the dotted keys `places` that the config sets, or the last of them if
        it sets none.
        """
        for place in places:
            if self.has(place):
                return place
        return places[-1]

    def get(self, dotted: str) -> Any:
        """Return the value that the config sets at a dotted key. If it does not set it, return the
        schema's default, or None if there is none.
        """
        value = self.written(dotted)
        if value is None:
            return default(self.generation, *dotted.split("."), component=self.component)
        return value

    def number(self, *places: str) -> float | None:
        """Return the number that the config sets at the first of the dotted keys `places` that it
        sets. If it sets none of them, return the schema's default of the last one. Return None if
        the value or default is not a number.
        """
        value = self.get(self.first(*places))
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        fits = is_number and (isinstance(value, float) or abs(value) < _COUNTABLE)
        return value if fits else None

    def line(self, *places: str) -> int:
        """Return the 1-based line of the first of the dotted keys `places` that the config sets. If
        it sets none of them, return the line of the nearest table around the first one.
        """
        return self.at(path_of(self.first(*places, places[0])))

    def line_or(self, place: str, otherwise: int) -> int:
        """Return the 1-based line of the dotted key `place`, or `otherwise` if the config does not
        set it.
        """
        if self.has(place):
            return self.line(place)
        return otherwise

    def at(self, path: Path) -> int:
        """Return the 1-based line of the value at `path`, a tuple of keys and list indices. If the
        config does not set it, return the line of the nearest table around it.
        """
        prefix = prefix_of(self.component)
        return self.document.line(path[len(prefix) :] if path[: len(prefix)] == prefix else path)

    def table(self, dotted: str) -> Table:
        """Return the table that the config has at a dotted key. It is empty if the config has none
        there.
        """
        return table_in(self.written(dotted))

    def tables(self, dotted: str) -> list[Table]:
        """Return the tables in the list that the config has at a dotted key. Return an empty list
        if there is no list.
        """
        value = self.written(dotted)
        if not isinstance(value, list):
            return []
        return [Table(item) for item in value if isinstance(item, dict)]

    def without(self, problems: Iterable[Problem]) -> View:
        """Return a copy of this view without each value that the schema refuses, as `problems`
        lists them. A problem about a missing value, or about a key that the schema does not know,
        has no effect on the copy.
        """
        kept = copy.deepcopy(self.data)
        for problem in problems:
            if problem.kind not in ("missing", "extra", "ignored"):
                table = below(kept, problem.path[:-1])
                if isinstance(table, dict):
                    table.pop(problem.path[-1], None)
        return dataclasses.replace(self, data=kept)


def table_in(value: Any) -> Table:
    """Return `value` as a Table. If it is not a dictionary, the returned table is empty."""
    return Table(value if isinstance(value, dict) else {})
