"""YAML that a person or somebody else wrote, read within a limit of nesting.

libyaml's loader recurses in C: a text of 30,000 open brackets ends Python with a segmentation fault
(PyYAML 6.0.3, measured). Its parser of events does not recurse, so depth is counted there first.
"""

from __future__ import annotations

from typing import Any

import yaml

#: Levels. A playbook nests about eight deep.
NESTING_LIMIT = 64


class NestedTooDeeply(yaml.YAMLError):
    """Raised for a YAML text that nests deeper than NESTING_LIMIT levels."""


def load(text: str) -> Any:
    """Return the value that a YAML text stands for. Raises yaml.YAMLError if the text is not YAML,
    or nests too deeply.

    libyaml is used if it is installed, because it is ten times as fast.
    """
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    depth = 0
    for event in yaml.parse(text, Loader=loader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > NESTING_LIMIT:
            raise NestedTooDeeply(f"It nests deeper than {NESTING_LIMIT} levels.")
    return yaml.load(text, Loader=loader)  # noqa: S506
