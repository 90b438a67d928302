"""SHA-1 digests of checkpoint files. Each file is read once; its digest is valid as long as its
size, times and inode are the same.

B2 compares SHA-1, so that is what a manifest needs. This module runs in the process of the sync.
"""

from __future__ import annotations

import hashlib
import itertools
import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from bs4_common.descriptors import open_file
from bs4_common.errors import StepFailed
from bs4_common.files import read_json, write_json

_BLOCK = 1 << 20
#: Two threads keep up with the link of any pod (each does more than 500 MB/s), and leave the cores
#: to the run.
THREADS = 2
#: The most entries that are remembered for one run.
_KEPT = 20_000


@dataclass(frozen=True)
class Stamp:
    """The size, times and inode of a file at the moment when it was hashed. If all of them are the
    same later, the file has not changed. Times are in ns since 1970: `modified` is the mtime, and
    `changed` is the ctime of the inode, which no program can set back.
    """

    size: int
    modified: int
    changed: int
    inode: int

    @classmethod
    def of(cls, path: Path) -> Stamp:
        """Return the present stamp (size, times and inode) of the file. Raises OSError if the file
        does not exist, and Refused if it is no regular file.
        """
        with open_file(path) as opened:
            return cls.of_open(opened)

    @classmethod
    def of_open(cls, opened: int) -> Stamp:
        """Return the present stamp (size, times and inode) of the open file with the descriptor
        `opened`.
        """
        found = os.fstat(opened)
        return cls(found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino)


class Hashes:
    """A cache of the SHA-1 digests of files, by their paths. It is saved in the file `memory`, so
    that an upload that was killed does not have to read all files (13 GB, for example) again.
    """

    def __init__(self, memory: Path) -> None:
        self._memory = memory
        raw = read_json(memory) or {}
        self._known: dict[str, tuple[Stamp, str]] = {}
        for path, row in raw.items():
            if isinstance(row, list) and len(row) == 5:
                self._known[path] = Stamp(*(int(number) for number in row[:4])), str(row[4])

    def of(
        self, paths: Iterable[Path], progress: Callable[[int], None] | None = None
    ) -> dict[Path, tuple[Stamp, str]]:
        """Return for every path its Stamp (the file's size, times and inode, by which a change is
        noticed) and its SHA-1 digest in hexadecimal digits. Only files that have changed since the
        cache was written are read. `progress` is called with the number of bytes of each block that
        was read.

        Raises StepFailed if a file is written to while it is read, Refused if it is a link or no
        regular file, and OSError if it does not exist. The paths must contain no symbolic link.
        """
        wanted = list(paths)
        with ThreadPoolExecutor(THREADS, "hash") as pool:
            results = list(pool.map(self._one, wanted, itertools.repeat(progress)))
        found = dict(zip(wanted, results, strict=True))
        self._known |= {str(path): result for path, result in found.items()}
        self._save()
        return found

    def _one(self, path: Path, progress: Callable[[int], None] | None) -> tuple[Stamp, str]:
        """Return the stamp and the digest of one file."""
        with open_file(path) as opened:
            before = Stamp.of_open(opened)
            known = self._known.get(str(path))
            if known is not None and known[0] == before:
                return known
            digest = hashlib.sha1(usedforsecurity=False)
            offset = 0
            while block := os.pread(opened, _BLOCK, offset):
                digest.update(block)
                offset += len(block)
                if progress is not None:
                    progress(len(block))
        if Stamp.of(path) != before:
            raise StepFailed(
                f"{path} is being written to, so its step is not uploaded now; it is looked "
                "at again by itself."
            )
        return before, digest.hexdigest()

    def _save(self) -> None:
        """Write the newest digests to the memory file."""
        rows = {}
        for path, (s, sha1) in list(self._known.items())[-_KEPT:]:
            rows[path] = [s.size, s.modified, s.changed, s.inode, sha1]
        write_json(self._memory, rows)
