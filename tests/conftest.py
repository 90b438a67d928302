"""Fixtures that every test may use, and what the end of a run says; what they are made of is in tests/support."""

from __future__ import annotations

import signal
from typing import Any

from tests.support import pods as servers
from tests.support import second_tries
from tests.support.pods import pod, pods
from tests.support.second_tries import pytest_sessionfinish

__all__ = ["pod", "pods", "pytest_sessionfinish"]


def pytest_configure() -> None:
    """A shell starts what runs in its background with SIGINT ignored, and so would be every program that a test starts and interrupts."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    servers.summary(terminalreporter)
    second_tries.summary(terminalreporter)
