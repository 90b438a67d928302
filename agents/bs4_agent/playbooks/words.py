"""Words for counts in sentences that a person reads."""

from __future__ import annotations


def counted(number: int, one: str, many: str) -> str:
    """Return the number with its noun: `one` for 1, else `many`, as in "3 directories"."""
    return f"{number} {one if number == 1 else many}"


def directories(number: int) -> str:
    """Return how many directories there are, as in "1 directory"."""
    return counted(number, "directory", "directories")


def processes(number: int) -> str:
    """Return how many processes there are, as in "1 process"."""
    return counted(number, "process", "processes")
