"""Credentials on their way from a person to a pod. They are read from standard input and sent as a
frame's payload, and are never shown or stored.

The names are those of the files that people have: NAME=value lines as in a .env file, with `export`
and quotes allowed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from bs4_console.errors import UsageError
from bs4_console.secret import know

#: By variable, the credential that it belongs to and its field there. A field's first variable is
#: its usual name.
VARIABLES: Mapping[str, tuple[str, str]] = {
    "WANDB_API_KEY": ("wandb", "key"),
    "HF_TOKEN": ("huggingface", "token"),
    "HUGGING_FACE_HUB_TOKEN": ("huggingface", "token"),
    "B2_APPLICATION_KEY_ID": ("b2", "key_id"),
    "B2_APPLICATION_KEY": ("b2", "key"),
}


class Credentials:
    """The keys of services (W&B, Hugging Face, Backblaze B2) that a pod is to get. The names of the
    services may be shown. The values can be read only through `payload`.
    """

    def __init__(self, values: Mapping[str, Mapping[str, str]] | None = None) -> None:
        self._values = {name: dict(fields) for name, fields in (values or {}).items()}

    def __repr__(self) -> str:
        return f"Credentials({', '.join(self.names) or 'none'})"

    def __bool__(self) -> bool:
        return bool(self._values)

    @property
    def names(self) -> list[str]:
        """Return the names of the services for which there is a key, such as "wandb", sorted."""
        return sorted(self._values)

    def payload(self) -> bytes:
        """Return the keys as JSON bytes, in the form in which they are sent to the agent together
        with a set-up, or b"" if there are none.
        """
        if self._values:
            return json.dumps(self._values).encode()
        return b""


def read(lines: Iterable[str]) -> Credentials:
    """Return the credentials in lines of the form NAME=value, where NAME is that of an environment
    variable such as WANDB_API_KEY. Empty lines, comments, and names that are not known are ignored.
    Raises UsageError if a line has another form, if no known name is found, if a service needs two
    variables and one is missing, or if a value cannot be a key (see `collect`). No message contains
    a value.
    """
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
    """Return the credentials in `found`, which maps names of environment variables, such as
    WANDB_API_KEY, to values. Empty values are ignored. Raises UsageError if a service needs two
    variables and one is missing, or if a value has spaces or is shorter than 4 or longer than 500
    characters.
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
        know(value)
        name, field = VARIABLES[variable]
        values.setdefault(name, {})[field] = value
    for name, fields in values.items():
        lacking = [
            variable
            for variable, (owner, field) in VARIABLES.items()
            if owner == name and field not in fields
        ]
        if lacking:
            raise UsageError(
                f"The credential {name} is only half there.", f"Give {' and '.join(lacking)} too."
            )
    return Credentials(values)


def _unquoted(value: str) -> str:
    if len(value) >= 2 and value[0] == value[-1] and value[0] in "\"'":
        return value[1:-1]
    return value
