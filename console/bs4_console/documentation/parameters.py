"""List every parameter that the trainers' configs may have, with its type, its default and the
generation that knows it.

For both generations of prime-rl this is read from the shipped schemas. For verl no schema is
shipped: its parameters are those that the shipped verl configs set, without a type or a default.
"""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, get_args

from bs4_console.assets import find
from bs4_console.configs.names import RENAMES
from bs4_console.configs.schema import BOUNDS, Generation, Schema, in_words, load

GENERATIONS: tuple[Generation, ...] = get_args(Generation)
_COMPONENTS = ("rl", "sft", "eval")
#: No schema nests deeper. The limit ends a class that contains itself.
_DEEPEST = 9
#: Tables of a verl config that this console reads itself.
_NOT_VERL = ("environment", "plan")


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """One parameter of one trainer's config, as the trainer's schema describes it.

    `name` is its dotted name, in which `[]` follows the name of a list of tables. `component` is rl
    (a whole training), sft or eval. `when` are the values of a key `type` in the same table for
    which the parameter exists, or empty if it always does. `type` says in words which values are
    accepted. `default` is the value if the config has none; it has no meaning if `has_default` is
    False. `required` is True if a config without it is refused. `table` is the table that switches
    the parameter's feature on and is off by default, or "". `other_name` is its name in the other
    version of prime-rl, or "". `set_by` are pairs (shipped config, value); only verl's parameters
    have some, and their `type` is "unknown".
    """

    name: str
    trainer: str
    component: str
    type: str
    when: tuple[str, ...] = ()
    default: Any = None
    has_default: bool = False
    required: bool = False
    table: str = ""
    other_name: str = ""
    set_by: tuple[tuple[str, Any], ...] = ()


@functools.cache
def parameters() -> Mapping[str, tuple[Parameter, ...]]:
    """Return {dotted name: entries} for all parameters of the trainers' configs, in the order of
    the schemas. A name has several entries if it means something else in another trainer, another
    of its programs, or beside another value of the key `type` (see Parameter.when). Raises
    ConsoleError if a file of this console's own installation is missing.
    """
    found: dict[str, list[Parameter]] = {}
    for generation in GENERATIONS:
        for component in _COMPONENTS:
            walk = _Walk(generation, component, load(generation, component))
            for one in walk.all():
                _add(found.setdefault(one.name, []), one)
    for one in _of_verl():
        found.setdefault(one.name, []).append(one)
    whole = {}
    for name, several in found.items():
        whole[name] = tuple(several)
    return whole


def _add(several: list[Parameter], one: Parameter) -> None:
    """Add a parameter to those of its name. One that differs from another only in the types for
    which it exists is merged with it.
    """
    for number, other in enumerate(several):
        if replace(other, when=()) == replace(one, when=()):
            if other.when and one.when:
                whens = tuple(dict.fromkeys((*other.when, *one.when)))
            else:
                whens = ()
            several[number] = replace(other, when=whens)
            return
    several.append(one)


@dataclass
class _Walk:
    """A walk over one schema."""

    generation: Generation
    component: str
    root: Schema
    other_names: dict[str, str] = field(default_factory=dict)

    def all(self) -> Iterator[Parameter]:
        """Yield every parameter of the schema."""
        for rename in RENAMES:
            name, other = rename.of(self.generation)
            if name and other:
                self.other_names[name] = other
        yield from self._table(self.root, (), (), "")

    def _resolve(self, schema: Schema) -> Schema:
        """Return the schema behind a reference, or the schema itself."""
        if "$ref" in schema:
            target: Schema = self.root["$defs"][schema["$ref"].rsplit("/", 1)[-1]]
            return target
        return schema

    def _table(
        self,
        schema: Schema,
        path: tuple[str, ...],
        when: tuple[str, ...],
        switch: str,
        leave_out: Collection[str] = (),
    ) -> Iterator[Parameter]:
        """Yield the parameters of a table at `path`, without the keys `leave_out`."""
        if len(path) > _DEEPEST:
            return
        required = schema.get("required", ())
        for key, inner in schema.get("properties", {}).items():
            if key not in leave_out:
                yield from self._key(inner, (*path, key), when, switch, key in required)

    def _key(
        self,
        schema: Schema,
        path: tuple[str, ...],
        when: tuple[str, ...],
        switch: str,
        required: bool,
    ) -> Iterator[Parameter]:
        """Yield the parameter at `path` and those below it."""
        name = ".".join(path)
        plain = name.replace("[]", "")
        yield Parameter(
            name=name,
            trainer=self.generation,
            component=self.component,
            type=self._type(schema),
            when=when,
            default=schema.get("default"),
            has_default="default" in schema,
            required=required,
            table=switch,
            other_name=self.other_names.get(plain, ""),
        )
        members = list(self._members(schema))
        if len(members) == 1 and isinstance(schema.get("default"), dict):
            members = [{**members[0], "default": schema["default"]}]
        if "default" in schema and schema["default"] is None and len(members) == 1:
            switch = name
        for member in members:
            yield from self._below(member, path, when, switch)

    def _below(
        self, schema: Schema, path: tuple[str, ...], when: tuple[str, ...], switch: str
    ) -> Iterator[Parameter]:
        """Yield the parameters below the value at `path`, if `schema` is that of a table, of one of
        several tables, or of a list of tables.
        """
        if "discriminator" in schema:
            yield from self._tagged(schema, path, switch)
        elif schema.get("type") == "array":
            rows = (*path[:-1], f"{path[-1]}[]")
            for member in self._members(schema.get("items", {})):
                yield from self._below(member, rows, when, switch)
        else:
            yield from self._table(schema, path, when, switch)

    def _tagged(self, schema: Schema, path: tuple[str, ...], switch: str) -> Iterator[Parameter]:
        """Yield the parameters of a table whose keys depend on one of them, the tag. Keys that mean
        the same under every tag come once.
        """
        key = schema["discriminator"]["propertyName"]
        mapping = schema["discriminator"]["mapping"]
        default = schema.get("default")
        usual = default.get(key) if isinstance(default, dict) else None
        yield Parameter(
            name=".".join((*path, key)),
            trainer=self.generation,
            component=self.component,
            type="one of " + ", ".join(mapping),
            default=usual,
            has_default=usual is not None,
            table=switch,
        )
        chosen = {}
        for tag, reference in mapping.items():
            chosen[tag] = self._resolve({"$ref": reference})
        shared = _shared(list(chosen.values()))
        yield from self._table({"properties": shared}, path, (), switch, {key})
        for tag, table in chosen.items():
            yield from self._table(table, path, (f'{key} = "{tag}"',), switch, {key, *shared})

    def _members(self, schema: Schema) -> Iterator[Schema]:
        """Yield the schemas of the values that are taken, without null."""
        whole = self._resolve(schema)
        if "anyOf" not in whole:
            yield whole
            return
        for member in whole["anyOf"]:
            if member.get("type") != "null":
                yield self._resolve(member)

    def _type(self, schema: Schema) -> str:
        """Return in words which values are taken."""
        several: list[str] = []
        for member in self._members(schema):
            several.append(_one_type(member))
        return " or ".join(dict.fromkeys(several))


def _shared(tables: list[Schema]) -> dict[str, Schema]:
    """Return the keys, with their schemas, that mean the same in all of several tables."""
    first, *others = tables
    shared: dict[str, Schema] = {}
    for key, inner in first.get("properties", {}).items():
        if all(other.get("properties", {}).get(key) == inner for other in others):
            shared[key] = inner
    return shared


def _one_type(schema: Schema) -> str:
    """Return in words which values one schema takes."""
    if "discriminator" in schema:
        return "a table"
    if "enum" in schema:
        return "one of " + ", ".join(map(str, schema["enum"]))
    words = in_words(schema)
    for key, text, _ in BOUNDS:
        if key in schema:
            words += f", {text} {schema[key]:g}"
    return words


def _of_verl() -> Iterator[Parameter]:
    """Yield the parameters that the shipped verl configs set."""
    values: dict[str, list[tuple[str, Any]]] = {}
    for path in sorted((find("configs") / "verl").glob("*.toml")):
        for name, value in _leaves(tomllib.loads(path.read_text(encoding="utf-8")), ()):
            if name.split(".")[0] not in _NOT_VERL:
                values.setdefault(name, []).append((path.name, value))
    for name, pairs in values.items():
        component = "rl"
        if all("-sft-" in file for file, _ in pairs):
            component = "sft"
        yield Parameter(
            name=name, trainer="verl", component=component, type="unknown", set_by=tuple(pairs)
        )


def _leaves(value: object, path: tuple[str, ...]) -> Iterator[tuple[str, object]]:
    """Yield the dotted name and the value of everything in a value that is no table itself. `path`
    are the keys that lead to `value`.
    """
    if not isinstance(value, dict):
        yield ".".join(path).lstrip("+"), value
        return
    for key, inner in value.items():
        yield from _leaves(inner, (*path, key))
