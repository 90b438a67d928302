"""Choosing the cause among several findings: findings that follow from another one are dropped, and
the rest are sorted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bs4_common.failures.compiled import Playbook
from bs4_common.failures.facts import Facts, Finding, RunFacts
from bs4_common.states import Role

#: Processes write at their own time, so a consequence may be in a log before its cause. Another
#: rank's broken connection is printed when it happens. The exit code of the killed rank is printed
#: only when torchrun has ended the others (30 s and more).
_EARLIER_S = 120.0
_EARLIER_LINES = 200
_ROLES: dict[Role | None, int] = {
    "root": 0,
    "symptom": 1,
    "cascade": 1,
    "warning": 2,
    "maintenance": 3,
}
#: What the logs of a run say after one of its processes ended of a failure that the others only
#: live with (`ends_run` of a signature).
_ENDED = frozenset({"trainer-exited", "orchestrator-fatal", "launcher-orphans"})
#: The components of a run that write each log.
_WRITERS = {
    "trainer": ("rank", "trainer"),
    "inference": ("inference", "engine", "worker", "router"),
    "orchestrator": ("orchestrator",),
    "env": ("env-server",),
    "launcher": ("launcher",),
}


@dataclass(frozen=True)
class Cause:
    """A finding (a failure that was seen at one moment) together with its playbook, which describes
    how the failure is recognised and repaired.

    `t` is the time of the first log line that shows the failure, as a Unix time in seconds. It is
    None if no line shows the failure with a time. A kernel log may give the seconds since the boot
    instead; these are less than 1e8.
    """

    finding: Finding
    playbook: Playbook
    t: float | None = None
    since_m: float | None = None
    """When the finding began, in seconds of the clock of `Facts.now_m`. None stands for the time of
    the present scan.
    """
    read_m: float | None = None
    """When the agent read the first line that shows the failure, in seconds of the monotonic clock,
    or None if no line does or the log is finished.
    """


def order(cause: Cause, facts: Facts) -> tuple[bool, int, float, int, float]:
    """Return a key by which findings are sorted so that the likeliest cause comes first. A finding
    with the role `root` comes before all others. Among equals, these decide, in this order: the
    newer attempt; the earlier bad end of the process that wrote the evidence (`facts` show when
    processes ended); the order of the other roles; the earlier time.
    """
    item = cause.finding
    return (
        item.role != "root",
        -item.attempt,
        _exit_t(item, facts),
        _ROLES.get(item.role, 3),
        cause.t if cause.t is not None else float("inf"),
    )


def _exit_t(item: Finding, facts: Facts) -> float:
    """Return the Unix time at which the process that wrote the evidence ended, or infinity if it
    lives or its end is unknown.
    """
    for run in facts.runs:
        if item.evidence and (run.name, run.attempt) == (item.run, item.attempt):
            return first_exit(run, str(item.evidence[0].get("source", "")))
    return float("inf")


def first_exit(run: RunFacts, source: str) -> float:
    """Return the Unix time in seconds at which a process that writes the log `source` first ended
    badly (by a signal, or with an exit code other than 0). Return infinity if none did.
    """
    writers = _WRITERS.get("env" if source.startswith("env") else source, ())
    return min(
        (e.t for e in run.exits if e.component in writers and (e.signal or e.code)),
        default=float("inf"),
    )


def causes(found: Mapping[str, Cause], facts: Facts) -> dict[str, Cause]:
    """Return those entries of `found` ({incident id: cause}) that no other entry of the same
    attempt explains, sorted so that the likeliest cause comes first (see the function `order`). An
    entry explains another if its playbook lists the other's failure and the other did not come much
    earlier (by more than two minutes or, where times are not known, more than 200 lines of the same
    log). `facts` show when processes ended, for the sorting.

    If two entries explain each other, the likelier one stays. An entry that is left out still
    explains others, so only the first of a chain of explanations remains.
    """
    keys = sorted(found, key=lambda key: order(found[key], facts))
    by_attempt: dict[tuple[str, int], list[str]] = {}
    for key in keys:
        item = found[key].finding
        by_attempt.setdefault((item.run, item.attempt), []).append(key)
    kept: set[str] = set()
    for group in by_attempt.values():
        kept.update(_heads(group, found))
    return {key: found[key] for key in keys if key in kept}


def _heads(group: Sequence[str], found: Mapping[str, Cause]) -> list[str]:
    """Return the keys of one attempt's findings that no other finding of it explains."""
    # One edge for each pair; there are a dozen findings at most.
    explains = {
        key: {other for other in group if other != key and _explains(found[key], found[other])}
        for key in group
    }
    for place, key in enumerate(group):
        for other in _reached(key, explains).intersection(group[place + 1 :]):
            explains[other].discard(key)
    explained = set[str]().union(*explains.values())
    return [key for key in group if key not in explained]


def _reached(key: str, explains: Mapping[str, set[str]]) -> set[str]:
    """Return the keys of all findings that `key` explains, directly or through others."""
    reached: set[str] = set()
    todo = list(explains[key])
    while todo:
        other = todo.pop()
        if other not in reached:
            reached.add(other)
            todo += explains[other]
    return reached


def _explains(cause: Cause, other: Cause) -> bool:
    """Return True if `cause` explains `other`: its playbook lists the failure, or it is a failure
    that otherwise only warns and has ended the run; and `other` did not come well before it.
    """
    explained = other.finding.failure in cause.playbook.explains
    if cause.playbook.role == "warning" and cause.finding.role == "root":
        explained = explained or other.finding.failure in _ENDED
    return explained and not _before(other, cause)


def _before(other: Cause, cause: Cause) -> bool:
    """Return True if `other` came so long before `cause` that it cannot be its consequence."""
    # A kernel log counts seconds from the boot, other logs from 1970.
    if other.t is not None and cause.t is not None and (other.t < 1e8) == (cause.t < 1e8):
        return other.t < cause.t - _EARLIER_S
    one, two = _first_line(other), _first_line(cause)
    if one is None or two is None:
        return False
    return one[0] == two[0] and one[1] < two[1] - _EARLIER_LINES


def _first_line(cause: Cause) -> tuple[tuple[str, str], int] | None:
    """Return ((stream, file), line number) of the first evidence, or None if it has no line."""
    if not cause.finding.evidence or not cause.finding.evidence[0].get("line"):
        return None
    first = cause.finding.evidence[0]
    return (str(first.get("stream", "")), str(first.get("file", ""))), int(first["line"])
