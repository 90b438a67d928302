"""Check values against the trainers' schemas the way their pydantic classes check: unknown keys,
types with lax conversion, bounds, enumerations, and unions by discriminator.

JSON Schema alone would refuse what the trainers accept ("5" for a number, an optimizer table
without `type`), so this module walks the schema itself. Conversions are those of pydantic 2's table
for Python input in lax mode.
"""

from __future__ import annotations

import functools
import json
import operator
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypedDict

from bs4_console.assets import find
from bs4_console.configs.findings import Path, dotted, names_of

#: A schema's bounds of a number.
Bound = Literal["minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum"]


class _Discriminator(TypedDict, total=False):
    propertyName: str
    mapping: Mapping[str, str]


_Named = TypedDict(
    "_Named",
    {
        "$ref": str,
        "$defs": Mapping[str, "Schema"],
        "additionalProperties": "bool | Schema",
        "anyOf": "list[Schema]",
        "oneOf": "list[Schema]",
        "minItems": int,
        "minimum": float,
        "exclusiveMinimum": float,
        "maximum": float,
        "exclusiveMaximum": float,
    },
    total=False,
)


class Schema(_Named, total=False):
    """A JSON Schema as pydantic writes it for a config class, with those of its keys that this
    module reads.
    """

    title: str
    description: str
    type: str
    enum: Sequence[Any]
    const: Any
    default: Any
    properties: Mapping[str, Schema]
    required: Sequence[str]
    items: Schema
    discriminator: _Discriminator
    """By which key of a table it is known which of several schemas applies to it."""


Generation = Literal["prime-rl-2026-01", "prime-rl"]
Kind = Literal["extra", "ignored", "missing", "type", "bound", "word", "tag", "short"]

_FILES: dict[str, str] = {"prime-rl-2026-01": "prime-rl-2026-01", "prime-rl": "prime-rl-current"}
#: The class of each part of `rl` that is started by itself, in the schema of the whole training.
#: sft and eval have schemas of their own.
_PARTS = {
    "prime-rl-2026-01": {
        "trainer": "RLTrainerConfig",
        "orchestrator": "OrchestratorConfig",
        "inference": "InferenceConfig",
    },
    "prime-rl": {
        "trainer": "TrainerConfig",
        "orchestrator": "OrchestratorConfig",
        "inference": "InferenceConfig",
    },
}
COMPONENTS = ("rl", "trainer", "orchestrator", "inference", "sft", "eval")
_TRUE = {"1", "on", "t", "true", "y", "yes"}
_FALSE = {"0", "off", "f", "false", "n", "no"}
#: The Python type of a schema's type, for values that are not converted.
_TYPES: Mapping[str, type] = {
    "string": str,
    "boolean": bool,
    "object": dict,
    "array": list,
    "number": float,
}
#: A schema's type in words.
_WORDS = {
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "string": "text in quotes",
    "array": "a list",
    "object": "a table",
}
_INTEGER = re.compile(r"\s*[+-]?[0-9]+(_[0-9]+)*(\.0+)?\s*")
_UNDERSCORES = re.compile(r"(?<!_)_(?!_|$)")
#: In the current generation an environment has its own class, and so has a judge. Their keys are
#: known to their packages only.
_OPEN = {"EnvConfig", "TasksetConfig", "TaskConfig", "JudgeConfig"}
#: The schema's keys for bounds: (key, words for it, comparison that must hold).
BOUNDS: tuple[tuple[Bound, str, Callable[[Any, Any], bool]], ...] = (
    ("minimum", "at least", operator.ge),
    ("exclusiveMinimum", "more than", operator.gt),
    ("maximum", "at most", operator.le),
    ("exclusiveMaximum", "less than", operator.lt),
)
#: The schema's key for another spelling that a class accepts (its validation alias), by component
#: ("" for all), class and spelling.
_ALIASES = {
    ("", "OnlineEvalConfig", "skip_eval_on_restart"): "skip_eval_on_resume",
    ("sft", "SingleNodeDeploymentConfig", "num_eval_gpus"): "num_infer_gpus",
    ("sft", "MultiNodeDeploymentConfig", "num_eval_nodes"): "num_infer_nodes",
}
#: Keys that a class removes before it checks the others.
_UNREAD = {("sft", "MultiNodeDeploymentConfig"): {"num_train_gpus", "num_infer_gpus"}}
#: Tables that may also be true (all defaults) or false (off).
_SWITCHES = {"OptimizerInBackwardOffloadConfig"}


@dataclass(frozen=True)
class Problem:
    """One value in a config that the trainer's schema refuses, or one key that it ignores.

    `kind` says what is wrong: "type", "bound", "missing", "extra" (a key that is refused),
    "ignored" (a key without effect), and others. `path` is the place of the value, a tuple of keys
    and list indices; `value` is the value, and `wanted` says in words what would be right. For
    "extra" and "ignored", `known` are the keys that the table may have.
    """

    kind: Kind
    path: Path
    wanted: str
    value: Any = None
    known: tuple[str, ...] = ()


@functools.cache
def load(generation: str, component: str = "rl") -> Schema:
    """Return the JSON schema of the config of one program of prime-rl. `generation` is the version:
    "prime-rl-2026-01", or "prime-rl" for the current one. `component` is the program: rl (the whole
    training), trainer, orchestrator, inference, sft or eval. The schema is the one that the
    trainer's own class has printed, without titles and descriptions. Raises ConsoleError if a file
    of this console's own installation is missing.
    """
    name = _FILES[generation] + (f"-{component}" if component in ("sft", "eval") else "")
    file = find("configs") / "schemas" / f"{name}.json"
    schema: Schema = json.loads(file.read_text(encoding="utf-8"))
    return schema


def prefix_of(component: str) -> Path:
    """Return the path, such as ("trainer",), at which the config of a whole training has the part
    for the program `component`. Return () for rl, which is the whole training, and for sft and
    eval, which are not part of another config.
    """
    if component in ("trainer", "orchestrator", "inference"):
        return (component,)
    return ()


class Checker:
    """Checks configs by the schema of one program (`component`, such as "rl" for the whole
    training) in one version of prime-rl (`generation`: "prime-rl-2026-01" or "prime-rl").

    If the program is the trainer, the orchestrator or the inference server, the paths of the
    problems are nevertheless those in the config of a whole training, such as ("trainer", "model",
    "name").
    """

    def __init__(self, generation: str, component: str = "rl") -> None:
        self.generation, self.component = generation, component
        self.root = load(generation, component)
        self.problems: list[Problem] = []

    def check(self, data: dict[str, Any]) -> tuple[dict[str, Any], list[Problem]]:
        """Return (values, problems) for a config. The values are those of the config, converted as
        the trainer converts them. The problems are what the trainer would refuse or ignore; the
        list is empty if it accepts everything.
        """
        self.problems = []
        name = _PARTS[self.generation].get(self.component, "")
        schema = self.root["$defs"][name] if name else self.root
        return self._object(schema, name, data, prefix_of(self.component)), self.problems

    def _resolve(self, schema: Schema) -> tuple[Schema, str]:
        """Return (schema, class name) behind a reference. The name is "" for a schema that is no
        reference.
        """
        if "$ref" in schema:
            name = schema["$ref"].rsplit("/", 1)[-1]
            return self.root["$defs"][name], name
        return schema, ""

    def _refuse(
        self, kind: Kind, path: Path, wanted: str, value: Any, known: tuple[str, ...] = ()
    ) -> Any:
        """Report a problem and return the refused value."""
        self.problems.append(Problem(kind, path, wanted, value, known))
        return value

    def _value(self, field: Schema, value: Any, path: Path) -> Any:
        default = field.get("default")
        schema, name = self._resolve(field)
        if "anyOf" in schema:
            return self._any_of(schema["anyOf"], value, path, default)
        if "discriminator" in schema:
            return self._tagged(schema, value, path, default)
        if "const" in schema or "enum" in schema:
            words = schema.get("enum", [schema.get("const")])
            if isinstance(value, str) and value in words:
                return value
            wanted = "one of " + ", ".join(map(str, words)) if len(words) > 1 else f'"{words[0]}"'
            return self._refuse("word", path, wanted, value)
        kind = schema.get("type", "")
        if kind == "object":
            return self._object(schema, name, value, path)
        if kind == "array":
            return self._array(schema, value, path)
        if kind in _CONVERTERS:
            return self._scalar(schema, kind, value, path)
        return value

    def _any_of(self, members: list[Schema], value: Any, path: Path, default: Any) -> Any:
        others = [member for member in members if member.get("type") != "null"]
        if isinstance(value, bool) and any(
            self._resolve(member)[1] in _SWITCHES for member in others
        ):
            value = {} if value else None
        if value is None and len(others) < len(members):
            return None
        if len(others) == 1:
            return self._value({**others[0], "default": default}, value, path)
        schemas = [self._resolve(member)[0] for member in others]
        kept = self.problems
        for exact in (True, False):
            for member, schema in zip(others, schemas, strict=True):
                if exact and not _same_type(schema, value):
                    continue
                self.problems = []
                result = self._value(member, value, path)
                if not self.problems:
                    self.problems = kept
                    return result
        self.problems = kept
        # The error inside a table says more than "not one of these types".
        tables = [schema for schema in schemas if schema.get("type") == "object"]
        if isinstance(value, dict) and len(tables) == 1:
            return self._value(others[schemas.index(tables[0])], value, path)
        return self._refuse("type", path, " or ".join(map(in_words, schemas)), value)

    def _tagged(self, schema: Schema, value: Any, path: Path, default: Any) -> Any:
        key = schema["discriminator"]["propertyName"]
        mapping = schema["discriminator"]["mapping"]
        if not isinstance(value, dict):
            return self._refuse("type", path, f"a table with `{key}`", value)
        # Only `type` is filled in from the default. A renderer without its `name` is refused.
        usual = default.get(key) if isinstance(default, dict) and key == "type" else None
        if self.generation == "prime-rl" and path == ("rollout_transport",):
            # The shared table is handed to the components before it is checked, and they fill it
            # in.
            usual = "zmq"
        tag = value.get(key, usual)
        if not isinstance(tag, str) or tag not in mapping:
            where = (*path, key) if key in value else path
            self._refuse("tag", where, f"`{key}` as one of " + ", ".join(mapping), value.get(key))
            return value
        chosen, name = self._resolve({"$ref": mapping[tag]})
        return {**self._object(chosen, name, value, path), key: tag}

    def _object(self, schema: Schema, name: str, value: Any, path: Path) -> Any:
        if not isinstance(value, dict):
            return self._refuse("type", path, "a table", value)
        properties: Mapping[str, Schema] = schema.get("properties", {})
        more = schema.get("additionalProperties")
        result: dict[str, Any] = {}
        for key, item in value.items():
            if key in _UNREAD.get((self.component, name), ()):
                continue
            known = self._field(name, key)
            if known in properties:
                item = self._none(schema, item)
                result[known] = self._value(properties[known], item, (*path, key))
            elif isinstance(more, dict):
                result[key] = self._value(more, item, (*path, key))
            else:
                result[key] = item
                is_open = name in _OPEN and self.generation == "prime-rl"
                if not is_open and (more is False or (more is None and properties)):
                    kind: Kind = "ignored" if more is None else "extra"
                    self._refuse(kind, (*path, key), "no such key", item, tuple(properties))
        for key in schema.get("required", []):
            if key not in value:
                wanted = f"`{key}`" if path else f"a table [{key}]"
                self._refuse("missing", (*path, key), wanted, None)
        return result

    def _field(self, name: str, key: str) -> str:
        """Return the key as the class names it. vLLM's table of the current generation reads a-b as
        a_b, because it takes vLLM's own options too.
        """
        if (self.generation, name) == ("prime-rl", "VllmConfig"):
            return key.replace("-", "_")
        return _ALIASES.get((self.component, name, key)) or _ALIASES.get(("", name, key), key)

    def _none(self, schema: Schema, value: Any) -> Any:
        """Return None if the trainer reads the value as null, else the value.

        TOML has no null, and both generations read the word "None" as null. January 2026 does so
        neither in the classes that are settings (those know toml_files) nor in the plain models
        (those ignore what they do not know).
        """
        is_settings = "toml_files" in schema.get("properties", {})
        keeps_word = is_settings or schema.get("additionalProperties") is None
        if value != "None" or (self.generation == "prime-rl-2026-01" and keeps_word):
            return value
        return None

    def _array(self, schema: Schema, value: Any, path: Path) -> Any:
        if not isinstance(value, list):
            return self._refuse("type", path, "a list", value)
        if len(value) < schema.get("minItems", 0):
            self._refuse("short", path, f"at least {schema['minItems']} entry", value)
        rows = []
        for n, item in enumerate(value):
            rows.append(self._value(schema.get("items", {}), item, (*path, n)))
        return rows

    def _scalar(self, schema: Schema, kind: str, value: Any, path: Path) -> Any:
        converted, ok = convert(kind, value)
        if not ok:
            return self._refuse("type", path, in_words(schema), value)
        for name, text, holds in BOUNDS:
            if name in schema and not holds(converted, schema[name]):
                self._refuse("bound", path, f"{text} {schema[name]:g}", value)
        return converted


def convert(kind: str, value: Any) -> tuple[Any, bool]:
    """Convert `value` to `kind`, which is "integer", "number", "boolean" or "string", as pydantic
    does it. Return (converted value, True) if pydantic accepts it. Return (some value, False) if it
    does not.
    """
    return _CONVERTERS[kind](value)


def _string(value: Any) -> tuple[Any, bool]:
    return value, isinstance(value, str)


def _number(value: Any) -> tuple[Any, bool]:
    """Return a number as pydantic converts it. Single underscores may stand anywhere except at the
    ends, and digits are ASCII.
    """
    if isinstance(value, str):
        value = value.strip()
        if not value.startswith("_"):
            value = _UNDERSCORES.sub("", value)
        if not value.isascii() or "_" in value:
            return value, False
    try:
        return float(value), True
    except (TypeError, ValueError, OverflowError):
        return value, False


def _boolean(value: Any) -> tuple[Any, bool]:
    if isinstance(value, bool):
        return value, True
    if isinstance(value, int | float) and value in (0, 1):
        return bool(value), True
    if isinstance(value, str) and value.lower() in _TRUE | _FALSE:
        return value.lower() in _TRUE, True
    return value, False


def _integer(value: Any) -> tuple[Any, bool]:
    if isinstance(value, bool | int):
        return int(value), True
    if isinstance(value, float) and value == value and abs(value) < 2**63 and value.is_integer():
        return int(value), True
    if (
        isinstance(value, str)
        and len(value) < sys.int_info.default_max_str_digits
        and _INTEGER.fullmatch(value)
    ):
        return int(value.strip().split(".")[0]), True
    return value, False


_CONVERTERS: Mapping[str, Callable[[Any], tuple[Any, bool]]] = {
    "integer": _integer,
    "number": _number,
    "boolean": _boolean,
    "string": _string,
}


def _same_type(schema: Schema, value: Any) -> bool:
    """Return True if a value has the type of a schema without conversion."""
    if "const" in schema:
        return bool(value == schema["const"])
    kind = schema.get("type", "")
    if kind == "integer":
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, _TYPES.get(kind, ()))


def in_words(schema: Schema) -> str:
    """Return in words, such as "a whole number", which type of value `schema` asks for."""
    if "const" in schema:
        return f'"{schema["const"]}"'
    return _WORDS.get(schema.get("type", ""), "another value")


@functools.cache
def tables(generation: str, component: str = "rl") -> dict[tuple[str, ...], frozenset[str]]:
    """Return {path: keys} with the keys that each table of a config may have by the schema. A path
    is a tuple of names without list indices. `generation` is "prime-rl-2026-01" or "prime-rl", and
    `component` the program, such as "rl" for the whole training.
    """
    checker = Checker(generation, component if component in ("sft", "eval") else "rl")
    found: dict[tuple[str, ...], set[str]] = {}

    def walk(field: Schema, path: tuple[str, ...], depth: int) -> None:
        schema, _ = checker._resolve(field)
        for member in _members(schema):
            walk(member, path, depth)
        if schema.get("type") == "array":
            walk(schema.get("items", {}), path, depth)
        if depth > 8:
            return
        if "properties" in schema:
            found.setdefault(path, set()).update(schema["properties"])
        for key, item in schema.get("properties", {}).items():
            walk(item, (*path, key), depth + 1)

    walk(checker.root, (), 0)
    return {path: frozenset(keys) for path, keys in found.items()}


def exists(generation: str, path: Path, component: str = "rl") -> bool:
    """Return True if the schema has a key at `path`, a tuple of keys and list indices. The indices
    do not matter. `generation` is "prime-rl-2026-01" or "prime-rl", and `component` the program,
    such as "rl" for the whole training.
    """
    names = names_of(path)
    return bool(names) and names[-1] in tables(generation, component).get(names[:-1], frozenset())


def homes(generation: str, key: str, component: str = "rl") -> Iterator[str]:
    """Yield the dotted name of each table in which the schema has the key `key`, beginning with the
    outermost tables. `generation` is "prime-rl-2026-01" or "prime-rl", and `component` the program,
    such as "rl" for the whole training.
    """
    known = tables(generation, component)
    for path in sorted(known, key=lambda path: (len(path), path)):
        if key in known[path]:
            yield dotted(path)


def default(generation: str, *names: str, component: str = "rl") -> Any:
    """Return the default value that the schema has for a key, or None if it has none. `names` are
    the names of the tables around the key, from the top, and then the key itself. `generation` is
    "prime-rl-2026-01" or "prime-rl", and `component` is the program that reads the config, such as
    "rl", "sft" or "eval".
    """
    return _place(generation, names, component).get("default")


def is_optional(generation: str, path: Path, component: str = "rl") -> bool:
    """Return True if the table at `path` is null by default, so that its feature is off unless a
    config has the table. `generation` is "prime-rl-2026-01" or "prime-rl", and `component` the
    program, such as "rl" for the whole training.
    """
    place = _place(generation, names_of(path), component)
    return place.get("default") is None and {"type": "null"} in place.get("anyOf", [])


def refused(generation: str, names: tuple[str, ...], value: Any, path: Path) -> list[Problem]:
    """Return the problems that the schema would have with `value` if it were the value of the key
    `names`, the names of the tables around the key and of the key itself. Return an empty list if
    the schema accepts it. In the config, the value is at `path`, for example in a shared table, and
    the problems name that path. `generation` is "prime-rl-2026-01" or "prime-rl".
    """
    checker = Checker(generation)
    checker._value(_place(generation, names, "rl"), value, path)
    return checker.problems


def _place(generation: str, names: tuple[str, ...], component: str) -> Schema:
    """Return the schema of a key, or {} if there is none. In a union the first table that has the
    key counts.
    """
    checker = Checker(generation, component if component in ("sft", "eval") else "rl")
    schema = checker.root
    for name in names:
        schema, _ = checker._resolve(schema)
        for option in [schema, *_members(schema)]:
            properties = checker._resolve(option)[0].get("properties", {})
            if name in properties:
                schema = properties[name]
                break
        else:
            return {}
    return schema


def _members(schema: Schema) -> list[Schema]:
    """Return the members of a union. Empty for any other schema."""
    return [*schema.get("anyOf", []), *schema.get("oneOf", [])]
