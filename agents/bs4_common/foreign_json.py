"""Parsing JSON that another program wrote: a trainer, a library or a pod. It is parsed within
limits, and its numbers are checked.

The standard parser recurses. Python 3.13.0 crashes (SIGSEGV, measured) instead of raising
RecursionError if 3,000 levels are parsed in a thread with a 256 KiB stack, which is what the
agent's threads have.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any

#: Levels. What trainers, libraries and the agent write is nested a dozen deep.
NESTING_LIMIT = 64
#: Larger integers are not exact in JSON parsers that know only floating point. No step, count or
#: time is as large.
EXACT_INTEGER = 1 << 53
#: The latest time that a record may hold: a wall second of the year 5138. Later ones come from
#: broken clocks or other units, and Python's calendar ends in 9999.
TIME_MOST = 1e11

#: A string without escapes, or a bracket. A repeated group, which would allow for escapes, costs
#: the engine about 100 bytes for each character of a string.
_BRACKETS = re.compile(r'"[^"]*"?|[\[{]|[\]}]')
_DEPTH = {"[": 1, "{": 1, "]": -1, "}": -1}


class ForeignJsonError(ValueError):
    """Raised if a text is not JSON or is nested more than 64 levels deep. It is a ValueError, as
    json's own error is.
    """


def loads(raw: bytes | str) -> Any:
    """Return the value of a JSON text that another program wrote. Bytes that are not UTF-8, and
    halves of surrogate pairs (which UTF-8 cannot represent), are replaced by a placeholder
    character. Raises ForeignJsonError if the text is not JSON or is nested more than 64 levels
    deep.
    """
    text = raw.decode("utf-8", "replace") if isinstance(raw, bytes) else raw
    check_nesting(text)
    try:
        value = json.loads(text)
    except ValueError as error:
        raise ForeignJsonError(str(error)) from None
    if "\\ud" in text.lower():
        return _encodable(value)
    return value


def _encodable(value: Any) -> Any:
    """Return a JSON value whose texts can be written as UTF-8."""
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
    if isinstance(value, list):
        return [_encodable(entry) for entry in value]
    if isinstance(value, dict):
        return {_encodable(key): _encodable(entry) for key, entry in value.items()}
    return value


def check_nesting(text: str) -> None:
    """Raise ForeignJsonError if a JSON text has more than 64 levels of brackets, one inside the
    other. Brackets inside strings do not count.
    """
    if text.count("[") + text.count("{") <= NESTING_LIMIT:
        return
    depth = 0
    # Without these two no string has a quote inside.
    for token in _BRACKETS.finditer(text.replace("\\\\", "").replace('\\"', "")):
        depth += _DEPTH.get(token.group(), 0)
        if depth > NESTING_LIMIT:
            raise ForeignJsonError(f"The text nests deeper than {NESTING_LIMIT} levels.")


def finite(value: Any) -> float | None:
    """Return a JSON number as a float. Return None if `value` is anything else, NaN or infinite, or
    an integer that is too large for a float.
    """
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def wall_second(value: Any) -> float | None:
    """Return a JSON number that is a time, as a Unix time in seconds. Return None if `value` is no
    number, or a time before 1970 or after the year 5138.
    """
    found = finite(value)
    return found if found is not None and 0 <= found <= TIME_MOST else None


def number(value: Any) -> float | str | None:
    """Return a JSON number in the form in which the agent's records hold it. A finite number, also
    an integer, becomes a float. NaN and infinities become the text "nan", "inf" or "-inf", and so
    does an integer that is too large for a float ("inf" or "-inf"). Return None if `value` is no
    number; True and False are none.
    """
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return None
    try:
        return recorded(float(value))
    except OverflowError:
        return "inf" if value > 0 else "-inf"


def recorded(value: float) -> float | str:
    """Return a number in the form in which the agent's records hold it: the number itself, but
    "nan", "inf" or "-inf" for values that JSON cannot represent.
    """
    if math.isfinite(value):
        return value
    return str(value)


def integer(value: Any) -> int | None:
    """Return a JSON number as an int. Return None if `value` is no number, not a whole number, or
    too large for a float to be exact.
    """
    found = finite(value)
    if found is None or abs(found) > EXACT_INTEGER or found != int(found):
        return None
    return int(value)
