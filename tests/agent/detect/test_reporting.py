"""The words that detectors share."""

from __future__ import annotations

import pytest

from bs4_common.failures.detectors.reporting import size


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0 B"),
        (234, "234 B"),
        (96_700, "94.4 KiB"),
        (3 << 20, "3.0 MiB"),
        (200 << 20, "0.2 GiB"),
        (1536 << 20, "1.5 GiB"),
    ],
)
def test_what_is_there_is_never_shown_as_zero(number: float, text: str) -> None:
    assert size(number) == text
