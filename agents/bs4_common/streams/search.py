"""Find text in a stream. Byte strings are searched here, regular expressions in a process of their
own. Each call has a time slice and a number of hits, and returns the place to continue from.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bs4_common.errors import BadRequest
from bs4_common.identity import Identity
from bs4_common.streams.blocks import ESCAPES, Block, Reader
from bs4_common.streams.budget import Budget
from bs4_common.streams.cursor import Cursor
from bs4_common.streams.lines import line_start, nth_newline
from bs4_common.streams.regexscan import excerpt
from bs4_common.streams.stream import Piece, opened

if TYPE_CHECKING:
    from bs4_common.streams.regexscan import ScanAnswer, ScanOrder, ScanRequest

MAX_HITS = 500
#: Bytes of hits in one answer. They fit a frame's header (64 KiB) with room for escapes.
ROOM = 24 * 1024
#: Seconds that one call with a regular expression may scan. Its process takes about 20 ms to start,
#: so a slice of 50 ms would be half overhead.
REGEX_SLICE_S = 0.25
#: The most descriptors that are passed to one such process.
REGEX_PIECES = 64
#: A count reports the matching lines of each stretch. A stretch has at least STRETCH bytes, and
#: more if an answer would have more than STRETCHES.
STRETCH = 1024 * 1024
STRETCHES = 400

#: Bytes from a hit in which its line's begin and end are searched, in a line longer than a block:
#: 20 ms. A longer line is taken in pieces.
HIT_LINE = 64 * 1024 * 1024

_SCANNER = Path(__file__).with_name("regexscan.py")
#: Bytes that are the same in lower and upper case.
_CASELESS = re.compile(rb"[^A-Za-z\x80-\xff]+")

#: A hit: the cursor of the line, an excerpt, and the bytes from the line's begin to the match.
Hit = tuple[Cursor, str, int]
#: A stretch: [generation, begin, end, matching lines].
Stretch = list[int]


@dataclass(frozen=True)
class Needle:
    """A text to search for in lines, as bytes. With `ignore_case`, upper and lower case of ASCII
    letters count as the same.
    """

    text: bytes
    ignore_case: bool = False

    @property
    def must(self) -> bytes:
        """Return a part of the text that stands in every match exactly as it is returned. A block
        without this part has no match, so it can be skipped. With `ignore_case` the part has no
        letters. It is empty if the text has no part of that kind.
        """
        if not self.ignore_case:
            return self.text
        return max(_CASELESS.findall(self.text), key=len, default=b"")

    def haystack(self, block: Block) -> bytes:
        """Return the bytes of the block in which to search for `wanted`: its text in lower case if
        the case of letters is ignored, else its text as it is.
        """
        if self.ignore_case:
            return block.text.lower()
        return block.text

    @property
    def wanted(self) -> bytes:
        """Return the bytes to search for. If the case of letters is ignored, they are in lower
        case, and the lines to search must be in lower case too.
        """
        if self.ignore_case:
            return self.text.lower()
        return self.text


def literal(
    pieces: Sequence[Piece],
    start: Cursor,
    needle: Needle,
    limit: int,
    budget: Budget,
    *,
    backwards: bool = False,
) -> tuple[list[Hit], Cursor | None]:
    """Search the files `pieces` of a stream for lines that contain the text `needle`, from the
    place `start` on. Return two things: the hits, at most `limit` of them, and the place from which
    another search can continue, or None if everything was searched. A hit is (cursor of the line,
    excerpt, bytes of the line before the match). With `backwards`, the lines before `start` are
    searched, newest first. `budget` is the time that the search may take.

    A line that is longer than a block is one hit, with the beginning of the whole line as its
    cursor. If the search ends inside a line of this length, the search that continues may return
    the line again.
    """
    hits: list[Hit] = []
    room = ROOM
    reader, must, overlap = Reader(), needle.must, len(needle.text) - 1
    read = reader.back if backwards else reader.blocks
    for generation, fd, begin, end in _opened(pieces, start, backwards=backwards):
        for reached, block in read(fd, begin, end, must, overlap):
            found = list(_matches(block, needle, fd)) if block else []
            for line, after, text, at in reversed(found) if backwards else found:
                if hits and hits[-1][0] == Cursor(generation, line):
                    continue  # another part of the same long line
                hits.append((Cursor(generation, line), text, at))
                room -= 2 * len(text) + 80
                if len(hits) == limit or room <= 0:
                    return hits, Cursor(generation, line if backwards else after)
            if budget.spent:
                return hits, Cursor(generation, reached)
    return hits, None


def _begin(fd: int, at: int) -> int:
    """Return the offset at which a line begins. Its part from `at` on is the first of a block."""
    if at == 0 or os.pread(fd, 1, at - 1) == b"\n":
        return at
    return line_start(fd, at, HIT_LINE)


def _end(fd: int, after: int) -> int:
    """Return the offset of the next line, if the line before `after` may continue there."""
    if os.pread(fd, 1, after - 1) == b"\n":
        return after
    return nth_newline(fd, after, after + HIT_LINE, 1) or after


def count(
    pieces: Sequence[Piece], start: Cursor, needle: Needle, budget: Budget
) -> tuple[list[Stretch], Cursor, bool]:
    """Count the lines of the files `pieces` of a stream that contain `needle`, from the place
    `start` on, until the time `budget` is over. Return three things: a list of [generation, begin,
    end, lines], which says for parts of files (from byte `begin` to byte `end` of the file with
    that number) how many lines there contain it; the place up to which lines were counted; and True
    if that is the end of the stream.

    That place is the beginning of a line. It is inside a line only if that line alone takes longer
    than `budget`; then the line may be counted again.
    """
    stretches: list[Stretch] = []
    within: list[Stretch] = []
    """Those of a line that has not ended yet."""
    reader, must = Reader(), needle.must
    long = max(STRETCH, sum(piece.size for piece in pieces) // STRETCHES)
    place = start
    for generation, fd, begin, end in _opened(pieces, start):
        for first, reached, lines, cut in reader.counts(
            fd, begin, end, needle.wanted, must=must, ignore_case=needle.ignore_case
        ):
            if lines:
                within.append([generation, first, reached, lines])
            spent = budget.spent
            if not cut or (spent and place == start):
                for stretch in within:
                    _add(stretches, stretch, long)
                within, place = [], Cursor(generation, reached)
            if spent:
                return stretches, place, False
    return stretches, place, True


def whole_lines(pieces: Sequence[Piece]) -> list[Piece]:
    """Return the files `pieces` of a stream, with the last file cut after its last newline, so that
    an unfinished last line is left out. A count or a filter that ends there can be continued from
    there once the file has grown.
    """
    for last, fd in opened(pieces[-1:]):
        return [*pieces[:-1], Piece(last.generation, line_start(fd, last.size), last.open)]
    return list(pieces)


def _add(stretches: list[Stretch], new: Stretch, long: int) -> None:
    """Add a stretch, joined with the last one if both together are not too long."""
    last = stretches[-1] if stretches else None
    if last is not None and last[0] == new[0] and new[2] - last[1] <= long:
        last[2], last[3] = new[2], last[3] + new[3]
    else:
        stretches.append(new)


def _ranges(
    pieces: Sequence[Piece], start: Cursor, *, backwards: bool = False
) -> Iterator[tuple[Piece, int, int]]:
    """Yield each piece and the byte range of it that lies after `start`, or before it."""
    for piece in reversed(pieces) if backwards else pieces:
        begin, end = 0, piece.size
        if piece.generation == start.generation and backwards:
            end = min(end, start.offset)
        elif piece.generation == start.generation:
            begin = start.offset
        elif (piece.generation > start.generation) == backwards:
            continue  # it lies on the other side of `start`
        yield piece, begin, end


def _opened(
    pieces: Sequence[Piece], start: Cursor, *, backwards: bool = False
) -> Iterator[tuple[int, int, int, int]]:
    """Yield each range of `_ranges` as (generation, descriptor, begin, end). The descriptor is
    closed afterwards. Pieces whose file is gone are skipped.
    """
    for piece, begin, end in _ranges(pieces, start, backwards=backwards):
        for _, fd in opened([piece]):
            yield piece.generation, fd, begin, end


def _matches(block: Block, needle: Needle, fd: int) -> Iterator[tuple[int, int, str, int]]:
    """Yield, for each line of `block` that holds `needle`: the offset of the line, the offset
    behind it, an excerpt, and the number of bytes of the line before the match.
    """
    text, wanted = needle.haystack(block), needle.wanted
    found = text.find(wanted)
    while found >= 0:
        at, begin, end = block.line_at(found)
        line, following = at, block.offset + len(block.raw)
        if end + 1 < len(text):
            following = block.line_at(end + 1)[0]
        if at == block.offset:
            line, following = _begin(fd, at), _end(fd, following)
        yield (
            line,
            following,
            excerpt(block.text[begin:end], found - begin),
            at - line + found - begin,
        )
        found = text.find(wanted, end)


def regex(
    pieces: Sequence[Piece],
    start: Cursor,
    pattern: str,
    limit: int,
    budget: Budget,
    *,
    ignore_case: bool = False,
    backwards: bool = False,
) -> tuple[list[Hit], Cursor | None]:
    """Search the files `pieces` of a stream for lines that the regular expression `pattern`
    matches, from the place `start` on. Return two things: the hits, at most `limit` of them, and
    the place from which another search can continue, or None if everything was searched. A hit is
    (cursor of the line, excerpt, bytes of the line before the match). With `backwards`, the lines
    before `start` are searched, newest first. With `ignore_case`, the case of letters is ignored.
    `budget` is the time that the search may take.

    Only the first 16 KiB of a line are searched, but a pattern without special characters is found
    anywhere in a line. Raises BadRequest if the pattern is invalid, or takes more than about a
    second on one line.
    """
    request: ScanRequest = {
        "op": "search",
        "terms": [{"pattern": pattern, "ignore_case": ignore_case}],
        "limit": limit,
    }
    answer, following = scan(pieces, start, request, budget, backwards=backwards)
    return [
        (Cursor(generation, offset), text, at) for generation, offset, text, at in answer["hits"]
    ], following


def scan(
    pieces: Sequence[Piece],
    start: Cursor,
    request: ScanRequest,
    budget: Budget,
    *,
    backwards: bool = False,
) -> tuple[ScanAnswer, Cursor | None]:
    """Let a separate process search the files `pieces` of a stream with regular expressions, from
    the place `start` on or, with `backwards`, before it. `request` says what to search for: `op`
    (search, sift or count), `terms` [{"pattern", "ignore_case", "out"}], `floor` (the lowest level)
    and `limit`. Return two things: the answer of the process (`hits`, or for a count `stretches`
    and `reached`; see the top of regexscan.py), and the place from which another search can
    continue, or None if everything was searched. `budget` is the time that the search may take.

    If the query is cancelled, the answer has no hits. Raises BadRequest if a pattern is invalid, or
    takes more than about a second on one line.
    """
    wanted = list(_ranges(pieces, start, backwards=backwards))
    ranges, fds = [], []
    for piece, begin, end in wanted[:REGEX_PIECES]:
        if (fd := piece.open()) >= 0:
            ranges.append([piece.generation, fd, begin, end])
            fds.append(fd)
    try:
        message: ScanOrder = {
            **request,
            "ranges": ranges,
            "backwards": backwards,
            "seconds": REGEX_SLICE_S,
            "room": ROOM,
            "escapes": ESCAPES.pattern.decode("latin-1"),
        }
        answer = _scan(json.dumps(message).encode(), fds, budget)
    finally:
        for fd in fds:
            os.close(fd)
    if answer is None:
        return {"hits": [], "stretches": []}, start
    if answer["next"] is not None:
        return answer, Cursor(*answer["next"])
    if len(wanted) <= REGEX_PIECES:
        return answer, None
    further = wanted[REGEX_PIECES][0]
    return answer, Cursor(further.generation, further.size if backwards else 0)


def _scan(request: bytes, fds: Sequence[int], budget: Budget) -> ScanAnswer | None:
    """Return the answer of the scanner's process to a request in JSON, or None if the query was
    cancelled. Raises BadRequest.
    """
    argv = [sys.executable, "-I", "-S", str(_SCANNER)]
    with subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=fds
    ) as process:
        output = b""
        message: bytes | None = request
        while True:
            try:
                output, _ = process.communicate(message, timeout=0.1)
                break
            except subprocess.TimeoutExpired:
                message = None
                if budget.cancelled and (identity := Identity.of(process.pid)):
                    identity.send(9)
                    process.communicate()
                    return None
    if process.returncode != 0:
        raise BadRequest(
            "The pattern takes too long on a line; search for plain text or for a simpler pattern."
        )
    answer: ScanAnswer = json.loads(output)
    if "error" in answer:
        raise BadRequest(
            f"The pattern is no regular expression ({answer['error']}); mend it, or search "
            "for plain text."
        )
    return answer
