"""Keep the account of a migration: what became of every value of the source config.

A conversion reads from the source, which never changes, and gives each value that it used a fate:
it is somewhere in the result, or it was dropped for a reason. At the end every value without a fate
is named, so nothing is lost in silence.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bs4_console.configs.diff import leaves
from bs4_console.configs.document import Document
from bs4_console.configs.findings import Path, below, dotted, names_of
from bs4_console.configs.schema import convert, exists, is_optional, prefix_of, tables

#: The wanted kind of a value in words, by the kind that a conversion asks for.
WORDS = {
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "string": "text in quotes",
    "table": "a table",
}


@dataclass(frozen=True)
class Fate:
    """What becomes of one value of the old config in a migration to another version of prime-rl.
    `to` is its path in the new config, or None if it was dropped, for the reason `why`. `same` is
    True if the value itself did not change. `refuses` is True if the new config means something
    else because the value is not in it.
    """

    to: Path | None
    same: bool = True
    why: str = ""
    refuses: bool = False


@dataclass(frozen=True)
class Named:
    """One line of the report of a migration of a config. `path` is the path of a key in the old
    config (a tuple of keys and list indices), and `why` a sentence about it for a person. `refuses`
    is True if, because of this key, the new config must not be used.
    """

    path: Path
    why: str
    refuses: bool = False


def are_same(one: Any, other: Any) -> bool:
    """Return True if two values of a config mean the same. Unlike in Python, true is not equal to
    1, and nan is equal to nan.
    """
    if isinstance(one, bool) != isinstance(other, bool):
        return False
    return bool(one == other) or repr(one) == repr(other)


class Account:
    """One migration of a config between two versions of prime-rl. `source` is the old config, which
    never changes, and `out` the new one, which is filled value by value. For each old value it is
    recorded whether it was taken over (written to the new config, perhaps under another key) or
    dropped. `new` is the version for which `out` is, "prime-rl-2026-01" or "prime-rl", and
    `component` the program whose config it is, such as "rl" or "sft".
    """

    def __init__(self, source: Document, new: str, component: str = "rl") -> None:
        self.source = source.data
        if prefix_of(component):
            self.source = {component: source.data}
        self.new = new
        self.component = component
        self.out: dict[str, Any] = {}
        self.leaves: dict[Path, Any] = dict(leaves(self.source, ()))
        self.under: dict[Path, list[Path]] = {}
        for leaf in self.leaves:
            for length in range(len(leaf) + 1):
                self.under.setdefault(leaf[:length], []).append(leaf)
        self.fates: dict[Path, Fate] = {}
        self.notes: list[Named] = []

    def get(self, path: Path) -> Any:
        """Return the value of the old config at `path`, no matter whether the migration has already
        taken it over or dropped it. Return None if the old config does not have it.
        """
        return below(self.source, path)

    def open(self, path: Path) -> list[Path]:
        """Return the paths of those values of the old config, at and below `path`, about which
        nothing is decided yet: they were neither taken over nor dropped.
        """
        found = []
        for leaf in self.under.get(path, ()):
            if leaf not in self.fates:
                found.append(leaf)
        return found

    def peek(self, path: Path, kind: str) -> Any:
        """Return the value of the old config at `path`, converted to `kind` ("boolean", "number",
        "table", ...) in the way in which the trainers convert values. Return None if there is no
        such value or it cannot be converted. The value is neither taken over nor dropped by this.
        """
        value = self.get(path)
        fits = isinstance(value, dict)
        if kind != "table":
            value, fits = convert(kind, value)
        return value if fits else None

    def read(self, path: Path, kind: str) -> Any:
        """Return the value of the old config at `path`, converted to `kind` ("boolean", "number",
        "table", ...), for a caller that writes it to the new config in another form. Return None if
        there is no such value, or if it was taken over or dropped before.

        If the value is not of that kind, it is dropped, None is returned, and the new config is
        marked as not usable.
        """
        if not self.open(path):
            return None
        value = self.peek(path, kind)
        if value is not None:
            return value
        if self.get(path) == "None":
            self.drop(path, '"None" is what it is without it')
        else:
            self.drop(path, f"it is to be {WORDS[kind]}", refuses=True)
        return None

    def count_tables(self, path: Path) -> int | None:
        """Return how many tables the list at `path` of the old config has, or None if there is no
        such list.

        If the value there is something else, it is dropped, None is returned, and the new config is
        marked as not usable.
        """
        value = self.get(path)
        if isinstance(value, list) and all(isinstance(entry, dict) for entry in value):
            return len(value)
        if value is not None:
            place = ".".join(map(str, path))
            self.drop(path, f"it is to be a list of tables, each [[{place}]]", refuses=True)
        return None

    def invert(self, table: Path, keys: Mapping[str, str]) -> None:
        """Take over switches whose new key means the opposite of the old one: true is written as
        false, and false as true. `table` is the path of the table in which both keys are. `keys`
        maps each old key to its new key.
        """
        for old, new in keys.items():
            value = self.read((*table, old), "boolean")
            if value is not None:
                self.settle((*table, old), (*table, new), not value)

    def keep_default(self, table: Path, key: str, default: float) -> None:
        """Write `default`, the default value of a key in the old version of prime-rl, into the new
        config, because the new version has another default. Do nothing if the old config lacks the
        table `table` or sets `key` in it.
        """
        if self.peek(table, "table") is not None and self.get((*table, key)) is None:
            self.put((*table, key), default)

    def put(self, path: Path, value: Any) -> bool:
        """Write a value into the new config at `path`. Return True if it is there now. If another
        value has that place already, write nothing and return False.
        """
        table: Any = self.out
        for part, following in itertools.pairwise(path):
            if isinstance(part, int):
                while len(table) <= part:
                    table.append({})
            elif part not in table:
                table[part] = [] if isinstance(following, int) else {}
            table = table[part]
            is_list = isinstance(table, list)
            if isinstance(following, int) != is_list or not (is_list or isinstance(table, dict)):
                return False
        key = path[-1]
        if key not in table:
            table[key] = copy.deepcopy(value)
            return True
        return (value == {} and isinstance(table[key], dict)) or are_same(table[key], value)

    def settle(self, path: Path, to: Path, value: Any) -> None:
        """Record that the old values at and below `path` are taken over as `value`, which was made
        from them, and write `value` into the new config at `to`. If another value has that place
        already, the old values are dropped, and the new config is marked as not usable.
        """
        if self.put(to, value):
            self._end(path, Fate(to, same=False))
        else:
            self._taken(path, to)

    def move(self, path: Path, to: Path) -> None:
        """Take over the values of the old config at and below `path` unchanged, and write them into
        the new config at `to`. Where another value has that place already, the old one is dropped,
        and the new config is marked as not usable.
        """
        for atom in self._atoms(path):
            place = (*to, *atom[len(path) :])
            if not self.put(place, self.get(atom)):
                self._taken(atom, place)
                continue
            for leaf in self.open(atom):
                self.fates[leaf] = Fate((*place, *leaf[len(atom) :]))

    def drop(self, path: Path, why: str, refuses: bool = False) -> None:
        """Leave the old values at and below `path` out of the new config. `why` is the reason,
        which the migration's report names. With `refuses`, the new config is marked as one that
        must not be used.
        """
        self._end(path, Fate(None, why=why, refuses=refuses))

    def note(self, path: Path, why: str) -> None:
        """Add the remark `why` about the key at `path` in the old config to the migration's report.
        This changes nothing else: the old value is not dropped, and the new config stays as it is.
        """
        self.notes.append(Named(path, why))

    def keep(self, path: Path) -> bool:
        """Take over the old value at `path` unchanged, to the same path in the new config, and
        return True. If the schema of the new version of prime-rl does not have that key, do nothing
        and return False.
        """
        known = self._knows(path)
        if known:
            self.move(path, path)
        return known

    def atoms(self) -> list[Path]:
        """Return the paths of all values of the old config that were neither taken over nor dropped
        yet. A list of tables counts as one value.
        """
        return self._atoms(())

    def switch_on(self, path: Path, to: Path) -> None:
        """Write an empty table into the new config at `to`, if the old config has a table at `path`
        and a table at `to` switches a feature on merely by being there. If not, do nothing.
        """
        if isinstance(self.get(path), dict) and is_optional(self.new, to, self.component):
            self.put(to, {})

    def tables(self) -> list[Path]:
        """Return the paths of the tables and lists in the old config, the outer ones before the
        inner ones. Those inside lists are left out.
        """
        found = []
        for path in self.under:
            if path and path not in self.leaves and names_of(path) == path:
                found.append(path)
        return sorted(found, key=len)

    def named(self) -> list[Named]:
        """Return the lines of the migration's report. These are the remarks, the values that were
        dropped, and every old value that was forgotten or that is missing in the new config
        although it was taken over. Each value of these last two kinds makes the new config not
        usable.
        """
        found = list(self.notes)
        for leaf, value in self.leaves.items():
            fate = self.fates.get(leaf)
            if fate is None:
                found.append(Named(leaf, "it was not converted", refuses=True))
            elif fate.to is None:
                found.append(Named(leaf, fate.why, fate.refuses))
            elif not self._arrived(fate.to, value, fate.same):
                found.append(Named(leaf, f"it did not arrive at {dotted(fate.to)}", refuses=True))
        return found

    def _arrived(self, to: Path, value: Any, same: bool) -> bool:
        there = below(self.out, to)
        if not same or value == {}:
            return there is not None
        return are_same(there, value)

    def _atoms(self, path: Path) -> list[Path]:
        found: dict[Path, None] = {}
        for leaf in self.open(path):
            atom = leaf
            for at in range(len(path), len(leaf)):
                if isinstance(leaf[at], int):
                    atom = leaf[:at]
                    break
            found[atom] = None
        return list(found)

    def _end(self, path: Path, fate: Fate) -> None:
        for leaf in self.open(path):
            self.fates[leaf] = fate

    def _taken(self, path: Path, to: Path) -> None:
        self.drop(path, f"{dotted(to)} would have another value already", refuses=True)

    def _knows(self, path: Path) -> bool:
        """Return True if the result may have a key, or a key in a table whose keys are the user's
        own (headers, extra_body).
        """
        if exists(self.new, path, self.component):
            return True
        for length in range(1, len(path)):
            above = path[:length]
            if self.is_own(above) and exists(self.new, above, self.component):
                return True
        return False

    def is_own(self, path: Path) -> bool:
        """Return True if the user chooses the keys of the table at `path` in the new config, as in
        a table `headers`, so that the schema does not prescribe them.
        """
        return names_of(path) not in tables(self.new, self.component)
