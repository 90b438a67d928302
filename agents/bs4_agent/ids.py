"""Action keys: 26 characters, sortable by time, unique without asking anyone (ulid specification,
Crockford base 32).
"""

from __future__ import annotations

import os
import re
import time

#: An action's key names a directory of the trash, so it holds letters and digits only.
_KEY = re.compile(r"[0-9A-Za-z]{26}")
_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


def ulid() -> str:
    """48 bits of milliseconds, 80 random ones."""
    value = (time.time_ns() // 1_000_000) << 80 | int.from_bytes(os.urandom(10), "big")
    return "".join(_ALPHABET[value >> shift & 31] for shift in range(125, -1, -5))


def is_key(key: object) -> bool:
    """Return True for 26 letters and digits, which is what an action's key is made of."""
    return isinstance(key, str) and _KEY.fullmatch(key) is not None


def made_t(key: str) -> float:
    """Wall seconds, to the millisecond, at which an action's key was made."""
    value = 0
    for sign in key[:10].upper():
        value = value << 5 | _ALPHABET.index(sign)
    return value / 1000
