"""End processes, each held by its identity, and wait for their end on the kernel's word instead of
a clock's.
"""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from bs4_agent.identity import Identity, stat_fields

#: After TERM; vLLM and torchrun need up to 5 s to tear down their children.
TERM_S = 10.0
#: After KILL only the kernel is left to wait for: a process in uninterruptible sleep (a hung
#: driver, NFS) may never go.
KILL_S = 10.0

Say = Callable[[str], None]


@dataclass(frozen=True)
class Sent:
    """A signal that was sent, or why it was not (`refused`)."""

    signal: str
    identity: Identity
    t: float
    refused: str = ""


def send(identity: Identity, name: str) -> Sent | None:
    """Signal one process; None when it has gone. A stopped one is continued after anything but
    KILL: it would not hear it otherwise.
    """
    try:
        if not identity.send(signal.Signals[name]):
            return None
        if name != "SIGKILL" and _stopped(identity):
            identity.send(signal.SIGCONT)
    except PermissionError:
        return Sent(name, identity, time.time(), "the agent may not signal another user's process")
    return Sent(name, identity, time.time())


def wait_gone(identities: Collection[Identity], seconds: float) -> set[Identity]:
    """Wait until all have ended, at most `seconds`; returns those that live on."""
    deadline = time.monotonic() + seconds
    with ExitStack() as held:
        watched: dict[int, Identity] = {}
        for identity in identities:
            if (fd := _hold(identity)) is not None:
                held.callback(os.close, fd)
                watched[fd] = identity
        poller = select.poll()
        for fd in watched:
            poller.register(fd, select.POLLIN)
        while watched:
            left = deadline - time.monotonic()
            ready = poller.poll(max(0.0, left) * 1000)
            for fd, _ in ready:
                poller.unregister(fd)
                del watched[fd]
            if left <= 0 and not ready:
                break
        return set(watched.values())


def end(
    targets: Sequence[Identity], *, scale: float = 1.0, say: Say = lambda text: None
) -> tuple[list[Sent], set[Identity]]:
    """TERM, ten seconds, KILL. Returns what was sent and who still lives. `scale` shortens the
    waits in tests.
    """
    sent: list[Sent] = []
    left = set(targets)
    for name, seconds in (("SIGTERM", TERM_S), ("SIGKILL", KILL_S)):
        now = [
            result
            for identity in sorted(left, key=lambda one: one.pid)
            if (result := send(identity, name)) is not None
        ]
        if now:
            say(f"sent {name} to " + ", ".join(str(one.identity.pid) for one in now))
        sent += now
        left = wait_gone(left, seconds * scale)
        if not left:
            break
    return sent, left


def _hold(identity: Identity) -> int | None:
    """A pidfd of this very process, None when it has ended."""
    try:
        fd = os.pidfd_open(identity.pid)
    except ProcessLookupError:
        return None
    if identity.alive():
        return fd
    os.close(fd)
    return None


def _stopped(identity: Identity) -> bool:
    fields = stat_fields(identity.pid)
    return fields is not None and fields[0] in ("T", "t")
