"""The settings of a run: its TOML file, overlaid by the options of the command line.

Only what the agent needs is read, and nothing is validated, because that is the trainer's business.
In both generations the command line wins over the file (checked against pydantic-settings 2.10.1
and prime-pydantic-config 0.4.3).
"""

from __future__ import annotations

import copy
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bs4_common.errors import AgentError
from bs4_common.files import open_regular
from bs4_common.foreign_json import EXACT_INTEGER, NESTING_LIMIT, ForeignJsonError, check_nesting
from bs4_common.trainers.base import LaunchSpec

#: The config of a spec whose config is not known: an adopted launcher has overwritten its command
#: line.
UNKNOWN_CONFIG = Path()
#: Inheritance through `toml_files` deeper than this is a loop, and a config of more files than this
#: includes its files over and over: eight levels of twenty includes are 25 thousand million reads.
_DEPTH, _FILES = 8, 32
#: Bits of a number. TOML has 64; what is a little larger is no setting, and no reason to take the
#: whole config for unreadable.
_BITS = 1024
#: Bytes of a config. Configs have some kilobytes, and the agent reads them every second.
_CONFIG_BYTES = 256 * 1024
#: A key of more than 64 parts. Python's parser needs minutes for a key of thousands, and tables
#: within tables end in a RecursionError, in a thread of the agent with a small stack perhaps in a
#: crash.
_LONG_KEY = re.compile(r"""(?<![\w-])(?:(?:[\w-]+|"[^"\n]*"|'[^'\n]*')[ \t]*\.[ \t]*){64}""")


#: A string or a comment of TOML. What is in it nests nothing. One without an end goes to the end of
#: the text or line, so that the search takes no longer than the text is.
_TEXTS = re.compile(
    r'''"""(?:[^\\]|\\.)*?(?:"""|\Z)|'{3}.*?(?:'{3}|\Z)'''
    r"""|"(?:[^"\\\n]|\\.)*"?|'[^'\n]*'?|#[^\n]*""",
    re.DOTALL,
)


class BadConfig(AgentError):
    """Raised if a config cannot be read, is no TOML, or asks for something that the agent cannot or
    must not launch.
    """

    type = "bad-config"


@dataclass(frozen=True)
class Arguments:
    """The words after `rl` on a command line of prime-rl (either of its two versions), taken apart.

    `config` is the file after a bare `@`, or None. `nested` are the (key, file) pairs of `--trainer
    @ file`. `options` are the other options in their order, as (key, value); keys are dotted and
    have underscores. The value is True for an option without one, False for `--no-...`, and a list
    if several words follow.
    """

    config: str | None
    nested: Sequence[tuple[str, str]]
    options: Sequence[tuple[str, Any]]

    @property
    def files(self) -> set[str]:
        """Return the config files that are given for one key only, such as `a` in `--trainer @ a`.
        The config file after a bare `@` is not among them.
        """
        return {path for _, path in self.nested}

    def last(self, key: str) -> Any:
        """Return the value of the option `key`, or None if it is not given. If it is repeated, the
        last one counts.
        """
        for name, value in reversed(self.options):
            if name == key:
                return value
        return None


def parse_arguments(words: Sequence[str]) -> Arguments:
    """Take apart the words after `rl` on a command line of prime-rl (either of its two versions),
    and return its config files and its options. Words that belong to no option are ignored, as
    prime-rl does.
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
    """Return `words` without the options whose key is in `keys`, their values, and their `--no-`
    forms. Write keys with underscores.
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


def _whole(value: Any) -> int | None:
    """Return a value as a whole number of at most 2**53, or None if it is none."""
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if abs(number) <= EXACT_INTEGER else None


@dataclass(frozen=True)
class Settings:
    """The settings of a run as nested tables: those of its config, overridden by those of its
    command line. Values from the command line are strings, lists or booleans; those of the config
    have TOML's types.
    """

    data: Mapping[str, Any]
    arguments: Arguments = field(default_factory=lambda: Arguments(None, (), ()))

    def get(self, dotted: str) -> Any:
        """Return the value at a dotted key such as `a.b.c`. Return None if it is not set or is the
        word "None", with which both versions of prime-rl write null.
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
        """Return the value of the first of these dotted keys that is set, or None if none of them
        is.
        """
        for key in dotted:
            if (value := self.get(key)) is not None:
                return value
        return None

    def integer(self, *dotted: str) -> int | None:
        """Return the value of the first of these dotted keys that is set, as a whole number. Return
        None if none of them is set, or if the value is a boolean or a table. Raises BadConfig if it
        is anything else that is no number, or a number beyond 2**53, which no console takes.
        """
        value = self.first(*dotted)
        if value is None or isinstance(value, (bool, Mapping)):
            return None
        number = _whole(value)
        if number is None:
            raise BadConfig(
                f"{dotted[0]} is {str(value)[:100]!r}, which is no whole number; correct it in the "
                "config."
            )
        return number

    def text(self, *dotted: str) -> str | None:
        """Return the value of the first of these dotted keys that is set, as text. Return None if
        none of them is set, or if the value is a boolean or a table.
        """
        value = self.first(*dotted)
        if value is None or isinstance(value, (bool, Mapping)):
            return None
        return str(value)

    def null(self, dotted: str) -> bool:
        """Return True if the dotted key is set to nothing on purpose: by `"None"` in a TOML file,
        null in JSON, or `--no-key` on the command line. Return False if the key is not set at all.
        """
        head, _, last = dotted.rpartition(".")
        table = self.get(head) if head else self.data
        return isinstance(table, Mapping) and last in table and table[last] in ("None", None, False)

    def flat(self, prefix: str = "") -> FlatSettings:
        """Return the settings as one table: `{"a": {"b": 1}, "c": [{"d": 2}]}` becomes `{"a.b": 1,
        "c.0.d": 2}`. `prefix` is put before each key. Lists of plain values stay lists, an empty
        table becomes True, and values that are None are left out.
        """
        flat: dict[str, Any] = {}
        for key, value in self.data.items():
            name = f"{prefix}{key}"
            if isinstance(value, Mapping):
                flat.update(Settings(value).flat(name + ".") if value else {name: True})
            elif isinstance(value, list) and value and all(isinstance(v, Mapping) for v in value):
                for index, item in enumerate(value):
                    flat.update(Settings(item).flat(f"{name}.{index}."))
            elif value is not None and value != "None":
                flat[name] = value
        return FlatSettings(flat)


@dataclass(frozen=True, eq=False)
class FlatSettings(Mapping[str, Any]):
    """The settings of a run as one table, which maps dotted keys such as `ckpt.interval` to values.
    It equals any other mapping with the same keys and values.
    """

    table: Mapping[str, Any] = field(default_factory=dict)

    def __getitem__(self, key: str) -> Any:
        return self.table[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.table)

    def __len__(self) -> int:
        return len(self.table)

    def integer(self, *keys: str) -> int | None:
        """Return the whole number that the settings have for the first of `keys` that has one, or
        None if none of the keys has a whole number of at most 2**53.
        """
        for key in keys:
            value = self.get(key)
            if isinstance(value, int) and not isinstance(value, bool):
                return value if abs(value) <= EXACT_INTEGER else None
        return None

    def text(self, key: str) -> str | None:
        """Return the value of `key` if it is a text that is not empty, and None otherwise."""
        value = self.get(key)
        if isinstance(value, str) and value:
            return value
        return None

    def under(self, prefix: str) -> FlatSettings:
        """Return the settings whose keys begin with `prefix` and a dot, by their full keys."""
        found = {}
        for key, value in self.items():
            if key.startswith(prefix + "."):
                found[key] = value
        return FlatSettings(found)


def settings_of(spec: LaunchSpec, *, watching: bool = False) -> Settings:
    """Return the settings with which `spec` starts: those of its config files, overridden by those
    of its command line. Raises BadConfig if a config file is missing, is no TOML or is not known.

    With `watching`, a config file that cannot be used counts as empty and nothing is raised,
    because a run goes on when its config is moved away or half edited, and must stay visible.
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
    files = _Files(watching)
    if str(spec.config) not in arguments.files:
        data.update(files.tables(spec.config_path).data)
    for key, path in arguments.nested:
        _put(data, key, files.tables(spec.cwd / path).data)
    for key, value in arguments.options:
        _put(data, key, value)
    # A server that is started apart has the keys of [inference] at the top of its own config.
    return Settings({"inference": data} if spec.component == "inference" else data, arguments)


class _Files:
    """The config files that one command line names, read with all that they include. With
    `watching`, a file that cannot be used counts as empty.
    """

    def __init__(self, watching: bool) -> None:
        self._watching = watching
        self._left = _FILES
        """How many more files may be read."""

    def tables(self, path: Path, depth: int = _DEPTH) -> Settings:
        """Return the tables of a file and of those that its `toml_files` name, relative to it. A
        later file replaces whole top-level tables of an earlier one (2026-01). Raises BadConfig for
        a file that cannot be used, unless the run is only watched.
        """
        self._left -= 1
        try:
            if depth == 0 or self._left < 0:
                raise BadConfig(f"{path} includes itself through toml_files; break the circle.")
            data = dict(load_toml(path).data)
        except BadConfig:
            if not self._watching:
                raise
            return Settings({})
        more = data.pop("toml_files", None)
        for name in more if isinstance(more, list) else ():
            if self._left < 0:
                break
            data.update(self.tables(path.parent / str(name), depth - 1).data)
        return Settings(data)


_cache: dict[Path, tuple[tuple[int, int, int], Settings | BadConfig]] = {}


def load_toml(path: Path) -> Settings:
    """Return the content of a TOML file as plain tables, which the caller may change. Raises
    BadConfig if it cannot be read, is no file of at most 256 KiB, or is no TOML.

    A file that has not changed is read only once, also one that is no TOML, because the agent asks
    for it every second.
    """
    try:
        status = path.stat()
        key = (status.st_ino, status.st_size, status.st_mtime_ns)
        entry = _cache.get(path)
        if entry is None or entry[0] != key:
            if len(_cache) > 32:
                _cache.clear()
            entry = _cache[path] = (key, _read(path))
    except (OSError, ValueError) as error:
        # A path with a NUL is a ValueError.
        raise BadConfig(
            f"The config {path} cannot be read ({getattr(error, 'strerror', None) or error}); name "
            "a file that exists on the pod."
        ) from error
    if isinstance(entry[1], BadConfig):
        raise BadConfig(entry[1].message)
    return copy.deepcopy(entry[1])


def _read(path: Path) -> Settings | BadConfig:
    """Return the tables of a TOML file, or the error that says why it has none. Raises OSError if
    it cannot be read or is no regular file.
    """
    try:
        return _plain(path)
    except BadConfig as error:
        # A new one: the error itself would keep the text of the file in memory, by its traceback.
        return BadConfig(error.message)


def _plain(path: Path) -> Settings:
    """Return the tables of a TOML file. Raises BadConfig if it is no TOML, is larger than a config
    is, or nests deeper. Python's own parser (3.11 and later) is preferred, because tomlkit keeps
    comments and costs 4 MB and ten times the time.
    """
    text = _text(path)
    bare = _TEXTS.sub(_blank, text)
    try:
        check_nesting(bare)
    except ForeignJsonError as error:
        raise BadConfig(f"{path} is no config: {error} Correct it.") from error
    if _LONG_KEY.search(bare) is not None:
        raise BadConfig(f"{path} has a key of more than 64 parts; correct it.")
    if sys.version_info >= (3, 11):
        import tomllib

        try:
            data = tomllib.loads(text)
        except (ValueError, RecursionError) as error:
            # A number of more digits than Python reads is a ValueError without a line.
            raise BadConfig(f"{path} is not TOML: {error}; correct that line.") from error
    else:
        import tomlkit  # Python 3.10 has no parser of its own
        from tomlkit.exceptions import TOMLKitError

        try:
            data = tomlkit.parse(text).unwrap()
        except (TOMLKitError, ValueError, RecursionError) as error:
            raise BadConfig(f"{path} is not TOML: {error}; correct that line.") from error
    _refuse_odd(data, path)
    return Settings(data)


def _blank(found: re.Match[str]) -> str:
    """Return what stands in place of a string or a comment of TOML while its structure is checked:
    an empty string, which may be a key, or nothing for a comment.
    """
    return "" if found[0].startswith("#") else '""'


def _refuse_odd(data: object, path: Path) -> None:
    """Raise BadConfig if the tables and lists in `data`, the content of the TOML file `path`, nest
    more than 64 levels deep, which `a.a.a...` does in one line: what copies or walks through them
    calls itself for each level. Raise it also for a number of more than 1,024 bits: Python reads
    thousands of digits in base 16, and cannot print them.
    """
    level: list[Any] = [data]
    for _ in range(NESTING_LIMIT):
        inner: list[Any] = []
        for value in level:
            if isinstance(value, dict):
                inner += value.values()
            elif isinstance(value, list):
                inner += value
            elif isinstance(value, int) and value.bit_length() > _BITS:
                raise BadConfig(f"{path} has a number of more than {_BITS} bits; correct it.")
        if not inner:
            return
        level = inner
    raise BadConfig(f"{path} nests deeper than {NESTING_LIMIT} levels; correct that line.")


def _text(path: Path) -> str:
    """Return a file as text. Raises BadConfig if it is not UTF-8 or too large."""
    with open_regular(path) as handle:
        raw = handle.read(_CONFIG_BYTES + 1)
    if len(raw) > _CONFIG_BYTES:
        raise BadConfig(
            f"{path} has more than {_CONFIG_BYTES // 1024} KiB, which no config has; name the "
            "training config."
        )
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadConfig(
            f"{path} is not UTF-8 text (byte {error.start}); save it as UTF-8."
        ) from error


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
