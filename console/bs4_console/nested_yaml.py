"""YAML that a person or somebody else wrote, read within limits of nesting and size.

libyaml's loader recurses in C: a text of 30,000 open brackets ends Python with a segmentation fault
(PyYAML 6.0.3, measured). Its parser of events does not recurse, so depth is counted there first.
Nine lines of aliases of aliases stand for 10**9 values, which checks would visit one by one.
"""

from __future__ import annotations

from typing import Any

import yaml

#: Levels. A playbook or a config nests about eight deep.
NESTING_LIMIT = 64
#: Values in a text, with those that an alias (`*name`) repeats. A playbook or a config has a few
#: hundred.
VALUES_LIMIT = 100_000
#: libyaml where it is installed, because it is ten times as fast.
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class TooLarge(yaml.YAMLError):
    """Raised for a YAML text that is nested deeper than NESTING_LIMIT (64) levels, that has more
    than VALUES_LIMIT (100,000) values once its aliases are replaced by what they repeat, or in
    which an alias lies inside the part that it repeats.
    """


class NoSuchValue(yaml.YAMLError):
    """Raised for a YAML text with a value that looks like a number, a date or a truth value, and of
    which Python can make none.
    """


def load(text: str) -> Any:
    """Return the value that a YAML text stands for. Raises yaml.YAMLError if the text is not YAML,
    has a number or date that Python cannot make, is nested deeper than NESTING_LIMIT (64) levels,
    or has more than VALUES_LIMIT (100,000) values once its aliases are replaced by what they
    repeat.
    """
    check(text)
    try:
        return yaml.load(text, Loader=_LOADER)  # noqa: S506
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        # From PyYAML's constructors: a number of 5,000 digits, the month 13, `!!int x`.
        raise NoSuchValue(f"A value in it is not what it looks like: {error}.") from error


def check(text: str) -> None:
    """Raise TooLarge if `text` is nested too deep or stands for too many values, and another
    yaml.YAMLError if it is not YAML.
    """
    values = 0
    named: dict[str | None, int] = {}
    open_parts: list[tuple[str | None, int]] = []
    for event in yaml.parse(text, Loader=_LOADER):
        if isinstance(event, yaml.CollectionEndEvent):
            anchor, before = open_parts.pop()
            named[anchor] = values - before
        elif isinstance(event, yaml.AliasEvent):
            if any(anchor == event.anchor for anchor, _ in open_parts):
                raise TooLarge(f"*{event.anchor} stands inside the part that it repeats.")
            values += named.get(event.anchor, 0)
        elif isinstance(event, yaml.NodeEvent):
            if isinstance(event, yaml.CollectionStartEvent):
                open_parts.append((event.anchor, values))
            else:
                named[event.anchor] = 1
            values += 1
        if len(open_parts) > NESTING_LIMIT:
            raise TooLarge(f"It nests deeper than {NESTING_LIMIT} levels.")
        if values > VALUES_LIMIT:
            raise TooLarge(f"Its aliases repeat so much that it has over {VALUES_LIMIT:,} values.")
