"""The rules as data: configs/rules.toml."""

from __future__ import annotations

import functools
import tomllib
from dataclasses import dataclass

from bs4_console.assets import find
from bs4_console.configs.findings import Edit, Finding, Level


@dataclass(frozen=True, kw_only=True)
class Rule:
    """`needs`: the option without which the rule cannot speak, or "" for the file alone."""

    id: str
    applies: str
    level: Level
    title: str
    fails: str
    fix: str
    needs: str = ""


@functools.cache
def rules() -> dict[str, Rule]:
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
    """A finding of a rule; its level and fix unless others are given."""
    known = rules()[rule]
    return Finding(
        id=rule,
        level=level or known.level,
        line=line,
        message=message,
        fix=fix or known.fix,
        edits=edits,
    )
