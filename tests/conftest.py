"""Fixtures that every test may use; what they are made of is in tests/support."""

from tests.support.pods import pod, pods, pytest_terminal_summary

__all__ = ["pod", "pods", "pytest_terminal_summary"]
