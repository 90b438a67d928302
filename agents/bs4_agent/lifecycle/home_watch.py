"""Notice that the agent's home directory has been removed or emptied. An agent without one must not
run on.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

from bs4_agent.paths import Home

#: Seconds between two looks at the home.
LOOK_S = 20.0
#: Looks in a row that must miss the home. A directory that is moved away and back within one pause
#: is not gone. With LOOK_S this makes 40 s at most, below the minute that is promised.
MISSED = 2


class HomeWatch:
    """Notices that the agent's home directory was removed, emptied or replaced by another one. It
    remembers the device, the inode and the id (a random text in a file) of the directory that is at
    the home's path at first, and compares them later with those of the directory that is there
    then. An emptied directory is noticed by its id, which is then missing or newly made.

    The first directory is kept open, because otherwise the kernel could give its inode number to
    another directory.
    """

    def __init__(self, home: Home) -> None:
        """Remember the directory of `home` and its id, which is made if there is none. Raises
        FileNotFoundError if there is no such directory.
        """
        self._home = home
        self._fd = os.open(home.root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        self._id = home.id()
        self.gone = False
        """True once the home was missing in MISSED looks in a row. It never becomes False again."""

    def missing(self) -> bool:
        """Return True if it is certain that the home directory that was there at the start is not
        at its path any more (nothing or something else is there), or that its id is missing or has
        changed. Return False if it is unchanged, or if that cannot be found out, for example for
        lack of permission.
        """
        try:
            found = self._home.root.stat()
            name = self._home.id_file.read_text(errors="replace")
        except (FileNotFoundError, NotADirectoryError):
            return True
        except OSError:
            return False
        own = os.fstat(self._fd)
        return name != self._id or not os.path.samestat(found, own)

    def run(self, stop: threading.Event, on_gone: Callable[[], None]) -> None:
        """Check every 20 seconds whether the agent's home directory is still there, until the event
        `stop` is set. If it is missing at two checks in a row, set the attribute `gone` to True,
        call `on_gone` once, and return.
        """
        missed = 0
        while not stop.wait(LOOK_S):
            if self.missing():
                missed += 1
            else:
                missed = 0
            if missed >= MISSED:
                self.gone = True
                on_gone()
                return
