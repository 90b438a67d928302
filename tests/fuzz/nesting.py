"""How deep a value that came out of foreign JSON may nest."""

from __future__ import annotations

#: The limit of bs4_common/foreign_json.py, and some room for the objects around a value.
LEVELS_MOST = 80


def check_nesting(value: object) -> None:
    """Raise AssertionError for a value of lists and dicts with more than LEVELS_MOST levels. It
    does not recurse.
    """
    level = [value]
    for _ in range(LEVELS_MOST):
        level = [part for whole in level for part in _parts(whole)]
        if not level:
            return
    raise AssertionError(f"a value nests deeper than {LEVELS_MOST} levels")


def _parts(value: object) -> list[object]:
    if isinstance(value, dict):
        return list(value.values())
    if isinstance(value, (list, tuple)):
        return list(value)
    return []
