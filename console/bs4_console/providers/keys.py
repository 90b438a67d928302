"""Finds a provider's key: in the keyring of the system or in our own private file, in the
environment, or in the file of the provider's own program. A key is never an argument of a command.

For a key in the keyring our own file holds a reference, so that a machine whose keyring is locked
says so instead of using another key.

A file that others can read is refused, because anybody who has the key can spend money.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from bs4_console import files, locations, system_keyring
from bs4_console.errors import UsageError
from bs4_console.providers import shapes
from bs4_console.providers.errors import NoKey
from bs4_console.secret import Secret, know

#: By provider, the environment variables of its key in the order of the key's fields. Verda's key
#: is an id and a secret.
VARIABLES: Mapping[str, tuple[str, ...]] = {
    "vast": ("VAST_API_KEY",),
    "runpod": ("RUNPOD_API_KEY",),
    "prime": ("PRIME_API_KEY",),
    "lambda": ("LAMBDA_API_KEY",),
    "verda": ("VERDA_CLIENT_ID", "VERDA_CLIENT_SECRET"),
}


def own_file(provider: str) -> Path:
    """Return the path of the console's own file for the provider's key on this machine. The file
    need not exist.
    """
    return locations.config_dir() / "keys" / provider


#: What our own file holds in place of a key that is in the keyring.
_IN_KEYRING = "keyring:"


@dataclass(frozen=True)
class Kept:
    """Where on this machine a provider's API key was stored. If `keyring` is True, that is the
    keyring of the system. If it is False, it is the file `path`, and `why` is a clause that says
    why the key is not in the keyring, or "" if a person wanted the file.
    """

    keyring: bool
    path: Path
    why: str = ""


def store(provider: str, text: str, *, in_file: bool = False) -> Kept:
    """Save a provider's API key on this machine and return where it is: in the keyring of the
    system if one can be used, or else in the console's own file with mode 0600. With `in_file`, the
    file is used in any case. `text` has one field of the key on each line. Raises UsageError if
    `text` does not have the fields of a key for this provider, or if the keyring does not take it.
    """
    fields = _fields(text)
    wanted = VARIABLES[provider]
    if len(fields) != len(wanted) or any(not _plain(field) for field in fields):
        raise UsageError(
            f"That is no key for {provider}: {len(wanted)} line{'s' * (len(wanted) > 1)} "
            "without spaces expected.",
            f"Give {' and '.join(wanted)} on standard input, each on its line.",
        )
    for field in fields:
        know(field)
    lines = "".join(f"{field}\n" for field in fields)
    path = own_file(provider)
    why = ""
    if not in_file:
        why = system_keyring.why_unusable()
    if in_file or why:
        was_in_keyring = _in_keyring(path)
        files.replace(path, lines.encode())
        if was_in_keyring and not system_keyring.why_unusable():
            system_keyring.forget(provider)
        return Kept(keyring=False, path=path, why=why)
    system_keyring.put(provider, lines)
    files.replace(path, f"{_IN_KEYRING}{system_keyring.SERVICE}/{provider}\n".encode())
    return Kept(keyring=True, path=path)


def _in_keyring(path: Path) -> bool:
    """Return True if our own file refers to the keyring."""
    return (_private(path) or "").startswith(_IN_KEYRING)


def find(
    provider: str, environment: Mapping[str, str] = os.environ, home: Path | None = None
) -> tuple[Secret, ...]:
    """Return the fields of the provider's API key: one secret, or an id and a secret. They come
    from the keyring or the console's own file, from `environment`, or from the files of the
    provider's own programs below `home` (None: the home directory).

    Raises NoKey if no key is found, and UsageError if a key file is readable by other users or
    cannot be understood, or if the keyring does not give a key that is in it.
    """
    names = VARIABLES[provider]
    own = own_file(provider)
    if (text := _private(own)) is not None:
        if text.startswith(_IN_KEYRING):
            text = system_keyring.get(provider)
        found = _fields(text)
        if len(found) != len(names):
            raise UsageError(
                f"{own} does not hold a key for {provider}.",
                f"Store it again: `bs4-console provision key {provider}`.",
            )
        return tuple(map(Secret, found))
    if all(environment.get(name) for name in names):
        return tuple(Secret(environment[name].strip()) for name in names)
    for path, read in _foreign(provider, home or Path.home(), environment):
        if key := read(_private(path) or ""):
            return (Secret(key.strip()),)
    raise NoKey(
        provider,
        "there is no key for it.",
        f"Store one: `bs4-console provision key {provider}` (it is read from standard input).",
    )


def known(environment: Mapping[str, str] = os.environ, home: Path | None = None) -> list[str]:
    """Return the names of the providers for which this machine has an API key, in the console's own
    file, in `environment`, or in the files of the providers' own programs below `home` (None: the
    home directory). The list is empty if there are none. Raises UsageError if a key file is
    readable by other users or cannot be understood.
    """
    found = []
    for provider in VARIABLES:
        with contextlib.suppress(NoKey):
            find(provider, environment, home)
            found.append(provider)
    return found


def _foreign(
    provider: str, home: Path, environment: Mapping[str, str]
) -> list[tuple[Path, Callable[[str], str]]]:
    """Return the files in which the provider's own programs keep the key, each with the function
    that reads the key from the file's text.
    """
    config = Path(environment.get("XDG_CONFIG_HOME") or home / ".config")
    places: dict[str, list[tuple[Path, Callable[[str], str]]]] = {
        "vast": [
            (config / "vastai" / "vast_api_key", str.strip),
            (home / ".vast_api_key", str.strip),
        ],
        "runpod": [(home / ".runpod" / "config.toml", _runpod)],
        "prime": [(home / ".prime" / "config.json", _prime)],
    }
    return places.get(provider, [])


def _runpod(text: str) -> str:
    """Return the API key in RunPod's config file, or "". runpodctl writes `apiKey` or `apikey` at
    the top; the Python library writes `api_key` under a profile.
    """
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return ""
    for table in (document, document.get("default")):
        for name in ("apiKey", "apikey", "api_key"):
            if isinstance(value := shapes.inside(table, name), str):
                return value
    return ""


def _prime(text: str) -> str:
    try:
        return shapes.text(shapes.inside(json.loads(text), "api_key")) or ""
    except ValueError:
        return ""


def _fields(text: str) -> list[str]:
    """Return the lines that are not blank."""
    return [line.strip() for line in text.splitlines() if line.strip()]


def _private(path: Path) -> str | None:
    """Return the text of a private file, or None if there is no file. Raises UsageError if others
    can read it.
    """
    try:
        with path.open("rb") as handle:
            if stat.S_IMODE(os.fstat(handle.fileno()).st_mode) & 0o077:
                raise UsageError(
                    f"{path} can be read by others, and it holds a key that spends money.",
                    f"Run `chmod 600 {path}`.",
                )
            return handle.read(64 << 10).decode("utf-8", "replace")
    except (FileNotFoundError, NotADirectoryError):
        return None


def _plain(text: str) -> bool:
    return text.isascii() and text.isprintable() and " " not in text and 8 <= len(text) <= 500
