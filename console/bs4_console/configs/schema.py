"""The trainers' own schemas as data, checked the way their pydantic classes check: unknown keys,
types with lax conversion, bounds, words, unions by discriminator.

JSON Schema alone would refuse what the trainers accept ("5" for a number, an optimizer table
without `type`), so this walks the schema. Conversions are those of pydantic 2's table for Python
input in lax mode.
"""

from __future__ import annotations

import functools
import json
import operator
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from bs4_console.assets import find
from bs4_console.configs.findings import Path, dotted, names_of

Schema = dict[str, Any]
Generation = Literal["prime-rl-2026-01", "prime-rl"]
Kind = Literal["extra", "ignored", "missing", "type", "bound", "word", "tag", "short"]

_FILES: dict[str, str] = {"prime-rl-2026-01": "prime-rl-2026-01", "prime-rl": "prime-rl-current"}
#: A part of `rl` that is started by itself -> its class, in the schema of the whole. sft and eval
#: have schemas of their own.
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
_INTEGER = re.compile(r"\s*[+-]?[0-9]+(_[0-9]+)*(\.0+)?\s*")
_UNDERSCORES = re.compile(r"(?<!_)_(?!_|$)")
#: In the current generation an environment brings its own class, and so does a judge, which adds
#: keys; what they may be only its package knows.
_OPEN = {"EnvConfig", "TasksetConfig", "TaskConfig", "JudgeConfig"}
_BOUNDS: tuple[tuple[str, str, Callable[[Any, Any], bool]], ...] = (
    ("minimum", "at least", operator.ge),
    ("exclusiveMinimum", "more than", operator.gt),
    ("maximum", "at most", operator.le),
    ("exclusiveMaximum", "less than", operator.lt),
)
#: Spellings that a class accepts beside the one in the schema (its validation alias): component (""
#: for all), class, key.
_ALIASES = {
    ("", "OnlineEvalConfig", "skip_eval_on_restart"): "skip_eval_on_resume",
    ("sft", "SingleNodeDeploymentConfig", "num_eval_gpus"): "num_infer_gpus",
    ("sft", "MultiNodeDeploymentConfig", "num_eval_nodes"): "num_infer_nodes",
}
#: Keys that a class takes out before it judges what is left.
_UNREAD = {("sft", "MultiNodeDeploymentConfig"): {"num_train_gpus", "num_infer_gpus"}}
#: Tables that may be switched on with true (all defaults) and off with false.
_SWITCHES = {"OptimizerInBackwardOffloadConfig"}


@dataclass(frozen=True)
class Problem:
    """`path` is where, `known` the keys that the table has (for `extra` and `ignored`), `wanted`
    what would be right, in words.
    """

    kind: Kind
    path: Path
    wanted: str
    value: Any = None
    known: tuple[str, ...] = ()


@functools.cache
def load(generation: str, component: str = "rl") -> Schema:
    """The schema file of a component: as the class of its entry point prints it, less titles and
    descriptions.
    """
    name = _FILES[generation] + (f"-{component}" if component in ("sft", "eval") else "")
    schema: Schema = json.loads(
        (find("configs") / "schemas" / f"{name}.json").read_text(encoding="utf-8")
    )
    return schema


def prefix_of(component: str) -> Path:
    """Where the config of a component stands in that of the whole: () for a config of its own."""
    if component in ("trainer", "orchestrator", "inference"):
        return (component,)
    return ()


class Checker:
    """One generation's schema. `check(data)` gives the values as the trainer would have them, and
    what it would refuse.

    `component`: whose config it is. The paths of problems in a part's own config (trainer,
    orchestrator, inference) are those that it would have in the config of the whole.
    """

    def __init__(self, generation: str, component: str = "rl") -> None:
        self.generation, self.component = generation, component
        self.root = load(generation, component)
        self.problems: list[Problem] = []

    def check(self, data: dict[str, Any]) -> tuple[dict[str, Any], list[Problem]]:
        self.problems = []
        name = _PARTS[self.generation].get(self.component, "")
        schema = self.root["$defs"][name] if name else self.root
        return self._object(schema, name, data, prefix_of(self.component)), self.problems

    def _resolve(self, schema: Schema) -> tuple[Schema, str]:
        if "$ref" in schema:
            name = schema["$ref"].rsplit("/", 1)[-1]
            return self.root["$defs"][name], name
        return schema, ""

    def _report(
        self, kind: Kind, path: Path, wanted: str, value: Any = None, known: tuple[str, ...] = ()
    ) -> None:
        self.problems.append(Problem(kind, path, wanted, value, known))

    def _value(self, field: Schema, value: Any, path: Path) -> Any:
        default = field.get("default")
        schema, name = self._resolve(field)
        if "anyOf" in schema:
            return self._any_of(schema["anyOf"], value, path, default)
        if "discriminator" in schema:
            return self._tagged(schema, value, path, default)
        if "const" in schema or "enum" in schema:
            words = schema.get("enum", [schema.get("const")])
            if not isinstance(value, str) or value not in words:
                self._report(
                    "word",
                    path,
                    "one of " + ", ".join(map(str, words)) if len(words) > 1 else f'"{words[0]}"',
                    value,
                )
            return value
        kind = schema.get("type")
        if kind == "object":
            return self._object(schema, name, value, path)
        if kind == "array":
            return self._array(schema, value, path)
        if kind in ("integer", "number", "boolean", "string"):
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
        kept = self.problems
        for exact in (True, False):
            for member in others:
                if exact and not _same_type(self._resolve(member)[0], value):
                    continue
                self.problems = []
                result = self._value(member, value, path)
                if not self.problems:
                    self.problems = kept
                    return result
        self.problems = kept
        # What a table got wrong inside says more than "not one of these types".
        tables = [member for member in others if self._resolve(member)[0].get("type") == "object"]
        if isinstance(value, dict) and len(tables) == 1:
            return self._value(tables[0], value, path)
        self._report(
            "type", path, " or ".join(_words(self._resolve(member)[0]) for member in others), value
        )
        return value

    def _tagged(self, schema: Schema, value: Any, path: Path, default: Any) -> Any:
        key = schema["discriminator"]["propertyName"]
        mapping: dict[str, str] = schema["discriminator"]["mapping"]
        if not isinstance(value, dict):
            self._report("type", path, f"a table with `{key}`", value)
            return value
        # Only `type` is filled in from the default; a renderer without its `name` is refused.
        usual = None
        if isinstance(default, dict) and key == "type":
            usual = default.get(key)
        if self.generation == "prime-rl" and path == ("rollout_transport",):
            # the shared table is handed to the components before it is judged, and they fill it in
            usual = "zmq"
        tag = value.get(key, usual)
        if not isinstance(tag, str) or tag not in mapping:
            where = (*path, key) if key in value else path
            self._report("tag", where, f"`{key}` as one of " + ", ".join(mapping), value.get(key))
            return value
        result = self._object(
            self.root["$defs"][mapping[tag].rsplit("/", 1)[-1]],
            mapping[tag].rsplit("/", 1)[-1],
            value,
            path,
        )
        if isinstance(result, dict):
            return {**result, key: tag}
        return result

    def _object(self, schema: Schema, name: str, value: Any, path: Path) -> Any:
        if not isinstance(value, dict):
            self._report("type", path, "a table", value)
            return value
        properties: dict[str, Schema] = schema.get("properties", {})
        more = schema.get("additionalProperties")
        result: dict[str, Any] = {}
        for key, item in value.items():
            if key in _UNREAD.get((self.component, name), ()):
                continue
            known = self._field(name, key)
            if known in properties:
                result[known] = self._value(
                    properties[known], self._none(name, schema, item), (*path, key)
                )
            elif isinstance(more, dict):
                result[key] = self._value(more, item, (*path, key))
            else:
                result[key] = item
                if name in _OPEN and self.generation == "prime-rl":
                    continue
                if more is False:
                    self._report("extra", (*path, key), "no such key", item, tuple(properties))
                elif more is None and properties:
                    self._report("ignored", (*path, key), "no such key", item, tuple(properties))
        for key in schema.get("required", []):
            if key not in value:
                self._report("missing", (*path, key), f"`{key}`" if path else f"a table [{key}]")
        return result

    def _field(self, name: str, key: str) -> str:
        """vLLM's table of the current generation reads a-b as a_b, because it takes vLLM's own
        options too.
        """
        if (self.generation, name) == ("prime-rl", "VllmConfig"):
            return key.replace("-", "_")
        return self._alias(name, key)

    def _alias(self, name: str, key: str) -> str:
        return _ALIASES.get((self.component, name, key)) or _ALIASES.get(("", name, key), key)

    def _none(self, name: str, schema: Schema, value: Any) -> Any:
        """TOML has no null: both generations read the word "None" as one, 2026-01 not in the
        classes that are settings (those know toml_files) nor in the plain models (those ignore what
        they do not know).
        """
        if value != "None":
            return value
        if self.generation == "prime-rl-2026-01" and (
            "toml_files" in schema.get("properties", {})
            or schema.get("additionalProperties") is None
        ):
            return value
        return None

    def _array(self, schema: Schema, value: Any, path: Path) -> Any:
        if not isinstance(value, list):
            self._report("type", path, "a list", value)
            return value
        if len(value) < schema.get("minItems", 0):
            self._report("short", path, f"at least {schema['minItems']} entry", value)
        rows = []
        for n, item in enumerate(value):
            rows.append(self._value(schema.get("items", {}), item, (*path, n)))
        return rows

    def _scalar(self, schema: Schema, kind: str, value: Any, path: Path) -> Any:
        converted, ok = convert(kind, value)
        if not ok:
            self._report("type", path, _words(schema), value)
            return value
        for name, text, holds in _BOUNDS:
            if name in schema and not holds(converted, schema[name]):
                self._report("bound", path, f"{text} {schema[name]:g}", value)
        return converted


def convert(kind: str, value: Any) -> tuple[Any, bool]:
    """(the value as pydantic would have it, whether it takes it) for integer, number, boolean and
    string.
    """
    if kind == "string":
        return value, isinstance(value, str)
    if kind == "boolean":
        return _boolean(value)
    if kind == "integer":
        return _integer(value)
    return _number(value)


def _number(value: Any) -> tuple[Any, bool]:
    """Underscores may stand alone anywhere but at the ends; digits are ASCII."""
    if isinstance(value, str):
        text = value.strip()
        if text.startswith("_"):
            value = text
        else:
            value = _UNDERSCORES.sub("", text)
    if isinstance(value, bool | int | float) or (
        isinstance(value, str) and value.isascii() and "_" not in value
    ):
        try:
            return float(value), True
        except (ValueError, OverflowError):
            pass
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


def _same_type(schema: Schema, value: Any) -> bool:
    if "const" in schema:
        return bool(value == schema["const"])
    wanted = {"string": str, "boolean": bool, "object": dict, "array": list, "number": float}.get(
        schema.get("type", "")
    )
    if schema.get("type") == "integer":
        return isinstance(value, int) and not isinstance(value, bool)
    return wanted is not None and isinstance(value, wanted)


def _words(schema: Schema) -> str:
    if "const" in schema:
        return f'"{schema["const"]}"'
    kinds = {
        "integer": "a whole number",
        "number": "a number",
        "boolean": "true or false",
        "string": "text in quotes",
    }
    return kinds.get(
        schema.get("type", ""),
        {"array": "a list", "object": "a table"}.get(schema.get("type", ""), "another value"),
    )


@functools.cache
def tables(generation: str, component: str = "rl") -> dict[tuple[str, ...], frozenset[str]]:
    """Table (without list indices) -> its keys, everywhere in a generation's schema."""
    checker = Checker(generation, component if component in ("sft", "eval") else "rl")
    found: dict[tuple[str, ...], set[str]] = {}

    def walk(field: Schema, path: tuple[str, ...], depth: int) -> None:
        schema, _ = checker._resolve(field)
        for member in [*schema.get("anyOf", []), *schema.get("oneOf", [])]:
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
    names = names_of(path)
    return bool(names) and names[-1] in tables(generation, component).get(names[:-1], frozenset())


def homes(generation: str, key: str, component: str = "rl") -> Iterator[str]:
    """The tables that have `key`, shallowest first."""
    for path in sorted(
        (path for path, keys in tables(generation, component).items() if key in keys),
        key=lambda path: (len(path), path),
    ):
        yield dotted(path)


def default(generation: str, *names: str, component: str = "rl") -> Any:
    """The schema's default at a path, or None."""
    return _place(generation, names, component).get("default")


def is_optional(generation: str, path: Path, component: str = "rl") -> bool:
    """Return whether a table is off unless it is written: it may be null, and is by default."""
    place = _place(generation, names_of(path), component)
    if place.get("default") is not None:
        return False
    return {"type": "null"} in place.get("anyOf", [])


def refused(generation: str, names: tuple[str, ...], value: Any, path: Path) -> list[Problem]:
    """What is wrong with a value of `path` that is handed on to the key `names`."""
    checker = Checker(generation)
    checker._value(_place(generation, names, "rl"), value, path)
    return checker.problems


def _place(generation: str, names: tuple[str, ...], component: str) -> Schema:
    """The schema of a key, {} where there is none. Follows the first table of a union."""
    checker = Checker(generation, component if component in ("sft", "eval") else "rl")
    schema = checker.root
    for name in names:
        schema, _ = checker._resolve(schema)
        options = [schema, *schema.get("anyOf", []), *schema.get("oneOf", [])]
        for option in options:
            resolved, _ = checker._resolve(option)
            if name in resolved.get("properties", {}):
                schema = resolved["properties"][name]
                break
        else:
            return {}
    return schema
