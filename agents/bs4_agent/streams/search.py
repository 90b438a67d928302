"""Find text in a stream: bytes here, regular expressions in a process of their own; a time slice, a number of hits, and go on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from bs4_agent.errors import BadRequest
from bs4_agent.identity import Identity
from bs4_agent.streams.budget import Budget
from bs4_agent.streams.cursor import Cursor
from bs4_agent.streams.regexscan import excerpt
from bs4_agent.streams.stream import Piece

MAX_HITS = 500
#: Bytes of hits in one answer, so that it fits a frame's header (64 KiB) with room for escapes.
ROOM = 24 * 1024
BLOCK = 256 * 1024
#: Seconds one regular expression call may scan; its process takes about 20 ms to start, so a slice of 50 ms would be half overhead.
REGEX_SLICE_S = 0.25
#: Descriptors handed to one such process.
REGEX_PIECES = 64

_SCANNER = Path(__file__).with_name("regexscan.py")

Hit = tuple[Cursor, str]


def literal(pieces: Sequence[Piece], start: Cursor, needle: bytes, limit: int, budget: Budget) -> tuple[list[Hit], Cursor | None]:
    """Lines with `needle` from `start` on: (line start, excerpt), and where to go on (None: the end was reached)."""
    hits: list[Hit] = []
    room = ROOM
    for piece in pieces:
        if piece.generation < start.generation:
            continue
        position = start.offset if piece.generation == start.generation else 0
        fd = piece.open()
        if fd < 0:
            continue
        try:
            for offset, block in _blocks(fd, position, piece.size):
                for at, text in _matches(block, needle):
                    if len(hits) == limit or room <= 0:
                        return hits, Cursor(piece.generation, offset + at)
                    hits.append((Cursor(piece.generation, offset + at), text))
                    room -= 2 * len(text) + 60
                if budget.spent:
                    return hits, Cursor(piece.generation, offset + len(block))
        finally:
            os.close(fd)
    return hits, None


def _blocks(fd: int, position: int, end: int) -> Iterator[tuple[int, bytes]]:
    """(offset, whole lines) of [position, end); only a line longer than a block is cut."""
    while position < end:
        block = os.pread(fd, min(BLOCK, end - position), position)
        if not block:
            return
        if position + len(block) < end:
            block = block[: block.rfind(b"\n") + 1] or block
        yield position, block
        position += len(block)


def _matches(block: bytes, needle: bytes) -> Iterator[tuple[int, str]]:
    """(offset of the line, excerpt) of each line of `block` that holds `needle`, once per line."""
    found = block.find(needle)
    while found >= 0:
        begin = block.rfind(b"\n", 0, found) + 1
        end = block.find(b"\n", found)
        end = len(block) if end < 0 else end
        yield begin, excerpt(block[begin:end], found - begin)
        found = block.find(needle, end)


def regex(pieces: Sequence[Piece], start: Cursor, pattern: str, limit: int, budget: Budget) -> tuple[list[Hit], Cursor | None]:
    """As `literal`, for lines (their first 16 KiB) in which `pattern` matches. BadRequest for one that is invalid or takes too long."""
    wanted = [piece for piece in pieces if piece.generation >= start.generation]
    opened = [(piece, fd) for piece in wanted[:REGEX_PIECES] if (fd := piece.open()) >= 0]
    try:
        ranges = [[p.generation, fd, start.offset if p.generation == start.generation else 0, p.size] for p, fd in opened]
        request = {"pattern": pattern, "ranges": ranges, "limit": limit, "seconds": REGEX_SLICE_S, "room": ROOM}
        answer = _scan(request, [fd for _, fd in opened], budget)
    finally:
        for _, fd in opened:
            os.close(fd)
    if answer is None:
        return [], start
    hits = [(Cursor(generation, offset), text) for generation, offset, text in answer["hits"]]
    if answer["next"] is not None:
        return hits, Cursor(*answer["next"])
    return hits, Cursor(wanted[REGEX_PIECES].generation, 0) if len(wanted) > REGEX_PIECES else None


def _scan(request: dict[str, Any], fds: Sequence[int], budget: Budget) -> dict[str, Any] | None:
    """What the scanner said; None when the query was cancelled."""
    argv = [sys.executable, "-I", "-S", str(_SCANNER)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=fds) as process:
        output = b""
        message: bytes | None = json.dumps(request).encode()
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
        raise BadRequest("The pattern takes too long on a line; search for plain text or for a simpler pattern.")
    answer: dict[str, Any] = json.loads(output)
    if "error" in answer:
        raise BadRequest(f"The pattern is no regular expression ({answer['error']}); mend it, or search for plain text.")
    return answer
