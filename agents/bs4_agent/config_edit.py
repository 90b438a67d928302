"""Changing a training config without losing what a person wrote: comments, order and layout stay,
and the original is never touched.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bs4_common.trainers.settings import BadConfig, parse_document

if TYPE_CHECKING:
    import tomlkit

_NUMBERED = re.compile(r"\.bs4-\d+$")
_MISSING = object()


@dataclass(frozen=True)
class Change:
    """The value of a config key before and after a change. None means that the key is not set."""

    key: str
    before: Any
    after: Any

    def __str__(self) -> str:
        if self.after is None:
            return f"remove {self.key} (was {self.before!r})"
        return f"set {self.key} = {self.after!r}" + (
            f" (was {self.before!r})" if self.before is not None else ""
        )


def edit(
    source: Path, set_values: Mapping[str, Any], unset: Iterable[str] = ()
) -> tuple[Path, list[Change]]:
    """Apply changes to the TOML config `source`, write the result to a new file beside it, and
    return (path of the new file, the changes). `source` itself stays as it is. A key whose value
    stays the same is not among the changes.

    Keys are dotted (`orchestrator.env.0.args.split`; a number selects an entry of an array of
    tables), and missing tables are made. The new file is `NAME.bs4-N.toml` with the next free N;
    beside `source`, relative paths in it (`toml_files`) still hold. Raises BadConfig if a key
    cannot be set or the file cannot be written.
    """
    document = parse_document(source)
    changes = [_set(document, key, value) for key, value in set_values.items()]
    for key in unset:
        if (change := _unset(document, key)) is not None:
            changes.append(change)
    changes = [change for change in changes if change.before != change.after]
    return _write_beside(source, _checked(source, document, set_values)), changes


def _checked(source: Path, document: tomlkit.TOMLDocument, set_values: Mapping[str, Any]) -> str:
    """Return the new text after reading it back. Raises BadConfig if a trainer would not see the
    requested values.
    """
    import tomlkit

    text = tomlkit.dumps(document)
    again = tomlkit.parse(text)
    for key, value in set_values.items():
        if _plain(_find(again, key.split("."))) != value:
            raise BadConfig(
                f"{key} cannot be set to {value!r} in {source} automatically; edit a copy by "
                "hand and launch with it."
            )
    return text


def _set(document: tomlkit.TOMLDocument, key: str, value: Any) -> Change:
    """Set one key and return the change. Raises BadConfig."""
    import tomlkit

    path = _path(key)
    node: Any = document
    for index, name in enumerate(path[:-1]):
        child = _child(node, name)
        if child is _MISSING:
            if isinstance(node, list):
                raise BadConfig(
                    f"{'.'.join(path[: index + 1])} does not exist in the config; add that "
                    "entry by hand."
                )
            # A super table has no header of its own: [ckpt] appears only where a value is put.
            node[name] = tomlkit.table(is_super_table=index < len(path) - 2)
            child = node[name]
        if not isinstance(child, (dict, list)):
            raise BadConfig(
                f"{'.'.join(path[: index + 1])} is a value, not a table, so {key} cannot be "
                "set; edit the config by hand."
            )
        node = child
    before = _child(node, path[-1])
    if isinstance(node, list):
        if before is _MISSING:
            raise BadConfig(f"{key} does not exist in the config; add that entry by hand.")
        node[int(path[-1])] = value
    else:
        node[path[-1]] = value
    return Change(key, None if before is _MISSING else _plain(before), value)


def _unset(document: tomlkit.TOMLDocument, key: str) -> Change | None:
    """Remove one key and return the change, or None if the key is not there."""
    *path, last = _path(key)
    parent = _find(document, path)
    before = _child(parent, last)
    if before is _MISSING:
        return None
    plain = _plain(before)
    del parent[int(last) if isinstance(parent, list) else last]
    return Change(key, plain, None)


def _path(key: str) -> list[str]:
    """Return the parts of a dotted key. Raises BadConfig for an empty part."""
    path = key.split(".")
    if not all(path):
        raise BadConfig(f"{key!r} is no config key; write it as table.key.")
    return path


def _find(node: Any, path: Iterable[str]) -> Any:
    """Return the node at a path, or _MISSING."""
    for name in path:
        node = _child(node, name)
        if node is _MISSING:
            return _MISSING
    return node


def _child(node: Any, name: str) -> Any:
    """Return the child of a node, or _MISSING."""
    if isinstance(node, list):
        if name.isdigit() and int(name) < len(node):
            return node[int(name)]
        return _MISSING
    if isinstance(node, dict) and name in node:
        return node[name]
    return _MISSING


def _plain(value: Any) -> Any:
    """Return a value of tomlkit as a plain Python value."""
    if hasattr(value, "unwrap"):
        return value.unwrap()
    return value


def _write_beside(source: Path, text: str) -> Path:
    """Create the next free `NAME.bs4-N.toml`, completely or not at all, with the source's
    permissions, and return its path.
    """
    stem = _NUMBERED.sub("", source.stem)
    for number in range(1, 10_000):
        target = source.with_name(f"{stem}.bs4-{number}{source.suffix}")
        try:
            descriptor = os.open(
                target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, source.stat().st_mode & 0o777
            )
        except FileExistsError:
            continue
        except OSError as error:
            raise BadConfig(
                f"No file can be written beside {source} ({error.strerror}); put the config "
                "where this user can write."
            ) from error
        try:
            with open(descriptor, "wb") as handle:
                handle.write(text.encode())
                handle.flush()
                os.fsync(handle.fileno())
        except OSError as error:
            target.unlink()
            raise BadConfig(
                f"{target} could not be written ({error.strerror}); free some space on that disk."
            ) from error
        return target
    raise BadConfig(
        f"There are ten thousand edits beside {source}; move the old {stem}.bs4-*.toml files away."
    )
