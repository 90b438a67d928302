"""Fixtures that every test may use, and what the end of a run says; what they are made of is in
tests/support.
"""

from __future__ import annotations

import signal
from typing import Any

import hypothesis
import pytest

from bs4_common.failures import engine
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


@pytest.fixture(autouse=True)
def loud_detectors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a detector that fails fail the test. The product only names it, and runs the others."""

    def fail(detector: str, failure: str, run: str, times: int, error: Exception) -> None:
        raise error

    monkeypatch.setattr(engine, "Fault", fail)


def pytest_configure() -> None:
    """A shell starts what runs in its background with SIGINT ignored, and so would be every program
    that a test starts and interrupts.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    servers.summary(terminalreporter)
