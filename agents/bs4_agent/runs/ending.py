"""End processes. Each is held by its identity, and the wait for its end is the kernel's notice on a
pidfd and not a sleep.
"""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from bs4_common.identity import Identity, stat_fields
from bs4_common.runs.model import KILL_S, TERM_S

Say = Callable[[str], None]


@dataclass(frozen=True)
class Sent:
    """A record that the signal `signal` (its name, such as "SIGTERM") was sent, or could not be
    sent, to the process `identity` at the Unix time `t` in seconds. `refused` is "" if it was sent,
    and otherwise says why it was not.
    """

    signal: str
    identity: Identity
    t: float
    refused: str = ""


def send(identity: Identity, name: str) -> Sent | None:
    """Send the signal with the name `name`, such as "SIGTERM", to one process. Return a record of
    the signal, or None if the process has ended. If the process is another user's, nothing is sent
    and `refused` of the record says so.

    A process that was stopped with SIGSTOP is sent SIGCONT afterwards, because it could not handle
    the signal otherwise. After SIGKILL no SIGCONT is sent, because none is needed.
    """
    try:
        if not identity.send(signal.Signals[name]):
            return None
        if name != "SIGKILL" and _stopped(identity):
            identity.send(signal.SIGCONT)
    except PermissionError:
        return Sent(name, identity, time.time(), "the agent may not signal another user's process")
    return Sent(name, identity, time.time())


def send_all(identities: Sequence[Identity], name: str) -> list[Sent]:
    """Send the signal with the name `name`, such as "SIGTERM", to each process. Return one record
    for each process to which it was sent or refused. Processes that have ended are left out.
    """
    results = [send(identity, name) for identity in identities]
    return [result for result in results if result is not None]


def wait_gone(identities: Collection[Identity], seconds: float) -> set[Identity]:
    """Wait until all of these processes have ended, but at most `seconds`. Return the processes
    that still live; the set is empty if all have ended.
    """
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
    """Send SIGTERM to the processes `targets`, wait up to ten seconds, then send SIGKILL to those
    that still live and wait up to ten seconds again. Return records of the signals that were sent,
    and the set of processes that still live, which is empty if all have ended.

    `scale` multiplies the durations of both waits; tests shorten them with it. `say` is called with
    a sentence for a person after each round of signals.
    """
    sent: list[Sent] = []
    left = set(targets)
    for name, seconds in (("SIGTERM", TERM_S), ("SIGKILL", KILL_S)):
        now = send_all(sorted(left, key=lambda one: one.pid), name)
        if now:
            say(f"sent {name} to " + ", ".join(str(one.identity.pid) for one in now))
        sent += now
        left = wait_gone(left, seconds * scale)
        if not left:
            break
    return sent, left


def _hold(identity: Identity) -> int | None:
    """Return a pidfd of exactly this process, or None if it has ended."""
    try:
        fd = os.pidfd_open(identity.pid)
    except ProcessLookupError:
        return None
    if identity.alive():
        return fd
    os.close(fd)
    return None


def _stopped(identity: Identity) -> bool:
    """Return True if the process is stopped, by a signal or by a tracer."""
    fields = stat_fields(identity.pid)
    return fields is not None and fields[0] in ("T", "t")
