"""Secrets on their way from a person to a pod: read from standard input, sent as a frame's payload,
shown and kept nowhere.

Names are those of the files people have: NAME=value lines, as in a .env file, `export` and quotes
allowed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from bs4_console.errors import UsageError

#: Variable -> the credential it belongs to, and the field there. The first names of a field are the
#: usual ones.
VARIABLES: Mapping[str, tuple[str, str]] = {
    "WANDB_API_KEY": ("wandb", "key"),
    "HF_TOKEN": ("huggingface", "token"),
    "HUGGING_FACE_HUB_TOKEN": ("huggingface", "token"),
    "B2_APPLICATION_KEY_ID": ("b2", "key_id"),
    "B2_APPLICATION_KEY": ("b2", "key"),
}
_FIELDS: Mapping[str, tuple[str, ...]] = {
    "wandb": ("key",),
    "huggingface": ("token",),
    "b2": ("key_id", "key"),
}


class Credentials:
    """Which credentials there are may be shown; their values leave only as `payload`."""

    def __init__(self, values: Mapping[str, Mapping[str, str]] | None = None) -> None:
        self._values = {name: dict(fields) for name, fields in (values or {}).items()}

    def __repr__(self) -> str:
        return f"Credentials({', '.join(self.names) or 'none'})"

    def __bool__(self) -> bool:
        return bool(self._values)

    @property
    def names(self) -> list[str]:
        return sorted(self._values)

    def payload(self) -> bytes:
        """What goes to the agent beside the action, b"" for nothing."""
        if self._values:
            return json.dumps(self._values).encode()
        return b""


def read(lines: Iterable[str]) -> Credentials:
    """From NAME=value lines; other names are left alone. UsageError never repeats a value."""
    found: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        name, equals, value = text.removeprefix("export ").partition("=")
        if not equals:
            raise UsageError(
                f"Line {number} of the credentials is no NAME=value.",
                f"Give {', '.join(VARIABLES)}, each on its line.",
            )
        if name.strip() in VARIABLES:
            found[name.strip()] = _unquoted(value.strip())
    if not found:
        raise UsageError(
            "The credentials hold none of the names that are known.",
            f"Give {', '.join(VARIABLES)}, each on its line.",
        )
    return collect(found)


def collect(found: Mapping[str, str]) -> Credentials:
    """From values by variable; empty ones do not count. UsageError for half a credential, and for a
    value that no file would take.
    """
    values: dict[str, dict[str, str]] = {}
    for variable, value in found.items():
        if not value:
            continue
        if (
            not value.isascii()
            or not value.isprintable()
            or " " in value
            or not 4 <= len(value) <= 500
        ):
            raise UsageError(
                f"The value of {variable} holds spaces or control characters, or is too "
                "short or long.",
                "Copy it again.",
            )
        name, field = VARIABLES[variable]
        values.setdefault(name, {})[field] = value
    for name, fields in values.items():
        if lacking := [field for field in _FIELDS[name] if field not in fields]:
            variables = [
                variable
                for variable, (owner, field) in VARIABLES.items()
                if owner == name and field in lacking
            ]
            raise UsageError(
                f"The credential {name} is only half there.", f"Give {' and '.join(variables)} too."
            )
    return Credentials(values)


def _unquoted(value: str) -> str:
    if len(value) >= 2 and value[0] == value[-1] and value[0] in "\"'":
        return value[1:-1]
    return value
