"""The interface of an object store: names and bytes, and versions with the server's own time. B2
implements it (`b2.py`), and a dictionary in tests.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

#: Called with the bytes that were sent since the last call (retries count again); may sleep to slow
#: the transfer down.
Progress = Callable[[int], None]


@dataclass(frozen=True)
class Entry:
    """One version of one file.

    `size` is in bytes. `sha1` is the hex digest that the server has, None if it has none (a large
    file that was uploaded without it). `t` is the server's wall-clock time at which the version was
    made. `version` identifies it for `delete`.
    """

    name: str
    size: int
    sha1: str | None
    t: float
    version: str


class Store(Protocol):
    """One bucket. Names are complete: they include the user's prefix (`layout.py` makes them).

    Every call queries the server; nothing is cached. Raises StoreAuth, StoreThrottled,
    StoreUnreachable, StoreFull or NotThere (errors.py).
    """

    def entries(self, prefix: str) -> list[Entry]:
        """Return the newest version of every file whose name begins with `prefix`, by name."""
        ...

    def versions(self, name: str) -> list[Entry]:
        """Return every version of exactly this name, newest first. The list is empty if there is
        none.
        """
        ...

    def read(self, name: str, most: int) -> bytes:
        """Return the content of a small file. Raises NotThere if it does not exist, and
        StoreDamaged if it has more than `most` bytes or its hash is not the server's.
        """
        ...

    def content(self, entry: Entry, most: int) -> bytes:
        """Return the content of exactly this version. Raises the same errors as `read`."""
        ...

    def write(self, name: str, data: bytes) -> Entry:
        """Write a small file in one call and return its entry. A reader sees either the old version
        or this one. Older versions stay until they are deleted.
        """
        ...

    def upload(self, path: Path, name: str, sha1: str, progress: Progress | None = None) -> Entry:
        """Upload the file at `path`, whose SHA-1 is `sha1`, and return its entry. An upload that
        was begun before is finished; its parts are not sent again.
        """
        ...

    def download(self, name: str, path: Path, progress: Progress | None = None) -> Entry:
        """Download a file to `path` and return its entry. It is written beside `path` and renamed,
        so `path` never holds half a file. The directory must exist. Raises StoreDamaged if the
        SHA-1 of the bytes is not that of the entry.
        """
        ...

    def delete(self, entry: Entry) -> None:
        """Delete this version for good. Do nothing if it is gone already. Raises StoreAuth if the
        key may not delete.
        """
        ...
