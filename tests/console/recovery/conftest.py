"""What the tests of this folder share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.console.recovery import recovering


@pytest.fixture(autouse=True)
def journals_are_closed() -> Iterator[None]:
    """Close the journals of a test's controllers. Thousands of open files broke other tests."""
    yield
    while recovering.OPENED:
        recovering.OPENED.pop().close()
