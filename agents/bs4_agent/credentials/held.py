"""The secrets that this pod holds: what was put into its files and environment, by whomever. What
leaves the pod as a copy, and what is journalled, is redacted with their values.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bs4_agent.paths import Home
from bs4_agent.setup.credentials import place
from bs4_common.credentials.forms import is_secret
from bs4_common.credentials.known import KnownValues
from bs4_common.credentials.redaction import (
    Redactor,
    redacted_bytes,
    redacted_values,
    secrets_among,
)
from bs4_common.foreign_json import ForeignJsonError, loads

#: Bytes of a file with credentials that are read. Such files have a few hundred.
_READ_BYTES = 1 << 16
#: Like the names of fields, events and kinds of steps, or a tokenizer's `endoftext`.
_WORD = re.compile(r"[a-z_-]+")
_PASSWORD = re.compile(r"\bpassword\s+(\S+)")


class HeldSecrets:
    """The values of the secrets that the pod of one agent holds. They are in memory only, and each
    file is read again after it has changed. This object may be used from any thread.

    The values are each password in ~/.netrc, Hugging Face's token file, the credentials below the
    agent's home, those variables of the agent's own environment that have the names of secrets, and
    what was added by `learn` and `learn_words`.
    """

    def __init__(self, home: Home, environment: Mapping[str, str] = os.environ) -> None:
        self._home = home
        self._known = KnownValues("a secret of this pod")
        self._lock = threading.Lock()
        self._read: dict[Path, tuple[int, int]] = {}
        self.learn(environment)

    def learn(self, environment: Mapping[str, str]) -> None:
        """Add the values of those environment variables that have the name of a secret, such as
        `WANDB_API_KEY`, to the known secrets. `environment` has the variables as {name: value}.
        """
        with self._lock:
            for name, value in environment.items():
                if is_secret(name, value):
                    self._known.add(value)

    def learn_words(self, words: Sequence[str]) -> None:
        """Add the secrets in the command line `words` to the known ones: the values of options and
        assignments with the name of a secret, such as `--api-key VALUE`. A value of small letters,
        `-` and `_` only is left out, because such an ordinary word stands in many other places
        where it is no secret.
        """
        with self._lock:
            for value in secrets_among(words):
                if _WORD.fullmatch(value) is None:
                    self._known.add(value)

    def redactor(self, *, same_length: bool = False) -> Redactor:
        """Return a new Redactor, an object that replaces the secrets in one text. It knows the
        secrets that the pod holds now. With `same_length`, what replaces a secret is as long as the
        secret.
        """
        with self._lock:
            self._look()
        return Redactor(self._known.replace, same_length=same_length)

    def redacted_bytes(self, data: bytes, before: bytes = b"") -> bytes:
        """Return a copy of `data` in which the secrets are replaced; the copy is as long as `data`.
        `before` are the whole lines that stand before `data`, by which it is known if `data` begins
        inside a private key.
        """
        redactor = self.redactor(same_length=True)
        redactor.begin_after(before.decode("latin-1"))
        return redacted_bytes(data, redactor)

    def redacted_values(self, value: Any) -> Any:
        """Return a copy of a JSON value in which the secrets are replaced. The names (keys) in its
        objects are not changed.

        If a command line in it shows a value under the name of a secret, this value is added to the
        known secrets, because it may stand a second time in the text of a command.
        """
        for words in _texts(value):
            self.learn_words(words)
        with self._lock:
            self._look()
        return redacted_values(value, lambda: Redactor(self._known.replace), names=False)

    def _look(self) -> None:
        """Read the files that have changed since the last look."""
        files: dict[Path, Callable[[str], Sequence[str]]] = {
            place("wandb", self._home): _PASSWORD.findall,
            place("huggingface", self._home): str.split,
            place("b2", self._home): _fields,
        }
        incoming = self._home.credentials / "incoming"
        if incoming.is_dir():
            for path in incoming.glob("*.json"):
                files[path] = _fields
        for path, values in files.items():
            for value in values(self._changed(path)):
                self._known.add(value)

    def _changed(self, path: Path) -> str:
        """Return the text of a file, or "" if it did not change, is gone, or may not be read."""
        try:
            stat = path.stat()
            version = (stat.st_mtime_ns, stat.st_size)
            if self._read.get(path) == version:
                return ""
            with path.open("rb") as handle:
                data = handle.read(_READ_BYTES)
        except OSError:
            return ""  # what the agent may not read, it cannot have copied either
        self._read[path] = version
        return data.decode("utf-8", "replace")


def _texts(value: Any) -> Iterator[Sequence[str]]:
    """Yield each list in a JSON value that holds only texts, as command lines do."""
    if isinstance(value, Mapping):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, list | tuple):
        if all(isinstance(item, str) for item in value):
            yield value
        else:
            for item in value:
                yield from _texts(item)


def _fields(text: str) -> Sequence[str]:
    """Return the texts in a JSON object and in the objects in it. Empty if it is no JSON object."""
    try:
        found = loads(text) if text else {}
    except ForeignJsonError:
        return []
    if not isinstance(found, dict):
        return []
    texts = []
    for value in found.values():
        if isinstance(value, dict):
            texts += [text for text in value.values() if isinstance(text, str)]
        elif isinstance(value, str):
            texts.append(value)
    return texts
