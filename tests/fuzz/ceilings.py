"""Lower ceilings than those of the product, so that an input of some kilobytes can go over them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping

from bs4_console import ceilings


@contextlib.contextmanager
def lowered(values: Mapping[str, int]) -> Iterator[None]:
    """Set ceilings by their names for the block. Raises AttributeError for a name that is none."""
    before = {name: getattr(ceilings, name) for name in values}
    try:
        for name, value in values.items():
            setattr(ceilings, name, value)
        yield
    finally:
        for name, value in before.items():
            setattr(ceilings, name, value)
