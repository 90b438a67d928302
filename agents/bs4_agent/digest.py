"""SHA-256 without OpenSSL. `hashlib` maps libcrypto into the process, 3.7 MB of the agent's 30,
which is too much for the little that is hashed here.
"""

from __future__ import annotations

from typing import Protocol


class Hash(Protocol):
    """A hash that is being computed, as `hashlib` has it."""

    def update(self, data: bytes, /) -> None:
        """Add bytes to the hash."""

    def hexdigest(self) -> str:
        """Return the hash of all bytes so far, as hex digits."""


def sha256(data: bytes = b"") -> Hash:
    """Return a hash of `data`, as `hashlib.sha256` does, from the interpreter's own implementation
    (_sha2 from Python 3.12 on, _sha256 before).
    """
    made: Hash = _implementation(data)
    return made


try:
    from _sha2 import sha256 as _implementation  # type: ignore[import-not-found, unused-ignore]
except ImportError:
    from _sha256 import (  # type: ignore[import-not-found, no-redef, unused-ignore]
        sha256 as _implementation,
    )
