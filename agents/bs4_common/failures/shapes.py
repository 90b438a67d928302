"""Finding the lines of a block that may hold a word. Lines that differ only in their digits have
one shape, and each shape is searched once.

Logs repeat themselves: the hundred million bytes of a healthy run have a few thousand shapes.
Making and looking up the shape of a line costs 5 ns a byte; searching for the words of all
signatures costs 20 (measured on one machine).
"""

from __future__ import annotations

import re
from collections.abc import Container, Hashable, Iterable
from itertools import accumulate, compress, filterfalse

from bs4_common.failures.literals import KEY, Literals

#: Every digit becomes a 0, in lines and in words.
_DIGITS = bytes(0x30 if 0x30 <= code <= 0x39 else code for code in range(256))
_TEXT_DIGITS = str.maketrans("123456789", "000000000")
#: How many shapes are remembered, and how long one of them may be: 4 MB at most.
_REMEMBERED, _SHORT = 8192, 500


class Shapes:
    """Finds the lines of a block that may hold one of a set of words. Lines that differ in their
    digits only are searched once, which is fast because logs repeat themselves.
    """

    def __init__(self, needs: Iterable[tuple[Hashable, Iterable[str]]]) -> None:
        """Prepare the search. `needs` has (key, words) pairs: the words that a key needs. A word
        that begins with `(?i)` is searched without regard to case.
        """
        words: Literals[Hashable] = Literals(
            (key, [text.translate(_TEXT_DIGITS) for text in texts]) for key, texts in needs
        )
        self._find = re.compile(words.expression().encode("ascii"))
        self._buckets = words.raw()
        self._vain: set[bytes] = set()
        self._done: Container[Hashable] = ()
        self._settled: set[bytes] = set()
        """Shapes that hold words of keys in `_done` only."""

    def skip(self, done: Container[Hashable]) -> None:
        """Search no longer for the words that only keys in `done` need, and search for all others
        again.
        """
        self._done = done
        self._settled.clear()

    def starts(self, view: bytes) -> list[int]:
        """Return the byte offsets in `view` of the lines that may hold one of the words, in order.
        A line that holds a word is always among them; a line without one may be, too.
        """
        shapes = view.translate(_DIGITS).split(b"\n")
        unknown = set(filterfalse(self._vain.__contains__, shapes))
        held = self._worth(unknown - self._settled)
        if len(self._vain) > _REMEMBERED:
            self._vain.clear()
        self._vain.update(shape for shape in unknown - held - self._settled if len(shape) < _SHORT)
        worth = held
        if self._done:
            worth = {shape for shape in held if len(shape) >= _SHORT or self._counts(shape)}
            if len(self._settled) > _REMEMBERED:
                self._settled.clear()
            self._settled |= held - worth
        if not worth:
            return []
        before = enumerate(accumulate(map(len, shapes), initial=0))
        return [number + size for number, size in compress(before, map(worth.__contains__, shapes))]

    def _counts(self, shape: bytes) -> bool:
        """Return True if a word in a shape is needed by a key that is not done."""
        match = self._find.search(shape)
        while match is not None:
            at = match.start()
            for word, starts, folded, keys in self._buckets.get(shape[at : at + KEY].lower(), ()):
                first = at - starts
                if first < 0 or all(key in self._done for key in keys):
                    continue
                here = shape[first : first + len(word)]
                if here == word or (folded and here.lower() == word):
                    return True
            match = self._find.search(shape, at + 1)
        return False

    def _worth(self, shapes: Iterable[bytes]) -> set[bytes]:
        """Return the shapes that hold a word. All shapes are searched together, because each search
        has a cost of its own.
        """
        known = list(shapes)
        text = b"\n".join(known)
        worth: set[bytes] = set()
        search, place, index, end = self._find.search, 0, -1, -1
        while (match := search(text, place)) is not None:
            while end < match.start():
                index += 1
                end += len(known[index]) + 1
            worth.add(known[index])
            place = end
        return worth
