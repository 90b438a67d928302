"""The journal and its fold kept together, so that a written record is known at once."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

from bs4_common.journal import Journal
from bs4_common.ledger import NOT_FOLDED, JournalRecord, Ledger

#: Characters of a sentence about a record that was left out.
_SENTENCE = 200


class Book:
    """Keeps the journal (the agent's log of actions and incidents) together with the state that
    follows from it. The attribute `ledger` has that state: the present runs, incidents and actions.
    `append` writes one record to the journal and updates `ledger`; calling the object does the
    same. It may be called from any thread.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._lock = threading.RLock()
        self._listeners: list[Callable[[JournalRecord], None]] = []
        self.ledger = Ledger()
        for record in journal.whole_records():
            self._fold_again(record)

    def _fold_again(self, record: JournalRecord) -> None:
        """Update the ledger by a record of an earlier life of the agent. A record that the fold
        cannot take is left out and named in the agent's log: it was not written by an agent, and
        must not keep this one from starting. `audit verify` shows it too.
        """
        try:
            self.ledger.apply(record)
        except NOT_FOLDED as error:
            sentence = f"a record of the journal was left out ({type(error).__name__}: {error})"
            print(f"bs4-agent: {sentence[:_SENTENCE]}", file=sys.stderr)  # noqa: T201

    def append(self, type_: str, /, *, sync: bool = False, **fields: Any) -> JournalRecord:
        """Write one record of the type `type_` to the journal, update the attribute `ledger` by it,
        and return the record. docs/wire.md lists the types. With `sync`, the record is on disk
        before the call returns. Raises SpoolFull if it cannot be written.
        """
        with self._lock:
            record = self._journal.append(type_, sync=sync, **fields)
            self.ledger.apply(record)
        for listener in self._listeners:
            listener(record)
        return record

    __call__ = append

    def append_unless_ended(self, action: str, /, **fields: Any) -> bool:
        """Write a record about the action with the key `action`, wait until it is on disk, and
        return True. If the action is unknown or has ended, write nothing and return False. Raises
        SpoolFull if the journal has no room.
        """
        with self._lock:
            known = self.ledger.actions.get(action)
            if known is None or known.ended:
                return False
            self.append("action", sync=True, action=action, run=known.run, **fields)
            return True

    def catch_up(self) -> None:
        """Return once the attribute `ledger` has every record that a reader of the journal may have
        read by now. A record can be read a moment before it is there.
        """
        with self._lock:
            pass  # it is held from before a record is written until the ledger has it

    def listen(self, listener: Callable[[JournalRecord], None]) -> None:
        """Register `listener`: it is called with each record that is written from now on, on the
        thread that wrote it. So it must be quick.
        """
        self._listeners.append(listener)

    def records(self) -> Iterator[JournalRecord]:
        """Yield every record that the journal (the agent's log of actions and incidents) still has,
        oldest first, without secrets.
        """
        return self._journal.records()
