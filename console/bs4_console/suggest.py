"""Suggestions for a name that is not known."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def nearest(word: str, known: Sequence[str], most: int = 1, alike: float = 0.6) -> list[str]:
    """Return up to `most` of the names in `known` that are spelled like `word`, the most similar
    first. `alike` is the least similarity that a name must have, from 0 (any name) to 1 (equal).
    """
    import difflib  # only a mistake needs it

    return difflib.get_close_matches(word, known, n=most, cutoff=alike)


def did_you_mean(word: str, known: Iterable[str], most: int = 8) -> str:
    """Return a sentence for an error message about an unknown name `word`. It suggests the most
    similar of the names in `known`, or, if none is similar, lists the first `most` of them.
    """
    names = list(known)
    near = nearest(word, names)
    if near:
        return f"Did you mean {near[0]!r}?"
    return f"Known: {', '.join(names[:most])}{', ...' if len(names) > most else '.'}"
