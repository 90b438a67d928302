"""Ending a wait before its time, because a log has grown: the kernel tells it (inotify)."""

from __future__ import annotations

import ctypes
import os
import select
from collections.abc import Collection

_IN_MODIFY = 0x2
#: Bytes that one read takes; an event of a file has 16.
_EVENTS = 64 * 1024
#: Files at most. The kernel's limit is shared by all processes of the pod's user, and a training
#: run needs some itself.
_MOST = 128


class Growth:
    """Lets a thread sleep until a time has passed or one of some files is written to. Call every
    method from one thread only.

    It is a hint and no more. A file system that another machine writes to says nothing, nor does a
    kernel that has no watch left; then every wait takes its whole time. So look at the files after
    every wait, whatever it returned.
    """

    def __init__(self) -> None:
        self._kernel = ctypes.CDLL(None, use_errno=True)
        self._fd: int = self._kernel.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        self._poll = select.poll()
        if self._fd >= 0:
            self._poll.register(self._fd, select.POLLIN)
        self._watched: set[int] = set()

    def watch(self, files: Collection[str]) -> None:
        """Watch the files at the paths `files` from now on, and no others. At most 128 are watched.
        A path at which nothing can be watched is left out.
        """
        if self._fd < 0:
            return
        present = set()
        for path in list(files)[:_MOST]:
            # Of a file that is watched already, this returns the number that it has.
            number = self._kernel.inotify_add_watch(self._fd, os.fsencode(path), _IN_MODIFY)
            if number >= 0:
                present.add(number)
        for number in self._watched - present:
            # An error says that the file has gone, and its watch with it.
            self._kernel.inotify_rm_watch(self._fd, number)
        self._watched = present

    def wait(self, seconds: float) -> bool:
        """Sleep for up to `seconds`, or until a watched file is written to. Return True if one was
        written to since the last call.
        """
        if not self._poll.poll(max(0.0, seconds) * 1000):
            return False
        os.read(self._fd, _EVENTS)
        return True

    def close(self) -> None:
        """Close the descriptor that this object has opened, which ends all watches. It cannot be
        used afterwards.
        """
        if self._fd >= 0:
            self._poll.unregister(self._fd)
            os.close(self._fd)
            self._fd = -1
