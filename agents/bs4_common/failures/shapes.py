"""Finding the lines of a block that may hold a word. Lines that differ only in their digits have
one shape, and each shape is searched once.

Logs repeat themselves: the hundred million bytes of a healthy run have a few thousand shapes.
Making and looking up the shape of a line costs 5 ns a byte; searching for the words of all
signatures costs 20 (measured on one machine).
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from bs4_common.failures.literals import Literals

#: Every digit becomes a 0, in lines and in words.
_DIGITS = bytes(0x30 if 0x30 <= code <= 0x39 else code for code in range(256))
_TEXT_DIGITS = str.maketrans("123456789", "000000000")
#: How many shapes are remembered, and how long one of them may be: 4 MB at most.
_REMEMBERED, _SHORT = 8192, 500


class Shapes:
    """Finds the lines of a block that may hold one of a set of words. Lines that differ in their
    digits only are searched once, which is fast because logs repeat themselves.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        """Prepare the search. `texts` are the words. A word that begins with `(?i)` is searched
        without regard to case.
        """
        self._find = re.compile(
            Literals([("", [text.translate(_TEXT_DIGITS) for text in texts])])
            .expression()
            .encode("ascii")
        )
        self._vain: set[bytes] = set()

    def starts(self, view: bytes) -> list[int]:
        """Return the byte offsets in `view` of the lines that may hold one of the words, in order.
        A line that holds a word is always among them; a line without one may be, too.
        """
        shapes = view.translate(_DIGITS).split(b"\n")
        unknown = set(shapes) - self._vain
        worth = self._worth(unknown)
        if len(self._vain) > _REMEMBERED:
            self._vain.clear()
        self._vain.update(shape for shape in unknown - worth if len(shape) < _SHORT)
        if not worth:
            return []
        found, begin = [], 0
        for shape in shapes:
            if shape in worth:
                found.append(begin)
            begin += len(shape) + 1
        return found

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
