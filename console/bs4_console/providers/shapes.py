"""Reads the JSON that a provider's API answered. Each function raises a typed error if the JSON is
not what the API promises.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from bs4_console.providers.base import number
from bs4_console.providers.errors import BadAnswer

_ID = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}")


@dataclass(frozen=True)
class Row:
    """One JSON object of a provider's answer. Nobody has checked its `fields`, which are those that
    the provider happens to send.
    """

    fields: Mapping[str, Any]

    def get(self, key: str) -> Any:
        """Return the value of a field, or None if it is not there."""
        return self.fields.get(key)

    def text(self, key: str) -> str | None:
        """Return the value of a field if it is a string that is not empty, else None."""
        return text(self.get(key))

    def number(self, key: str) -> float | None:
        """Return the value of a field as a float if it is a number or a string with one, else
        None.
        """
        return number(self.get(key))

    def moment(self, key: str) -> float | None:
        """Return the value of a field as a Unix time in seconds if it is a time, else None."""
        return moment(self.get(key))


def rows(provider: str, data: Any, key: str | None = None) -> list[Row]:
    """Return the list of JSON objects in `data`, or in the field `key` of `data`. Raises BadAnswer,
    which names `provider`, if that is not a list of objects. An empty list instead would wrongly
    mean that nothing exists.
    """
    found = _at(data, key)
    if not isinstance(found, list) or not all(isinstance(row, dict) for row in found):
        raise _without(provider, "list", key)
    return [Row(row) for row in found]


def table(provider: str, data: Any, key: str | None = None) -> Row:
    """Return the JSON object `data`, or the object in the field `key` of `data`. Raises BadAnswer,
    which names `provider`, if that is not an object.
    """
    found = _at(data, key)
    if not isinstance(found, dict):
        raise _without(provider, "object", key)
    return Row(found)


def _at(data: Any, key: str | None) -> Any:
    """Return the value at `key`, or `data` itself if there is no key or `data` is no object."""
    if key is not None and isinstance(data, dict | Row):
        return data.get(key)
    return data


def _without(provider: str, kind: str, key: str | None) -> BadAnswer:
    """Return the error for an answer that holds no list or no object (at `key`)."""
    what = f"no {kind} `{key}`" if key else f"no {kind}"
    return BadAnswer(
        provider,
        f"its answer holds {what}.",
        "Its API may have changed; look at the provider's page.",
    )


def inside(data: Any, key: str) -> Any:
    """Return the value of the field `key` of a JSON object. Return None if `data` is not an object
    or does not have the field.
    """
    if isinstance(data, dict):
        return data.get(key)
    return None


def identity(provider: str, value: object, key: str = "id") -> str:
    """Return the id `value`, which a provider has sent as text or as a number, as text. Raises
    BadAnswer if it has other characters than letters, digits, `-`, `_` and `.`, because it becomes
    part of a request's path. `key` is the name of the field from which it comes, for the message.
    """
    text = ""
    if isinstance(value, (str, int)) and not isinstance(value, bool):
        text = str(value)
    if not _ID.fullmatch(text):
        raise BadAnswer(
            provider, f"one of its machines has no usable `{key}`.", "Look at the provider's page."
        )
    return text


def text(value: Any) -> str | None:
    """Return the value if it is a string that is not empty, else None."""
    if isinstance(value, str) and value:
        return value
    return None


def same_key(known: Any, wanted: str) -> bool:
    """Return True if `known` and `wanted` are the same SSH public key: the same type and data.
    Their comments may differ.
    """
    return isinstance(known, str) and known.split()[:2] == wanted.split()[:2]


def with_key(found: Sequence[Row], field: str, public_key: str) -> Row | None:
    """Return the first of the objects whose field `field` holds this SSH public key, or None if no
    object does.
    """
    for row in found:
        if same_key(row.get(field), public_key):
            return row
    return None


def moment(value: Any) -> float | None:
    """Return a Unix time in seconds. `value` is an ISO 8601 text or already a Unix time in seconds;
    for any other value the result is None.
    """
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, str):
        return None
    try:
        found = datetime.fromisoformat(value)
    except ValueError:
        return None
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
