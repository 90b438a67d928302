"""Load the rules of config lint from configs/rules.toml."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from bs4_console.assets import find
from bs4_console.configs.findings import Edit, Finding, Level
from bs4_console.configs.view import View


@dataclass(frozen=True, kw_only=True)
class Rule:
    """One rule by which the command `config lint` checks configs. `id` is its name, such as "R31";
    `applies` says for which trainers it is; `level` is "error" or "warning"; `title` says what it
    finds; `fails` says what goes wrong in a training whose config breaks it; and `fix` says what to
    do. `needs` is the option of `config lint` without which the rule cannot be checked, or "" if
    the config alone is enough.
    """

    id: str
    applies: str
    level: Level
    title: str
    fails: str
    fix: str
    needs: str = ""


@functools.cache
def rules() -> dict[str, Rule]:
    """Return all rules of `config lint`, as {id: rule}. Raises ConsoleError if the installation is
    incomplete.
    """
    with (find("configs") / "rules.toml").open("rb") as handle:
        found = {}
        for name, fields in tomllib.load(handle).items():
            found[name] = Rule(id=name, **fields)
        return found


def finding(
    rule: str,
    line: int,
    message: str,
    fix: str = "",
    edits: tuple[Edit, ...] = (),
    level: Level | None = None,
) -> Finding:
    """Return a Finding that says that a config breaks the rule with the id `rule`, such as "R31".
    `line` is the 1-based line in the config, and `message` a sentence that says what is wrong
    there. `edits` are changes of the config that are certain to repair it. With `fix` "" and
    `level` None, the fix and the level are those of the rule. Raises KeyError if there is no such
    rule. Raises ConsoleError if a file of this console's own installation is missing.
    """
    known = rules()[rule]
    return Finding(
        id=rule,
        level=level or known.level,
        line=line,
        message=message,
        fix=fix or known.fix,
        edits=edits,
    )


def refuse(view: View, place: str, message: str, fix: str) -> Finding:
    """Return a finding that says that the trainer would refuse a value of the config. Its id is
    "schema" in place of a rule's id, because no rule is about this value. `place` is the value's
    dotted key, `message` a sentence that says what is wrong, and `fix` a sentence that says what to
    do.
    """
    return finding("schema", view.line(place), message, fix)


def refuse_if(wrong: object, view: View, place: str, message: str, fix: str) -> Iterator[Finding]:
    """If `wrong` is true, yield one finding that says that the trainer would refuse the value at
    `place`, a dotted key of the config; its id is `schema`. If `wrong` is false, yield nothing.
    `message` says what is wrong and `fix` what to do.
    """
    if wrong:
        yield refuse(view, place, message, fix)


def all_of(rules: Iterable[Callable[[View], Iterator[Finding]]], view: View) -> Iterator[Finding]:
    """Yield the findings that each function in `rules` yields about the config `view`, in the order
    of the functions.
    """
    for rule in rules:
        yield from rule(view)
