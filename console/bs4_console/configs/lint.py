"""Find everything that is wrong with a config and can be known without starting the trainer."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path as File
from typing import Any

from bs4_console.configs import (
    overrides,
    rules_component,
    rules_current,
    rules_january,
    rules_launch,
    rules_shared,
    rules_verl,
)
from bs4_console.configs.document import Document, read_toml
from bs4_console.configs.explain import explain
from bs4_console.configs.findings import Finding, Path
from bs4_console.configs.schema import COMPONENTS, Checker, Problem, prefix_of
from bs4_console.configs.view import Given, View
from bs4_console.errors import UsageError

TRAINERS = ("prime-rl-2026-01", "prime-rl", "verl")


def lint(
    file: File, trainer: str, given: Given | None = None, component: str = "rl"
) -> list[Finding]:
    """Return the findings about a config file, sorted by line.

    `trainer` is one of TRAINERS. `component` is the part of the training that the config is for
    (prime-rl only). Raises UsageError if the file cannot be read, or if `component` does not exist.
    """
    given = given or Given()
    if trainer == "verl":
        if component not in ("rl", "sft"):
            raise UsageError("verl has one config for the whole.", "Leave --component out.")
        return _sorted(rules_verl.check(file, given))
    document = read_toml(file, follow=trainer == "prime-rl-2026-01")
    return lint_document(document, trainer, given, component)


def lint_document(
    document: Document, trainer: str, given: Given | None = None, component: str = "rl"
) -> list[Finding]:
    """Return the findings about a prime-rl config that is already read, sorted by line.

    A text that is no TOML gives the finding `toml`, and otherwise only findings about launch
    commands. Raises UsageError if `component` does not exist.
    """
    given = given or Given()
    if component not in COMPONENTS:
        raise UsageError(
            f"There is no component {component!r}.", f"Choose {', '.join(COMPONENTS)}."
        )
    if any(found.id == "toml" for found in document.findings):
        return _sorted(
            [*document.findings, *rules_launch.spelling(View(trainer, document, {}, given))]
        )
    values, problems = Checker(trainer, component).check(document.data)
    prefix = prefix_of(component)
    if prefix:
        values = {component: values}
    written = View(trainer, document, values, given, component)
    overlaid = None
    if component == "rl":
        overlaid = overrides.overlay(written)
    own = overlaid.left(problems) if overlaid else problems
    found = [
        *document.findings,
        *(dataclasses.replace(explain(written, problem), by_schema=True) for problem in own),
    ]
    # The schema's refusals are reported already. The rules read the remaining values, so that a
    # wrong type is not reported again as a wrong number.
    view = View(trainer, document, _without(values, problems), given, component)
    if component != "rl":
        found += rules_component.check(view, component)
        return _sorted([_in_own_words(item, component, prefix) for item in found])
    said = list(rules_launch.check(view))
    found += said
    if overlaid:
        found += [*overlaid.unread, *overlaid.added(written, problems)]
        view = dataclasses.replace(view, data=_without(overlaid.values, overlaid.problems))
    between = [
        *rules_shared.check(view),
        *(
            rules_january.check(view)
            if trainer == "prime-rl-2026-01"
            else rules_current.check(view)
        ),
    ]
    # Findings about the launch command are on line 1, and the rules of commands have reported them
    # already.
    if overlaid:
        told = {item.id for item in said if item.line == 1}
    else:
        told = set()
    return _sorted([*found, *(item for item in between if item.id not in told)])


def _in_own_words(item: Finding, component: str, prefix: Path) -> Finding:
    """Return a finding about a component's own file as that file needs it: key names without the
    component's name in front, and no edits if one of them leads out of the file.
    """
    if not prefix:
        return item
    size = len(prefix)
    inside = all(
        path[:size] == prefix
        for edit in item.edits
        for path in (edit.path, *([edit.to] if edit.to else []))
    )
    edits = (
        tuple(
            dataclasses.replace(edit, path=edit.path[size:], to=edit.to[size:])
            for edit in item.edits
        )
        if inside
        else ()
    )
    bare = re.compile(rf"\b{component}\.(?=[a-z_])")
    return dataclasses.replace(
        item, message=bare.sub("", item.message), fix=bare.sub("", item.fix), edits=edits
    )


def _without(values: dict[str, Any], problems: list[Problem]) -> dict[str, Any]:
    """Return a copy of `values` without each value that the schema refuses."""
    bad = set()
    for problem in problems:
        if problem.kind not in ("missing", "extra", "ignored"):
            bad.add(problem.path)

    def copy(value: Any, path: Path) -> Any:
        if isinstance(value, dict):
            rows = {}
            for key, item in value.items():
                if (*path, key) not in bad:
                    rows[key] = copy(item, (*path, key))
            return rows
        if isinstance(value, list):
            return [copy(item, (*path, n)) for n, item in enumerate(value)]
        return value

    result: dict[str, Any] = copy(values, ())
    return result


def _sorted(found: list[Finding]) -> list[Finding]:
    """Return the findings without duplicates, sorted by line. On each line errors come first."""
    unique = {(item.id, item.line, item.message): item for item in found}
    return sorted(unique.values(), key=lambda item: (item.line, item.level != "error", item.id))
