"""SHA-256 without OpenSSL. `hashlib` maps libcrypto into the process, 3.7 MB of the agent's 30,
which is too much for the little that is hashed here.
"""

from __future__ import annotations

from typing import Protocol


class Hash(Protocol):
    """A hash computation in progress, with the methods of `hashlib`'s objects."""

    def update(self, data: bytes, /) -> None:
        """Add bytes to the hash."""

    def hexdigest(self) -> str:
        """Return the hash of all bytes so far, as hex digits."""


def sha256(data: bytes = b"") -> Hash:
    """Return a SHA-256 computation that has begun with `data`, like `hashlib.sha256`. It uses the
    interpreter's own implementation (_sha2 from Python 3.12 on, _sha256 before), which saves the
    3.7 MB of memory that OpenSSL takes.
    """
    made: Hash = _implementation(data)
    return made


try:
    from _sha2 import sha256 as _implementation  # type: ignore[import-not-found, unused-ignore]
except ImportError:
    from _sha256 import (  # type: ignore[import-not-found, no-redef, unused-ignore]
        sha256 as _implementation,
    )
