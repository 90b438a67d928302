"""How much memory the records of a pod take, so that one pod cannot fill this machine's memory."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from bs4_console import ceilings
from bs4_console.pods.gate.rules import RecordRefused


def weight_of(record: Any) -> int:
    """Return how many bytes of memory the parsed JSON value `record` takes with everything in it.
    What occurs in it twice, such as a small number, counts twice.
    """
    size, total = sys.getsizeof, 0
    waiting = [record]
    for one in waiting:  # grows while it is walked
        total += size(one)
        if isinstance(one, dict):
            total += sum(map(size, one))
            waiting += one.values()
        elif isinstance(one, list):
            waiting += one
    return total


def bytes_held(value: Any) -> int:
    """Return how many bytes of memory `value` takes with everything in it: containers of the
    standard library and the attributes of objects. An object that has attributes counts once,
    however often it occurs.
    """
    size, total = sys.getsizeof, 0
    waiting = [value]
    seen: set[int] = set()
    while waiting:
        one = waiting.pop()
        if hasattr(one, "__dict__"):
            if id(one) in seen:
                continue
            seen.add(id(one))
            waiting.append(vars(one))
        total += size(one)
        if isinstance(one, dict):
            waiting += one.keys()
            waiting += one.values()
        elif isinstance(one, list | tuple | set):
            waiting += one
    return total


class JournalWeight:
    """Limits the memory that one pod's journal (the agent's log of actions and incidents) takes on
    this machine: not the journal itself, but the state that is computed from its records (the
    fold). The fold is measured only from time to time; in between, each new record counts with its
    whole size.
    """

    def __init__(self) -> None:
        self._measured, self._since, self._full = 0, 0, False

    def admit(self, record: Any, fold: object) -> None:
        """Count `record`, which the caller is about to apply to `fold`, the state that is computed
        from the pod's journal (the agent's log of actions and incidents). Raises RecordRefused if
        the fold takes more than ceilings.JOURNAL_MEMORY (12 MiB) already. From then on it is raised
        for every further record.
        """
        if not self._full:
            self._since += weight_of(record)
            is_due = self._since > ceilings.JOURNAL_MEMORY // 8
            if is_due and self._measured + self._since > ceilings.JOURNAL_MEMORY:
                self._measured, self._since = bytes_held(fold), 0
                self._full = self._measured > ceilings.JOURNAL_MEMORY
        if self._full:
            raise RecordRefused(
                f"what its journal tells takes {ceilings.JOURNAL_MEMORY // ceilings.MIB} MiB of "
                "memory already"
            )


def thin(histories: Sequence[list[Any]], goal: int) -> int:
    """Remove records from the lists in `histories`, each of which is sorted by time, until all of
    them together take at most `goal` bytes of memory. Return the bytes that they still take.

    The list that takes the most memory loses every second record of its older half, and this is
    repeated. So each list keeps its newest records and a coarser picture of the older ones. A list
    of fewer than four records loses its oldest.
    """
    weights = [sum(map(weight_of, history)) for history in histories]
    total = sum(weights)
    while total > goal:
        for place in sorted(range(len(histories)), key=lambda place: -weights[place]):
            history = histories[place]
            half = len(history) // 2
            history[:] = history[:half:2] + history[half:] if half > 1 else history[1:]
            total -= weights[place]
            weights[place] = sum(map(weight_of, history))
            total += weights[place]
            if total <= goal:
                break
    return total
