"""Witnesses: who can say something of a pod from outside it, each with what it saw, when, or why it
could not.

Three are known: this machine's own link (`link_incidents` here), Weights & Biases (checks/wandb.py)
and the provider (provision/rent.py). A witness is never a ground: alone it is at most a warning,
and no action ever comes of it. What the pod itself says outranks all of them. None of it is in the
pod's journal, because no pod can write down that it cannot be reached.
"""

from __future__ import annotations

import functools
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

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
    from bs4_agent.playbooks.compiled import Playbook

#: running: it was seen to live at `seen_t`. stopped: it is still there, and does not run. gone: its
#: owner says that it no longer exists. unknown: could not look, was refused, or the answer says
#: neither.
SightState = Literal["running", "stopped", "gone", "unknown"]


#: W&B counts a run without heartbeats as crashed after five minutes; a link of W&B's own may take
#: as long to come back.
FRESH_S = 600.0


@dataclass(frozen=True, kw_only=True)
class Sight:
    """One look of one witness. Times are wall seconds of this machine, as far as the witness tells
    them.
    """

    state: SightState
    detail: str
    """One sentence for a person: what was seen, or why not. Never holds a secret."""
    seen_t: float | None
    """When what is told was true (W&B: its last heartbeat; provider: its answer). None: nothing was
    seen.
    """
    coverage: str = ""
    """What this witness could not see, as a phrase; never empty when `state` is unknown."""
    looked_t: float = field(default_factory=time.time)
    step: int | None = None
    """The newest training step that it knows of, if it knows of steps."""
    raw_state: str = ""
    """The state in the witness' own word (crashed, EXITED, outbid, ...)."""
    next_step: str = ""
    """What a person can do about it, if anything."""

    def __post_init__(self) -> None:
        if self.state == "unknown" and not self.coverage:
            raise ValueError("A sight that is unknown says in `coverage` what could not be seen.")

    def age_s(self, now_t: float | None = None) -> float | None:
        """Seconds since what was seen was true; None where nothing was seen. Never negative: clocks
        differ.
        """
        if self.seen_t is None:
            return None
        return max(0.0, (time.time() if now_t is None else now_t) - self.seen_t)


class Witness(Protocol):
    """`look` raises no error for what may happen outside (no network, refused, no such run): that
    is a Sight with state unknown and its coverage. It is bounded in time by the witness itself.
    """

    @property
    def name(self) -> str:
        """ssh, wandb, or the provider's id (vast, runpod, ...)."""
        ...

    async def look(self) -> Sight: ...


def without_the_pod(run: str, sight: Sight, now_t: float | None = None) -> str:
    """What a sight says of a run whose pod cannot be reached; "" where it says nothing."""
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
    """`12 s`, `25 min`, `3.1 h`."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


#: The word of a link's error -> the failure that it is.
LINK_FAILURES = {
    Unreachable.link_state: "ssh-unreachable",
    ConnectionRefused.link_state: "ssh-unreachable",
    ChannelLost.link_state: "ssh-connection-lost",
    AuthFailed.link_state: "ssh-auth",
    HostKeyUnknown.link_state: "ssh-host-key-unknown",
    HostKeyChanged.link_state: "ssh-host-key-changed",
    SessionRefused.link_state: "ssh-session-limit",
}


def link_incidents(
    pod: str, link_state: LinkState, sentence: str, down_s: float | None = None
) -> list[dict[str, Any]]:
    """The open incident of a link that is not up, as `check` lists them; none where the link's word
    is no known failure (no agent, no Python: those are said as they are).

    `down_s`: for how long it has been down, when it is looked at again and again: nothing is told
    before the failure's own hold; None: it was tried once, to the end of its time.
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
    # A check of pods that answer needs no playbook, and starts sooner without them.
    from bs4_agent.playbooks.compiled import Library
    from bs4_console.failures.playbooks import compile_all

    found = {}
    for playbook in Library(compile_all()):
        if playbook.id in LINK_FAILURES.values():
            found[playbook.id] = playbook
    return found
