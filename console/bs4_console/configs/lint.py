"""Find everything that is wrong with a config and can be known without starting the trainer."""

from __future__ import annotations

import dataclasses
import itertools
import re
from pathlib import Path as File

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
from bs4_console.configs.findings import Edit, Finding, Path, by_line
from bs4_console.configs.schema import COMPONENTS, Checker, prefix_of
from bs4_console.configs.view import Given, View
from bs4_console.errors import UsageError

TRAINERS = ("prime-rl-2026-01", "prime-rl", "verl")


def lint(
    file: File, trainer: str, given: Given | None = None, component: str = "rl"
) -> list[Finding]:
    """Return what is wrong with a config file, as findings sorted by line. The list is empty if
    nothing is.

    `trainer` is "prime-rl-2026-01", "prime-rl" or "verl". `given` is what is known besides the
    file, such as the launch command (None: nothing). `component` says, for prime-rl, for which
    program the config is: rl (the whole training), trainer, orchestrator, inference, sft or eval.
    Raises UsageError if the file cannot be read, or if there is no such component.
    """
    given = given or Given()
    if trainer == "verl":
        if component not in ("rl", "sft"):
            raise UsageError("verl has one config for the whole.", "Leave --component out.")
        return by_line(rules_verl.check(file, given))
    document = read_toml(file, follow=trainer == "prime-rl-2026-01")
    return lint_document(document, trainer, given, component)


def lint_document(
    document: Document, trainer: str, given: Given | None = None, component: str = "rl"
) -> list[Finding]:
    """Return what is wrong with `document`, a prime-rl config that was read already, as findings
    sorted by line. The list is empty if nothing is. `trainer` is "prime-rl-2026-01" or "prime-rl".
    `given` is what is known besides the file, such as the launch command (None: nothing).
    `component` says for which program the config is, such as "rl" for the whole training. Raises
    UsageError if there is no such component.

    If the config's text is not TOML, the list has only the finding that says so (with the id
    `toml`) and findings about launch commands in its comments.
    """
    given = given or Given()
    if component not in COMPONENTS:
        raise UsageError(
            f"There is no component {component!r}.", f"Choose {', '.join(COMPONENTS)}."
        )
    if any(found.id == "toml" for found in document.findings):
        commands = rules_launch.spelling(View(trainer, document, {}, given))
        return by_line([*document.findings, *commands])
    values, problems = Checker(trainer, component).check(document.data)
    prefix = prefix_of(component)
    if prefix:
        values = {component: values}
    written = View(trainer, document, values, given, component)
    overlaid = None
    if component == "rl":
        overlaid = overrides.overlay(written)
    found = list(document.findings)
    for problem in overlaid.left(problems) if overlaid else problems:
        found.append(dataclasses.replace(explain(written, problem), by_schema=True))
    # The schema's refusals are reported already. The rules read the remaining values, so that a
    # wrong type is not reported again as a wrong number.
    view = written.without(problems)
    if component != "rl":
        found += rules_component.check(view, component)
        return by_line(_in_own_words(item, component, prefix) for item in found)
    said = list(rules_launch.check(view))
    found += said
    if overlaid:
        found += [*overlaid.unread, *overlaid.added(written, problems)]
        laid = dataclasses.replace(view, data=overlaid.values)
        view = laid.without(overlaid.problems)
    # Findings about the launch command are on line 1, and the rules of commands have reported them
    # already.
    reported = {item.id for item in said if overlaid and item.line == 1}
    rules = rules_january if trainer == "prime-rl-2026-01" else rules_current
    for item in itertools.chain(rules_shared.check(view), rules.check(view)):
        if item.id not in reported:
            found.append(item)
    return by_line(found)


def is_unbounded(file: File, trainer: str, given: Given) -> bool:
    """Return True if a prime-rl config limits the length of answers, but neither the config nor
    `given` says how many tokens the inference server accepts. The server then accepts as many as
    the model does. Return False for verl, and also if `given` has a launch command, because the
    command may set that number. Raises UsageError if the file cannot be read.
    """
    if trainer == "verl" or given.launch:
        return False
    document = read_toml(file, follow=trainer == "prime-rl-2026-01")
    view = View(trainer, document, document.data, given)
    return bool(rules_shared.answer_places(view)) and rules_shared.context(view)[1] is None


def _in_own_words(item: Finding, component: str, prefix: Path) -> Finding:
    """Return a finding about a component's own file as that file needs it: key names without the
    component's name in front, and no edits if one of them leads out of the file.
    """
    if not prefix:
        return item
    size = len(prefix)
    edits: list[Edit] = []
    for edit in item.edits:
        if edit.path[:size] != prefix or (edit.to and edit.to[:size] != prefix):
            edits.clear()
            break
        edits.append(dataclasses.replace(edit, path=edit.path[size:], to=edit.to[size:]))
    bare = re.compile(rf"\b{component}\.(?=[a-z_])")
    return dataclasses.replace(
        item,
        message=bare.sub("", item.message),
        fix=bare.sub("", item.fix),
        edits=tuple(edits),
    )
