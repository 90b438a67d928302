"""Which lines of a log are inside a private key. Each line of such a block looks like nothing, so
the lines around it decide.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from bs4_common.credentials import redaction
from bs4_console.logs.store import MARK, LogStore

#: Lines to each side of a line that are looked at. The largest keys have some 200.
AROUND = 200
#: With several logs in one window, lines of others stand in between.
_BETWEEN = 4 * AROUND
#: A line that is most likely part of a key, whatever is around it.
_LIKELY = re.compile(
    r"\s*(?=[^ ]*[a-z])(?=[^ ]*[A-Z])(?=[^ ]*[0-9])[A-Za-z0-9+/=]{48,100}\s*", re.ASCII
)
_HIDDEN = redaction.marker("a private key").encode()


def shown_line(store: LogStore, number: int) -> tuple[int, bytes]:
    """Return two things for the line with the number `number` in `store`: the number of its log,
    and its bytes. If the line is inside a private key, or most likely is, a marker is returned in
    place of its bytes. Raises IndexError if the store does not have the line.
    """
    source, line = store.line(number)
    if source != MARK and _inside(store, number, source, line.decode("latin-1")):
        return source, _HIDDEN
    return source, line


def _inside(store: LogStore, number: int, source: int, line: str) -> bool:
    """Return True if the line is inside a private key, or most likely is."""
    if not line.strip() or not redaction.may_be_inside(line):
        return False
    if number < store.end and store.passed(number) is not None:
        # A filter on the pod left out what is around it.
        return _LIKELY.fullmatch(line) is not None
    lines = []
    first = number
    for earlier, text in _of_source(store, source, range(number - 1, number - _BETWEEN, -1)):
        first = earlier
        lines.append(text)
        if not redaction.may_be_inside(text) or len(lines) == AROUND:
            return redaction.lines_left(reversed(lines)) > 0
    # The block may begin before what is held.
    place = store.place(first)
    if place is None or place[2] == 0:
        return False
    return _LIKELY.fullmatch(line) is not None or _ends_below(store, number, source)


def _ends_below(store: LogStore, number: int, source: int) -> bool:
    """Return True if a private key ends below a line, with nothing else in between."""
    for _, text in _of_source(store, source, range(number + 1, number + _BETWEEN)):
        if redaction.ends_private_key(text):
            return True
        if not redaction.may_be_inside(text):
            return False
    return False


def _of_source(store: LogStore, source: int, numbers: range) -> Iterator[tuple[int, str]]:
    """Yield those of the lines that the store holds and that `source` wrote, with their numbers."""
    for number in numbers:
        if not store.first <= number < store.end:
            return
        other, line = store.line(number)
        if other == source:
            yield number, line.decode("latin-1")
