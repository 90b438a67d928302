"""What only this machine can see of a pod: its own link to it, by the names of the failures that are known.

A witness, never a ground: it describes the link and says nothing about the runs, so it is at most a warning, the pod stays UNKNOWN, and no
action ever comes of it. It is not in the pod's journal, because no pod can write down that it cannot be reached.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from bs4_console.core.errors import AuthFailed, ChannelLost, ConnectionRefused, HostKeyChanged, HostKeyUnknown, SessionRefused, Unreachable

if TYPE_CHECKING:
    from bs4_agent.playbooks.compiled import Playbook

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


def link_incidents(pod: str, link_state: str, sentence: str, down_s: float | None = None) -> list[dict[str, Any]]:
    """The open incident of a link that is not up, as `check` lists them; none where the link's word is no known failure (no agent, no
    Python: those are said as they are).

    `down_s`: for how long it has been down, when it is looked at again and again: nothing is told before the failure's own hold; None: it
    was tried once, to the end of its time.
    """
    playbook = _known().get(LINK_FAILURES.get(link_state, ""))
    if playbook is None or (down_s is not None and down_s < playbook.hold_s):
        return []
    severity = "warning" if playbook.severity == "critical" else playbook.severity
    return [
        {"id": f"{playbook.id}@{pod}", "failure": playbook.id, "run": "", "severity": severity, "summary": sentence, "playbook": None}
    ]  # fmt: skip


@functools.cache
def _known() -> dict[str, Playbook]:
    # A check of pods that answer needs no playbook, and starts sooner without them.
    from bs4_agent.playbooks.compiled import Library
    from bs4_console.core.playbooks import compile_all

    return {playbook.id: playbook for playbook in Library(compile_all()) if playbook.id in LINK_FAILURES.values()}
