"""Opening a finished log however it was kept: as it was written, packed (gzip, bzip2, xz, zstd), or
in UTF-16 as PowerShell writes it.
"""

from __future__ import annotations

import bz2
import codecs
import errno
import gzip
import io
import lzma
import os
import subprocess
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, cast

#: The first bytes of a packed file, and what unpacks it.
_PACKED: dict[bytes, Callable[[BinaryIO], object]] = {
    b"\x1f\x8b": gzip.open,
    b"BZh": bz2.open,
    b"\xfd7zXZ\x00": lzma.open,
}
_ZSTD = b"\x28\xb5\x2f\xfd"
_MARKS = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}


def open_log(path: Path) -> BinaryIO:
    """Open the log at `path` for reading, and return a file that yields its text in UTF-8. A log
    that is packed (gzip, bzip2, xz or zstd) is unpacked while it is read. Raises OSError if it
    cannot be opened; `read` of the returned file raises OSError if a packed file is damaged or cut
    off.
    """
    handle = path.open("rb")
    start = handle.peek(8)
    if start.startswith(_ZSTD):
        os.lseek(handle.fileno(), 0, os.SEEK_SET)  # the program reads from where the descriptor is
        return cast(BinaryIO, _Unpacked(handle, handle, _zstd(handle)))
    for mark, unpacker in _PACKED.items():
        if start.startswith(mark):
            return cast(BinaryIO, _Unpacked(handle, cast(BinaryIO, unpacker(handle))))
    if start[:2] in _MARKS:
        return cast(BinaryIO, _Unpacked(handle, handle))
    return handle


def _zstd(handle: BinaryIO) -> subprocess.Popen[bytes]:
    """Start the program that unpacks zstd, which Python does not know before 3.14."""
    try:
        return subprocess.Popen(
            ["zstd", "-dcq"], stdin=handle, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
    except FileNotFoundError:
        handle.close()
        raise OSError(
            errno.ENOENT, "it is packed with zstd, and there is no program zstd to unpack it"
        ) from None


class _Unpacked(io.RawIOBase):
    """A log that is unpacked and turned into UTF-8 while it is read. `file` is the file itself,
    `source` what unpacks it, or `process` the program that does.
    """

    def __init__(
        self, file: BinaryIO, source: BinaryIO, process: subprocess.Popen[bytes] | None = None
    ) -> None:
        self._file, self._process = file, process
        self._source = source
        if process is not None and process.stdout is not None:
            self._source = cast(BinaryIO, process.stdout)
        self._decoder: codecs.IncrementalDecoder | None = None
        self._begun = False

    def readable(self) -> bool:
        """Return True."""
        return True

    def fileno(self) -> int:
        """Return the descriptor of the file itself, which tells when it was written."""
        return self._file.fileno()

    def read(self, size: int = -1) -> bytes:
        """Return up to about `size` bytes of text in UTF-8, and b"" at the end. Raises OSError if
        the packed file is damaged or cut off.
        """
        text = b""
        while not text:
            data = self._taken(size)
            text = self._text(data)
            if not data:
                break
        return text

    def close(self) -> None:
        """Close the file, and end the program that unpacks it."""
        if self._process is not None and self._process.stdout is not None:
            self._process.stdout.close()
            self._process.kill()
            self._process.wait()
        self._file.close()
        super().close()

    def _taken(self, size: int) -> bytes:
        try:
            data = self._source.read(size)
        except (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile) as error:
            raise OSError(errno.EIO, f"the packed file is damaged or cut off ({error})") from error
        if not data and self._process is not None and self._process.wait() != 0:
            raise OSError(errno.EIO, "the packed file is damaged or cut off")
        return data

    def _text(self, data: bytes) -> bytes:
        """Return the text of some bytes. The first two bytes of the log tell if it is UTF-16."""
        if not self._begun and data:
            self._begun = True
            if (name := _MARKS.get(data[:2])) is not None:
                self._decoder, data = codecs.getincrementaldecoder(name)("replace"), data[2:]
        if self._decoder is None:
            return data
        return self._decoder.decode(data, final=not data).encode("utf-8", "replace")
