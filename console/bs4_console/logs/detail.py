"""One log entry at full length: the JSON of a line, or a line with the traceback after it."""

from __future__ import annotations

import json
import re

from bs4_common.foreign_json import ForeignJsonError, loads
from bs4_console.logs.private_keys import shown_line
from bs4_console.logs.store import LogStore
from bs4_console.logs.text import clock_of, level_of

#: The number of lines to each side of a line among which its entry is searched.
AROUND = 500
_JSON = re.compile(rb"[^{\[]{0,80}?([{\[].*[}\]])\s*$", re.DOTALL)


def entry(store: LogStore, number: int) -> list[bytes]:
    """Return all lines, as bytes, of the log entry to which the line with the number `number` in
    `store` belongs. An entry begins with a line that has a time of day or a level. It goes on with
    the following lines of the same log that have neither, such as those of a traceback. Lines of a
    private key are left out.
    """
    source, line = shown_line(store, number)
    before: list[bytes] = []
    if not _head(line):
        for text in _others(
            store, source, range(number - 1, max(store.first, number - AROUND) - 1, -1)
        ):
            before.append(text)
            if _head(text):
                break
        else:
            before = []
    after: list[bytes] = []
    for text in _others(store, source, range(number + 1, min(store.end, number + AROUND))):
        if _head(text):
            break
        after.append(text)
    return [*reversed(before), line, *after]


def _others(store: LogStore, source: int, numbers: range) -> list[bytes]:
    """Return the lines among `numbers` that the store holds and that `source` wrote."""
    held = (shown_line(store, number) for number in numbers if store.first <= number < store.end)
    return [text for other, text in held if other == source]


def _head(line: bytes) -> bool:
    """Return True if a line starts an entry: it has a clock or a level."""
    return clock_of(line) is not None or level_of(line) is not None


def spell_out(lines: list[bytes]) -> list[str]:
    """Return the lines of a log entry as text for reading. If a line is JSON, or ends in JSON, the
    JSON is laid out over several lines, and line ends inside its texts become real ones. So the
    result may have more lines than the argument.
    """
    shown: list[str] = []
    for line in lines:
        found = _JSON.match(line)
        value = _parsed(found[1]) if found else None
        if found is None or value is None:
            shown.append(line.decode("utf-8", "replace"))
            continue
        if prefix := line[: found.start(1)].decode("utf-8", "replace").strip():
            shown.append(prefix)
        shown += _laid_out(value, "")
    return shown


def _parsed(text: bytes) -> object:
    """Return the non-empty dictionary or list that `text` is as JSON, or None."""
    try:
        value = loads(text)
    except ForeignJsonError:
        return None
    if isinstance(value, (dict, list)) and value:
        return value
    return None


def _laid_out(value: object, indent: str) -> list[str]:
    """Return a dictionary or list as indented lines, one per key. A text of several lines becomes
    several lines; json.dumps would show it as one line with \\n in it.
    """
    lines: list[str] = []
    pairs: list[tuple[str, object]] = []
    if isinstance(value, dict):
        pairs = [(f"{indent}{key}:", inner) for key, inner in value.items()]
    elif isinstance(value, list):
        pairs = [(f"{indent}-", inner) for inner in value]
    for name, inner in pairs:
        if isinstance(inner, (dict, list)) and inner:
            lines += [name, *_laid_out(inner, indent + "  ")]
        elif isinstance(inner, str) and "\n" in inner:
            lines += [name, *(f"{indent}  {part}" for part in inner.splitlines())]
        else:
            lines.append(f"{name} {inner if isinstance(inner, str) else json.dumps(inner)}")
    return lines
