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
    """One rule of config lint. `id` is its name (such as R31), `applies` says for which trainers it
    is, `title` what it finds, `fails` what goes wrong in a training that breaks it, and `fix` what
    to do. `needs` is the option of config lint without which the rule cannot be checked, or "" if
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
    """Return all rules of config lint by their ids."""
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
    """Return a Finding for the rule whose id is `rule`, such as "R31". `line` is the 1-based line
    in the config, and `message` a sentence that says what is wrong there. `edits` are changes of
    the config that are certain to repair it. With `fix` "" and `level` None, the fix and the level
    are those of the rule. Raises KeyError if there is no such rule.
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
    """Return a finding that says that the trainer would refuse a value. The finding's id is
    `schema`, because no rule is about this value. `place` is the value's dotted key, `message` a
    sentence that says what is wrong, and `fix` a sentence that says what to do.
    """
    return finding("schema", view.line(place), message, fix)


def refuse_if(wrong: object, view: View, place: str, message: str, fix: str) -> Iterator[Finding]:
    """Yield one finding with the id `schema` about the value at `place`, a dotted key, if `wrong`
    is true, and nothing otherwise. `message` says what is wrong and `fix` what to do.
    """
    if wrong:
        yield refuse(view, place, message, fix)


def all_of(rules: Iterable[Callable[[View], Iterator[Finding]]], view: View) -> Iterator[Finding]:
    """Yield the findings of each function in `rules` about the config `view`, in the order of the
    functions.
    """
    for rule in rules:
        yield from rule(view)
