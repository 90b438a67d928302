"""Names that are used as file names: those that people give to runs, and the keys of actions. A key
has 26 characters that sort by time and are unique without coordination (ulid specification,
Crockford base 32).
"""

from __future__ import annotations

import os
import re
import time

from bs4_common.errors import BadRequest

#: An action's key names a directory of the trash, so it holds letters and digits only.
_KEY = re.compile(r"[0-9A-Za-z]{26}")
_SAFE = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-")
_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


def ulid() -> str:
    """Return a new, unique key for an action: a text of 26 letters and digits (a ULID), made of the
    present time in ms (48 bits) and 80 random bits.
    """
    value = (time.time_ns() // 1_000_000) << 80 | int.from_bytes(os.urandom(10), "big")
    return "".join(_ALPHABET[value >> shift & 31] for shift in range(125, -1, -5))


def is_key(key: object) -> bool:
    """Return True if `key` has the form of an action's key, which is its unique id: a text of 26
    letters and digits.
    """
    return isinstance(key, str) and _KEY.fullmatch(key) is not None


def made_t(key: str) -> float:
    """Return the Unix time in seconds at which the action key `key` was made. It is exact to a
    millisecond, because a key contains the time. Raises ValueError if the text is no key.
    """
    value = 0
    for sign in key[:10].upper():
        value = value << 5 | _ALPHABET.index(sign)
    return value / 1000


def safe_name(name: str) -> str:
    """Return the name `name` of a run unchanged if it can be used as a file name on every system.
    Raises BadRequest otherwise.
    """
    if not name or len(name) > 100 or name[0] in "-." or not _SAFE.issuperset(name):
        raise BadRequest(
            f"{name!r} cannot name a run; use letters, digits, '.', '_' and '-', starting "
            "with a letter or digit."
        )
    return name
