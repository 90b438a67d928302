"""What the options and further files of a launch command make of a config: they win over it, and are refused by the same schema."""

from __future__ import annotations

import copy
import dataclasses
import json
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path as File
from typing import Any

from bs4_agent.trainers.settings import Arguments, parse_arguments
from bs4_console.core.configs.document import read_text
from bs4_console.core.configs.explain import explain
from bs4_console.core.configs.findings import Finding, Path
from bs4_console.core.configs.schema import Checker, Problem, tables
from bs4_console.core.configs.view import View
from bs4_console.core.errors import UsageError


def check(view: View, before: list[Problem]) -> Iterator[Finding]:
    """What the command that was given (`Given.launch`) adds to `before`, the problems of the file alone. On line 1: it is in no file."""
    arguments = arguments_of(view.given.launch)
    if arguments is None:
        return
    data = copy.deepcopy(view.document.data)
    for key, name in arguments.nested:
        try:
            _merge(data, key.split("."), _file(view, name))
        except (UsageError, tomllib.TOMLDecodeError) as error:
            yield Finding(
                "schema", "error", 1, f"{name}, named by the launch command, cannot be read: {error}", "Correct the name or the file."
            )
    for key, value in arguments.options:
        _put(view.generation, data, key.split("."), value)
    _, problems = Checker(view.generation).check(data)
    if listed := [problem for problem in problems if problem.wanted == "a list" and isinstance(problem.value, str)]:
        for problem in listed:  # both command lines divide such a value by commas
            _at(data, problem.path[:-1])[problem.path[-1]] = str(problem.value).split(",")
        _, problems = Checker(view.generation).check(data)
    known = {(problem.kind, problem.path) for problem in before}
    overlaid = dataclasses.replace(view, data=data)
    for problem in problems:
        if (problem.kind, problem.path) not in known and problem.kind != "ignored":
            item = explain(overlaid, problem)
            yield dataclasses.replace(item, line=1, message=f"The launch command: {item.message}", edits=(), by_schema=True)


def _at(data: Any, path: Path) -> Any:
    for part in path:
        data = data[part]
    return data


def arguments_of(command: str) -> Arguments | None:
    """The words behind `rl` of a launch command; None where it is none."""
    try:
        words = shlex.split(command)
    except ValueError:
        return None
    # The first `@` belongs to the config itself; what stands before it is the program and its environment.
    start = next((n for n, word in enumerate(words) if word == "@" or word.startswith("--")), None)
    return None if start is None else parse_arguments(words[start:])


def _file(view: View, name: str) -> dict[str, Any]:
    place = File(name)
    beside = view.document.file.parent / name
    return tomllib.loads(read_text(beside if not place.exists() and beside.exists() else place))


def _merge(data: dict[str, Any], path: list[str], more: dict[str, Any]) -> None:
    for key in path:
        if not isinstance(data.get(key), dict):
            data[key] = {}
        data = data[key]
    for key, value in more.items():
        if isinstance(value, dict) and isinstance(data.get(key), dict):
            _merge(data, [key], value)
        else:
            data[key] = value


def _put(generation: str, data: dict[str, Any], path: list[str], value: Any) -> None:
    """As both command lines do: a bare flag makes a table of its defaults or leaves the one that is there, `--no-x` takes a table away,
    and JSON is understood."""
    names = tuple(path)
    for key in path[:-1]:
        if not isinstance(data.get(key), dict):
            data[key] = {}
        data = data[key]
    last, is_table = path[-1], names in tables(generation)
    if is_table and value is True:
        if not isinstance(data.get(last), dict):
            data[last] = {}
    elif is_table and value in (False, "None"):
        data.pop(last, None)
    else:
        data[last] = _value(value)


def _value(value: Any) -> Any:
    if isinstance(value, list):
        return [_value(item) for item in value]
    if not isinstance(value, str) or not value.startswith(("[", "{")):
        return value
    try:
        return json.loads(value)
    except ValueError:
        return value
