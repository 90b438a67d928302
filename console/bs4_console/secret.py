"""Text that must never be shown, and the registry of such texts. Each place at which text leaves
the console replaces them by it.
"""

from __future__ import annotations

import base64
import json
import os
import re
import urllib.parse
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from bs4_agent.credentials.forms import is_secret
from bs4_agent.credentials.redaction import Redactor

#: A shorter text is part of too many others to be replaced wherever it stands.
_SHORTEST = 8


class _Registry:
    """The values that this process was given and that must not leave it, with their encoded forms.
    They are held in memory only.
    """

    def __init__(self) -> None:
        self._forms: set[str] = set()
        self._pattern: re.Pattern[str] | None = None

    def add(self, value: str) -> None:
        """Add a secret value. One that is shorter than 8 characters is left out."""
        for line in value.splitlines():
            if len(line.strip()) >= _SHORTEST:
                self._forms |= _forms(line.strip())
        if self._forms:
            longest_first = sorted(self._forms, key=len, reverse=True)
            self._pattern = re.compile("|".join(map(re.escape, longest_first)))

    def replace(self, text: str, instead: Callable[[str, str], str]) -> str:
        """Return the text in which each known value is what `instead` returns for it."""
        if self._pattern is None or not any(form in text for form in self._forms):
            return text
        return self._pattern.sub(lambda found: instead(found[0], "a key of this console"), text)


def _forms(value: str) -> set[str]:
    """Return the forms in which a value may stand in a text: as it is, escaped for JSON and URLs,
    and the part of its base64 that is the same whatever stands around it.
    """
    raw = value.encode()
    found = {value, json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]}
    found |= {urllib.parse.quote(value, safe=""), urllib.parse.quote(value)}
    # Logs are read as Latin-1, so that every byte stays what it is.
    found |= {urllib.parse.quote_plus(value), raw.decode("latin-1")}
    for shift in range(3):
        encoded = base64.b64encode(b"\0" * shift + raw).decode()
        begin = 0
        if shift:
            begin = 4
        encoded = encoded[begin:-4]
        if len(encoded) >= _SHORTEST:
            found |= {encoded, encoded.replace("+", "-").replace("/", "_")}
    return found


_REGISTRY = _Registry()
know = _REGISTRY.add


def know_environment(environment: Mapping[str, str] = os.environ) -> None:
    """Add to the list of texts that this process never shows the values of those variables in
    `environment` whose names are those of secrets, such as an API key.
    """
    for name, value in environment.items():
        if is_secret(name, value):
            know(value)


def redactor() -> Redactor:
    """Return a new redactor for a text that comes in pieces. It replaces the secrets that this
    process was given, and everything that has the form of a credential.
    """
    return Redactor(_REGISTRY.replace)


def redacted(text: str) -> str:
    """Return the text in which the secrets that this process was given, and everything that has the
    form of a credential, are replaced.
    """
    whole = redactor()
    return whole.feed(text) + whole.end()


def redacted_values(value: Any) -> Any:
    """Return a JSON value in which every text, at any depth and also as a key, has its secrets
    replaced (see `redacted`).
    """
    if isinstance(value, str):
        return redacted(value)
    if isinstance(value, list | tuple):
        return [redacted_values(item) for item in value]
    if isinstance(value, dict):
        return {redacted_values(key): redacted_values(item) for key, item in value.items()}
    return value


@dataclass(frozen=True)
class Secret:
    """A secret text, such as an API key. `str` and `repr` do not show it, and it is replaced in
    everything that this process prints, logs or saves as a report. Call `reveal` only at the place
    that needs the text.
    """

    _text: str = field(repr=False)

    def __post_init__(self) -> None:
        know(self._text)

    def __str__(self) -> str:
        return "(hidden)"

    def reveal(self) -> str:
        """Return the hidden text."""
        return self._text
