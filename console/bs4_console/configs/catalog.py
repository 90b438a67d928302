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
    """One rule of config lint. `needs` is the option without which the rule cannot be checked, or
    "" if the file is enough.
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
    """Return all rules by id."""
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
    """Return a finding of a rule, with the rule's own level and fix unless others are given. `line`
    is 1-based.
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
    """Return a finding `schema`: the trainer refuses the value at `place`, a dotted key."""
    return finding("schema", view.line(place), message, fix)


def refuse_if(wrong: object, view: View, place: str, message: str, fix: str) -> Iterator[Finding]:
    """Yield a finding `schema` at `place`, a dotted key, if `wrong` is true."""
    if wrong:
        yield refuse(view, place, message, fix)


def all_of(rules: Iterable[Callable[[View], Iterator[Finding]]], view: View) -> Iterator[Finding]:
    """Yield the findings of each rule about a config, in the order of the rules."""
    for rule in rules:
        yield from rule(view)
