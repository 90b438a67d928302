"""Configs made from a trainer's schema: valid ones of every shape, and the same with one thing
wrong at a known place.

It walks the schema by itself and shares no code with lint: what it calls valid has every value in
its type and bounds, every union in one of its variants, and no key that is not there.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

Schema = dict[str, Any]
Path = tuple[str | int, ...]

#: In the current generation these take keys of an environment's own package.
OPEN = frozenset({"EnvConfig", "TasksetConfig", "TaskConfig"})
#: Deeper tables are left out.
DEPTH = 6


@dataclass(frozen=True)
class Place:
    """One value of a made config and the schema it was made by; `name` of the class that has it,
    `closed`: unknown keys are refused.
    """

    path: Path
    schema: Schema
    value: Any
    name: str = ""

    @property
    def closed(self) -> bool:
        return self.schema.get("additionalProperties") is False and self.name not in OPEN


class Maker:
    def __init__(self, root: Schema, dice: random.Random, keys: float = 0.25) -> None:
        """`keys`: the share of the optional keys that are written."""
        self.root, self.dice, self.keys = root, dice, keys
        self.places: list[Place] = []

    def make(self, top: Schema | None = None) -> dict[str, Any]:
        self.places = []
        made = self._table(top or self.root, "", (), 0)
        return {} if made is None else made

    def _resolve(self, schema: Schema) -> tuple[Schema, str]:
        if "$ref" not in schema:
            return schema, ""
        name = schema["$ref"].rsplit("/", 1)[-1]
        return self.root["$defs"][name], name

    def _table(self, schema: Schema, name: str, path: Path, depth: int) -> dict[str, Any] | None:
        made: dict[str, Any] = {}
        for key, field in schema.get("properties", {}).items():
            # toml_files names files, which lint then reads.
            if key == "toml_files" or (
                key not in schema.get("required", ()) and self.dice.random() > self.keys
            ):
                continue
            value = self._value(field, (*path, key), depth + 1)
            if value is not None:
                made[key] = value
            elif key in schema.get("required", ()):
                return None
        self.places.append(Place(path, schema, made, name))
        return made

    def _value(self, field: Schema, path: Path, depth: int) -> Any:
        """None: nothing is made here (too deep, or only null would do)."""
        schema, name = self._resolve(field)
        for union in ("anyOf", "oneOf"):
            if union in schema:
                usable = [member for member in schema[union] if member.get("type") != "null"]
                member = self.dice.choice(usable)
                value = self._value(member, path, depth)
                if "discriminator" not in schema and len(usable) > 1:
                    # What one member refuses another may take: nothing is known to be wrong in this
                    # place itself.
                    self.places = [place for place in self.places if place.path != path]
                elif value is not None and "discriminator" in schema:
                    self._tag(schema, member, value)
                return value
        if "const" in schema or "enum" in schema:
            value = self.dice.choice(schema.get("enum", [schema.get("const")]))
            self.places.append(Place(path, schema, value))
            return value
        kind = schema.get("type")
        if kind == "object":
            if depth > DEPTH:
                return None
            if "properties" in schema:
                return self._table(schema, name, path, depth)
            more = schema.get("additionalProperties")
            inner = (
                self._value(more, (*path, "some_key"), depth + 1)
                if isinstance(more, dict) and more
                else "text"
            )
            return {} if inner is None else {"some_key": inner}
        if kind == "array":
            return self._list(schema, path, depth)
        value = self._plain(schema)
        if value is not None:
            self.places.append(Place(path, schema, value))
        return value

    def _tag(self, schema: Schema, member: Schema, value: dict[str, Any]) -> None:
        key = schema["discriminator"]["propertyName"]
        tags = [
            tag
            for tag, target in schema["discriminator"]["mapping"].items()
            if target == member["$ref"]
        ]
        value.setdefault(key, self.dice.choice(tags))

    def _list(self, schema: Schema, path: Path, depth: int) -> list[Any] | None:
        count = max(schema.get("minItems", 0), self.dice.choice([1, 1, 2]))
        if "items" not in schema:
            return None
        values = [self._value(schema["items"], (*path, n), depth + 1) for n in range(count)]
        return None if any(value is None for value in values) else values

    def _plain(self, schema: Schema) -> Any:
        kind = schema.get("type")
        if kind == "boolean":
            return self.dice.random() < 0.5
        if kind == "string":
            return self.dice.choice(["some-name", "x", "runs/one"])
        if kind not in ("integer", "number"):
            return None
        low = schema.get("minimum", schema.get("exclusiveMinimum", -3))
        high = schema.get("maximum", schema.get("exclusiveMaximum", low + 1000))
        if kind == "integer":
            first = low + ("exclusiveMinimum" in schema)
            last = high - ("exclusiveMaximum" in schema)
            return self.dice.randint(int(first), int(last))
        inside = [low + (high - low) * share for share in (0.25, 0.5, 0.75)]
        edges = [edge for edge, name in ((low, "minimum"), (high, "maximum")) if name in schema]
        return float(self.dice.choice([*inside, *edges]))


@dataclass(frozen=True)
class Broken:
    """`data` with one thing wrong at `path`; `how`: extra, type, bound, word, tag, missing."""

    data: dict[str, Any]
    path: Path
    how: str


def breakages(maker: Maker, data: dict[str, Any]) -> Iterator[Broken]:
    """Every way to break the config that was made last, in every place of it."""
    for place in maker.places:
        if not _there(data, place):
            continue
        if place.schema.get("type") == "object":
            yield from _tables(maker, data, place)
        else:
            yield from _values(data, place)


def _tables(maker: Maker, data: dict[str, Any], place: Place) -> Iterator[Broken]:
    if place.closed:
        yield _with(data, (*place.path, "no_such_key"), 1, "extra")
        known = maker.dice.choice(sorted(place.schema.get("properties", {"x": 0})))
        yield _with(data, (*place.path, f"{known}_"), 1, "extra")
    if place.path:
        yield _with(data, place.path, "some text", "type")
        yield _with(data, place.path, 3, "type")
    for key in place.schema.get("required", ()):
        yield Broken(_without(data, (*place.path, key)), (*place.path, key), "missing")


def _values(data: dict[str, Any], place: Place) -> Iterator[Broken]:
    schema, kind = place.schema, place.schema.get("type")
    if "const" in schema or "enum" in schema:
        yield _with(data, place.path, f"{place.value}-", "word")
        return
    if kind == "string":
        yield _with(data, place.path, 12, "type")
        return
    wrong: list[Any] = ["text", [1], {"a": 1}] if kind != "boolean" else ["maybe", 7, [True]]
    yield from (_with(data, place.path, value, "type") for value in wrong)
    if kind == "integer":
        yield _with(data, place.path, 1.5, "type")
    for name, outside in (
        ("minimum", -1),
        ("exclusiveMinimum", 0),
        ("maximum", 1),
        ("exclusiveMaximum", 0),
    ):
        if name in schema:
            yield _with(data, place.path, schema[name] + outside, "bound")


def at(data: Any, path: Path) -> Any:
    for part in path:
        data = data[part]
    return data


def _there(data: Any, place: Place) -> bool:
    """Variants of a union that were made and then not used have left places behind."""
    try:
        return bool(at(data, place.path) == place.value)
    except (KeyError, IndexError, TypeError):
        return False


def _with(data: dict[str, Any], path: Path, value: Any, how: str) -> Broken:
    changed = copy.deepcopy(data)
    at(changed, path[:-1])[path[-1]] = value
    return Broken(changed, path, how)


def _without(data: dict[str, Any], path: Path) -> dict[str, Any]:
    changed = copy.deepcopy(data)
    at(changed, path[:-1]).pop(path[-1], None)
    return changed
