"""What the journal does not say: the records with secrets that an action needs again after a
restart of the agent, whole.

The journal is read by consoles, which keep and show it. So it holds copies without secrets. A
launch that goes on after a restart, and a plan that is confirmed after one, need the real words.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from bs4_common.credentials.redaction import holds_marker
from bs4_common.errors import Refused
from bs4_common.files import read_passing, write_json

if TYPE_CHECKING:
    from bs4_common.ledger import JournalRecord

#: The fields from which an action is carried out.
_NEEDED = ("body", "plan", "to")
#: The fields by which records belong together. They are names that a run or a person's action has,
#: and stay even if a secret is the same.
_IDENTIFIERS = ("event", "action", "kind", "run", "playbook", "plan_hash", "incident", "failure")


def refuse_lost(value: Any) -> None:
    """Raise Refused if a text in `value`, a value of a JSON record, is the mark that is stored in
    the journal (the agent's log) in place of a secret. A record has this mark if the file with the
    whole record is gone and only the journal's copy is left. To act on that copy would be to act on
    other words than those that a person gave. Do nothing otherwise.
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
    """Keeps the whole records, with their secrets, of those lines of the journal (the agent's log)
    in which secrets were replaced. They are files of mode 0600 in the directory `directory`, each
    named by the SHA-256 (in hex) of the line that the journal has in place of the record. The
    function `redacted` returns a copy of a JSON value without its secrets, as the journal may have
    it.
    """

    def __init__(self, directory: Path, redacted: Callable[[Any], Any]) -> None:
        self._directory, self._redacted = directory, redacted

    def shown(self, fields: JournalRecord) -> JournalRecord:
        """Return the fields of a record in the form in which the journal (the agent's log of
        actions and incidents) may have them: each secret is replaced by a mark.
        """
        kept = {name: value for name, value in fields.items() if name in _IDENTIFIERS}
        return cast("JournalRecord", {**self._redacted(fields), **kept})

    def keep(self, line_hash: str, record: JournalRecord) -> None:
        """Save the whole record `record`, with its secrets, in a file, if an action may need them
        again. `line_hash` is the SHA-256, in hex, of the line that the journal (the agent's log)
        has in its place. The file is on disk when this returns. Raises OSError if it cannot be
        written.
        """
        if any(record.get(field) for field in _NEEDED):
            self._directory.mkdir(mode=0o700, exist_ok=True)
            write_json(self._directory / f"{line_hash}.json", record)

    def names(self) -> set[str]:
        """Return the hashes of all records that are kept here. The journal (the agent's log) has a
        copy of each such record as a line, with a mark in place of each secret. The hash of a
        record is the SHA-256 of that line, in hex. A record may still be kept here after its line
        has left the journal.
        """
        if not self._directory.is_dir():
            return set()
        return {path.stem for path in self._directory.glob("*.json")}

    def whole(self, line_hash: str) -> JournalRecord | None:
        """Return the whole record, secrets included, whose line in the journal (the agent's log)
        has the hash `line_hash`. Return None if it is not kept here or its file is damaged; what
        the journal has instead is then not enough to launch a run.
        """
        try:
            kept = read_passing(self._directory / f"{line_hash}.json")
            return cast("JournalRecord | None", kept)
        except OSError:
            return None

    def forget(self, line_hash: str) -> None:
        """Delete the whole record that was kept for the line of the journal (the agent's log) with
        the hash `line_hash`, because the journal does not have that line any more. A file that
        cannot be deleted stays, and is tried again at the next start of the agent.
        """
        with contextlib.suppress(OSError):
            (self._directory / f"{line_hash}.json").unlink()
