"""lint: everything that is wrong with a config and can be known without starting it."""

from __future__ import annotations

from pathlib import Path as File
from typing import Any

from bs4_console.core.configs import rules_current, rules_january, rules_launch, rules_shared, rules_verl
from bs4_console.core.configs.document import Document, read_toml
from bs4_console.core.configs.explain import explain
from bs4_console.core.configs.findings import Finding, Path
from bs4_console.core.configs.schema import Checker, Problem
from bs4_console.core.configs.view import Given, View

TRAINERS = ("prime-rl-2026-01", "prime-rl", "verl")


def lint(file: File, trainer: str, given: Given | None = None) -> list[Finding]:
    """Findings by line. UsageError when the file cannot be read at all."""
    given = given or Given()
    if trainer == "verl":
        return _sorted(rules_verl.check(file, given))
    document = read_toml(file, follow=trainer == "prime-rl-2026-01")
    return lint_document(document, trainer, given)


def lint_document(document: Document, trainer: str, given: Given | None = None) -> list[Finding]:
    given = given or Given()
    if any(found.id == "toml" for found in document.findings):
        return _sorted([*document.findings, *rules_launch.spelling(View(trainer, document, {}, given))])
    values, problems = Checker(trainer).check(document.data)
    written = View(trainer, document, values, given)
    found = [*document.findings, *(explain(written, problem) for problem in problems)]
    # What the schema refuses has been said; the rules read the rest, so that a wrong type is not reported a second time as a wrong number.
    view = View(trainer, document, _without(values, problems), given)
    found += rules_shared.check(view)
    found += rules_january.check(view) if trainer == "prime-rl-2026-01" else rules_current.check(view)
    found += rules_launch.check(view)
    return _sorted(found)


def _without(values: dict[str, Any], problems: list[Problem]) -> dict[str, Any]:
    bad = {problem.path for problem in problems if problem.kind not in ("missing", "extra", "ignored")}

    def copy(value: Any, path: Path) -> Any:
        if isinstance(value, dict):
            return {key: copy(item, (*path, key)) for key, item in value.items() if (*path, key) not in bad}
        if isinstance(value, list):
            return [copy(item, (*path, n)) for n, item in enumerate(value)]
        return value

    result: dict[str, Any] = copy(values, ())
    return result


def _sorted(found: list[Finding]) -> list[Finding]:
    unique = {(item.id, item.line, item.message): item for item in found}
    return sorted(unique.values(), key=lambda item: (item.line, item.level != "error", item.id))
