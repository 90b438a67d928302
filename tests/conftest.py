"""Fixtures that every test may use, and what the end of a run says; what they are made of is in
tests/support.
"""

from __future__ import annotations

import signal
from typing import Any

from tests.support import pods as servers
from tests.support.pods import pod, pods

__all__ = ["pod", "pods"]


def pytest_configure() -> None:
    """A shell starts what runs in its background with SIGINT ignored, and so would be every program
    that a test starts and interrupts.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    servers.summary(terminalreporter)
