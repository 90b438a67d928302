"""Suggestions for a name that is not known."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def did_you_mean(word: str, known: Iterable[str], most: int = 8) -> str:
    """Return a sentence for an error message about an unknown name `word`. It suggests the most
    similar of the names in `known`, or, if none is similar, lists the first `most` of them.
    """
    names = list(known)
    near = difflib.get_close_matches(word, names, n=1)
    if near:
        return f"Did you mean {near[0]!r}?"
    return f"Known: {', '.join(names[:most])}{', ...' if len(names) > most else '.'}"
