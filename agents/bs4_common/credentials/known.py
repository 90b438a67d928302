"""Values that are known to be secret, with the forms in which a text may hold them."""

from __future__ import annotations

import base64
import json
import re
import threading
import urllib.parse
from collections.abc import Callable

#: A shorter text is part of too many others to be replaced wherever it stands.
_SHORTEST = 8
#: A form of this kind is one word. The end of a text that may be its beginning is easily seen.
_WORD = re.compile(r"[A-Za-z0-9_+/=.~-]+")


class KnownValues:
    """Secret values that are known, each also in the encoded forms in which a text may hold it.
    They are kept in memory only. `kind` says in words what the values are, such as "a key of this
    console"; it is shown in the text that replaces one.
    """

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._forms: set[str] = set()
        self._pattern: re.Pattern[str] | None = None
        self._phrases: tuple[str, ...] = ()
        """Those of the forms that are not one word, because they have blanks, for example."""
        self._adding = threading.Lock()
        self.version = 0
        """It becomes larger whenever a value is added."""

    def add(self, value: str) -> None:
        """Add a secret value. If it has several lines, each line is added. A line that is shorter
        than 8 characters is left out, because it would match too often.
        """
        new: set[str] = set()
        for line in value.splitlines():
            if len(line.strip()) >= _SHORTEST:
                new |= _forms(line.strip())
        with self._adding:
            if new <= self._forms:
                return
            forms = self._forms | new
            longest_first = sorted(forms, key=len, reverse=True)
            self._pattern = re.compile("|".join(map(re.escape, longest_first)))
            # A new set, because another thread may be looking through the old one.
            self._forms = forms
            self._phrases = tuple(form for form in longest_first if not _WORD.fullmatch(form))
            self.version += 1

    def replace(self, text: str, instead: Callable[[str, str], str]) -> str:
        """Return `text` in which each known value was replaced by the result of `instead(value,
        kind)`. `kind` is the one that was given to the constructor. The text is returned unchanged
        if it has no known value.
        """
        if self._pattern is None or not any(form in text for form in self._forms):
            return text
        return self._pattern.sub(lambda found: instead(found[0], self._kind), text)

    def begun(self, text: str) -> int:
        """Return how many characters at the end of `text` may be the beginning of a known value
        that has blanks or other characters which no word has. The result is 0 if none may be.
        """
        most = 0
        for form in self._phrases:
            for size in range(min(len(form) - 1, len(text)), most, -1):
                if text.endswith(form[:size]):
                    most = size
                    break
        return most


def _forms(value: str) -> set[str]:
    """Return the forms in which a value may stand in a text: as it is, escaped for JSON, URLs
    and shells, and the part of its base64 that is the same whatever stands around it.
    """
    raw = value.encode("utf-8", "surrogateescape")
    found = {value, json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]}
    found |= {urllib.parse.quote(raw, safe=""), urllib.parse.quote(raw)}
    # A shell's word in single quotes, as plans show commands.
    found.add(value.replace("'", "'\"'\"'"))
    # Logs are read as Latin-1, so that every byte stays what it is.
    found |= {urllib.parse.quote_plus(raw), raw.decode("latin-1")}
    for shift in range(3):
        encoded = base64.b64encode(b"\0" * shift + raw).decode()
        begin = 0
        if shift:
            begin = 4
        encoded = encoded[begin:-4]
        if len(encoded) >= _SHORTEST:
            found |= {encoded, encoded.replace("+", "-").replace("/", "_")}
    return found
