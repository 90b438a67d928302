"""The port to an object store: names and bytes, versions by the server's own clock. B2 is one
(`b2.py`), a test's dictionary another.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

#: Told the bytes that went over the wire since it was told last (retries count again); may sleep,
#: to slow the transfer down.
Progress = Callable[[int], None]


@dataclass(frozen=True)
class Entry:
    """One version of one file. `size` in bytes; `sha1` hex as the server has it, None where it has
    none (a large file that was uploaded without saying it); `t` wall seconds of the server's clock
    at which it came to be; `version` names it for `delete`.
    """

    name: str
    size: int
    sha1: str | None
    t: float
    version: str


class Store(Protocol):
    """One bucket. Names are whole: the prefix of the user is part of them (`layout.py` makes them).

    Every call asks the server; nothing is remembered. Raises StoreAuth, StoreThrottled,
    StoreUnreachable, StoreFull, NotThere (errors.py).
    """

    def entries(self, prefix: str) -> list[Entry]:
        """The newest version of every file whose name begins with `prefix`, by name."""
        ...

    def versions(self, name: str) -> list[Entry]:
        """Every version of exactly this name, newest first; [] when there is none."""
        ...

    def read(self, name: str, most: int) -> bytes:
        """A small file, whole. NotThere without it; StoreDamaged when it is longer than `most`
        bytes, or its hash is not the server's.
        """
        ...

    def content(self, entry: Entry, most: int) -> bytes:
        """As `read`, of this very version."""
        ...

    def write(self, name: str, data: bytes) -> Entry:
        """A small file, in one call: a reader sees the version before or this one. Older versions
        stay until they are deleted.
        """
        ...

    def upload(self, path: Path, name: str, sha1: str, progress: Progress | None = None) -> Entry:
        """The file at `path`, of which `sha1` is known. One that was begun before is finished: its
        parts are not sent again.
        """
        ...

    def download(self, name: str, path: Path, progress: Progress | None = None) -> Entry:
        """Into `path`, by way of a file beside it that one rename puts in place: `path` never holds
        half a file. The directory must exist. The bytes' SHA-1 is that of the entry (StoreDamaged
        otherwise).
        """
        ...

    def delete(self, entry: Entry) -> None:
        """This version, for good. Nothing happens when it is gone already. StoreAuth where the key
        may not.
        """
        ...
