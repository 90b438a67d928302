"""A backend of the keyring library for tests: a file that the variable TEST_KEYRING names. It is
chosen by PYTHON_KEYRING_BACKEND, so that the library itself finds it as it finds any other.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from keyring.backend import KeyringBackend
from keyring.errors import KeyringLocked, PasswordDeleteError


class Backend(KeyringBackend):
    """Keeps entries in a file, and is locked while the file holds the word `locked`."""

    priority = 5  # type: ignore[assignment]

    @property
    def path(self) -> Path:
        return Path(os.environ["TEST_KEYRING"])

    def _all(self) -> dict[str, str]:
        if not self.path.exists():
            return {}
        if self.path.read_text() == "locked":
            raise KeyringLocked("locked")
        entries: dict[str, str] = json.loads(self.path.read_text())
        return entries

    def get_password(self, service: str, username: str) -> str | None:
        return self._all().get(f"{service}/{username}")

    def set_password(self, service: str, username: str, password: str) -> None:
        self.path.write_text(json.dumps({**self._all(), f"{service}/{username}": password}))

    def delete_password(self, service: str, username: str) -> None:
        entries = self._all()
        if f"{service}/{username}" not in entries:
            raise PasswordDeleteError("none")
        del entries[f"{service}/{username}"]
        self.path.write_text(json.dumps(entries))


class PlainFile(Backend):
    """A backend that the library itself does not recommend, as those that write a plain file."""

    priority = 0.5  # type: ignore[assignment]
