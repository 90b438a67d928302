"""Notice that the inventory's file has changed: other terminals and editors write it too."""

from __future__ import annotations

from bs4_console.errors import UsageError
from bs4_console.pods.inventory import Inventory, Pod

_Stamp = tuple[int, int, int]


class InventoryWatch:
    """Watches the inventory's file from the moment it is made. One poll costs one `stat`.

    A change counts when two polls in a row see the same file. An editor empties a file before it
    writes it, and an empty inventory would close the session of every pod.
    """

    def __init__(self, inventory: Inventory) -> None:
        self._inventory = inventory
        self._read = self._last = self._stamp()

    def poll(self) -> tuple[Pod, ...] | None:
        """Return the pods if the file has changed and is no longer being written, else None.

        Raises UsageError, once for each change, if the file cannot be read.
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
