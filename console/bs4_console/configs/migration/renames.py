"""Take over the values that only have another name in the other version of prime-rl."""

from __future__ import annotations

from collections.abc import Iterable

from bs4_console.configs.findings import Path, names_of, path_of
from bs4_console.configs.migration.account import Account
from bs4_console.configs.names import RENAMES, Rename
from bs4_console.configs.schema import exists, tables

#: Tables that moved as a whole: each of their keys that both generations have moves with them.
WHOLE = ("wandb", "prime_monitor")


def rename(account: Account, forward: bool) -> None:
    """Take over those values of the old config whose key has another name in the other version of
    prime-rl and whose value stays the same. `account` is the migration, which has both configs.
    `forward` is True for a migration from prime-rl of January 2026 to the current one, and False
    for the other direction.
    """
    for item in sorted(RENAMES, key=_depth, reverse=True):
        source, target = _ends(item, forward)
        if not item.moved or not source or not target:
            continue
        if _is_value(account, source, forward):
            account.move(source, target)
    for item in RENAMES:
        source, target = _ends(item, forward)
        table = account.peek(source, "table")
        if item.moved and table and item.old.endswith(WHOLE):
            _rename_table(account, source, target, table)


def rest(account: Account, forward: bool | None, why: str) -> None:
    """Finish the migration `account`: take over the remaining values of the old config whose key is
    the same in both versions of prime-rl, and drop the others. The reason for dropping one is
    `why`, unless a reason of its own is known for its key.

    `forward` is True for a migration from prime-rl of January 2026 to the current one, False for
    the other direction, and None for a config in which no key has another name. A table that
    switches something on merely by being there is kept even if it is empty.
    """
    for path in account.atoms():
        if account.keep(path):
            continue
        known = _reason(path) if forward else None
        if known is None:
            account.drop(path, why)
        else:
            account.drop(path, known.note or why, known.needed)
    renamed: dict[Path, Path] = {}
    for item in () if forward is None else RENAMES:
        if item.moved:
            source, target = _ends(item, bool(forward))
            renamed[source] = target
    for path in account.tables():
        account.switch_on(path, renamed.get(path, path))


def _depth(item: Rename) -> int:
    return item.old.count(".")


def _ends(item: Rename, forward: bool) -> tuple[Path, Path]:
    source, target = item.ends(forward)
    return path_of(source), path_of(target)


def _is_value(account: Account, path: Path, forward: bool) -> bool:
    """Return True if there is a value to move: no table, or one whose keys are the user's own."""
    generation = "prime-rl-2026-01" if forward else "prime-rl"
    return not isinstance(account.get(path), dict) or names_of(path) not in tables(generation)


def _rename_table(account: Account, source: Path, target: Path, keys: Iterable[str]) -> None:
    for key in keys:
        if exists(account.new, (*target, key)):
            account.move((*source, key), (*target, key))


def _reason(path: Path) -> Rename | None:
    """Return the rename that explains why a key has no counterpart: its own, or that of the nearest
    table around it. Return None if nothing explains it.
    """
    best: Rename | None = None
    for item in RENAMES:
        old = path_of(item.old)
        if item.moved or names_of(path)[: len(old)] != old:
            continue
        if names_of(path) != old and _has_children(item):
            continue
        if best is None or len(item.old) > len(best.old):
            best = item
    return best


def _has_children(table: Rename) -> bool:
    """Return True if the keys of a table went to another table one by one."""
    return table.new != "" and any(
        item.moved and item.new.startswith(table.new + ".") for item in RENAMES
    )
