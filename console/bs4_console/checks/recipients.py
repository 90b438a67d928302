"""The receivers of the notices of `check --watch`: webhooks, ntfy, healthchecks and, with the
extra, apprise. They are configured in one private file.

The addresses of such services are passwords, because whoever has an address can post. So they come
from a file that only its owner can read, or from the environment. They appear in no argument list,
message or error. A channel is called by its name.
"""

from __future__ import annotations

import os
import stat
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypedDict, cast
from urllib.parse import urlsplit

from bs4_console import locations
from bs4_console.checks.verdict import CRITICAL, UNKNOWN, WARNING, rank, worse
from bs4_console.errors import UsageError
from bs4_console.secret import Secret

KINDS = ("webhook", "ntfy", "healthchecks", "apprise")
LEVELS = {"WARNING": WARNING, "UNKNOWN": UNKNOWN, "CRITICAL": CRITICAL}
_KEYS = ("kind", "name", "url", "url_env", "token", "token_env", "min", "fail")


ChannelKind = Literal["webhook", "ntfy", "apprise", "healthchecks"]


class NotifyTables(TypedDict, total=False):
    """What notify.toml holds: a table for each receiver, and the budgets by period. The values are
    not checked yet.
    """

    notify: Sequence[Mapping[str, Any]]
    budget: Mapping[str, Any]


@dataclass(frozen=True)
class Channel:
    """One receiver of notices, as a table of notify.toml describes it. `kind` is "webhook", "ntfy",
    "apprise" or "healthchecks", and `name` its name for people. `url` is its address and `token`
    its password (None if it needs none). `least` is the mildest level (0 OK, 1 WARNING, 2 CRITICAL,
    3 UNKNOWN) of which it wants notices. `fail` is for the kind healthchecks: the channel is pinged
    at /fail below its address while something is critical.
    """

    kind: ChannelKind
    name: str
    url: Secret
    token: Secret | None = None
    least: int = WARNING
    fail: bool = False

    def wants(self, level: int, was: int) -> bool:
        """Return True if the channel receives a notice of a change from level `was` to level
        `level` (0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN). The worse of the two is compared with the
        channel's `least`, so that a channel that got the notice of a trouble also gets that of the
        recovery. Always False for a channel of the kind healthchecks, which receives only pings.
        """
        graver = max(was, level, key=rank)
        return self.kind != "healthchecks" and not worse(self.least, graver)


def channels(
    path: Path | None = None, environment: Mapping[str, str] = os.environ
) -> tuple[Channel, ...]:
    """Return the channels that `path` describes, by default notify.toml in the console's
    configuration directory. Return an empty tuple if there is no such file. `environment` has the
    variables that the file may name for addresses and tokens. Raises UsageError, whose message
    never shows an address or a token, if the file can be read by others, cannot be read, or is
    wrong.
    """
    path, document = read(path)
    entries = enumerate(document.get("notify", ()), 1)
    found = tuple(_channel(path, number, entry, environment) for number, entry in entries)
    names = [channel.name for channel in found]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise UsageError(f"{path} has two channels named {twice[0]}.", "Give each its own `name`.")
    return found


def read(path: Path | None = None) -> tuple[Path, NotifyTables]:
    """Return the path of notify.toml, by default that in the console's configuration directory, and
    its tables: none if there is no such file. Raises UsageError, which quotes nothing of it, if it
    can be read by others, cannot be read, is no TOML, or holds something else.
    """
    path = path or locations.config_dir() / "notify.toml"
    try:
        with path.open("rb") as handle:
            mode = os.fstat(handle.fileno()).st_mode
            if stat.S_IMODE(mode) & 0o077:
                raise UsageError(
                    f"{path} can be read by others, and it holds secrets.",
                    f"Run `chmod 600 {path}`.",
                )
            document = tomllib.load(handle)
    except FileNotFoundError:
        return path, {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        # The parser's message names a place, and may quote the text there.
        raise UsageError(
            f"{path} is not valid TOML{_line_of(error)}.",
            "Correct it; docs/check.md shows an example.",
        ) from None
    except OSError as error:
        raise UsageError(
            f"{path} cannot be read: {error.strerror}.",
            "Make it readable for you alone (`chmod 600`).",
        ) from None
    entries = document.get("notify", [])
    if (
        set(document) - {"notify", "budget"}
        or not isinstance(document.get("budget", {}), dict)
        or not isinstance(entries, list)
        or not all(isinstance(entry, dict) for entry in entries)
    ):
        raise UsageError(
            f"{path} holds something else than [[notify]] tables and a [budget].",
            "docs/check.md shows an example.",
        )
    return path, cast(NotifyTables, document)


def _line_of(error: Exception) -> str:
    """Return " at line N ..." for a parser's error, or ""."""
    _, _, place = str(error).rpartition("(at ")
    if place.startswith("line "):
        return f" at {place.rstrip(')')}"
    return ""


def _channel(
    path: Path, number: int, entry: Mapping[str, Any], environment: Mapping[str, str]
) -> Channel:
    """Return the channel that one table of the file describes. Raises UsageError if the table is
    wrong.
    """
    where = f"{path}, table {number}"
    if unknown := sorted(set(entry) - set(_KEYS)):
        raise UsageError(
            f"{where} has a key {unknown[0]!r} that means nothing.",
            f"It may have {', '.join(_KEYS)}.",
        )
    kind = entry.get("kind")
    if kind not in KINDS:
        raise UsageError(f"{where} has no `kind` that is known.", f"Choose {', '.join(KINDS)}.")
    name = entry.get("name", kind)
    fail = entry.get("fail", False)
    least = entry.get("min", "WARNING")
    if not isinstance(name, str) or not name or not isinstance(fail, bool) or least not in LEVELS:
        raise UsageError(
            f"{where} has a `name`, `min` or `fail` of the wrong type.",
            f"`min` is one of {', '.join(LEVELS)}; `fail` a boolean.",
        )
    url = _secret(where, entry, "url", environment)
    if url is None:
        raise UsageError(
            f"{where} has no address.",
            "Add `url`, or `url_env` with the name of an environment variable that holds it.",
        )
    if kind != "apprise" and not _is_web(url):
        raise UsageError(f"{where} has an address that is no http(s) URL.", "Correct its `url`.")
    return Channel(
        kind, name, url, _secret(where, entry, "token", environment), LEVELS[least], fail
    )


def _secret(
    where: str, entry: Mapping[str, Any], key: str, environment: Mapping[str, str]
) -> Secret | None:
    """Return the secret under `key`, or from the environment variable named under `key` + "_env".
    None if neither is given. Raises UsageError if the entry is wrong.
    """
    value, variable = entry.get(key), entry.get(f"{key}_env")
    if value is not None and variable is not None:
        raise UsageError(f"{where} has both `{key}` and `{key}_env`.", "Keep one of them.")
    if variable is not None:
        if not isinstance(variable, str) or not environment.get(variable):
            raise UsageError(
                f"{where} takes its {key} from an environment variable that is not set.",
                f"Set the one that `{key}_env` names.",
            )
        value = environment[variable]
    if value is None:
        return None
    if (
        not isinstance(value, str)
        or not value.strip()
        or any(ord(character) < 32 for character in value)
    ):
        raise UsageError(f"{where} has a `{key}` that is no plain text.", "Correct it.")
    return Secret(value.strip())


def _is_web(url: Secret) -> bool:
    """Return True if the address is an http or https URL with a host."""
    try:
        parts = urlsplit(url.reveal())
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
