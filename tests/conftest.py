"""Fixtures that every test may use, and what the end of a run says; what they are made of is in
tests/support.
"""

from __future__ import annotations

import signal
from typing import Any

import hypothesis

from tests.support import pods as servers
from tests.support.pods import pod, pods

__all__ = ["pod", "pods"]

# The same examples in every run, and as long for each as a busy machine takes: `make fuzz` is what
# looks for new ones.
hypothesis.settings.register_profile(
    "same everywhere",
    deadline=None,
    derandomize=True,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("same everywhere")


def pytest_configure() -> None:
    """A shell starts what runs in its background with SIGINT ignored, and so would be every program
    that a test starts and interrupts.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    servers.summary(terminalreporter)
