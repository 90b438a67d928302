"""Command lines and configs of both generations: `@ file`, `--section @ file`, `--a.b value`,
`--flag`, `--no-flag`.
"""

from __future__ import annotations

import json
import sys
import tomllib
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

Tree = dict[str, Any]


class ConfigError(ValueError):
    """Raised when a config or command line is not valid. The message is what the real trainer
    prints.
    """


class Config:
    """A config: a tree of tables. A value in it is named by a dotted path, such as
    "trainer.optim.lr".
    """

    def __init__(self, tree: Tree) -> None:
        self.tree = tree

    def get(self, path: str, default: Any = None) -> Any:
        """Return the value at the dotted path `path`, or `default` if it is missing or null, or if
        a table above it is missing.
        """
        node: Any = self.tree
        for part in path.split("."):
            if not isinstance(node, Mapping) or node.get(part) is None:
                return default
            node = node[part]
        return node

    def has(self, path: str) -> bool:
        """Return True if there is a value other than null at the dotted path `path`."""
        return self.get(path) is not None

    def set(self, path: str, value: Any) -> None:
        """Set the value at the dotted path `path`. Missing tables are made. Setting a key that
        names a whole table ("ckpt", "resume" or "inference") to True leaves the table as it is, or
        makes an empty one if it is missing.
        """
        *parents, last = path.split(".")
        node = self.tree
        for part in parents:
            if not isinstance(node.get(part), dict):
                node[part] = {}
            node = node[part]
        if value is True and last in _TABLES:
            node.setdefault(last, {})
        else:
            node[last] = value

    def section(self, path: str) -> Config:
        """Return the table at the dotted path `path` as a config of its own. Returns an empty
        config if there is no such table.
        """
        found = self.get(path, {})
        return Config(dict(found))


#: Flags that stand for a whole table when they are given alone: `--ckpt`, `--resume`.
_TABLES = ("ckpt", "resume", "inference")


def parse(arguments: Sequence[str]) -> Config:
    """Return the config that a command line gives. `arguments` are its words: files ("@ FILE",
    "--SECTION @ FILE"), whose tables are merged in their order, and values ("--a.b VALUE",
    "--flag", "--no-flag"), which win over those of the files. Raises ConfigError if a file is not
    valid TOML or JSON, or for a word that is neither, and OSError if a file cannot be read.
    """
    config = Config({})
    overrides: list[tuple[str, Any]] = []
    words = list(arguments)
    while words:
        word = words.pop(0)
        if word == "@":
            _merge(config.tree, read(Path(_next(words, word))))
        elif word.startswith("--") and words and words[0] == "@":
            words.pop(0)
            _merge(config.tree, {_key(word): read(Path(_next(words, word)))})
        elif word.startswith("--no-"):
            # `--no-clean` is False; `--no-monitors.wandb` removes the table.
            key = _key("--" + word.removeprefix("--no-"))
            overrides.append((key, None if "." in key else False))
        elif word.startswith("--"):
            key, equals, value = word.partition("=")
            if not equals:
                value = (
                    words.pop(0)
                    if words and (not words[0].startswith("-") or _number(words[0]))
                    else ""
                )
            overrides.append((_key(key), _value(value)))
        else:
            raise ConfigError(f"unrecognized arguments: {word}")
    for key, value in overrides:
        config.set(key, value)
    return config


def read(path: Path) -> Tree:
    """Return the tree of tables in a config file: JSON if its name ends with `.json`, otherwise
    TOML. Raises ConfigError if it cannot be parsed, and OSError if it cannot be read.
    """
    raw = path.read_bytes()
    try:
        tree: Tree = json.loads(raw) if path.suffix == ".json" else tomllib.loads(raw.decode())
    except (json.JSONDecodeError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: {error}") from error
    return tree


def keys(text: str) -> frozenset[str]:
    """Return the words of `text`, which are separated by blanks, as a set."""
    return frozenset(text.split())


def refuse_unknown(config: Config, known: Mapping[str, frozenset[str]]) -> None:
    """Check that the trainer knows all keys of `config`. `known` maps the dotted path of a table
    ("" is the top level) to the keys that the table may have; other tables are not checked. Raises
    ConfigError with the unknown keys if there are any.
    """
    if unknown := unknown_keys(config, known):
        details = "\n".join(
            f"--{name.replace('_', '-')}\nExtra inputs are not permitted" for name in unknown
        )
        raise ConfigError(f"{len(unknown)} validation errors for RLConfig\n{details}")


def unknown_keys(config: Config, known: Mapping[str, frozenset[str]]) -> list[str]:
    """Return the dotted names of the keys in `config` that the trainer does not know. `known` maps
    the dotted path of a table ("" is the top level) to the keys that the table may have; other
    tables are not checked.
    """
    unknown = []
    for path, keys in known.items():
        table = config.tree if not path else config.get(path, {})
        unknown += [".".join(filter(None, (path, key))) for key in table if key not in keys]
    return unknown


def boxed(error: Exception) -> str:
    """Return the text of `error` in a frame of lines, as current prime-rl prints it when a config
    is not valid.
    """
    lines = ["Failed to validate config:", *str(error).splitlines()]
    body = "\n".join(f"│ {line[:75]:<75} │" for line in lines)
    return f"╭─ Config file error {'─' * 58}╮\n{body}\n╰{'─' * 77}╯\n"


def parse_or_exit(arguments: Sequence[str], known: Mapping[str, frozenset[str]]) -> Config:
    """Return the config that the words `arguments` of a command line give (see `parse`). `known`
    has the keys that may occur in it (see `unknown_keys`). If the config cannot be read or has
    other keys, print the error on standard error, and exit with code 1.
    """
    try:
        config = parse(arguments)
        refuse_unknown(config, known)
    except (ConfigError, OSError) as error:
        sys.stderr.write(boxed(error))
        sys.exit(1)
    return config


def write_temporary(tree: Tree) -> Path:
    """Write `tree`, a config, to a new TOML file for a child process, and return the file's path.
    As in January's prime-rl, the file lies in `.pydantic_config` in the working directory and is
    never deleted.
    """
    directory = Path(".pydantic_config")
    directory.mkdir(exist_ok=True)
    path = directory / f"temp_{uuid.uuid4()}.toml"
    path.write_text(to_toml(tree))
    return path


def to_toml(tree: Tree) -> str:
    """Return `tree`, a config, as TOML text. Values that are None are left out."""
    return "\n".join(_lines(tree, "")) + "\n"


def _lines(tree: Tree, prefix: str) -> Iterator[str]:
    tables = {
        key: value
        for key, value in tree.items()
        if isinstance(value, dict) or _is_table_list(value)
    }
    yield from (
        f"{key} = {json.dumps(value)}"
        for key, value in tree.items()
        if key not in tables and value is not None
    )
    for key, value in tables.items():
        name = f"{prefix}{key}"
        for table in value if isinstance(value, list) else [value]:
            yield f"\n[[{name}]]" if isinstance(value, list) else f"\n[{name}]"
            yield from _lines(table, f"{name}.")


def _is_table_list(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(item, dict) for item in value)


def _merge(target: Tree, source: Tree) -> None:
    for key, value in source.items():
        if isinstance(value, dict) and isinstance(target.get(key), dict):
            _merge(target[key], value)
        else:
            target[key] = value


def _key(word: str) -> str:
    return word.removeprefix("--").replace("-", "_")


def _next(words: list[str], word: str) -> str:
    if not words:
        raise ConfigError(f"expected a file after {word}")
    return words.pop(0)


def _number(word: str) -> bool:
    return word.removeprefix("-").replace(".", "", 1).isdigit()


def _value(text: str) -> Any:
    """A flag without a value is True; numbers, booleans and lists are JSON; anything else is a
    word.
    """
    if text == "":
        return True
    try:
        return json.loads(text.lower() if text in ("True", "False") else text)
    except json.JSONDecodeError:
        return text
