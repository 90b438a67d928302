"""Learn what another program has put around the lines of a log, and take it off.

Containers, schedulers, collectors and terminals put a prefix of one shape before every line, or
make every line a value of a record. Nothing is known of them beforehand: a shape counts if nearly
all lines have it and more lines are understood without it than with it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from bs4_agent.foreign_json import ForeignJsonError, loads
from bs4_agent.trainers.base import LogLine

#: Bytes and lines from which a shape is learnt, and the tokens and characters of a line that may
#: belong to it.
SAMPLE = 64 * 1024
_LINES, _TOKENS, _LONG = 100, 60, 4096
#: The share of the lines that have the shape, and of those that are understood as they are from
#: which on there is nothing to learn.
_NEARLY_ALL, _CLEAR = 0.9, 0.5
#: With fewer lines than this, only what holds a time or a sign of a frame is a prefix.
_FEW = 5
_TOKEN = re.compile(r"\w+|[^\S\n]+|.")
_WRAPPER = re.compile(r"\d\d:\d\d|[|│┃>»\]]")
_TIME = re.compile(r"\d\d:\d\d:\d\d")
_TAIL = re.compile(r"(?: ?[\[(<‹«{][^\[(<‹«{:\s]{1,40}[\])>›»}]|[ \t]*[│┃|\"'])\s*$")
_PYTHON = re.compile(
    r"Traceback \(most recent call last\):|  File \"|(?:[A-Za-z_][\w.]{0,120})?(?:Error|Exception)"
    r"(?::|$)"
)

Judge = Callable[[bytes], bool]
"""Says whether a raw line, as given, is understood."""


@dataclass(frozen=True)
class Clothing:
    """What stands around the lines of one log. `prefix` and `tail` match what stands before and
    behind a line; `key` is the key of the line in a record of JSON, or "".
    """

    prefix: re.Pattern[str]
    tail: re.Pattern[str] | None = None
    key: str = ""

    def inner(self, raw: bytes) -> bytes:
        """Return the line that `raw` holds, without a line end; `raw` itself if it does not wear
        this clothing.
        """
        if self.key:
            return _value(raw, self.key)
        text = raw.decode("utf-8", "surrogateescape")
        match = self.prefix.match(text)
        if match is None:
            return raw
        text = text[match.end() :].rstrip("\r")
        if self.tail is not None and (tail := self.tail.search(text)) is not None:
            text = text[: tail.start()]
            if match.group().endswith('"'):
                text = _unquoted(text)
        return text.encode("utf-8", "surrogateescape")

    def block(self, data: bytes) -> bytes:
        """Return the lines of `data` without their clothing. Their number stays the same."""
        return b"\n".join([self.inner(raw) for raw in data.split(b"\n")])


def understood(line: LogLine) -> bool:
    """Return True if a line has a known header or is a part of Python's tracebacks."""
    return bool(
        line.level
        or line.rank is not None
        or line.timestamp is not None
        or line.clock
        or _PYTHON.match(line.text)
    )


def learnt(sample: bytes, judge: Judge) -> Clothing | None:
    """Return what stands around the lines of a log that begins with `sample`, or None."""
    lines = [raw[:_LONG].rstrip(b"\r") for raw in sample[:SAMPLE].split(b"\n") if raw.strip()]
    lines = lines[:: max(1, len(lines) // _LINES)][: 2 * _LINES]
    base = sum(map(judge, lines))
    if not lines or base > _CLEAR * len(lines):
        return None
    best: tuple[int, Clothing] | None = None
    for clothing in (*_records(lines), *_prefixed(lines)):
        count = sum(judge(clothing.inner(raw)) for raw in lines)
        if best is None or count > best[0]:
            best = count, clothing
    if best is None or best[0] < base:
        return None
    if best[0] == base:
        return _by_time(lines)
    return best[1]


def _records(lines: Sequence[bytes]) -> Iterator[Clothing]:
    """Yield the keys of the JSON objects that the lines are, if they are."""
    rows = [row for raw in lines if raw[:1] == b"{" and (row := _row(raw))]
    if len(rows) < _NEARLY_ALL * len(lines):
        return
    for key in dict.fromkeys(key for row in rows for key, value in row.items() if _text(value)):
        yield Clothing(re.compile(""), key=key)


def _prefixed(lines: Sequence[bytes]) -> Iterator[Clothing]:
    """Yield the prefixes that nearly all lines share by their shape, the shortest first."""
    texts = [raw.decode("utf-8", "surrogateescape") for raw in lines]
    rows = [_TOKEN.findall(text[:_LONG])[:_TOKENS] for text in texts]
    tail = (
        _TAIL
        if sum(_TAIL.search(text) is not None for text in texts) >= _NEARLY_ALL * len(texts)
        else None
    )
    pieces: list[str] = []
    for place in range(_TOKENS):
        here = [row[place] for row in rows if len(row) > place]
        if len(here) < max(1, len(rows) // 2):
            return
        shapes = [_shape(token) for token in here]
        common = max(set(shapes), key=shapes.count)
        if shapes.count(common) < _NEARLY_ALL * len(here):
            return
        if common == " ":
            least = min(len(token) for token in here if token.isspace())
            yield from _ending("".join(pieces) + rf"[^\S\n]{{0,{least}}}", texts, tail)
        pieces.append({" ": r"[^\S\n]+", "a": r"\w{1,80}"}.get(common, re.escape(common)))
        if common not in (" ", "a"):
            yield from _ending("".join(pieces), texts, tail)


def _ending(prefix: str, texts: Sequence[str], tail: re.Pattern[str] | None) -> Iterator[Clothing]:
    """Yield the clothing of one prefix, with and without a tail, unless it is too plain."""
    pattern = re.compile(prefix)
    found = [match.group() for text in texts if (match := pattern.match(text))]
    if not found or (len(texts) < _FEW and _WRAPPER.search(found[0]) is None):
        return
    if len(found) >= _NEARLY_ALL * len(texts):
        if tail is not None:
            yield Clothing(pattern, tail)
        yield Clothing(pattern)


def _by_time(lines: Sequence[bytes]) -> Clothing | None:
    """Return the shortest prefix that holds a time of day and ends with a space, or None. Nothing
    behind it is understood, but a time is no part of what a program says.
    """
    for clothing in _prefixed(lines):
        match = clothing.prefix.match(lines[0].decode("utf-8", "surrogateescape"))
        if match is not None and match.group()[-1:] == " " and _TIME.search(match.group()):
            return clothing
    return None


def _shape(token: str) -> str:
    if token.isspace():
        return " "
    return "a" if re.match(r"\w", token) else token


def _text(value: object) -> bool:
    """Return True if a value may be a line. The journal writes strange bytes as numbers."""
    return isinstance(value, str) or (isinstance(value, list) and _bytes(value) is not None)


def _bytes(value: list[object]) -> bytes | None:
    numbers = [item for item in value if isinstance(item, int) and 0 <= item < 256]
    return bytes(numbers) if numbers and len(numbers) == len(value) else None


def _row(raw: bytes) -> dict[str, object]:
    try:
        row = loads(raw)
    except ForeignJsonError:
        return {}
    return row if isinstance(row, dict) else {}


def _value(raw: bytes, key: str) -> bytes:
    """Return the line under `key` of a record, or `raw` if it is none."""
    value = _row(raw).get(key)
    if isinstance(value, list):
        value = (_bytes(value) or b"").decode("utf-8", "surrogateescape")
    if not isinstance(value, str):
        return raw
    return value.rstrip("\r\n").replace("\n", " ").encode("utf-8", "replace")


def _unquoted(text: str) -> str:
    """Return a quoted value without the escapes of JSON or the doubled quotes of a table."""
    if "\\" in text:
        try:
            value = json.loads(f'"{text}"')
        except ValueError:
            value = text
        text = str(value).replace("\n", " ")
    return text.replace('""', '"')
