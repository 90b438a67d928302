"""Turn a sequence of verdicts into the few messages that are worth sending: a change that lasted, a
new failure, a recovery.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypedDict

from bs4_console.checks.verdict import CRITICAL, OK, UNKNOWN, WORDS, Verdict, rank
from bs4_console.pods.observer import IncidentRow


class NoticeRow(TypedDict):
    """A message about a change of a pod's level, as a JSON object. `text` has the reasons, and
    `incidents` are the pod's failures.
    """

    pod: str
    status: str
    """The level as a word, such as "CRITICAL"."""
    was: str
    """The level in the message before this one, as a word."""
    text: str
    incidents: Sequence[IncidentRow]
    t: float
    """Wall seconds since 1970."""


@dataclass(frozen=True)
class Notice:
    """One message about a change of a pod's level. `level` is the level now and `was` the level in
    the message before this one (0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN). `text` has the reasons,
    and `incidents` are the pod's failures. `pod` is "" for a message that concerns no pod.
    """

    pod: str
    level: int
    was: int
    text: str
    incidents: Sequence[IncidentRow] = ()
    t: float = field(default_factory=time.time)
    """The Unix time in seconds at which the change was found. The message may be delivered later,
    if its receiver does not answer at first.
    """

    @property
    def title(self) -> str:
        """Return the title of the message, such as `CRITICAL: pod-a` or `RECOVERED: pod-a`."""
        word = WORDS[self.level]
        if self.level == OK and self.was != OK:
            word = "RECOVERED"
        if self.pod:
            return f"{word}: {self.pod}"
        return word

    def as_dict(self) -> NoticeRow:
        """Return the message as a JSON object."""
        return {
            "pod": self.pod,
            "status": WORDS[self.level],
            "was": WORDS[self.was],
            "text": self.text,
            "incidents": list(self.incidents),
            "t": round(self.t, 3),
        }


@dataclass
class _Told:
    """What is known of one pod: its last verdict, and the level and incidents that were sent."""

    level: int = OK
    incidents: set[str] = field(default_factory=set)
    last: Verdict | None = None


class Transitions:
    """Decides which verdicts on pods become messages, and remembers what was sent for each pod. One
    bad verdict is often a short network problem, so a bad level is sent only after two verdicts in
    a row are at least that bad. A recovery is sent at once. A new failure of a pod that is CRITICAL
    already is sent too, once two verdicts in a row have it. No change is sent twice.
    """

    def __init__(self) -> None:
        self._pods: dict[str, _Told] = {}

    @property
    def level(self) -> int:
        """Return the worst of the levels (0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN) that were last
        sent for the pods, or UNKNOWN if there was no verdict yet. A pod for which nothing was sent
        counts as OK. UNKNOWN is worse than WARNING and less bad than CRITICAL.
        """
        return max((told.level for told in self._pods.values()), key=rank, default=UNKNOWN)

    def observe(self, verdicts: Sequence[Verdict]) -> list[Notice]:
        """Take the verdicts of one cycle, one for each pod, and return the messages to send now
        (empty if nothing has changed). A pod without a verdict in this cycle is forgotten.
        """
        self._pods = {v.pod: self._pods.get(v.pod, _Told()) for v in verdicts}
        notices = (self._one(self._pods[v.pod], v) for v in verdicts)
        return [notice for notice in notices if notice is not None]

    def _one(self, told: _Told, now: Verdict) -> Notice | None:
        """Return the message for one pod, or None."""
        before, told.last = told.last, now
        was, failures, lasting = told.level, _failures(now), set[str]()
        if before is not None:
            lasting = failures & _failures(before)
        new = lasting - told.incidents
        told.level = _agreed(was, None if before is None else before.level, now.level)
        if told.level == OK:
            told.incidents = set()
        elif now.level != UNKNOWN:  # a pod that cannot be read still has its incidents
            told.incidents = (told.incidents & failures) | lasting
        if told.level == was and not (new and was == CRITICAL):
            return None
        return Notice(now.pod, told.level, was, "; ".join(now.sentences), now.incidents)


def _agreed(told: int, before: int | None, now: int) -> int:
    """Return the level to send: OK at once, and a worse or better level only as far as two samples
    in a row agree. `told` is the level that was last sent.
    """
    if now == OK:
        return OK
    if before is None:
        return told
    # Both samples are at least as bad as the milder one and at most as bad as the graver one.
    milder, graver = sorted((before, now), key=rank)
    return max(milder, min(told, graver, key=rank), key=rank)


def _failures(verdict: Verdict) -> set[str]:
    """Return the critical incidents of a verdict as strings that tell them apart. The incidents of
    a directory have no id, so their failure names do.
    """
    critical = (i for i in verdict.incidents if i["severity"] == "critical")
    return {f"{i['run']}/{i['failure']}/{i['id']}" for i in critical}
