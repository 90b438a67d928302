"""SHA-256 without OpenSSL: `hashlib` maps libcrypto into the process, 3.7 MB of the agent's 30, for
the little that is hashed here.
"""

from __future__ import annotations

from typing import Protocol


class Hash(Protocol):
    def update(self, data: bytes, /) -> None: ...

    def hexdigest(self) -> str: ...


def sha256(data: bytes = b"") -> Hash:
    """As `hashlib.sha256`, from the interpreter's own implementation (_sha2 from Python 3.12 on,
    _sha256 before).
    """
    made: Hash = _implementation(data)
    return made


try:
    from _sha2 import sha256 as _implementation  # type: ignore[import-not-found, unused-ignore]
except ImportError:
    from _sha256 import (  # type: ignore[import-not-found, no-redef, unused-ignore]
        sha256 as _implementation,
    )
