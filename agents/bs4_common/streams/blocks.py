"""Read a file's lines in blocks, into one buffer that is used again. Blocks are searched in C while
other threads run.
"""

from __future__ import annotations

import ctypes
import functools
import os
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from typing import Any

#: Bytes of one read. 474 MB in such blocks take 0.03 s from the page cache; larger blocks do not
#: fit the processor's cache.
BLOCK = 256 * 1024
#: Matches in one block above which they are only counted, by one expression. Below, each line is
#: located.
CROWDED = 32

#: Colours and other escape sequences, which end at the line's end at the latest. A text that a
#: person searches for has none in it.
ESCAPES = re.compile(
    rb"\x1b(?:\[[0-?]*[ "
    rb"-/]*[@-~]?|\][^\x07\x1b\n]*(?:\x07|\x1b\\)?|[PX^_][^\x1b\n]*(?:\x1b\\)?|[ -/]*[0-~]?)"
)
_NEWLINE = re.compile(rb"\n")
_LF = 0x0A


class Block:
    """Some whole lines of a file. The first of them begins at byte `offset` of the file. `raw` has
    the bytes of these lines as they are in the file. `text` has the same bytes without the escape
    sequences for a terminal, such as those for colours.
    """

    __slots__ = ("_raw_starts", "_text_starts", "offset", "raw", "text")

    def __init__(self, offset: int, raw: bytes) -> None:
        self.offset, self.raw = offset, raw
        self.text = ESCAPES.sub(b"", raw) if b"\x1b" in raw else raw
        self._raw_starts: list[int] = []
        self._text_starts: list[int] = []

    def line_at(self, position: int) -> tuple[int, int, int]:
        """Return (offset, begin, end) of the line that contains byte `position` of `text`. `offset`
        is the byte of the file at which the line begins. `begin` and `end` are the bytes of `text`
        at which the line begins and ends.
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
    """Reads a file block by block into one buffer of 256 KiB, and finds the blocks that contain a
    given byte string. A query makes a Reader of its own; two queries must not share one.
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
        """Yield the blocks of bytes [begin, end) of the open file `fd` in order. Each is yielded as
        a pair: the byte of the file at which the block ends, and the Block. If the block does not
        contain the bytes `must`, the pair has None in place of the Block, so that no caller
        searches it.

        A block has whole lines. Only a line that is longer than a block is cut into several. Each
        further part of it begins `overlap` bytes before the end of the part before, so that a text
        of up to `overlap` + 1 bytes lies whole in one of the parts.
        """
        for start, size in self._whole_lines(fd, begin, end, overlap):
            passed = must and not self._holds(must, size)
            yield start + size, None if passed else Block(start, bytes(self._view[:size]))

    def counts(
        self, fd: int, begin: int, end: int, wanted: bytes, *, must: bytes, ignore_case: bool
    ) -> Iterator[tuple[int, int, int, bool]]:
        """Yield three numbers for each block of bytes [begin, end) of the open file `fd`, in order:
        the bytes of the file at which the block begins and ends, and how many of the block's lines
        contain `wanted`; and True if the block ends inside a line, which goes on in the next one. A
        line that is longer than a block is counted once.

        With `ignore_case`, upper and lower case of ASCII letters count as the same, and `wanted`
        must be in lower case. `must` is a part of `wanted` that stands in every match exactly as it
        is written here, or empty. A block without it is not searched, and its number of lines is 0.
        """
        counted = False  # whether the block begins inside a line that was counted
        line, twice = (
            re.compile(re.escape(wanted) + rb"[^\n]*"),
            re.compile(re.escape(wanted) + rb".*" + re.escape(wanted)),
        )
        for start, size in self._whole_lines(fd, begin, end, len(wanted) - 1):
            # The block is then part of one line.
            cut = start + size < end and self._buffer[size - 1] != _LF
            found = 0
            may_match = not must or self._holds(must, size)
            if may_match and not (cut and counted):
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
            yield start, start + size, found, cut

    def _whole_lines(
        self, fd: int, begin: int, end: int, overlap: int = 0
    ) -> Iterator[tuple[int, int]]:
        """Yield the offset and the size of each block of [begin, end). The block is in the buffer
        until the next one is asked for. See `blocks`.
        """
        while begin < end:
            size = os.preadv(fd, [self._view[: min(BLOCK, end - begin)]], begin)
            if size <= 0:
                return
            whole = size
            if begin + size < end:
                whole = self._buffer.rfind(b"\n", 0, size) + 1
            yield begin, whole or size
            begin += whole or max(1, size - overlap)

    def back(
        self, fd: int, begin: int, end: int, must: bytes = b"", overlap: int = 0
    ) -> Iterator[tuple[int, Block | None]]:
        """Yield the blocks of bytes [begin, end) of the open file `fd`, the last one first. Each is
        yielded as a pair: the byte of the file at which the block begins, and the Block. If the
        block does not contain the bytes `must`, the pair has None in place of the Block. A line
        that is longer than a block is cut into parts that overlap by `overlap` bytes, as in
        `blocks`.
        """
        while end > begin:
            start = max(begin, end - BLOCK)
            size = os.preadv(fd, [self._view[: end - start]], start)
            if size <= 0:
                return
            raw = self._view[:size]
            if start > begin:
                # A line that the block's begin cuts belongs to the block before. A line longer than
                # a block is cut.
                cut = self._buffer.find(b"\n", 0, size - 1) + 1
                start += cut
                raw = self._view[cut:size]
            passed = must and not self._holds(must, size)
            yield start, None if passed else Block(start, bytes(raw))
            # Nothing was left for the block before, because the line is longer than a block.
            within = start > begin and len(raw) == size
            end = min(start + overlap, end - 1) if within else start

    def _find(self, needle: bytes, begin: int, end: int) -> int:
        """Return the position of `needle` in bytes [begin, end) of the buffer, or -1.

        It keeps the interpreter's lock, because it is called for every match and getting the lock
        back may take 5 ms.
        """
        if _memmem_here is None:
            return self._buffer.find(needle, begin, end)
        found = _memmem_here(self._address + begin, end - begin, needle, len(needle))
        return found - self._address if found else -1

    def _holds(self, needle: bytes, size: int) -> bool:
        """Return True if `needle` is, or may be, in the first `size` bytes of the buffer. It may be
        there if there are escape sequences, because they can divide what a person sees as one text.
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
    """Return the number of lines with a match in [first, size) of the text. `find` returns the next
    match of a range, or -1.

    If there are many matches and no line has two of them (`twice`), the matches are counted in C.
    Otherwise `line` finds one line at a time, which takes half as long again.
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
    """Return libc's memmem, or None if there is none. It is twice as fast as bytes.find, and with
    ctypes.CDLL other threads run meanwhile.
    """
    try:
        found = library(None).memmem
    except (OSError, AttributeError):
        return None
    found.restype = ctypes.c_void_p
    found.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t]
    return found


_memmem, _memmem_here = _memmem_of(ctypes.CDLL), _memmem_of(ctypes.PyDLL)
