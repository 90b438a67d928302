"""Whether the inventory's file has changed, and what it holds then: other terminals and editors
write it too.
"""

from __future__ import annotations

from bs4_console.core.errors import UsageError
from bs4_console.core.inventory import Inventory, Pod

_Stamp = tuple[int, int, int]


class InventoryWatch:
    """Begins with the inventory as it is now. A look costs one `stat`."""

    def __init__(self, inventory: Inventory) -> None:
        self._inventory = inventory
        self._seen = self._stamp()

    def look(self) -> tuple[Pod, ...] | None:
        """Return the pods when the file has changed since the last look, else None.

        UsageError, once for each change, when it cannot be read: somebody may be in the middle of
        editing it.
        """
        stamp = self._stamp()
        if stamp == self._seen:
            return None
        self._seen = stamp
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
