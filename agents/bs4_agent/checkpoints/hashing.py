"""SHA-1 of checkpoint files, each read once: what is known of a file holds as long as its size,
times and inode are the same.

B2 compares SHA-1, so that is what a manifest needs. Runs in the sync's own process.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from bs4_agent.errors import StepFailed
from bs4_agent.runs.files import read_json, write_json

_BLOCK = 1 << 20
#: Two keep up with any link a pod has (each does more than 500 MB/s), and leave the cores to the
#: run.
THREADS = 2
#: Entries that stay in the memory of one run.
_KEPT = 20_000


@dataclass(frozen=True)
class Stamp:
    """What a file was when it was read. Times in ns; `changed` is the inode's, which no program can
    set back.
    """

    size: int
    modified: int
    changed: int
    inode: int

    @classmethod
    def of(cls, path: Path) -> Stamp:
        """OSError where it is gone."""
        found = path.stat()
        return cls(found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino)


class Hashes:
    """SHA-1 by path, remembered in a file of the agent's home between two lives of the sync: 13 GB
    are not read again after a kill.
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
        """Every path's stamp and SHA-1. StepFailed for one that is written to while it is read,
        OSError for one that is gone.
        """
        wanted = list(paths)
        with ThreadPoolExecutor(THREADS, "hash") as pool:
            found = dict(
                zip(wanted, pool.map(lambda path: self._one(path, progress), wanted), strict=True)
            )
        self._known |= {str(path): result for path, result in found.items()}
        self._save()
        return found

    def _one(self, path: Path, progress: Callable[[int], None] | None) -> tuple[Stamp, str]:
        before = Stamp.of(path)
        known = self._known.get(str(path))
        if known is not None and known[0] == before:
            return known
        digest = hashlib.sha1(usedforsecurity=False)
        with path.open("rb") as handle:
            while block := handle.read(_BLOCK):
                digest.update(block)
                if progress is not None:
                    progress(len(block))
        if Stamp.of(path) != before:
            raise StepFailed(
                f"{path} is being written to, so its step is not uploaded now; it is looked "
                "at again by itself."
            )
        return before, digest.hexdigest()

    def _save(self) -> None:
        rows = {}
        for path, (s, sha1) in list(self._known.items())[-_KEPT:]:
            rows[path] = [s.size, s.modified, s.changed, s.inode, sha1]
        write_json(self._memory, rows)
