"""A journal in which the agent dies after so many records."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bs4_agent.book import Book


class Died(BaseException):
    """The agent was killed: nothing may catch it."""


def dying(diary: Book, records: int) -> Callable[..., None]:
    """Return a function that writes to `diary` and raises Died once it has written more than
    `records` records.
    """
    count = 0

    def record(type_: str, *, sync: bool = False, **fields: Any) -> None:
        nonlocal count
        diary.append(type_, sync=sync, **fields)
        count += 1
        if count > records:
            raise Died

    return record
