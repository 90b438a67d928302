"""External observers: sources that see a pod from outside it, each with what it saw and when, or
why it could not.

Three are known: this machine's own link (`link_incidents` here), Weights & Biases (checks/wandb.py)
and the provider (provision/rent.py). An external observer is never a ground: alone it is at most a
warning, and no action ever comes of it. What the pod itself says outranks all of them. Nothing of
it is in the pod's journal, because no pod can write down that it cannot be reached.
"""

from __future__ import annotations

import functools
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol, TypedDict

from bs4_console.errors import (
    AuthFailed,
    ChannelLost,
    ConnectionRefused,
    HostKeyChanged,
    HostKeyUnknown,
    LinkState,
    SessionRefused,
    Unreachable,
)

if TYPE_CHECKING:
    from bs4_common.failures.compiled import Playbook

#: running: it was seen to live at `seen_t`. stopped: it still exists and does not run. gone: its
#: owner says that it no longer exists. unknown: the poll failed, was refused, or the answer says
#: neither.
SightState = Literal["running", "stopped", "gone", "unknown"]


#: Seconds for which a heartbeat counts as fresh. W&B counts a run without heartbeats as crashed
#: after five minutes; W&B's own link may take as long to come back.
FRESH_S = 600.0


@dataclass(frozen=True, kw_only=True)
class Observation:
    """What an external observer (the connection to the pod, W&B, or the provider) found out about a
    pod in one poll. `state` is running, stopped, gone or unknown, and `raw_state` is the word that
    the observer itself uses for it. `seen_t` is the time at which the observed fact was true, and
    `looked_t` the time of the poll, both as Unix times in seconds; `seen_t` is None if nothing was
    seen.
    """

    state: SightState
    detail: str
    """One sentence for a person: what was seen, or why nothing was. It never holds a secret."""
    seen_t: float | None
    """The time at which the observed fact was true (W&B: its last heartbeat; provider: its answer).
    None if nothing was seen.
    """
    coverage: str = ""
    """A phrase that says what the observer could not see. Never empty if `state` is unknown."""
    looked_t: float = field(default_factory=time.time)
    step: int | None = None
    """The newest training step that the observer knows. None if it knows no steps."""
    raw_state: str = ""
    """The state in the observer's own word (crashed, EXITED, outbid, ...)."""
    next_step: str = ""
    """What a person can do, or ""."""

    def __post_init__(self) -> None:
        if self.state == "unknown" and not self.coverage:
            raise ValueError("A sight that is unknown says in `coverage` what could not be seen.")

    def age_s(self, now_t: float | None = None) -> float | None:
        """Return the seconds that have passed since the observed fact was true, or None if nothing
        was seen. The result is never below 0, even if clocks differ. `now_t` is the present Unix
        time in seconds; None means this machine's clock.
        """
        if self.seen_t is None:
            return None
        return max(0.0, (time.time() if now_t is None else now_t) - self.seen_t)


class ExternalObserver(Protocol):
    """An external observer of one pod, such as W&B or the provider.

    `observe` does not raise for what may happen outside (no network, access refused, no such run):
    it then returns an Observation with the state unknown, which says in `coverage` what could not
    be seen. The observer limits the time of its own poll.
    """

    @property
    def name(self) -> str:
        """Return the observer's name: `ssh`, `wandb`, or the provider's id (vast, runpod, ...)."""

    async def observe(self) -> Observation:
        """Poll once and return what the observer sees of the pod now."""


def without_the_pod(run: str, sight: Observation, now_t: float | None = None) -> str:
    """Return a sentence that says what W&B last saw of `run`, whose pod cannot be reached. `sight`
    is W&B's observation of that run. Return "" if W&B saw nothing of the run. `now_t` is the
    present Unix time in seconds; None means this machine's clock.
    """
    age = sight.age_s(now_t)
    if age is None:
        return ""
    at = ""
    if sight.step is not None:
        at = f" at step {sight.step}"
    if sight.state == "stopped":
        return f"W&B says that {run} is {sight.raw_state}{at}, last heard of {ago(age)} ago."
    if age <= FRESH_S and sight.state == "running":
        return (
            f"W&B heard of {run} {ago(age)} ago{at}: the run goes on, the link is what is broken."
        )
    return (
        f"W&B last heard of {run} {ago(age)} ago{at}, which does not tell whether the run or its "
        "network ended."
    )


def ago(seconds: float) -> str:
    """Return a duration in seconds as text: `12 s`, `25 min`, `3.1 h`."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


#: The failure of each link state.
LINK_FAILURES = {
    Unreachable.link_state: "ssh-unreachable",
    ConnectionRefused.link_state: "ssh-unreachable",
    ChannelLost.link_state: "ssh-connection-lost",
    AuthFailed.link_state: "ssh-auth",
    HostKeyUnknown.link_state: "ssh-host-key-unknown",
    HostKeyChanged.link_state: "ssh-host-key-changed",
    SessionRefused.link_state: "ssh-session-limit",
}


class IncidentRow(TypedDict):
    """One failure of a pod or run, as the JSON of the command `check` lists it. `severity` is
    "critical", "warning" or "info", and `summary` a sentence about it.
    """

    id: str
    """The incident's id, or "" for a failure that was found in files instead of on a pod."""
    failure: str
    """The id of the failure, which is that of its playbook (the file that describes it and its
    repair).
    """
    run: str
    severity: str
    summary: str
    playbook: str | None
    """The id of the playbook that repairs it, or None if none does."""


def link_incidents(
    pod: str, link_state: LinkState, sentence: str, down_s: float | None = None
) -> list[IncidentRow]:
    """Return a list with one failure, in the form of the JSON of `check`, for a pod whose link is
    not up. `link_state` is the word for why the link is not up, and `sentence` becomes the
    failure's summary. The list is empty if no playbook is about this state, as for "no agent" or
    "no Python".

    `down_s` is the number of seconds for which the link has been down. The list is also empty if
    that is less than the time for which the failure must last before it counts. None means that the
    link was tried only once, up to its time limit; then the time is not compared.
    """
    playbook = _known().get(LINK_FAILURES.get(link_state, ""))
    if playbook is None or (down_s is not None and down_s < playbook.hold_s):
        return []
    severity = "warning"
    if playbook.severity != "critical":
        severity = playbook.severity
    return [
        {
            "id": f"{playbook.id}@{pod}",
            "failure": playbook.id,
            "run": "",
            "severity": severity,
            "summary": sentence,
            "playbook": None,
        }
    ]


@functools.cache
def _known() -> dict[str, Playbook]:
    # Imported late: a check of pods that answer needs no playbook, and starts sooner without them.
    from bs4_common.failures.compiled import Library
    from bs4_console.failures.playbooks import compile_all

    found = {}
    for playbook in Library(compile_all()):
        if playbook.id in LINK_FAILURES.values():
            found[playbook.id] = playbook
    return found
