"""A prefilter for the raw lines of a finished log: if a line holds a word of a key, its raw form is
checked before it is parsed.

Finding a word costs some 6 ns a byte, parsing and matching a line 15 us. A failing log has a word
in every third line, and most of those lines are near misses. A check of the raw bytes, 2 us, rules
them out.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Container, Hashable, Iterable
from typing import Generic, TypeVar

from bs4_common.failures.literals import KEY, Literals
from bs4_common.failures.shapes import Shapes

#: JSON may write any character as \\u00XX. Nobody does so for letters, but a line that does must be
#: read.
_ESCAPED = "\\u00"
ESCAPED = tuple(f"{_ESCAPED}{digit}" for digit in range(2, 8))
#: Up to this many words are searched for one by one.
_FEW = 6
#: Characters that are not ASCII, and JSON's escape of a character that is no half of a surrogate
#: pair.
_OTHER = re.compile(r"[^\x00-\x7f]")
_ESCAPED_OTHER = re.compile(rb"\\u(?!00[0-7])(?![dD][89a-fA-F])[0-9a-fA-F]{4}")
#: What does not belong to a line's text, in the two commonest formats of lines.
_HEAD = re.compile(
    rb"\d\d:\d\d:\d\d {1,4}(?:TRACE|DEBUG|INFO|SUCCESS|WARNING|ERROR|CRITICAL) "
    rb'|\{"timestamp": "[^"\\]{1,40}", "level": "[A-Z]{1,10}", '
)
#: Bytes. Checking a longer line costs more than parsing it, of which only the beginning counts.
_LONG = 1000
#: How many worthless lines are remembered, and how long one may be.
_REMEMBERED, _SHORT = 512, 300

Key = TypeVar("Key", bound=Hashable)


class Prefilter(Generic[Key]):
    """Finds the lines of a block of a log that may match one of many regular expressions, so that
    only these lines have to be parsed. Each expression is named by a key.
    """

    def __init__(
        self, needs: Iterable[tuple[Key, Iterable[str], str]], *, shapes: bool = False
    ) -> None:
        """Prepare the search. `needs` has one entry for each expression: its key, its literals
        (fixed texts), and a second regular expression for the bytes of a line that is not parsed
        yet.

        Every line that an expression matches holds at least one of its literals; without literals,
        every line could match. The second expression matches each such line as it stands in the
        file, or is "" if that may have any form. With `shapes`, lines that differ only in digits
        are searched once, which saves time if there are more than about ten literals.
        """
        own: list[tuple[Key | None, Iterable[str]]] = []
        self._raw: dict[Key, str] = {}
        literals: list[str] = []
        for key, given, raw in needs:
            texts = list(given)
            own.append((key, texts))
            self._raw[key] = raw
            literals += texts
        words: Literals[Key | None] = Literals([*own, (None, ESCAPED)])
        self._all = bool(words.always)
        self._find = re.compile(words.expression().encode("ascii"))
        self._buckets = words.raw()
        self._looks: dict[Key, re.Pattern[bytes]] = {}
        self._vain: set[bytes] = set()
        self._done: Container[Key] = ()
        self._shapes = Shapes([*own, (None, ESCAPED)]) if shapes and not self._all else None
        folded = any(text.startswith("(?i)") for text in literals)
        few = len(literals) <= _FEW and not folded and not self._all
        self._plain = [text.encode("ascii") for text in (*literals, _ESCAPED)] if few else []
        """Few words are searched for one by one: some ten times as fast as an expression, and each
        once in a block.
        """
        self._view: bytes | None = None
        self._places: dict[bytes, int] = {}
        """The next place of each word in `_view`, from `_from` on, as far as it was searched for.
        """
        self._from = 0
        self._starts: list[int] = []
        """The offsets of the lines of `_view` that may hold a word."""
        self.idle = 0
        """How many times a word was found whose keys are all done."""

    def skip(self, done: Container[Key]) -> None:
        """Search no longer for the expressions whose keys are in `done`, and search for all others
        again, also for those that an earlier call of this method left out.
        """
        self._done = done
        self._vain.clear()
        if self._shapes is not None:
            self._shapes.skip(done)

    def next_line(self, view: bytes, place: int) -> int:
        """Return the byte offset in `view`, a block of a log, of the first line that may match an
        expression and begins at `place` or later. `place` is the offset at which a line begins.
        Return the length of `view` if there is no such line.
        """
        if self._all:
            return place
        if self._shapes is not None:
            return self._next_shape(self._shapes, view, place)
        while (at := self._next_word(view, place)) < len(view):
            begin = view.rfind(b"\n", place, at) + 1 or place
            end = _end(view, at)
            if self._look_at(view, begin, end):
                return begin
            place = end + 1
        return len(view)

    def _next_word(self, view: bytes, place: int) -> int:
        """Return the offset of the first word at or after `place`, or the end of `view` if there is
        none.
        """
        if not self._plain:
            match = self._find.search(view, place)
            if match is not None:
                return match.start()
            return len(view)
        if view is not self._view or place < self._from:
            self._view, self._places = view, dict.fromkeys(self._plain, -1)
        self._from = place
        for text, at in self._places.items():
            if at < place:
                found = view.find(text, place)
                self._places[text] = len(view) if found < 0 else found
        return min(self._places.values())

    def _next_shape(self, shapes: Shapes, view: bytes, place: int) -> int:
        """Return the offset of the first line at or after `place` that is worth parsing, searching
        by shape.
        """
        if view is not self._view:
            self._view, self._starts = view, shapes.starts(view)
        starts = self._starts
        for index in range(bisect_left(starts, place), len(starts)):
            if self._look_at(view, starts[index], _end(view, starts[index])):
                return starts[index]
        return len(view)

    def _look_at(self, view: bytes, begin: int, end: int) -> bool:
        """Return True if the line from `begin` to `end` is worth parsing."""
        if end - begin > _LONG:
            return True
        # Errors repeat, and only their time differs.
        head = _HEAD.match(view, begin, end)
        line = view[begin if head is None else head.end() : end]
        if line in self._vain:
            return False
        if self._worth(line):
            return True
        if len(line) < _SHORT:
            if len(self._vain) >= _REMEMBERED:
                self._vain.clear()
            self._vain.add(line)
        return False

    def _worth(self, line: bytes) -> bool:
        """Return True if a word of an active key is in the line and the line has the raw form of
        that key.
        """
        texts = _texts(line)
        if not texts:
            return True
        match = self._find.search(line)
        while match is not None:
            at = match.start()
            for literal, starts, folded, keys in self._buckets.get(line[at : at + KEY].lower(), ()):
                first = at - starts
                if first < 0 or not (
                    line.startswith(literal, first)
                    or (folded and line[first : first + len(literal)].lower() == literal)
                ):
                    continue
                for key in keys:
                    if key is None:
                        return True
                    if key in self._done:
                        self.idle += 1
                        continue
                    look = self._look(key)
                    for text in texts:
                        if look.search(text) is not None:
                            return True
            match = self._find.search(line, at + 1)
        return False

    def _look(self, key: Key) -> re.Pattern[bytes]:
        """Return the compiled raw expression of a key."""
        if key not in self._looks:
            self._looks[key] = re.compile(self._raw[key].encode("ascii"))
        return self._looks[key]


def _end(view: bytes, at: int) -> int:
    """Return the offset of the end of the line that holds `at`."""
    end = view.find(b"\n", at)
    return len(view) if end < 0 else end


def _texts(line: bytes) -> tuple[bytes, ...]:
    """Return the line as it stands and as a JSON reader would see it. Every character that is not
    ASCII becomes DEL, as the compiler writes it.

    Return an empty tuple if the bytes say nothing certain about the text: something else was
    escaped, or the text is composed of several values.
    """
    if b"\x1b" in line or b'"progress"' in line:
        return ()
    if not line.isascii():
        line = _OTHER.sub("\x7f", line.decode("utf-8", "replace")).encode("ascii")
    if b"\\" not in line:
        return (line,)
    if b"\\\\" in line:
        return ()
    plain = line.replace(b"\\n", b"\n").replace(b'\\"', b'"')
    if b"\\u" in plain:
        plain = _ESCAPED_OTHER.sub(b"\x7f", plain)
    if b"\\" in plain:
        return ()
    return (line, plain)
