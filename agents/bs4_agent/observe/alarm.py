"""Ending a wait before its time, because a process has ended or a log line has meaning. It costs
nothing while nothing happens.
"""

from __future__ import annotations

import os
import select
from collections.abc import Collection

from bs4_common.identity import Identity

#: Descriptors at most. Of a run's processes, only those with a component of their own are watched
#: this way. The scans of all processes see the rest.
_MOST = 128


class Alarm:
    """Lets a thread sleep until a time has passed, a watched process ends, or another thread calls
    `ring`. `ring` may be called from any thread, every other method from one thread only.
    """

    def __init__(self) -> None:
        self._poll = select.poll()
        self._reading, self._writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._poll.register(self._reading, select.POLLIN)
        self._watched: dict[Identity, int] = {}

    def ring(self) -> None:
        """End at once the call of `wait` that is under way, or, if there is none, the next call of
        `wait`.
        """
        try:
            os.write(self._writing, b"!")
        except BlockingIOError:
            return  # 64 kB of rings are waiting and will be heard

    def watch(self, identities: Collection[Identity]) -> None:
        """Watch the processes in `identities` from now on, and no others, so that `wait` reports
        when one ends. At most 128 are watched. A process that has ended already is not reported.
        """
        for gone in self._watched.keys() - set(identities):
            self._drop(gone)
        for identity in identities:
            if identity not in self._watched and len(self._watched) < _MOST:
                self._add(identity)

    def wait(self, seconds: float) -> tuple[bool, list[Identity]]:
        """Sleep for up to `seconds`, or until `ring` is called or a watched process ends. Return
        two things: True if `ring` was called, else False; and the list of the watched processes
        that have ended, which are not watched any more. If neither happened in time, return (False,
        []).
        """
        ready = set()
        for fd, _ in self._poll.poll(max(0.0, seconds) * 1000):
            ready.add(fd)
        rung = self._reading in ready
        if rung:
            os.read(self._reading, 65536)
        gone = [identity for identity, fd in self._watched.items() if fd in ready]
        for identity in gone:
            self._drop(identity)
        return rung, gone

    def close(self) -> None:
        """Close all file descriptors that this object has opened. It cannot be used afterwards."""
        self.watch(())
        os.close(self._reading)
        os.close(self._writing)

    def _add(self, identity: Identity) -> None:
        """Watch a process, unless it has ended or the kernel has no pidfds."""
        try:
            fd = os.pidfd_open(identity.pid)
        except (
            OSError
        ):  # gone already, or a kernel without pidfds: the scans of all processes notice
            return
        # Opened first and compared afterwards, because a pid that was reused in between is another
        # process.
        if not identity.alive():
            os.close(fd)
            return
        self._watched[identity] = fd
        self._poll.register(fd, select.POLLIN)

    def _drop(self, identity: Identity) -> None:
        """Stop watching a process."""
        fd = self._watched.pop(identity)
        self._poll.unregister(fd)
        os.close(fd)
