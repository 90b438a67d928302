"""The journal and its fold kept together: what is written is at once known."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

from bs4_agent.journal import Journal
from bs4_agent.ledger import Ledger


class Book:
    """The journal together with its fold: `append` writes one record and applies it to `ledger`.
    Thread-safe.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._lock = threading.RLock()
        self._listeners: list[Callable[[dict[str, Any]], None]] = []
        self.ledger = Ledger(journal.records())

    def append(self, type_: str, /, *, sync: bool = False, **fields: Any) -> dict[str, Any]:
        """Write one record (docs/wire.md has the types) and return it. `sync` waits until it is on
        disk and raises SpoolFull if that fails.
        """
        with self._lock:
            record = self._journal.append(type_, sync=sync, **fields)
            self.ledger.apply(record)
        for listener in self._listeners:
            listener(record)
        return record

    __call__ = append

    def append_unless_ended(self, action: str, /, **fields: Any) -> bool:
        """Write a synced record of `action`. Return False, and write nothing, if the action has
        ended.
        """
        with self._lock:
            known = self.ledger.actions.get(action)
            if known is None or known.ended:
                return False
            self.append("action", sync=True, action=action, run=known.run, **fields)
            return True

    def listen(self, listener: Callable[[dict[str, Any]], None]) -> None:
        """Call `listener(record)` after each record, on the thread that wrote it. The listener must
        be quick.
        """
        self._listeners.append(listener)

    def records(self) -> Iterator[dict[str, Any]]:
        return self._journal.records()
