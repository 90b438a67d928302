"""Changes a run's config file by dotted keys. Comments and order stay, and the old bytes are kept
before the new ones take their place.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypedDict

from bs4_agent.tree.copies import copy
from bs4_common.descriptors import at, open_directory, open_file, real
from bs4_common.digest import sha256
from bs4_common.errors import NotApplicable, Refused, StepFailed
from bs4_common.files import read_regular


def read(path: Path) -> bytes:
    """Return the bytes of the config file at `path`. Raises NotApplicable if it cannot be read."""
    try:
        return read_regular(path)
    except OSError as error:
        raise NotApplicable(
            f"{path} cannot be read ({error.strerror}); correct the config by hand."
        ) from error


def fingerprint(raw: bytes) -> str:
    """Return the SHA-256 digest of the bytes of a config file, in hexadecimal digits."""
    return sha256(raw).hexdigest()


class Change(TypedDict):
    """One key of a config file that an edit changes. `key` is dotted. `before` and `after` are its
    values; `before` is None if the key was not there, and `after` is None if the key is removed.
    """

    key: str
    before: Any
    after: Any


def edited(
    raw: bytes, values: Mapping[str, str | float | bool], gone: Sequence[str]
) -> tuple[bytes, list[Change]]:
    """Set and remove keys in the TOML config `raw`. Return two things: the new bytes, and a list
    with an entry for each key that really changes. If nothing changes, the bytes are `raw` and the
    list is empty.

    `values` maps dotted keys to the values that they get, and `gone` has the dotted keys to remove.
    Raises NotApplicable if the config is no TOML file, or has another value where a table is
    expected.
    """
    import tomlkit  # imported here, because the agent needs it only for this step
    from tomlkit.exceptions import ParseError, TOMLKitError

    try:
        document = tomlkit.parse(raw.decode())
    except (ParseError, UnicodeDecodeError) as error:
        raise NotApplicable(f"The config is no TOML file ({error}); correct it by hand.") from error
    changes: list[Change] = []
    try:
        for key, value in values.items():
            table, last = _table(document, key, make=True)
            before = table.get(last)
            if before != value or type(before) is bool is not type(value) is bool:
                table[last] = value
                changes.append({"key": key, "before": _plain(before), "after": value})
        for key in gone:
            table, last = _table(document, key, make=False)
            if table is not None and last in table:
                changes.append({"key": key, "before": _plain(table[last]), "after": None})
                del table[last]
    except (TOMLKitError, TypeError, AttributeError) as error:
        raise NotApplicable(
            f"The config has something else where a table is expected ({error}); correct it "
            "by hand."
        ) from error
    return tomlkit.dumps(document).encode() if changes else raw, changes


def _table(document: Any, dotted: str, *, make: bool) -> tuple[Any, str]:
    """Return the table that holds the last part of the key `dotted`, and that part. The table is
    None if it does not exist and `make` is False.
    """
    import tomlkit

    *parents, last = dotted.split(".")
    table = document
    for part in parents:
        if part not in table:
            if not make:
                return None, last
            table[part] = tomlkit.table()
        table = table[part]
    return table, last


def _plain(value: Any) -> Any:
    """Return the value without tomlkit's wrapper."""
    if hasattr(value, "unwrap"):
        return value.unwrap()
    return value


def replace(path: Path, new: bytes, kept: Path) -> None:
    """Copy the file `path` to `kept`, unless a copy is there already, and then replace its content
    by `new`. A reader sees either the old content or the new one, and a repeated call changes
    nothing more.

    Raises Refused if `path` is a symbolic link, and StepFailed if the file system reports an error.
    """
    if path.is_symlink():
        raise Refused(f"{path} is a link; change the file that it points to by hand.")
    place = real(path)
    try:
        with (
            open_file(place) as old,
            open_directory(place.parent) as directory,
            open_directory(kept.parent, ours=kept.parent, make=0o700) as trash,
        ):
            if not kept.exists():
                _keep(old, trash, kept.name)
            _write(directory, place.name, new, stat.S_IMODE(os.fstat(old).st_mode))
    except OSError as error:
        raise StepFailed(
            f"{path} could not be changed ({error.strerror}); its old content is unchanged. "
            "Correct that, then try again."
        ) from error


def _keep(old: int, trash: int, name: str) -> None:
    """Save the content of the open file `old` as `name` in the open directory `trash`: as a second
    hard link, or as a copy if the file system has no hard links.
    """
    try:
        os.link(at(old), name, dst_dir_fd=trash, follow_symlinks=True)
    except OSError:
        if copy(old, trash, name) is None:
            raise StepFailed("The config changes while it is copied; try again.") from None
    os.fsync(trash)


def _write(directory: int, name: str, data: bytes, mode: int) -> None:
    """Replace the file `name` in the open directory by one with these bytes and permissions, and
    sync both to disk.
    """
    temporary = f".{name}.bs4.tmp"
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with os.fdopen(os.open(temporary, flags, 0o600, dir_fd=directory), "wb") as out:
            os.fchmod(out.fileno(), mode)
            out.write(data)
            out.flush()
            os.fsync(out.fileno())
        os.replace(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
    except OSError:
        with suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=directory)
        raise
    os.fsync(directory)
