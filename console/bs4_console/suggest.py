"""Suggestions for a name that is not known."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def did_you_mean(word: str, known: Iterable[str], most: int = 8) -> str:
    """Return a sentence that suggests the known name nearest to `word`. If none is near, the
    sentence lists the first `most` known names.
    """
    names = list(known)
    near = difflib.get_close_matches(word, names, n=1)
    if near:
        return f"Did you mean {near[0]!r}?"
    return f"Known: {', '.join(names[:most])}{', ...' if len(names) > most else '.'}"
