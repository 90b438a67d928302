"""What somebody may have meant by a name that is not there."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def did_you_mean(word: str, known: Iterable[str], most: int = 8) -> str:
    """One sentence: the nearest known name, or the first few of them where none is near."""
    names = list(known)
    near = difflib.get_close_matches(word, names, n=1)
    if near:
        return f"Did you mean {near[0]!r}?"
    return f"Known: {', '.join(names[:most])}{', ...' if len(names) > most else '.'}"
