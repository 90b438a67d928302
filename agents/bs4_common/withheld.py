"""What the journal does not say: the records with secrets that an action needs again after a
restart of the agent, whole.

The journal is read by consoles, which keep and show it. So it holds copies without secrets. A
launch that goes on after a restart, and a plan that is confirmed after one, need the real words.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from bs4_common.credentials.redaction import holds_marker
from bs4_common.errors import Refused
from bs4_common.files import read_passing, write_json

#: The fields from which an action is carried out.
_NEEDED = ("body", "plan", "to")
#: The fields by which records belong together. They are names that a run or a person's action has,
#: and stay even if a secret is the same.
_IDENTIFIERS = ("event", "action", "kind", "run", "playbook", "plan_hash", "incident", "failure")


def refuse_lost(value: Any) -> None:
    """Raise Refused if one of the texts in `value`, a value of a JSON record, stands in place of a
    secret. That is so if the whole record was lost, and only the journal's copy is left. To act on
    it would be to act on other words than those that a person gave.
    """
    if isinstance(value, Mapping):
        for key, inner in value.items():
            refuse_lost(key)
            refuse_lost(inner)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            refuse_lost(inner)
    elif isinstance(value, str) and holds_marker(value):
        raise Refused(
            f"{value[:80]!r} stands in place of a secret that is not on the pod any more; give the "
            "order again, with the secret itself."
        )


class Withheld:
    """Keeps records whole in files of mode 0600 in the directory `directory`. Each file is named by
    the hash of the line that the journal has in its place. `redacted` returns a copy of a JSON
    value without the secrets that are left out there.
    """

    def __init__(self, directory: Path, redacted: Callable[[Any], Any]) -> None:
        self._directory, self._redacted = directory, redacted

    def shown(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fields of a record as the journal may hold them."""
        found: dict[str, Any] = self._redacted(fields)
        for name in _IDENTIFIERS:
            if name in fields:
                found[name] = fields[name]
        return found

    def keep(self, line_hash: str, record: Mapping[str, Any]) -> None:
        """Keep a record whole, if an action may need it again. `line_hash` is the hash of the line
        that is in its place. It is on disk when this returns. Raises OSError if it cannot be.
        """
        if any(record.get(field) for field in _NEEDED):
            self._directory.mkdir(mode=0o700, exist_ok=True)
            write_json(self._directory / f"{line_hash}.json", record)

    def names(self) -> set[str]:
        """Return the hashes of the lines whose records are kept here."""
        if not self._directory.is_dir():
            return set()
        return {path.stem for path in self._directory.glob("*.json")}

    def whole(self, line_hash: str) -> dict[str, Any] | None:
        """Return the whole record of a line, or None if it is not kept here or its file is damaged.
        A launch of what the journal has instead is refused (see launch/start.py).
        """
        try:
            return read_passing(self._directory / f"{line_hash}.json")
        except OSError:
            return None

    def forget(self, line_hash: str) -> None:
        """Delete the record of a line that the journal does not have. One that cannot be deleted
        stays, and is tried again at the next start.
        """
        with contextlib.suppress(OSError):
            (self._directory / f"{line_hash}.json").unlink()
