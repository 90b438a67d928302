"""A file's lines in blocks: read into one buffer that is used again, and looked through in C with
the interpreter's lock given back.
"""

from __future__ import annotations

import ctypes
import functools
import os
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from typing import Any

#: Bytes read at once. 474 MB in such pieces take 0.03 s from the page cache; larger ones fall out
#: of the processor's cache.
BLOCK = 256 * 1024
#: Matches in one block above which they are counted only, by one expression; below, each line is
#: located.
CROWDED = 32

#: Colours and other escape sequences, which end at the line's end at the latest: what a person
#: searches for has none in it.
ESCAPES = re.compile(
    rb"\x1b(?:\[[0-?]*[ "
    rb"-/]*[@-~]?|\][^\x07\x1b\n]*(?:\x07|\x1b\\)?|[PX^_][^\x1b\n]*(?:\x1b\\)?|[ -/]*[0-~]?)"
)
_NEWLINE = re.compile(rb"\n")
_LF = 0x0A


class Block:
    """Whole lines from `offset` on. `text` has no escape sequences but the same lines; `raw` are
    the bytes as they lie in the file.
    """

    __slots__ = ("_raw_starts", "_text_starts", "offset", "raw", "text")

    def __init__(self, offset: int, raw: bytes) -> None:
        self.offset, self.raw = offset, raw
        if b"\x1b" in raw:
            self.text = ESCAPES.sub(b"", raw)
        else:
            self.text = raw
        self._raw_starts: list[int] = []
        self._text_starts: list[int] = []

    def line_at(self, position: int) -> tuple[int, int, int]:
        """(raw offset in the file, begin, end) of the line that byte `position` of `text` lies
        in.
        """
        begin = self.text.rfind(b"\n", 0, position) + 1
        end = self.text.find(b"\n", position)
        end = len(self.text) if end < 0 else end
        if self.text is self.raw:
            return self.offset + begin, begin, end
        if not self._raw_starts:
            self._raw_starts = [0, *(found.end() for found in _NEWLINE.finditer(self.raw))]
            self._text_starts = [0, *(found.end() for found in _NEWLINE.finditer(self.text))]
        return (
            self.offset + self._raw_starts[bisect_right(self._text_starts, begin) - 1],
            begin,
            end,
        )


class Reader:
    """Reads blocks of one file and says at once whether a byte string is in them. One per query: it
    holds BLOCK bytes.
    """

    def __init__(self) -> None:
        self._buffer = bytearray(BLOCK)
        self._view = memoryview(self._buffer)
        memory = ctypes.c_char.from_buffer(self._buffer)
        self._address = ctypes.addressof(memory)
        self._memory = memory

    def blocks(
        self, fd: int, begin: int, end: int, must: bytes = b"", overlap: int = 0
    ) -> Iterator[tuple[int, Block | None]]:
        """(where the block ends, the block) of [begin, end), whole lines each; None for a block
        that does not hold `must`.

        Only a line longer than a block is cut, and its next part begins `overlap` bytes before, so
        that a text lies whole in one of them. A block that is passed over was never copied into an
        object: 0.1 s for 474 MB.
        """
        for start, size in self._whole_lines(fd, begin, end, overlap):
            passed = must and not self._holds(must, size)
            yield start + size, None if passed else Block(start, bytes(self._view[:size]))

    def counts(
        self, fd: int, begin: int, end: int, wanted: bytes, *, must: bytes, ignore_case: bool
    ) -> Iterator[tuple[int, int, int]]:
        """(where a block begins, where it ends, its lines that hold `wanted`) of [begin, end).
        `wanted` is in small letters where `ignore_case`; `must`: a part of it that is in a block as
        it stands, for certain, or nothing.

        Counted where they were read: a copy of each block takes longer than looking through it
        (0.18 s for 474 MB). A line that is longer than a block counts once.
        """
        counted = False  # whether the block begins inside a line that was counted
        line, twice = (
            re.compile(re.escape(wanted) + rb"[^\n]*"),
            re.compile(re.escape(wanted) + rb".*" + re.escape(wanted)),
        )
        for start, size in self._whole_lines(fd, begin, end, len(wanted) - 1):
            # then the block is part of one line
            cut = start + size < end and self._buffer[size - 1] != _LF
            found = 0
            if not (must and not self._holds(must, size)) and not (cut and counted):
                text: bytes | bytearray = self._buffer
                length, find = size, functools.partial(self._find, wanted)
                if ignore_case or self._buffer.find(b"\x1b", 0, size) >= 0:
                    text = Block(start, bytes(self._view[:size])).text
                    text = text.lower() if ignore_case else text
                    length, find = len(text), functools.partial(text.find, wanted)
                first = 0
                if counted:
                    first = text.find(b"\n", 0, length) + 1 or length
                found = _lines(text, first, length, wanted, find, line, twice)
            counted = cut and (counted or found > 0)
            yield start, start + size, found

    def _whole_lines(
        self, fd: int, begin: int, end: int, overlap: int = 0
    ) -> Iterator[tuple[int, int]]:
        """(offset, bytes) of each block of [begin, end), which is in the buffer then; see
        `blocks`.
        """
        while begin < end:
            size = os.preadv(fd, [self._view[: min(BLOCK, end - begin)]], begin)
            if size <= 0:
                return
            if begin + size < end:
                whole = self._buffer.rfind(b"\n", 0, size) + 1
            else:
                whole = size
            yield begin, whole or size
            begin += whole or max(1, size - overlap)

    def back(
        self, fd: int, begin: int, end: int, must: bytes = b"", overlap: int = 0
    ) -> Iterator[tuple[int, Block | None]]:
        """(where the block begins, the block) of [begin, end), the last one first; otherwise as
        `blocks`.
        """
        while end > begin:
            start = max(begin, end - BLOCK)
            size = os.preadv(fd, [self._view[: end - start]], start)
            if size <= 0:
                return
            if start > begin:
                # A line that is cut by the block's begin belongs to the one before; one longer than
                # a block is cut.
                cut = self._buffer.find(b"\n", 0, size - 1) + 1
                start += cut
                raw = self._view[cut:size]
            else:
                raw = self._view[:size]
            passed = must and not self._holds(must, size)
            yield start, None if passed else Block(start, bytes(raw))
            # nothing was left for the block before: a line longer than a block
            within = start > begin and len(raw) == size
            end = min(start + overlap, end - 1) if within else start

    def _find(self, needle: bytes, begin: int, end: int) -> int:
        """As bytes.find, in the buffer. Keeps the interpreter's lock: this is called for every
        match, and to get it back may take 5 ms.
        """
        if _memmem_here is None:
            return self._buffer.find(needle, begin, end)
        found = _memmem_here(self._address + begin, end - begin, needle, len(needle))
        return found - self._address if found else -1

    def _holds(self, needle: bytes, size: int) -> bool:
        """Whether `needle` is in the buffer. Escapes in it may part what a person sees as one text:
        then nobody knows yet.
        """
        if _memmem:
            found = _memmem(self._address, size, needle, len(needle))
        else:
            found = self._buffer.find(needle, 0, size) >= 0
        return bool(found) or self._buffer.find(b"\x1b", 0, size) >= 0


def _lines(
    text: bytes | bytearray,
    first: int,
    size: int,
    wanted: bytes,
    find: Callable[[int, int], int],
    line: re.Pattern[bytes],
    twice: re.Pattern[bytes],
) -> int:
    """Lines with a match in `first` to `size` of the text; `find`: the next match of a range, -1
    for none. Where they are crowded and no line has two of them (`twice`), matches are counted, in
    C; else `line` finds a line at a time, in half as long again.
    """
    found = find(first, size)
    lines = 0
    while found >= 0:
        lines += 1
        end = text.find(b"\n", found, size)
        if end < 0:
            break
        if lines == CROWDED:
            if twice.search(text, end, size) is None:
                crowded = text.count(wanted, end, size)
            else:
                crowded = len(line.findall(text, end, size))
            return lines + crowded
        found = find(end, size)
    return lines


def _memmem_of(library: type[ctypes.CDLL]) -> Any:
    """libc's memmem: twice as fast as bytes.find. With ctypes.CDLL other threads go on meanwhile.
    None where there is none.
    """
    try:
        found = library(None).memmem
    except (OSError, AttributeError):
        return None
    found.restype = ctypes.c_void_p
    found.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t]
    return found


_memmem, _memmem_here = _memmem_of(ctypes.CDLL), _memmem_of(ctypes.PyDLL)
