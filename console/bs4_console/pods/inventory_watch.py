"""Notice that the inventory's file has changed: other terminals and editors write it too."""

from __future__ import annotations

from bs4_console.errors import UsageError
from bs4_console.pods.inventory import Inventory, Pod

_Stamp = tuple[int, int, int]


class InventoryWatch:
    """Notices changes of the inventory's file from the moment the watch is made. One poll costs one
    `stat`.

    A change is reported only when two polls in a row find the file the same: an editor may empty a
    file before writing it, and an empty inventory would close the session of every pod.
    """

    def __init__(self, inventory: Inventory) -> None:
        self._inventory = inventory
        self._read = self._last = self._stamp()

    def poll(self) -> tuple[Pod, ...] | None:
        """Return all pods of the inventory if its file has changed since it was read last and is
        the same as at the poll before this one. Return None if it has not changed, or if it has
        changed between these two polls, because it may still be being written.

        Raises UsageError, once for each change, if the file has a mistake, and at each poll if the
        file cannot be accessed.
        """
        stamp = self._stamp()
        settled = stamp == self._last
        self._last = stamp
        if not settled or stamp == self._read:
            return None
        self._read = stamp
        return self._inventory.list()

    def _stamp(self) -> _Stamp | None:
        try:
            found = self._inventory.path.stat()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise UsageError(
                f"{self._inventory.path} cannot be read: {error.strerror}.", "Check its mode."
            ) from error
        return found.st_mtime_ns, found.st_ino, found.st_size
