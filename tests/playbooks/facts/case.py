"""Cases for detectors over facts: functions that build one look at a pod and say which failure it
is, or is only nearly.

A module `tests/playbooks/facts/<family>.py` (dashes as underscores) holds them; `test_cases.py`
collects all of them. A function takes nothing, or `tmp_path` when its facts name files that have to
exist.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

Builder = Callable[..., Any]


class FactsCase(NamedTuple):
    """`expected`: whether the finding `failure` must be there or must not."""

    failure: str
    expected: bool
    build: Builder

    def __str__(self) -> str:
        return f"{self.failure}-{'positive' if self.expected else 'negative'}-{self.build.__name__}"


#: Every decorated function of every module that was imported.
CASES: list[FactsCase] = []


def positive(*failures: str) -> Callable[[Builder], Builder]:
    """These facts are each of these failures."""
    return _registered(failures, expected=True)


def negative(*failures: str) -> Callable[[Builder], Builder]:
    """These facts are near each of these failures and are none of them."""
    return _registered(failures, expected=False)


def _registered(failures: tuple[str, ...], *, expected: bool) -> Callable[[Builder], Builder]:
    def keep(build: Builder) -> Builder:
        CASES.extend(FactsCase(failure, expected, build) for failure in failures)
        return build

    return keep
