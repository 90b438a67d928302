"""Fixtures that every test may use, and what the end of a run says; what they are made of is in tests/support."""

from __future__ import annotations

from typing import Any

from tests.support import pods as servers
from tests.support import second_tries
from tests.support.pods import pod, pods
from tests.support.second_tries import pytest_sessionfinish

__all__ = ["pod", "pods", "pytest_sessionfinish"]


def pytest_terminal_summary(terminalreporter: Any) -> None:
    servers.summary(terminalreporter)
    second_tries.summary(terminalreporter)
