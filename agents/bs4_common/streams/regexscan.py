"""Search lines with regular expressions in a process of its own. This file is run as a script and
imports nothing of this package.

`re` holds the interpreter's lock while it matches, and a pattern such as (a+)+$ takes for ever on
an unlucky line. Inside the agent it would stop the sampler, the watcher and every console. Here it
only ends this process, by the alarms that are set first of all.

Standard input is one JSON object `{"op", "terms": [{"pattern", "ignore_case", "out"}], "floor",
"ranges": [[generation, fd, from, to], ...], "backwards", "limit", "seconds", "room", "escapes"}`. A
line is wanted if every term matches (and no term with `out` does) and its level, or that of the
last line before it with a level, is not below `floor`. Standard output is `{"hits", "next"}` or
`{"stretches", "reached", "next"}`, or `{"error": why a pattern is invalid}`. `next` is [generation,
offset], or null if everything was searched; `reached` is how far a count got.

* `search`: hits are `[generation, offset, excerpt, bytes of the line before the match]`
* `sift`: hits are `[generation, offset, text, bytes of the line]`, the text whole up to WHOLE bytes
* `count`: stretches are `[generation, begin, end, wanted lines]`
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypedDict

#: Bytes of a line that an expression sees in a search and a count (LINE), and in a filter (REACH).
#: The console's own filter sees as many. A text is found in the whole of a line.
LINE = 16 * 1024
REACH = 4096
BLOCK = 256 * 1024
#: Bytes before a hit in which its line's begin is searched, as in search.py.
HIT_LINE = 64 * 1024 * 1024
#: Bytes of a line that `sift` returns. The rest is read by its cursor.
WHOLE = 4096
#: Bytes before a block in which the level of its first lines is searched.
BEFORE = 16 * 1024
STRETCH = 4 * BLOCK
#: Seconds of this process's own CPU time, after as many as the time slice has, until an alarm ends
#: it. On a busy machine the wall clock says nothing about the expression.
GRACE_S = 1.0
#: Seconds, by the wall clock, until an alarm ends a process that waits for a disk.
HUNG_S = 20.0
#: A level word counts only near the line's start.
LEVEL_REACH = 90

_LEVEL = re.compile(rb"\b(TRACE|DEBUG|INFO|SUCCESS|WARNING|WARN|ERROR|CRITICAL|FATAL)\b")
_LEVELS = {
    b"TRACE": 5,
    b"DEBUG": 10,
    b"INFO": 20,
    b"SUCCESS": 25,
    b"WARNING": 30,
    b"WARN": 30,
    b"ERROR": 40,
    b"CRITICAL": 50,
    b"FATAL": 50,
}
#: The header of a line in glog's form, as torch writes it: a letter for the level, month and day,
#: and the clock. Its C++ parts begin with a bracket and write no leading zero of the month. A
#: launcher's prefix ([rank0]:) may stand before it.
_GLOG = re.compile(rb"(?:\[[\w-]{1,20}\]:)?\[?([IWEF])\d{3,4} \d\d:\d\d:\d\d")
_GLOG_LEVELS = {b"I": 20, b"W": 30, b"E": 40, b"F": 50}
#: An expression that looks beyond its match, or for the text's end, means something else in a block
#: of lines than in one line.
_LOOKS_AROUND = re.compile(r"\(\?(?:[=!(]|<[=!])|\\[AZ]|\(\?[a-zA-Z]*s")
_CASELESS = re.compile(r"[^A-Za-z\x80-\U0010ffff]+")
_META = re.compile(r"[\\.^$*+?{}\[\]|()]")


if TYPE_CHECKING:
    # Only for the type checker: at run time, each would take 10 KiB of the agent.

    class Term(TypedDict, total=False):
        """A regular expression that a line must match, or, with `out`, must not match."""

        pattern: str
        ignore_case: bool
        out: bool

    class ScanRequest(TypedDict, total=False):
        """What the scanner searches for."""

        op: str
        """ "search", "sift" or "count"."""
        terms: Sequence[Term]
        floor: int
        """The lowest level of a line, such as 40 for ERROR."""
        limit: int
        """Hits or stretches at most."""

    class ScanOrder(ScanRequest):
        """The whole request: what is searched for, and where."""

        ranges: Sequence[Sequence[int]]
        """Each is [generation, open file, first byte, last byte]."""
        backwards: bool
        seconds: float
        room: int
        """Bytes of hits at most."""
        escapes: str
        """An expression for the escape sequences of a terminal, in Latin-1."""

    class ScanAnswer(TypedDict, total=False):
        """What the scanner has found."""

        hits: Sequence[Any]
        stretches: list[list[int]]
        """Each is [generation, begin, end, lines]."""
        reached: list[int] | None
        """The place up to which lines were counted, as [generation, offset]."""
        next: list[int] | None
        """The place to continue from, or None if everything was searched."""
        error: str
        """Why a pattern is no regular expression."""


class Wanted:
    """The condition that a request sets for lines. It consists of terms, which are regular
    expressions that a line must match (or, for a term with `out`, must not match), and of the
    lowest level that a line may have, such as 40 for ERROR. They are the request's `terms`
    [{"pattern", "ignore_case", "out"}] and `floor`.
    """

    def __init__(self, request: ScanOrder) -> None:
        self.reach = REACH if request["op"] == "sift" else LINE
        self.floor = request.get("floor", 0)
        self.ins: list[tuple[re.Pattern[bytes], int | None]] = []
        """Each expression, and the bytes of a line that it sees (None: all of it)."""
        self.outs: list[tuple[re.Pattern[bytes], int | None]] = []
        self.must: list[tuple[bytes, ...]] = []
        """A block is searched only if it has one word of each of these tuples."""
        self.letters: re.Pattern[bytes] | None = None
        """An expression that finds the header of a line of glog with a level that is wanted."""
        self.level_words = tuple(word for word, level in _LEVELS.items() if level >= self.floor)
        """The words of the levels that are wanted."""
        self.leap: re.Pattern[bytes] | None = None
        """An expression that finds the next candidate in a block without testing line by line."""
        for term in request["terms"]:
            self._add(term["pattern"], term.get("ignore_case", False), out=term.get("out", False))
        letters = b"".join(own for own, level in _GLOG_LEVELS.items() if level >= self.floor)
        if self.floor and letters:
            # At the begin of a line, for which the engine looks four times as fast.
            head = rb"\n(?:\[[\w-]{1,20}\]:)?\[?["
            self.letters = re.compile(head + letters + rb"]\d{3,4} \d\d:")

    def _add(self, text: str, ignore_case: bool, *, out: bool) -> None:
        """Add one term."""
        pattern = re.compile(text.encode(), re.MULTILINE | (re.IGNORECASE if ignore_case else 0))
        (self.outs if out else self.ins).append((pattern, None if _is_text(text) else self.reach))
        if out:
            return
        if not _META.search(text):
            # If the case is ignored, only characters that are no letters are certain to be there as
            # written.
            if ignore_case:
                certain = max(_CASELESS.findall(text), key=len, default="")
            else:
                certain = text
            if certain.strip():
                self.must.append((certain.encode(),))
        if self.leap is None and not _LOOKS_AROUND.search(text):
            self.leap = pattern

    def may_be_in(self, block: bytes) -> bool:
        """Return False if it is certain that no line of this block satisfies the condition, so that
        its lines need not be tested. Return True if each line has to be tested. This is a fast test
        of the whole block at once.
        """
        if not all(any(word in block for word in words) for words in self.must):
            return False
        if not self.floor or any(word in block for word in self.level_words):
            return True
        return self.letters is not None and self.letters.search(b"\n" + block) is not None

    def matches(self, line: bytes) -> bool:
        """Return True if the line matches each regular expression of the request that lines must
        match, and none of those that they must not match (the request's terms with `out`). The
        level of the line is not tested here.
        """
        return all(p.search(line[:reach]) for p, reach in self.ins) and not any(
            p.search(line[:reach]) for p, reach in self.outs
        )


def _is_text(pattern: str) -> bool:
    """Return True if an expression means just a text, whose letters may be escaped."""
    return (
        not _META.search(pattern)
        or re.escape(re.sub(r"\\([^A-Za-z0-9])", r"\1", pattern)) == pattern
    )


def main() -> None:
    """Read one request as JSON from standard input, search the files as it says, and write the
    answer as JSON to standard output (the comment at the top of this file lists the keys of both).
    If the answer takes a second of CPU time more than the request's `seconds`, or 20 seconds more
    by the wall clock, an alarm signal ends this process.
    """
    request: ScanOrder = json.load(sys.stdin)
    signal.setitimer(signal.ITIMER_PROF, request["seconds"] + GRACE_S)
    signal.setitimer(signal.ITIMER_REAL, request["seconds"] + HUNG_S)
    try:
        wanted = Wanted(request)
    except (re.error, OverflowError, RecursionError) as error:
        json.dump({"error": str(error)}, sys.stdout)
        return
    json.dump(
        count(wanted, request) if request["op"] == "count" else collect(wanted, request), sys.stdout
    )


def collect(wanted: Wanted, request: ScanOrder) -> ScanAnswer:
    """Return the answer to `request` for lines that satisfy `wanted`. The request is of the kind
    `search`, which finds one place in each such line, or `sift`, which returns the lines whole.

    The answer has `hits`, a list of the lines found. The search ends early when it has found enough
    or its time is over; `next` is then the place to continue from, as [number of the log's file,
    byte in it], and None if everything was searched.
    """
    until = time.monotonic() + request["seconds"]
    escapes = re.compile(request["escapes"].encode("latin-1"))
    sift, backwards = request["op"] == "sift", request["backwards"]
    hits: list[list[Any]] = []
    room = request["room"]
    for generation, fd, begin, end in request["ranges"]:
        for first, data in blocks(fd, begin, end, backwards=backwards):
            found = list(lines(wanted, fd, first, data, escapes))
            for offset, size, line in reversed(found) if backwards else found:
                if len(hits) >= request["limit"] or room <= 0:
                    return {
                        "hits": hits,
                        "next": [generation, offset + size if backwards else offset],
                    }
                told: list[Any] = [generation, offset, whole(line), len(line)]
                if not sift:
                    told = hit(wanted, generation, fd, first, offset, line)
                if not sift and hits and hits[-1][:2] == told[:2]:
                    continue  # another part of the same long line
                hits.append(told)
                room -= len(told[2].encode("utf-8", "replace")) * 2 + 60
            if time.monotonic() > until:
                reached = first if backwards else first + len(data)
                return {"hits": hits, "next": [generation, reached]}
    return {"hits": hits, "next": None}


def count(wanted: Wanted, request: ScanOrder) -> ScanAnswer:
    """Return the answer to `request`, of the kind `count`, for lines that satisfy `wanted`. It has
    `stretches` (lists [generation, begin, end, lines]: the parts of files with such lines, and how
    many each has), `reached` (the place up to which lines were counted), and `next`, the place to
    continue from, or None if everything was counted. Places are [generation, offset].
    """
    until = time.monotonic() + request["seconds"]
    escapes = re.compile(request["escapes"].encode("latin-1"))
    stretches: list[list[int]] = []
    place: list[int] | None = None
    for generation, fd, begin, end in request["ranges"]:
        for first, data in blocks(fd, begin, end, backwards=False):
            found = sum(1 for _ in lines(wanted, fd, first, data, escapes))
            reached = first + len(data)
            if (
                found
                and stretches
                and stretches[-1][0] == generation
                and reached - stretches[-1][1] <= STRETCH
            ):
                stretches[-1][2], stretches[-1][3] = reached, stretches[-1][3] + found
            elif found:
                stretches.append([generation, first, reached, found])
            place = [generation, reached]
            if time.monotonic() > until or len(stretches) > request["limit"]:
                return {"stretches": stretches, "reached": place, "next": place}
    return {"stretches": stretches, "reached": place, "next": None}


def blocks(fd: int, begin: int, end: int, *, backwards: bool) -> Iterator[tuple[int, bytes]]:
    """Read the bytes from `begin` up to (not including) `end` of the open file `fd` in blocks. For
    each block, yield a pair: its offset in the file, and its bytes. With `backwards`, the last
    block comes first. A block has whole lines. Only a line that is longer than a block is spread
    over several blocks.
    """
    while begin < end:
        start = max(begin, end - BLOCK) if backwards else begin
        block = os.pread(fd, min(BLOCK, end - start), start)
        if not block:
            return
        if backwards:
            cut = 0
            if start > begin:
                cut = block.find(b"\n", 0, len(block) - 1) + 1
            end = start + cut
            yield end, block[cut:]
        else:
            if begin + len(block) < end:
                block = block[: block.rfind(b"\n") + 1] or block
            yield begin, block
            begin += len(block)


def lines(
    wanted: Wanted, fd: int, first: int, data: bytes, escapes: re.Pattern[bytes]
) -> Iterator[tuple[int, int, bytes]]:
    """Yield three things for each line of one block that satisfies the condition `wanted`: the byte
    of the file at which the line begins, its length in the file with LF, and its bytes without
    escape sequences and LF.

    `data` are the block's bytes, which begin at byte `first` of the open file `fd`. `escapes` is
    the regular expression for the escape sequences of a terminal.
    """
    text = escapes.sub(b"", data) if b"\x1b" in data else data
    if not wanted.may_be_in(text):
        return
    if wanted.leap is not None and not wanted.floor and text is data:
        yield from leaps(wanted, wanted.leap, first, data)
        return
    level = level_before(fd, first) if wanted.floor else 0
    offset = first
    for line, raw in zip(text.split(b"\n"), data.split(b"\n"), strict=True):
        if offset < first + len(data):
            if b"\r" in line:
                line = last_write(line)
            if wanted.floor:
                own = level_of(line)
                level = level if own is None else own
            if level >= wanted.floor and wanted.matches(line):
                yield offset, len(raw) + 1, line
        offset += len(raw) + 1


def leaps(
    wanted: Wanted, leap: re.Pattern[bytes], first: int, data: bytes
) -> Iterator[tuple[int, int, bytes]]:
    """Yield (offset in the file, length with LF, bytes without LF) for each line of one block that
    satisfies the condition `wanted`. This is what `lines` yields, but faster: only the lines that
    the regular expression `leap` finds are tested. `data` are the block's bytes, which begin at
    byte `first` of the file. Use it only if `data` has no escape sequences and the condition sets
    no lowest level.
    """
    at = 0
    while at < len(data) and (found := leap.search(data, at)):
        if found.start() >= len(data):
            return
        begin = data.rfind(b"\n", 0, found.start()) + 1
        end = data.find(b"\n", found.start())
        end = len(data) if end < 0 else end
        line = data[max(begin, at) : end]
        line = last_write(line) if b"\r" in line else line
        if begin >= at and wanted.matches(line):
            yield first + begin, end + 1 - begin, line
        at = end + 1


def level_of(line: bytes) -> int | None:
    """Return the level that the line's own header shows, as a number from 5 (TRACE) to 50
    (CRITICAL). Return None for a line that shows none, such as the lines of a traceback.
    """
    glog = _GLOG.match(line)
    if glog is not None:
        return _GLOG_LEVELS[glog[1]]
    found = _LEVEL.search(line, 0, LEVEL_REACH)
    if found is None and line.startswith(b'{"'):
        found = re.search(rb'"level": ?"([A-Z]+)"', line[:400])
    return _LEVELS.get(found[1]) if found else None


def level_before(fd: int, offset: int) -> int:
    """Return the level, as a number from 5 to 50, of the last line before byte `offset` of the open
    file `fd` that shows a level. Return 0 if no line in the 16 KiB before `offset` shows one.
    """
    begin = max(0, offset - BEFORE)
    for line in reversed(os.pread(fd, offset - begin, begin).split(b"\n")):
        level = level_of(line)
        if level is not None:
            return level
    return 0


def last_write(line: bytes) -> bytes:
    """Return the part of the line that a terminal would show in the end. A progress bar writes its
    line again and again with carriage returns between; the last part that is not empty is returned.
    """
    return next((piece for piece in reversed(line.split(b"\r")) if piece), b"")


def whole(line: bytes) -> str:
    """Return the first 4,096 bytes of the line as text, which is the whole line if it is not
    longer.
    """
    return line[:WHOLE].decode("utf-8", "replace")


def hit(
    wanted: Wanted, generation: int, fd: int, first: int, offset: int, line: bytes
) -> list[Any]:
    """Return a list that describes a line that satisfies the condition `wanted`: the number
    `generation` of its file, the byte of the file at which the line begins, an excerpt of the line
    as text, and how many bytes of the line are before the match.

    The line was found at byte `offset` of the open file `fd`, in the block that begins at byte
    `first`. If the two are the same, `line` may be only the rest of a line that is longer than a
    block; the beginning of the whole line is then read from the file.
    """
    match = None
    if wanted.ins:
        pattern, reach = wanted.ins[0]
        match = pattern.search(line[:reach])
    at = match.start() if match else 0
    begin = line_begin(fd, offset) if offset == first else offset
    return [generation, begin, excerpt(line, at), offset - begin + at]


def line_begin(fd: int, offset: int) -> int:
    """Return the byte at which the line that contains byte `offset` of the open file `fd` begins.
    If it begins more than 64 MiB before `offset`, return the byte 64 MiB before `offset`.
    """
    lowest = max(0, offset - HIT_LINE)
    end = offset
    while end > lowest:
        start = max(lowest, end - BLOCK)
        newline = os.pread(fd, end - start, start).rfind(b"\n")
        if newline >= 0:
            return start + newline + 1
        end = start
    return lowest


def excerpt(line: bytes, at: int) -> str:
    """Return at most 200 bytes of the line as text, chosen such that the beginning of the match,
    byte `at` of the line, is among them.
    """
    begin = max(0, at - 60) if len(line) > 200 else 0
    return line[begin : begin + 200].decode("utf-8", "replace")


if __name__ == "__main__":
    main()
