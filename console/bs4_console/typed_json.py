"""Read JSON of others (a pod, a provider, a file of a person) as the records that it is declared to
be. A value of another type counts as missing, so that the code behind this reads each field as its
record declares it.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Mapping
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints, is_typeddict

Record = TypeVar("Record")

#: No size, time or count is near this number. Infinities and NaN do not count as numbers here.
_LARGEST = 1e18
_WRONG = object()


def record(value: object, kind: type[Record]) -> Record:
    """Return a JSON object as the TypedDict `kind`, without the fields that it does not declare and
    those of another type. In lists and inner objects, what does not fit is left out too. The result
    is empty if `value` is no object.
    """
    found = _read(value, kind)
    return cast(Record, {} if found is _WRONG else found)


def number(value: object) -> float | None:
    """Return a JSON value as a float if it is a finite number, or None if it is anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if abs(value) < _LARGEST else None


def _read(value: object, kind: Any) -> Any:
    """Return a JSON value as the type `kind`, or _WRONG."""
    if is_typeddict(kind):
        return _members(value, _hints(kind))
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (types.UnionType, Union):
        fitting = (_read(value, one) for one in arguments)
        return next((one for one in fitting if one is not _WRONG), _WRONG)
    if origin is not None and issubclass(origin, Mapping):
        names = value if isinstance(value, dict) else ()
        return _members(value, dict.fromkeys(names, arguments[1]))
    if origin is not None:
        return _entries(value, arguments[0])
    if kind in (int, float):
        fits = number(value) is not None and isinstance(value, int | kind)
    else:
        fits = isinstance(value, kind)
    return value if fits else _WRONG


def _members(value: object, kinds: Mapping[str, type]) -> Any:
    if not isinstance(value, dict):
        return _WRONG
    found = {}
    for name, kind in kinds.items():
        if name in value and (fitting := _read(value[name], kind)) is not _WRONG:
            found[name] = fitting
    return found


def _entries(value: object, kind: Any) -> Any:
    if not isinstance(value, list):
        return _WRONG
    found = []
    for one in value:
        if (fitting := _read(one, kind)) is not _WRONG:
            found.append(fitting)
    return found


@functools.cache
def _hints(kind: type) -> dict[str, type]:
    return get_type_hints(kind)
