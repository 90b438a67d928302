"""Playbook files: read, validated with words a person can use, and compiled to what the agent reads."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema
import yaml

from bs4_agent.detect.detectors import DETECTORS
from bs4_agent.playbooks.compiled import canonical
from bs4_console.core.assets import find
from bs4_console.core.errors import UsageError

_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0}


@dataclass(frozen=True)
class Problem:
    """One thing wrong with one file; `where` is a path like `detect/logs/0/pattern`."""

    file: Path
    where: str
    message: str

    def __str__(self) -> str:
        place = f" at {self.where}" if self.where else ""
        return f"{self.file}{place}: {self.message}"


def schema(directory: Path | None = None) -> dict[str, Any]:
    """The JSON Schema of a playbook file; a directory of a user's own playbooks need not bring one."""
    own = None if directory is None else directory / "schema.json"
    data: dict[str, Any] = json.loads((own if own is not None and own.is_file() else find("playbooks") / "schema.json").read_text())
    return data


def lint(directory: Path | None = None) -> tuple[list[dict[str, Any]], list[Problem]]:
    """(the valid playbooks as written, with their family; the problems of the others)."""
    root = directory or find("playbooks")
    validator = jsonschema.Draft202012Validator(schema(root), format_checker=jsonschema.FormatChecker())
    good: list[dict[str, Any]] = []
    problems: list[Problem] = []
    for path in sorted(root.glob("*/*.yaml")):
        found = list(_check(path, validator))
        problems += found
        if not found:
            good.append({**yaml.safe_load(path.read_text()), "family": path.parent.name})
    problems += _duplicates(root, good)
    return good, problems


def _check(path: Path, validator: Any) -> Iterator[Problem]:
    try:
        data = yaml.safe_load(path.read_text())
    except (yaml.YAMLError, UnicodeDecodeError) as bad:
        yield Problem(path, "", f"is not YAML: {bad}")
        return
    wrong = [Problem(path, "/".join(str(part) for part in error.absolute_path), error.message) for error in validator.iter_errors(data)]
    if wrong:
        yield from wrong
        return
    if data.get("id") != path.stem:
        yield Problem(path, "id", f"is {data.get('id')!r} but the file is named {path.stem!r}; make them equal")
    detect = data.get("detect") or {}
    if "detector" in detect and detect["detector"] not in DETECTORS:
        yield Problem(path, "detect/detector", f"{detect['detector']!r} is none of {', '.join(sorted(DETECTORS))}")
    for index, signature in enumerate(detect.get("logs") or ()):
        for key in ("pattern", "logger"):
            try:
                re.compile(signature.get(key, ""))
            except re.error as bad:
                yield Problem(path, f"detect/logs/{index}/{key}", f"is no regular expression: {bad}")


def _duplicates(root: Path, good: list[dict[str, Any]]) -> Iterator[Problem]:
    seen: set[str] = set()
    for entry in good:
        if entry["id"] in seen:
            yield Problem(root, entry["id"], "is defined twice")
        seen.add(entry["id"])


def compile_all(directory: Path | None = None) -> bytes:
    """All playbooks as the JSON the agent reads; UsageError when one is invalid: a bundle never carries half a library."""
    good, problems = lint(directory)
    if problems:
        raise UsageError(str(problems[0]), "`bs4-console playbook lint` shows all of them.")
    return canonical({"schema": "bs4.playbooks/1", "playbooks": [_compile(entry) for entry in good]})


def _compile(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Durations become seconds; folded text loses its last newline."""
    data: dict[str, Any] = {key: value.strip() if isinstance(value, str) else value for key, value in entry.items()}
    if "detect" in data:
        data["detect"] = {k: _seconds(v) if k in ("for", "keep_firing_for") else v for k, v in data["detect"].items()}
    if "verify" in data:
        data["verify"] = {
            kind: {k: _seconds(v) if k == "within" else v for k, v in parameters.items()} for kind, parameters in data["verify"].items()
        }
    return data


def _seconds(text: str) -> float:
    return float(text[:-1]) * _SECONDS[text[-1]]
