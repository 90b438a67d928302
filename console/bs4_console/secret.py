"""Text that must never be shown, and the registry of such texts. Each place at which text leaves
the console replaces them by it.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bs4_common.credentials import redaction
from bs4_common.credentials.forms import is_secret
from bs4_common.credentials.known import KnownValues
from bs4_common.credentials.redaction import LOOK_BACK_BYTES as LOOK_BACK_BYTES

#: The values that this process was given and that must not leave it.
_REGISTRY = KnownValues("a key of this console")
know = _REGISTRY.add
#: The longest text, in characters, whose redacted form is remembered.
_SHORT = 200


def know_environment(environment: Mapping[str, str] = os.environ) -> None:
    """Register the values of the secrets in `environment`, variables with names such as
    WANDB_API_KEY, so that this process never shows them.
    """
    for name, value in environment.items():
        if is_secret(name, value):
            know(value)


def know_words(words: Sequence[str]) -> None:
    """Add secrets to the texts that this process never shows. `words` is a command line; its
    secrets are the values that follow an option or a name of a secret, such as --api-key.
    """
    for value in redaction.secrets_among(words):
        know(value)


def redactor() -> redaction.Redactor:
    """Return a new redactor, for a text that comes in pieces. It replaces the secrets that this
    process knows (see `know_environment`, `know_words` and `Secret`), and everything that has the
    form of a credential.
    """
    return redaction.Redactor(_REGISTRY.replace, begun=_REGISTRY.begun)


def redacted(text: str) -> str:
    """Return `text` with its secrets replaced: those that this process knows (see
    `know_environment`, `know_words` and `Secret`), and everything that has the form of a
    credential.
    """
    if len(text) <= _SHORT:
        return _redacted_short(text, _REGISTRY.version)
    whole = redactor()
    return whole.feed(text) + whole.end()


@functools.lru_cache(maxsize=4096)
def _redacted_short(text: str, _version: int) -> str:
    """Return a short text redacted. A screen draws the same words many times a second. `_version`
    is that of the known secrets, so that a new secret is looked for in every text.
    """
    whole = redactor()
    return whole.feed(text) + whole.end()


def redacted_bytes(data: bytes) -> bytes:
    """Return a copy of `data`, a part of a log, in which secrets are replaced. The copy has the
    same number of bytes.
    """
    return redaction.redacted_bytes(data, redaction.Redactor(_REGISTRY.replace, same_length=True))


def redacted_values(value: Any) -> Any:
    """Return a copy of a JSON value in which secrets are replaced, in keys too. The value under a
    key that is the name of a secret is replaced as well, and so is each line of a private key.
    """
    return redaction.redacted_values(value, redactor)


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
