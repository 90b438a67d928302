"""Reads the JSON that a provider's API answered. Each function raises a typed error if the JSON is
not what the API promises.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

from bs4_console.providers.errors import BadAnswer

_ID = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}")


def rows(provider: str, data: Any, key: str | None = None) -> list[dict[str, Any]]:
    """Return the objects of a list, or of the list at `key`. Raises BadAnswer if there is no list
    of objects: an empty list instead would say "nothing exists".
    """
    if key is not None and isinstance(data, dict):
        found = data.get(key)
    else:
        found = data
    if not isinstance(found, list) or not all(isinstance(row, dict) for row in found):
        where = f"no list `{key}`" if key else "no list"
        raise BadAnswer(
            provider,
            f"its answer holds {where}.",
            "Its API may have changed; look at the provider's page.",
        )
    return found


def table(provider: str, data: Any, key: str | None = None) -> dict[str, Any]:
    """Return a JSON object, or the object at `key`. Raises BadAnswer if there is none."""
    if key is not None and isinstance(data, dict):
        found = data.get(key)
    else:
        found = data
    if not isinstance(found, dict):
        where = f"no object `{key}`" if key else "no object"
        raise BadAnswer(
            provider,
            f"its answer holds {where}.",
            "Its API may have changed; look at the provider's page.",
        )
    return found


def identity(provider: str, row: dict[str, Any], key: str = "id") -> str:
    """Return the id at `key` as text; some providers use numbers. Raises BadAnswer if it has other
    characters than letters, digits, `-`, `_` and `.`, because it becomes part of a path.
    """
    value = row.get(key)
    text = ""
    if isinstance(value, (str, int)) and not isinstance(value, bool):
        text = str(value)
    if not _ID.fullmatch(text):
        raise BadAnswer(
            provider, f"one of its machines has no usable `{key}`.", "Look at the provider's page."
        )
    return text


def text(value: Any) -> str | None:
    """Return a string that is not empty, or None for any other value."""
    if isinstance(value, str) and value:
        return value
    return None


def moment(value: Any) -> float | None:
    """Return an ISO 8601 time or a number of wall seconds as wall seconds. Return None for any
    other value.
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
