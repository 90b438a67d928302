"""The journal and its fold kept together: what is written is at once known."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

from bs4_agent.journal import Journal
from bs4_agent.ledger import Ledger


class Book:
    """Thread-safe. `append` writes one record and folds it into `ledger`."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._lock = threading.RLock()
        self._listeners: list[Callable[[dict[str, Any]], None]] = []
        self.ledger = Ledger(journal.records())

    def append(self, type_: str, /, *, sync: bool = False, **fields: Any) -> dict[str, Any]:
        """One record (see docs/architecture.md for the types). `sync`: on disk before this returns;
        SpoolFull when it cannot be.
        """
        with self._lock:
            record = self._journal.append(type_, sync=sync, **fields)
            self.ledger.apply(record)
        for listener in self._listeners:
            listener(record)
        return record

    __call__ = append

    def append_unless_ended(self, action: str, /, **fields: Any) -> bool:
        """Append a synced record of `action`, unless the action has ended. False when it has:
        nothing may follow its end.
        """
        with self._lock:
            known = self.ledger.actions.get(action)
            if known is None or known.ended:
                return False
            self.append("action", sync=True, action=action, run=known.run, **fields)
            return True

    def listen(self, listener: Callable[[dict[str, Any]], None]) -> None:
        """`listener(record)` is called after each record, by whoever wrote it: it must be quick."""
        self._listeners.append(listener)

    def records(self) -> Iterator[dict[str, Any]]:
        return self._journal.records()
