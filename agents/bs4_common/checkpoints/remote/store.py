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
    """One version of one file in the object store.

    `size` is in bytes. `sha1` is the hex digest that the server has, None if it has none (a large
    file that was uploaded without a digest). `t` is the time at which the version was made, by the
    server's clock, as a Unix time in seconds. `version` is the id by which `Store.delete` finds
    this version.
    """

    name: str
    size: int
    sha1: str | None
    t: float
    version: str


class Store(Protocol):
    """One bucket of an object store. All names are complete names in the bucket (`layout.py` makes
    them).

    Every call queries the server; nothing is cached. Each method may raise StoreAuth,
    StoreThrottled, StoreUnreachable, StoreFull or NotThere, which errors.py explains.
    """

    def entries(self, prefix: str) -> list[Entry]:
        """Return the newest version of every file whose name begins with `prefix`, sorted by name;
        empty if there is no such file. Raises a StoreError if the object store fails or refuses the
        call.
        """

    def versions(self, name: str) -> list[Entry]:
        """Return every version of exactly this name, newest first. The list is empty if no version
        exists. Raises a StoreError if the object store fails or refuses the call.
        """

    def read(self, name: str, most: int) -> bytes:
        """Return the newest content of a small file. Raises NotThere if the file does not exist,
        and StoreDamaged if it has more than `most` bytes or its content does not match the server's
        hash. Raises another StoreError if the object store fails or refuses the call.
        """

    def content(self, entry: Entry, most: int) -> bytes:
        """Return the content of exactly this version of a small file. Raises NotThere if it does
        not exist, and StoreDamaged if it has more than `most` bytes or does not match the server's
        hash. Raises another StoreError if the object store fails or refuses the call.
        """

    def write(self, name: str, data: bytes) -> Entry:
        """Write a small file in one request and return its entry. A reader sees either the old
        content or the new one. Older versions stay until they are deleted. Raises a StoreError if
        the object store fails or refuses the call.
        """

    def upload(self, path: Path, name: str, sha1: str, progress: Progress | None = None) -> Entry:
        """Upload the file at `path`, whose SHA-1 is `sha1`, under `name`, and return its entry. If
        an earlier upload of the same bytes was interrupted, its parts are not sent again.
        `progress` receives the number of bytes that were sent since its last call (negative if the
        transfer begins anew). Raises a StoreError if the object store fails or refuses the call.
        """

    def download(
        self,
        name: str,
        path: Path,
        progress: Progress | None = None,
        *,
        size: int | None = None,
    ) -> Entry:
        """Download the file `name` to `path` and return its entry. The file appears at `path` only
        when it is complete, by a rename; the directory of `path` must exist. `progress` is as in
        `upload`. Raises StoreDamaged if the SHA-1 of the bytes is not that of the entry, or if the
        file is larger than `size` bytes (None: of any size). Raises another StoreError if the
        object store fails or refuses the call.
        """

    def delete(self, entry: Entry) -> None:
        """Delete this version of the file for good. Do nothing if the version is gone already.
        Raises StoreAuth if the key may not delete. Raises another StoreError if the object store
        fails or refuses the call.
        """
