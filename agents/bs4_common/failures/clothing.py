"""Learn what another program has put around the lines of a log, and take it off.

Containers, schedulers, collectors and terminals put a prefix of one shape before every line, or
make every line a value of a record. Nothing is known of them beforehand: a shape counts if nearly
all lines have it and more lines are understood without it than with it. What says who wrote a line
is no clothing: a program's tag in a kernel log, a part of a model's answer, a cell of a table, a
quotation.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from bs4_common.failures.quoted_output import QUOTED_KEY, QUOTES
from bs4_common.foreign_json import ForeignJsonError, loads
from bs4_common.trainers.base import LogLine
from bs4_common.trainers.lines import strip_ansi, visible

#: Bytes from which a shape is learnt, lines that are looked at, and the bytes and tokens of a line
#: that may belong to it.
SAMPLE = 64 * 1024
_LINES, _LONG, _TOKENS = 100, 4096, 60
#: The share of the lines that have the shape, and of those that are understood as they are from
#: which on there is nothing to learn.
_NEARLY_ALL, _CLEAR = 0.9, 0.5
#: With fewer lines than this, a shape proves little: all lines must have it, and one line in three
#: must be understood without it.
FEW = 5
_FEW_UNDERSTOOD = 3
#: A line as words, blanks and signs, and as names (times, paths, hosts), blanks and signs.
_TOKENIZERS = (
    re.compile(rb"\w+|[ \t]+|[\x80-\xff]+|."),
    re.compile(rb"\w+(?:[-.:/,@]\w+)*|[ \t]+|[\x80-\xff]+|."),
)
_WORD, _NAME = rb"\w{1,80}", rb"\w{1,80}(?:[-.:/,@]\w{1,80}){0,12}"
_SIGN = re.compile(rb"\d|[|<>()\[\]{}=\"\x80-\xff]")
_TAIL = re.compile(
    rb"(?m)(?: ?(?:[\[(<{]|\xe2\x80\xb9|\xc2\xab)[^\[(<{:\s]{1,40}?"
    rb"(?:[\])>}]|\xe2\x80\xba|\xc2\xbb)"
    rb"|[ \t]*(?:\xe2\x94\x82|\xe2\x94\x83|[|\"']))[ \t]*\r?$"
)
#: A program's tag, and what syslog writes before one. In a kernel log they say that the line is not
#: the kernel's.
_TAG = re.compile(rb"[A-Za-z][\w./@-]{0,63}(?:\[\d{1,10}\])?: ")
_HOST = re.compile(rb"\d\d:\d\d:\d\d\S{0,16}[ \t]+[\w.-]{1,64}[ \t]+$")
#: A word and a colon at the end. Only a number or a host's name belongs to a scheduler.
_SAYS = re.compile(rb"(?:^|[\s,;])[A-Za-z_]+:[ \t]*$")
#: Signs that only a table or a quotation has before what it holds.
_CELL = re.compile(rb"\s{0,20}\||[^|]*\|[^|]*\||[A-Za-z_]{1,40} \|")
_QUOTATION = re.compile(rb"[\s>]*[>\"'`]\s*$")
#: Characters of a line by which it is seen that the grammar took a header off.
_TOLD = 64
#: How a prefix of the only line of a log must end.
_CLOSED = re.compile(rb"(?:[|\]>:\"]|[\x80-\xff]|\d\d:\d\d\S{0,16})[ \t]{0,4}$")
_RULE = re.compile(rb"[\s|+:=-]*[-=]{3}[\s|+:=-]*$")
_PYTHON = re.compile(
    r"Traceback \(most recent call last\):|  File \"|(?:[A-Za-z_][\w.]{0,120})?(?:Error|Exception)"
    r"(?::|$)"
)
#: SGLang's own prefix. It shares no shape with itself: only the lines of a rank name the rank.
_RANKED = re.compile(rb"(?m)^\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?: [A-Z]{2,4}\d{1,5}){0,4}\] ")
#: Keys under which collectors keep a line, for records of which there are only few.
_LINE_KEYS = frozenset({"log", "line", "message", "msg", "MESSAGE", "textPayload", "body"})

Grammar = Callable[[bytes], LogLine]
"""Parses a raw line of the log."""
Knows = Callable[[LogLine], bool]
"""Says whether a line belongs to something that is known, such as a failure."""


@dataclass(frozen=True)
class Clothing:
    """What another program (a container engine, a collector) has put around every line of a log.
    `prefix` and `tail` match what stands before and behind a line. If each line is instead a value
    in a JSON object, `key` is its key there, otherwise "".
    """

    prefix: re.Pattern[bytes]
    tail: re.Pattern[bytes] | None = None
    quoted: bool = False
    """The line is a string with escapes, as in JSON or in a table."""
    key: str = ""
    kernel: bool = False
    """The log is a kernel's."""

    def inner(self, raw: bytes) -> bytes:
        """Return the line inside `raw` without a line end and without what another program has put
        around it, such as the prefix of a container engine. If `raw` does not have the expected
        prefix or form, return `raw` itself.
        """
        if self.key:
            return _value(raw, self.key, kernel=self.kernel)
        match = self.prefix.match(raw)
        if match is None:
            return raw
        line = raw[match.end() :]
        if self.tail is not None:
            line = self.tail.sub(b"", line, count=1)
        return _unquoted(line) if self.quoted else line

    def block(self, data: bytes) -> bytes:
        """Return the lines in `data` as the logging program itself wrote them: without what another
        program (a container engine, a collector) has put before or behind each line, and without
        the escape sequences of a terminal. The number of lines stays the same.
        """
        if b"\x1b" in data:
            data = _plain(data)
        if self.key or self.tail is not None:
            return b"\n".join([self.inner(raw) for raw in data.split(b"\n")])
        return self.prefix.sub(b"", data)


@dataclass
class Wardrobe:
    """Learns what another program (such as a container engine) has put around the lines of one
    growing log file, for example a prefix. The file has the number `generation` among the files of
    its log. The beginning of the file is examined in several tries while the file grows. `worn` is
    what was learnt, or None. `looked` is the number of lines that the file had at the last try.
    """

    generation: int = -1
    worn: Clothing | None = None
    looked: int = 0

    def wants(self, generation: int) -> bool:
        """Return True if `look` is to be called with the beginning of file number `generation`,
        because it is not yet known what another program has put around the lines of that file, but
        may still be learnt. If the number is a new one, forget what was learnt from the file
        before.
        """
        if generation != self.generation:
            self.generation, self.worn, self.looked = generation, None, 0
        return self.worn is None and self.looked < _LINES

    def look(self, head: bytes, grammar: Grammar, knows: Knows) -> None:
        """Try to learn what another program has put around the lines of the file, such as the
        prefix of a container engine. `head` has the first bytes of the file (at most SAMPLE, 64
        KiB). Do nothing if they have not grown enough since the last try. `grammar` parses a line,
        and `knows` says if a parsed line is a known one. The result is in `worn`.
        """
        count = head.count(b"\n")
        if count >= max(FEW, 2 * self.looked) or (len(head) >= SAMPLE and count):
            self.looked = _LINES if len(head) >= SAMPLE else count
            self.worn = learnt(head, grammar, knows)


def understood(line: LogLine) -> bool:
    """Return True if a parsed log line has a known header (a level, a rank or a time), or if it is
    a line of one of Python's tracebacks.
    """
    return bool(
        line.level
        or line.rank is not None
        or line.timestamp is not None
        or line.clock
        or _PYTHON.match(line.text)
    )


def learnt(
    sample: bytes, grammar: Grammar, knows: Knows, *, kernel: bool = False
) -> Clothing | None:
    """Find out what another program, such as a container engine, has put around every line of a
    log. Return what was found, or None if nothing was put there or it cannot be told. `sample` has
    the first bytes of the log. `grammar` parses a line. `knows` takes a parsed line and returns
    True if it is recognised, for example as the line of a known failure. `kernel` is True for a
    kernel log.
    """
    whole = _plain(sample[:SAMPLE]).split(b"\n")
    lines = [raw[:_LONG].rstrip(b"\r") for raw in whole if raw.strip()]
    lines = lines[:: len(lines) // _LINES + 1]

    def judged(raw: bytes) -> bool:
        line = grammar(raw)
        return understood(line) or knows(line)

    before = [judged(raw) for raw in lines]
    if not lines or sum(before) > _CLEAR * len(lines):
        return None
    if len(lines) == 1:
        return _proved(lines[0], kernel, grammar, judged)
    best, most = None, sum(before)
    if len(lines) < FEW:
        most = max(most, -(-len(lines) // _FEW_UNDERSTOOD) - 1)
    for clothing in _candidates(lines, kernel):
        after = [judged(clothing.inner(raw)) for raw in lines]
        lost = sum(was and not now for was, now in zip(before, after, strict=True))
        if sum(after) > most and not lost:
            best, most = clothing, sum(after)
    return best


def _proved(
    raw: bytes, kernel: bool, grammar: Grammar, judged: Callable[[bytes], bool]
) -> Clothing | None:
    """Return what stands around the only line of a log. Nothing is learnt from one line, so it must
    be a record, or what stands within must have a header that the grammar knows.
    """
    for clothing in _candidates([raw], kernel):
        inner = clothing.inner(raw)
        if clothing.key and judged(inner):
            return clothing
        if _CLOSED.search(raw[: len(raw) - len(inner)]) is None:
            continue
        line = grammar(inner)
        shown = visible(inner).decode("utf-8", "replace")
        if line.level or line.rank is not None or not shown.startswith(line.text[:_TOLD]):
            return clothing
    return None


def _candidates(lines: Sequence[bytes], kernel: bool) -> Iterator[Clothing]:
    """Yield what may stand around the lines: the keys of the JSON objects that they are, or else
    the prefixes that they share, and that of an engine that names its ranks in some lines only.
    """
    rows = [row for raw in lines if raw[:1] == b"{" and (row := _row(raw))]
    if len(rows) < _NEARLY_ALL * len(lines):
        yield from _prefixed(lines, kernel)
        if sum(_RANKED.match(raw) is not None for raw in lines) >= FEW:
            yield Clothing(_RANKED, kernel=kernel)
        return
    for key in dict.fromkeys(key for row in rows for key, value in row.items() if _text(value)):
        if QUOTED_KEY.fullmatch(key) is None and (len(lines) >= FEW or key in _LINE_KEYS):
            yield Clothing(re.compile(b""), key=key, kernel=kernel)


def _prefixed(lines: Sequence[bytes], kernel: bool) -> Iterator[Clothing]:
    """Yield the prefixes that nearly all lines share by their shape, the shortest first."""
    tails = sum(_TAIL.search(raw) is not None for raw in lines)
    tail = _TAIL if tails >= _NEARLY_ALL * len(lines) else None
    table = any(_RULE.match(raw) for raw in lines)
    for tokenizer, name in zip(_TOKENIZERS, (_WORD, _NAME), strict=True):
        rows = [tokenizer.findall(raw)[:_TOKENS] for raw in lines]
        for piece in _shared(rows, name):
            pattern = re.compile(rb"(?m)^" + piece)
            found = [match for raw in lines if (match := pattern.match(raw))]
            if len(found) < (_NEARLY_ALL if len(lines) >= FEW else 1) * len(lines):
                continue
            if any(_names_writer(match, kernel, table) for match in found):
                continue
            if tail is not None:
                quoted = found[0].group().endswith(b'"')
                yield Clothing(pattern, tail, quoted=quoted, kernel=kernel)
            yield Clothing(pattern, kernel=kernel)


def _shared(rows: Sequence[Sequence[bytes]], name: bytes) -> Iterator[bytes]:
    """Yield expressions for what the rows of tokens have in common at their beginning, the shortest
    first. Words that differ from line to line are what somebody says, so they end it.
    """
    piece = b""
    for place in range(_TOKENS):
        here = [row[place] for row in rows if len(row) > place]
        if len(here) < max(1, len(rows) / 2):
            return
        shapes = [_shape(token) for token in here]
        common = max(set(shapes), key=shapes.count)
        if shapes.count(common) < _NEARLY_ALL * len(here):
            return
        if common == b" ":
            least = min(len(token) for token in here if not token.strip())
            yield piece + rb"[ \t]{0,%d}" % least
            piece += rb"[ \t]+"
        elif common == b"a":
            spoken = {token for token in here if not re.search(rb"\d", token)}
            if len(spoken) > (3 if len(rows) >= FEW else 1):
                return
            piece += name
        else:
            piece += re.escape(common)
            yield piece


def _names_writer(match: re.Match[bytes], kernel: bool, table: bool) -> bool:
    """Return True if a prefix is too plain, or says who wrote what follows or that it is quoted."""
    prefix = match.group()
    if kernel:
        said = _HOST.search(prefix) or _TAG.search(match.string)
    else:
        said = _SAYS.search(prefix)
    quote = QUOTES.search(match.string)
    return bool(
        _SIGN.search(prefix) is None
        or any(found is not None and found.start() < len(prefix) for found in (said, quote))
        or _CELL.match(prefix)
        or _QUOTATION.fullmatch(prefix)
        or (table and b"|" in prefix)
    )


def _plain(data: bytes) -> bytes:
    """Return `data` without the escape sequences of a terminal."""
    text = data.decode("utf-8", "surrogateescape")
    return strip_ansi(text).encode("utf-8", "surrogateescape")


def _shape(token: bytes) -> bytes:
    if not token.strip():
        return b" "
    return b"a" if re.match(rb"\w", token) else token


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


def _value(raw: bytes, key: str, *, kernel: bool) -> bytes:
    """Return the line under `key` of a record, or `raw` if it is none, or if it is in a kernel log
    and another program wrote it.
    """
    row = _row(raw)
    value = row.get(key)
    if kernel and row.get("SYSLOG_IDENTIFIER", "kernel") != "kernel":
        return raw
    if isinstance(value, list):
        value = (_bytes(value) or b"").decode("utf-8", "replace")
    if not isinstance(value, str):
        return raw
    return _one_line(value)


def _unquoted(line: bytes) -> bytes:
    """Return a quoted value without the escapes of JSON or the doubled quotes of a table."""
    if b"\\" in line:
        try:
            return _one_line(json.loads(b'"' + line + b'"'))
        except ValueError:
            return line
    return line.replace(b'""', b'"')


def _one_line(value: str) -> bytes:
    """Return a value as one line. If it has several, it becomes a record that the grammar knows."""
    value = value.rstrip("\r\n")
    if "\n" in value:
        value = json.dumps({"timestamp": "", "level": "", "message": value})
    return value.encode("utf-8", "replace")
