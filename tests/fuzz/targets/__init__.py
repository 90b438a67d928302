"""What is fuzzed: one module for each target. Each has `SEEDS`, a list of healthy inputs, and
`feed(data)`, which gives bytes to our real code and raises for a broken contract.

`feed` returns nothing. A documented error for bad input is not raised again.
"""

from __future__ import annotations

import importlib
from types import ModuleType

#: The targets by name. A module is loaded by `load`, once the fuzzer is ready to instrument it.
NAMES = (
    "frames",
    "records",
    "replies",
    "lines",
    "configs",
    "playbooks",
    "mirrors",
    "recordings",
    "reports",
    "inventory",
    "escapes",
)


def load(name: str) -> ModuleType:
    """Return the module of a target. Raises ModuleNotFoundError if there is none of that name."""
    return importlib.import_module(f"tests.fuzz.targets.{name}")
