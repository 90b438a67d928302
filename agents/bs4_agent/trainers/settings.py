"""The settings of a run: its TOML file, overlaid by the options of the command line.

Only what the agent needs is read, and nothing is validated, because that is the trainer's business.
In both generations the command line wins over the file (checked against pydantic-settings 2.10.1
and prime-pydantic-config 0.4.3).
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bs4_agent.errors import AgentError
from bs4_agent.trainers.base import LaunchSpec

if TYPE_CHECKING:
    import tomlkit

#: The config of a spec whose config is not known: an adopted launcher has overwritten its command
#: line.
UNKNOWN_CONFIG = Path()
#: Inheritance through `toml_files` deeper than this is a loop.
_DEPTH = 8


class BadConfig(AgentError):
    """Raised if a config cannot be read, is no TOML, or asks for something that cannot be launched
    from here.
    """

    type = "bad-config"


@dataclass(frozen=True)
class Arguments:
    """The words after `rl`.

    `config` is the file behind a bare `@`. `nested` are the (key, file) pairs of `--trainer @
    file`. `options` are (dotted key with underscores, value) in order. The value is True for a flag
    without one, and False for `--no-...`.
    """

    config: str | None
    nested: Sequence[tuple[str, str]]
    options: Sequence[tuple[str, Any]]

    @property
    def files(self) -> set[str]:
        """Return the files of `nested`."""
        return {path for _, path in self.nested}

    def last(self, key: str) -> Any:
        """Return the last value given for `key`, or None. The last of repeated options counts."""
        for name, value in reversed(self.options):
            if name == key:
                return value
        return None


def parse_arguments(words: Sequence[str]) -> Arguments:
    """Return the parts of a command line of either generation. Words that are no option and belong
    to none are ignored, as the trainers do.
    """
    config: str | None = None
    nested: list[tuple[str, str]] = []
    options: list[tuple[str, Any]] = []
    for key, values in _options(words):
        if values[:1] == ["@"]:
            if len(values) > 1 and key:
                nested.append((key, values[1]))
            elif len(values) > 1:
                config = values[1]
        elif key.startswith("no_"):
            options.append((key[3:], False))
        elif key:
            options.append((key, True if not values else values[0] if len(values) == 1 else values))
    return Arguments(config, nested, options)


def _options(words: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """Yield each `--key` with the words up to the next option. The top-level `@ file` has the key
    "".
    """
    key: str | None = None
    values: list[str] = []
    for word in words:
        opens_file = word == "@" and (not key or bool(values))
        if not word.startswith("--") and not opens_file:
            if key is not None:
                values.append(word)
            continue
        if key is not None:
            yield key, values
        name, equals, value = word.removeprefix("--").partition("=")
        key, values = name.replace("-", "_"), [value] if equals else []
        if opens_file:
            key, values = "", ["@"]
    if key is not None:
        yield key, values


def without(words: Sequence[str], keys: Sequence[str]) -> list[str]:
    """Return `words` without the options `keys`. The keys have underscores; values and the `--no-`
    form are removed too.
    """
    kept: list[str] = []
    skipping = False
    for word in words:
        if word.startswith("--"):
            name = word[2:].partition("=")[0].replace("-", "_")
            skipping = name in keys or name.removeprefix("no_") in keys
        elif word == "@":
            skipping = False
        if not skipping:
            kept.append(word)
    return kept


@dataclass(frozen=True)
class Settings:
    """The merged settings of a run as nested tables. Values from the command line are strings,
    those of the file have TOML's types.
    """

    data: Mapping[str, Any]
    arguments: Arguments = field(default_factory=lambda: Arguments(None, (), ()))

    def get(self, dotted: str) -> Any:
        """Return the value at `a.b.c`. None if it is missing or is the word "None", which is how
        both generations spell null.
        """
        node: Any = self.data
        for key in dotted.split("."):
            if not isinstance(node, Mapping) or key not in node:
                return None
            node = node[key]
        if node == "None":
            return None
        return node

    def first(self, *dotted: str) -> Any:
        """Return the first value that is set at one of these keys, or None."""
        for key in dotted:
            if (value := self.get(key)) is not None:
                return value
        return None

    def integer(self, *dotted: str) -> int | None:
        """Return the first value that is set at one of these keys as a whole number. None if there
        is none, or if it is a boolean or a table. Raises BadConfig if it is no whole number.
        """
        value = self.first(*dotted)
        try:
            if value is None or isinstance(value, (bool, Mapping)):
                return None
            return int(value)
        except (TypeError, ValueError):
            raise BadConfig(
                f"{dotted[0]} is {value!r}, which is no whole number; correct it in the config."
            ) from None

    def text(self, *dotted: str) -> str | None:
        """Return the first value that is set at one of these keys as text. None if there is none,
        or if it is a boolean or a table.
        """
        value = self.first(*dotted)
        if value is None or isinstance(value, (bool, Mapping)):
            return None
        return str(value)

    def null(self, dotted: str) -> bool:
        """Return True if the key is switched off on purpose: `"None"` in a TOML file, null in JSON,
        `--no-key` on the command line.
        """
        head, _, last = dotted.rpartition(".")
        table = self.get(head) if head else self.data
        return isinstance(table, Mapping) and last in table and table[last] in ("None", None, False)


def settings_of(spec: LaunchSpec, *, watching: bool = False) -> Settings:
    """Return the settings with which `spec` starts. Raises BadConfig if a file is missing or no
    TOML.

    With `watching` such a file counts as empty. A run continues when its config is moved away or
    half edited, and must stay visible.
    """
    if spec.config == UNKNOWN_CONFIG and spec.trainer == "verl":
        return Settings({})  # Hydra's words are all there is, and the spec has them
    if spec.config == UNKNOWN_CONFIG and not watching:
        raise BadConfig(
            f"The config that {spec.run} was started with is not known; launch it once with "
            "its config named."
        )
    arguments = parse_arguments(spec.overrides)
    data: dict[str, Any] = {}
    if str(spec.config) not in arguments.files:
        data = _inherit(spec.config_path, watching, _DEPTH)
    for key, path in arguments.nested:
        _put(data, key, _inherit(spec.cwd / path, watching, _DEPTH))
    for key, value in arguments.options:
        _put(data, key, value)
    # A server that is started apart has the keys of [inference] at the top of its own config.
    return Settings({"inference": data} if spec.component == "inference" else data, arguments)


def _inherit(path: Path, watching: bool, depth: int) -> dict[str, Any]:
    """Return the tables of a file and of those that its `toml_files` name, relative to it. A later
    file replaces whole top-level tables of an earlier one (2026-01).
    """
    try:
        if depth == 0:
            raise BadConfig(f"{path} includes itself through toml_files; break the circle.")
        data = load_toml(path)
    except BadConfig:
        if not watching:
            raise
        return {}
    more = data.pop("toml_files", None)
    for name in more if isinstance(more, list) else ():
        data.update(_inherit(path.parent / str(name), watching, depth - 1))
    return data


_cache: dict[Path, tuple[tuple[int, int, int], dict[str, Any]]] = {}


def load_toml(path: Path) -> dict[str, Any]:
    """Return a TOML file as plain tables, as a copy. Raises BadConfig if it cannot be read.

    It is cached by inode, size and mtime, because the watcher needs it every second.
    """
    try:
        status = path.stat()
        key = (status.st_ino, status.st_size, status.st_mtime_ns)
        entry = _cache.get(path)
        if entry is None or entry[0] != key:
            if len(_cache) > 32:
                _cache.clear()
            entry = _cache[path] = (key, _plain(path))
    except OSError as error:
        raise BadConfig(
            f"The config {path} cannot be read ({error.strerror}); name a file that exists "
            "on the pod."
        ) from error
    return copy.deepcopy(entry[1])


def _plain(path: Path) -> dict[str, Any]:
    """Return the tables of a TOML file. Python's own parser (3.11 and later) is preferred, because
    tomlkit keeps comments and costs 4 MB and ten times the time.
    """
    if sys.version_info >= (3, 11):
        import tomllib

        try:
            return tomllib.loads(_text(path))
        except tomllib.TOMLDecodeError as error:
            raise BadConfig(f"{path} is not TOML: {error}; correct that line.") from error
    else:
        return parse_document(path).unwrap()


def _text(path: Path) -> str:
    """Return a file as text. Raises BadConfig if it is not UTF-8."""
    try:
        return path.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadConfig(
            f"{path} is not UTF-8 text (byte {error.start}); save it as UTF-8."
        ) from error


def parse_document(path: Path) -> tomlkit.TOMLDocument:
    """Return a TOML file with its comments. Raises BadConfig if it is no TOML or not UTF-8, and
    OSError if it cannot be read.
    """
    import tomlkit  # only an agent that has a run pays for it: Python 3.10 has no parser of its own
    from tomlkit.exceptions import TOMLKitError

    try:
        return tomlkit.parse(_text(path))
    except TOMLKitError as error:
        raise BadConfig(f"{path} is not TOML: {error}; correct that line.") from error


def _put(data: dict[str, Any], dotted: str, value: Any) -> None:
    """Set the value at `a.b.c`. A flag such as `--ckpt` on a table only switches it on. A value in
    the way is replaced, as on the command line.
    """
    *path, last = dotted.split(".")
    node = data
    for key in path:
        child = node.get(key)
        if not isinstance(child, dict):
            child = node[key] = {}
        node = child
    if value is True and isinstance(node.get(last), dict):
        return
    node[last] = value
