"""Words for counts in sentences that a person reads."""

from __future__ import annotations


def counted(number: int, one: str, many: str) -> str:
    """Return `number` with its noun, as in "3 directories". The noun is `one` if the number is 1,
    else `many`.
    """
    return f"{number} {one if number == 1 else many}"


def directories(number: int) -> str:
    """Return the number of directories as a phrase, such as "1 directory" or "3 directories"."""
    return counted(number, "directory", "directories")


def processes(number: int) -> str:
    """Return the number of processes as a phrase, such as "1 process" or "3 processes"."""
    return counted(number, "process", "processes")
