"""Lay the options and further files of a launch command over a config. They win over the config,
and the same schema refuses them.
"""

from __future__ import annotations

import copy
import dataclasses
import json
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path as File
from typing import Any

from bs4_common.trainers.settings import Arguments, parse_arguments
from bs4_console.configs.document import BadToml, parse, read_text
from bs4_console.configs.explain import explain
from bs4_console.configs.findings import Finding, at, path_of
from bs4_console.configs.schema import Checker, Problem, tables
from bs4_console.configs.view import View
from bs4_console.errors import UsageError


@dataclass(frozen=True)
class Overlaid:
    """A config into which the options of the launch command were written, in the way in which the
    trainer does that. `values` are the resulting values. `problems` are those of these values and
    keys that the trainer's schema refuses. `unread` are findings about files that the command names
    and that cannot be read.
    """

    values: dict[str, Any]
    problems: list[Problem]
    unread: list[Finding]

    def left(self, before: list[Problem]) -> list[Problem]:
        """Return those problems in `before` that the launch command does not remove. `before` are
        the schema's problems with the config file alone. A problem of the kind "ignored" (a key
        without effect) is always returned.
        """
        still = {(problem.kind, problem.path) for problem in self.problems}
        found = []
        for problem in before:
            if problem.kind == "ignored" or (problem.kind, problem.path) in still:
                found.append(problem)
        return found

    def added(self, view: View, before: list[Problem]) -> Iterator[Finding]:
        """Yield a finding for each problem that only the launch command causes. `before` are the
        schema's problems with the config file alone, and `view` is the config without the command.
        The findings are on line 1, because the values are in no line of the file.
        """
        known = {(problem.kind, problem.path) for problem in before}
        overlaid = dataclasses.replace(view, data=self.values)
        for problem in self.problems:
            if (problem.kind, problem.path) not in known and problem.kind != "ignored":
                item = explain(overlaid, problem)
                yield dataclasses.replace(
                    item,
                    line=1,
                    message=f"The launch command: {item.message}",
                    edits=(),
                    by_schema=True,
                )


def overlay(view: View) -> Overlaid | None:
    """Return the config `view` with the options of its launch command (`view.given.launch`) written
    into it. Return None if no launch command is given, or if the command has no option that changes
    the config.
    """
    arguments = arguments_of(view.given.launch)
    if arguments is None or not (arguments.nested or arguments.options):
        return None
    laid = _Laid(view)
    unread: list[Finding] = []
    for key, name in arguments.nested:
        try:
            laid.lay(tuple(key.split(".")), _place(view, name))
        except (UsageError, BadToml) as error:
            unread.append(
                Finding(
                    id="schema",
                    level="error",
                    line=1,
                    message=f"{name}, named by the launch command, cannot be read: {error}",
                    fix="Correct the name or the file.",
                )
            )
    for key, value in arguments.options:
        laid.put(tuple(key.split(".")), value)
    problems = Checker(view.generation).check(laid.data)[1]
    given = {path_of(key) for key, _ in arguments.options}
    for problem in problems:
        is_text = problem.wanted == "a list" and isinstance(problem.value, str)
        if is_text and problem.path in given:  # both command lines divide such a value by commas
            at(laid.data, problem.path[:-1])[problem.path[-1]] = str(problem.value).split(",")
    values, problems = Checker(view.generation).check(laid.data)
    return Overlaid(values, problems, unread)


def arguments_of(command: str) -> Arguments | None:
    """Return the arguments that follow the program's name in a launch command of prime-rl: its
    config file, the files for single programs, and its options. Return None if the command has no
    argument that begins with -- or @, or if its quotes do not match.
    """
    try:
        words = shlex.split(command)
    except ValueError:
        return None
    # The first `@` belongs to the config itself. The words before it are the program and its
    # environment.
    for n, word in enumerate(words):
        if word == "@" or word.startswith("--"):
            return parse_arguments(words[n:])
    return None


def _place(view: View, name: str) -> File:
    """Return the file that the launch command names, beside the config if it is there alone."""
    place = File(name)
    beside = view.document.file.parent / name
    if not place.exists() and beside.exists():
        return beside
    return place


class _Laid:
    """The values of a config (`data`), over which the files and options of a launch command are
    laid.
    """

    def __init__(self, view: View) -> None:
        self._generation = view.generation
        self.data = copy.deepcopy(view.document.data)

    def lay(self, path: tuple[str, ...], file: File) -> None:
        """Lay the values of a further file over those at `path`. Raises UsageError or BadToml if it
        cannot be read.

        In January 2026 the file replaces whole top-level tables. The current generation merges key
        by key.
        """
        more = parse(read_text(file))
        if self._generation == "prime-rl-2026-01":
            for key in reversed(path):
                more = {key: more}
            self.data.update(more)
        else:
            self._merge(path, more)

    def put(self, path: tuple[str, ...], value: Any) -> None:
        """Set an option as both command lines do.

        A bare flag makes a table of its defaults, or leaves the table that is there. `--no-x` takes
        a table away. JSON in a value is understood.
        """
        is_table = path in tables(self._generation)
        if is_table and value is True:
            self._opened(path)
        elif is_table and value in (False, "None"):
            self._opened(path[:-1]).pop(path[-1], None)
        else:
            self._opened(path[:-1])[path[-1]] = _value(value)

    def _merge(self, path: tuple[str, ...], value: object) -> None:
        if not isinstance(value, dict):
            self._opened(path[:-1])[path[-1]] = value
            return
        self._opened(path)
        for key, inner in value.items():
            self._merge((*path, key), inner)

    def _opened(self, path: tuple[str, ...]) -> dict[str, Any]:
        """Return the table at a path. Anything else that stands in the way is replaced by a
        table.
        """
        table = self.data
        for key in path:
            if not isinstance(table.get(key), dict):
                table[key] = {}
            table = table[key]
        return table


def _value(value: Any) -> Any:
    if isinstance(value, list):
        return [_value(item) for item in value]
    if not isinstance(value, str) or not value.startswith(("[", "{")):
        return value
    try:
        return json.loads(value)
    except ValueError:
        return value
