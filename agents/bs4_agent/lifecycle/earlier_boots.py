"""Deciding if a process belonged to an earlier life of this pod: to a boot that is over, or to a
container that was stopped and started again.

A container that a provider pauses and resumes keeps the host's boot id, but its first process is
new. Every process older than that belonged to an earlier life.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bs4_agent.clock import stamp
from bs4_agent.identity import Identity
from bs4_agent.runs.files import write_json
from bs4_agent.runs.model import Attempt
from bs4_agent.scope import Scope

#: A file in the directory of an attempt that is known to have ended with the pod.
MARK = "ended_with_pod.json"
#: Seconds. The kernel's clocks are read one after the other, and start times are in hundredths.
_SLACK_S = 1.0
#: Seconds. A stop that gives a container longer than this between TERM and KILL is no stop of a
#: pod.
_WITH_POD_S = 120.0


def first_process(scope: Scope) -> Identity | None:
    """Return the process from which everything on this pod descends: pid 1, or the root of a
    practice pod. Returns None if it cannot be read.
    """
    return scope.root or Identity.of(1)


def of_an_earlier_life(identity: Identity | None, first: Identity | None) -> bool:
    """Return True if the process belongs to an earlier life of the pod. Returns False also if that
    is unknown.
    """
    if identity is None or first is None:
        return False
    return identity.boot_id != first.boot_id or identity.start_ticks < first.start_ticks


def began_t(first: Identity) -> float:
    """Return the wall second at which this life of the pod began."""
    return time.time() - (
        time.clock_gettime(time.CLOCK_BOOTTIME) - first.start_ticks / os.sysconf("SC_CLK_TCK")
    )


def ended_with_the_pod(
    directory: Path,
    attempt: Attempt,
    first: Identity | None,
    leaving: Mapping[str, Any] | None = None,
) -> bool:
    """Return True if an attempt is over because the pod was stopped.

    That is so if the attempt belongs to an earlier life and its end was not recorded, or if it
    ended within two minutes of the moment at which the agent was told to leave. `leaving` is what
    the agent recorded of the attempt at that moment. A positive answer is kept in `directory`.
    """
    mark = directory / MARK
    if attempt.end is None:
        return False
    if mark.exists():
        return True
    if first is None or not of_an_earlier_life(attempt.shim or attempt.launcher, first):
        return False
    if (attempt.end.code, attempt.end.signal) == (None, None):
        # Otherwise the attempt was seen to be over while that life continued.
        ended = attempt.end.t >= began_t(first) - _SLACK_S
    else:
        ended = (
            leaving is not None and -_SLACK_S <= attempt.end.t - float(leaving["t"]) <= _WITH_POD_S
        )
    if ended:
        write_json(mark, {**stamp()})
    return ended
