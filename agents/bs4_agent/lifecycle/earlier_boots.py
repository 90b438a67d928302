"""Deciding if a process belonged to an earlier life of this pod: to a boot that is over, or to a
container that was stopped and started again.

A container that a provider pauses and resumes keeps the host's boot id, but its first process is
new. Every process older than that belonged to an earlier life.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from bs4_agent.scope import Scope
from bs4_common.clock import stamp
from bs4_common.files import write_json
from bs4_common.identity import Identity
from bs4_common.runs.model import Attempt

if TYPE_CHECKING:
    from bs4_common.failures.facts import Intent

#: A file in the directory of an attempt that is known to have ended with the pod.
MARK = "ended_with_pod.json"
#: Seconds. The kernel's clocks are read one after the other, and start times are in hundredths.
_SLACK_S = 1.0
#: Seconds. A stop that gives a container longer than this between TERM and KILL is no stop of a
#: pod.
_WITH_POD_S = 120.0


def first_process(scope: Scope) -> Identity | None:
    """Return the identity (pid and start time) of the pod's first process, from which all others
    descend: pid 1, or, for a practice pod (a simulated one), the root of its processes. Return None
    if it cannot be read.
    """
    return scope.root or Identity.of(1)


def of_an_earlier_life(identity: Identity | None, first: Identity | None) -> bool:
    """Return True if the process `identity` began before the pod was last booted or its container
    last started. `first` is the pod's first process. Return False if it began later, or if one of
    the two is None.
    """
    if identity is None or first is None:
        return False
    return identity.boot_id != first.boot_id or identity.start_ticks < first.start_ticks


def began_t(first: Identity) -> float:
    """Return when the pod was last booted or its container last started, as Unix time in seconds.
    `first` is the pod's first process; its start is that time.
    """
    return time.time() - (
        time.clock_gettime(time.CLOCK_BOOTTIME) - first.start_ticks / os.sysconf("SC_CLK_TCK")
    )


def ended_with_the_pod(
    directory: Path,
    attempt: Attempt,
    first: Identity | None,
    leaving: Intent | None = None,
) -> bool:
    """Return True if an attempt ended because the pod was stopped or rebooted. Return False if it
    is still alive or ended for another reason. `first` is the pod's first process, or None if
    unknown.

    The result is True if the attempt began before the pod's last start, and either nobody recorded
    how the attempt ended, or it ended within two minutes after the agent itself was ordered to end.
    `leaving` is what the agent recorded of the attempt when it got that order, or None. A result of
    True is saved in `directory`, the attempt's directory.
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
        left_t = leaving.get("t") if leaving is not None else None
        ended = left_t is not None and -_SLACK_S <= attempt.end.t - left_t <= _WITH_POD_S
    if ended:
        write_json(mark, {**stamp()})
    return ended
