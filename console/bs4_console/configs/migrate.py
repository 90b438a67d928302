"""Translate a config of one version of prime-rl into the names of the other. A value without a
translation is listed with its line and the reason.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from pathlib import Path as File

import tomlkit

from bs4_console.configs.diff import valid
from bs4_console.configs.document import Document
from bs4_console.configs.findings import Finding, dotted
from bs4_console.configs.kinds import chosen
from bs4_console.configs.lint import lint_document
from bs4_console.configs.migration.account import Account, Named
from bs4_console.configs.migration.renames import rest
from bs4_console.configs.migration.to_current import to_current
from bs4_console.configs.migration.to_january import to_january
from bs4_console.configs.names import OTHER
from bs4_console.configs.schema import prefix_of
from bs4_console.configs.toml_lines import lines_of
from bs4_console.errors import NotApplicableError


@dataclass(frozen=True)
class Left:
    """One line in the report of a migration of a config to another version of prime-rl. It is about
    `key`, a key of the old config that the new config does not have or has in another form, or that
    a person should check. `reason` says which of these, and why.

    `line` is the key's 1-based line in the old config. `refuses` is True if, because of this key,
    the new config means something else than the old one and so must not be used.
    """

    key: str
    reason: str
    line: int
    refuses: bool


@dataclass
class Migrated:
    """The result of rewriting a config for the other version of prime-rl. `text` is the new config.

    `component` says which program it is for (rl, trainer, orchestrator, inference, sft). `left` has
    the keys of the old config that the new one lacks or has in another form, and those that a
    person should check. `findings` are what lint finds in the new config.
    """

    text: str
    component: str
    left: list[Left] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)

    @property
    def left_out(self) -> list[tuple[str, str]]:
        """Return (key, reason) for each key of the old config that the new one lacks or has in
        another form, or that a person should check.
        """
        return [(item.key, item.reason) for item in self.left]

    @property
    def refused(self) -> bool:
        """Return True if the new config would mean something else than the old one, so that it must
        not be used.
        """
        return any(item.refuses for item in self.left)


def migrate(file: File, to: str, component: str | None = None) -> Migrated:
    """Rewrite the config in `file` for the version `to` of prime-rl ("prime-rl-2026-01", or
    "prime-rl" for the current one), and return the new config together with what lint finds in it.
    The file is not changed.

    `component` says for which program the config is; None means that it is found out from the keys
    and the file's name. Every value of the old config is in the new one or named in the result's
    `left`. A value that the other version refuses stays, and lint names it. Raises UsageError if
    the file is not TOML or fits no program, and NotApplicableError for a config of evaluations.
    """
    source = valid(file)
    found = chosen(source, OTHER[to], component)
    if found == "eval":
        raise NotApplicableError(
            f"{file} is a config of evaluations, which the two generations build from "
            "different tables.",
            "Write it anew for the other one; nothing was changed.",
        )
    account = _account(to, found, source)
    out = account.out
    if prefix_of(found):
        out = out.get(found, {})
    text = "".join(_head(source.text)) + tomlkit.dumps(out)
    document = Document(file=file, text=text, data=tomllib.loads(text), lines=lines_of(text))
    findings = lint_document(document, to, component=found)
    return Migrated(text, found, _left(account, source, found), findings)


def _account(to: str, component: str, source: Document) -> Account:
    """Return the account of a migration: the config as the other generation names its keys, and
    what became of each value.
    """
    if component == "sft":
        # sft is a separate program with its own schema: none of the renames of the whole training
        # apply to it.
        account = Account(source, to, component)
        rest(account, None, f"{component} of the other generation has no such key")
        return account
    account = Account(source, to, component)
    convert = to_current if to == "prime-rl" else to_january
    convert(account)
    return account


def _left(account: Account, source: Document, component: str) -> list[Left]:
    """Return the keys that the report lists, sorted by line."""
    named = account.named()
    length = len(prefix_of(component))
    if length:
        for leaf, fate in account.fates.items():
            if fate.to is not None and fate.to[0] != component:
                named.append(Named(leaf, "it belongs to the config of the whole there"))
    left = []
    for item in named:
        path = item.path[length:]
        left.append(Left(dotted(path), item.why, source.line(path), item.refuses))
    return sorted(left, key=lambda item: item.line)


def _head(text: str) -> list[str]:
    """Return the comment lines at the top of a config, without launch commands of the other
    generation.
    """
    head = []
    for line in text.split("\n"):
        if not line.startswith("#") and line.strip():
            break
        if " @" not in line and "--" not in line:
            head.append(line + "\n")
    return head
