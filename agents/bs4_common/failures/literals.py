"""One regular expression that finds the words of all signatures, and tells which signatures a word
belongs to.

Python's matcher passes over a character that no word begins with in 2 ns, and needs 50 ns and more
for any other. So the beginnings are chosen: each literal is searched for from one of a few rare
characters on. Measured on 100 MB with 250 literals: 45 ns a byte for a plain alternation of the
literals, 13 for a trie of words that begin with their rarest characters, 6 with the fewest rare
ones.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

#: How often a character occurs in logs, per mille, measured on logs of trainers, vLLM, kernels and
#: tracebacks. Other characters are below 1.
_COST = {
    char: cost
    for cost, chars in (
        (115, " "),
        (50, "et"),
        (37, "ronisa0"),
        (26, "ml"),
        (20, "1c2p."),
        (17, "du:[/"),
        (13, "h3"),
        (11, "g_f"),
        (9, "-^"),
        (7, "y4|,"),
        (6, "bv7R5SkE()"),
        (5, "6=89NwC"),
        (4, 'OIT"F'),
        (3, "xUP"),
        (2, "`A*GL]%MDB;"),
        (1, "W'+qH>@"),
    )
    for char in chars
}
_RARE = 0.5
#: A shorter part of a literal is found too often. A longer one makes the expression bigger and
#: finds no less.
_LEAST, _MOST = 6, 16
#: Words are looked up by this many of their first letters.
KEY = 3
#: How many times the choice of beginnings is improved. A third time found nothing better with 250
#: literals.
_ROUNDS = 3

Key = TypeVar("Key", bound=Hashable)


class Literals(Generic[Key]):
    """Searches a text in one pass for many literals (fixed texts), and says which keys may match
    it. A key stands for one regular expression, for example of a log signature.

    `needs` has (key, literals) pairs: every line that the key's expression matches holds at least
    one of these literals. A literal that begins with `(?i)` ignores case. The attribute `always`
    has the keys without literals or with one that is not ASCII, which may match any line.
    """

    def __init__(self, needs: Iterable[tuple[Key, Iterable[str]]]) -> None:
        self.always: tuple[Key, ...] = ()
        literals: dict[tuple[str, bool], list[Key]] = {}
        for key, texts in needs:
            known = list(texts)
            if not known or not all(text.isascii() for text in known):
                self.always += (key,)
                continue
            for text in known:
                folded = text.startswith("(?i)")
                literals.setdefault(
                    (text.removeprefix("(?i)").lower() if folded else text, folded), []
                ).append(key)
        begins = beginnings(literals)
        self._buckets: dict[str, list[tuple[str, int, bool, tuple[Key, ...]]]] = {}
        """By the first letters of a word: (literal, offset in it at which the word begins, True if
        case is ignored, the keys that have it).
        """
        for (text, folded), keys in literals.items():
            start = beginning(text, folded, begins)
            self._buckets.setdefault(text[start : start + KEY].lower(), []).append(
                (text, start, folded, tuple(keys))
            )
        self._text: re.Pattern[str] | None = None

    def __bool__(self) -> bool:
        return bool(self._buckets) or bool(self.always)

    def expression(self) -> str:
        """Return a regular expression that finds every place where one of the literals may be in a
        text, or "" if there are no literals. A match begins at a rare character of a literal, which
        need not be its first.
        """
        words: list[tuple[str, int, bool]] = []
        for bucket in self._buckets.values():
            words += [(text, start, folded) for text, start, folded, _ in bucket]
        if words:
            return _trie(words)
        return ""

    def raw(self) -> dict[bytes, list[tuple[bytes, int, bool, tuple[Key, ...]]]]:
        """Return the literals as bytes, for a search in raw data. They are grouped by a few
        letters (at most KEY, 3) that each literal of the group contains, here in lower case. A
        search looks for these letters first. They begin with a rare character, so that there are
        few places to try. Each entry of a group is a tuple: the literal, the offset of the letters
        in it, True if case is ignored, and the keys (expressions) to which the literal belongs.
        """
        rows: dict[bytes, list[tuple[bytes, int, bool, tuple[Key, ...]]]] = {}
        for first, found in self._buckets.items():
            own = rows[first.encode("ascii")] = []
            for text, start, folded, keys in found:
                own.append((text.encode("ascii"), start, folded, keys))
        return rows

    def keys(self, text: str) -> set[Key]:
        """Return the keys whose regular expressions may match `text`. These are the keys with at
        least one of their literals (fixed texts) in it, and all keys in `always`, which cannot be
        ruled out by a literal.
        """
        if self._text is None:
            self._text = re.compile(self.expression() or r"(?!)")
        found = set(self.always)
        search, buckets = self._text.search, self._buckets
        match = search(text)
        while match is not None:
            start = match.start()
            for word, begins, folded, keys in buckets.get(text[start : start + KEY].lower(), ()):
                first = start - begins
                if first >= 0 and (
                    text.startswith(word, first)
                    or (folded and text[first : first + len(word)].lower() == word)
                ):
                    found.update(keys)
            match = search(text, start + 1)
        return found


def _starts(text: str) -> range:
    """Return the offsets in a literal at which a word may begin, so that enough of it follows."""
    return range(max(1, len(text) - _LEAST + 1))


def _cost(char: str, folded: bool) -> float:
    """Return how often a character occurs in logs, per mille."""
    return _COST.get(char, _RARE) + (
        _COST.get(char.upper(), _RARE) if folded and char.isalpha() else 0.0
    )


def beginnings(literals: Iterable[tuple[str, bool]]) -> frozenset[str]:
    """Return a small set of rare characters such that every literal holds at least one of them; a
    search then has few places to try. `literals` are (text, True if case is ignored).
    """
    options = {(text, folded): {text[i] for i in _starts(text)} for text, folded in literals}
    cost: dict[str, float] = {}
    for (_, folded), chars in options.items():
        for char in chars:
            cost[char] = max(cost.get(char, 0.0), _cost(char, folded))
    chosen: set[str] = set()
    while left := [chars for chars in options.values() if not chars & chosen]:
        gain: dict[str, int] = {}
        for chars in left:
            for char in chars:
                gain[char] = gain.get(char, 0) + 1
        chosen.add(min(gain, key=lambda char: (cost[char] / gain[char], char)))
    for _ in range(_ROUNDS):
        for char in sorted(chosen, key=lambda char: (-cost[char], char)):
            # Would the cheapest other characters for the literals that only this one covers cost
            # less?
            alone = [chars - {char} for chars in options.values() if not chars & (chosen - {char})]
            if all(alone):
                instead = {min(chars, key=lambda other: (cost[other], other)) for chars in alone}
                if sum(cost[other] for other in instead) < cost[char]:
                    chosen = (chosen - {char}) | instead
    return frozenset(chosen)


def beginning(text: str, folded: bool, begins: frozenset[str]) -> int:
    """Return the offset in the literal (fixed text) `text` of the character at which a search for
    it begins. Of the characters in `begins`, that is the one that is rarest in logs. Characters
    with fewer than five others after them are left out, except the first. `folded` is True if case
    is ignored. Raises ValueError if no character is left.
    """
    return min(
        (i for i in _starts(text) if text[i] in begins), key=lambda i: (_cost(text[i], folded), i)
    )


def _chars(text: str, folded: bool) -> list[str]:
    """Return the expression for each character of a literal."""
    rows = []
    for char in text:
        rows.append(f"[{char}{char.upper()}]" if folded and char.isalpha() else re.escape(char))
    return rows


@dataclass
class _Node:
    """A place in the trie. If a word ends here, `before` has what may lie before it, and nothing
    follows.
    """

    following: dict[str, _Node] = field(default_factory=dict)
    before: set[str] = field(default_factory=set)


def _trie(words: Iterable[tuple[str, int, bool]]) -> str:
    """Return the expression for all words. A word ends with what must lie before it:
    `checkpoint(?<=final checkpoint)`.
    """
    root = _Node()
    for text, start, folded in sorted(
        words, key=lambda word: (word[0][word[1] : word[1] + _MOST], word)
    ):
        chars = _chars(text[: start + _MOST], folded)
        node, depth = root, start
        while not node.before and depth < len(chars):
            node = node.following.setdefault(chars[depth], _Node())
            depth += 1
        if not node.before:
            node.following.clear()  # a word that continues from here is found by this one
        node.before.add("".join(chars[max(0, start - _MOST) : depth]) if start else "")
    return _joined(root)


def _joined(node: _Node) -> str:
    """Return the expression for one node of the trie."""
    if "" in node.before:
        return ""
    if node.before:
        parts = [f"(?<={text})" for text in sorted(node.before)]
    else:
        parts = [char + _joined(child) for char, child in node.following.items()]
    if len(parts) == 1:
        return parts[0]
    return f"(?:{'|'.join(parts)})"
