"""The steps of a run in the store: each with its manifest and, by the server's own listing, what it
lacks.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from bs4_common.checkpoints.remote import manifest as manifests
from bs4_common.checkpoints.remote import pointer as pointers
from bs4_common.checkpoints.remote.errors import NotThere, StoreDamaged
from bs4_common.checkpoints.remote.layout import Layout
from bs4_common.checkpoints.remote.manifest import Manifest
from bs4_common.checkpoints.remote.pointer import Pointer
from bs4_common.checkpoints.remote.store import Entry, Store


@dataclass(frozen=True)
class RemoteStep:
    """One checkpoint step in the object store. `entries` are its files, and `manifest` is the list
    of the files that it should have, None if that was not uploaded or cannot be used. `t` is the
    time at which the manifest was written, or the step's newest file if there is no manifest, by
    the store's clock as a Unix time in seconds. `missing` says why the step is incomplete, "" if it
    is complete.
    """

    step: int
    t: float
    entries: Sequence[Entry]
    manifest: Manifest | None
    missing: str

    @property
    def whole(self) -> bool:
        """Return True if the step is complete in the object store, with every file that its
        manifest (its list of files) has.
        """
        return not self.missing

    @property
    def bytes(self) -> int:
        """Return the size of all files of the step in the object store, in bytes."""
        return sum(entry.size for entry in self.entries)

    @property
    def newest_t(self) -> float:
        """Return the time at which the step's newest file was written, by the object store's clock
        as a Unix time in seconds.
        """
        return max((entry.t for entry in self.entries), default=0.0)


@dataclass(frozen=True)
class RemoteRun:
    """Everything that the object store has of one run. `pointer` is the content of latest.json,
    None if that file does not exist or cannot be used; `pointer_why` says why an existing file
    cannot be used, or is "". `others` maps the names of all other files of the run (logs, reports,
    files of other programs) to their entries.
    """

    steps: Sequence[RemoteStep]
    pointer: Pointer | None
    pointer_why: str = ""
    others: Mapping[str, Entry] = field(default_factory=dict)
    """The other names below the run: logs, reports, and files of other programs."""

    def step(self, number: int) -> RemoteStep | None:
        """Return the step with this number, or None if the object store has no file of
        that step.
        """
        return next((one for one in self.steps if one.step == number), None)

    @property
    def whole(self) -> list[RemoteStep]:
        """Return the steps of the run that are complete in the object store, newest first. The list
        is empty if no step is complete.
        """
        return sorted((one for one in self.steps if one.whole), key=lambda one: -one.step)


def scan(store: Store, layout: Layout) -> RemoteRun:
    """List all files of the run in the store now, read the manifest (the list of files) of each
    step, and return what was found. Raises a StoreError if the object store fails or refuses the
    call.
    """
    found: dict[int, list[Entry]] = {}
    others: dict[str, Entry] = {}
    for entry in store.entries(layout.root):
        step = layout.step_of(entry.name)
        if step is not None:
            found.setdefault(step, []).append(entry)
        elif entry.name != layout.pointer:
            others[entry.name] = entry
    pointer, why = read_pointer(store, layout)
    return RemoteRun(
        [_step(store, layout, step, entries) for step, entries in sorted(found.items())],
        pointer,
        why,
        others,
    )


def look_at(store: Store, layout: Layout, step: int) -> RemoteStep | None:
    """List one step of the run in the store now and return it. Return None if the store has no file
    of it. Raises a StoreError if the object store fails or refuses the call.
    """
    entries = store.entries(layout.step(step))
    if entries:
        return _step(store, layout, step, entries)
    return None


def read_pointer(store: Store, layout: Layout) -> tuple[Pointer | None, str]:
    """Read latest.json, which names the run's newest verified step, and return (its content, "").
    Return (None, "") if the file does not exist, and (None, a phrase that says why) if the file
    exists but cannot be used. Raises a StoreError if the object store fails or refuses the call.
    """
    try:
        return Pointer.decode(store.read(layout.pointer, pointers.MOST), layout.pointer), ""
    except NotThere:
        return None, ""
    except StoreDamaged as error:
        return None, error.message


def missing(layout: Layout, manifest: Manifest, entries: Mapping[str, Entry]) -> str:
    """Return why the step whose files `manifest` lists is incomplete in the object store, as a
    phrase about the first wrong or absent file, or "" if the step is complete. `entries` maps the
    names in the bucket to what the store lists now.

    A file counts as wrong also if the store has no SHA-1 for the file, because its size alone
    proves little.
    """
    data = manifest.encode()
    own = entries.get(layout.manifest(manifest.step))
    if own is None or (own.size, own.sha1) != (
        len(data),
        hashlib.sha1(data, usedforsecurity=False).hexdigest(),
    ):
        return "its manifest is not the one that was written"
    for file in manifest.files:
        entry = entries.get(layout.file(manifest.step, file.path))
        if entry is None:
            return f"{file.path} is not there"
        if entry.size != file.size:
            return f"{file.path} has {entry.size} of {file.size} bytes"
        if entry.sha1 != file.sha1:
            return f"{file.path} has another SHA-1 ({entry.sha1 or 'none'})"
    return ""


def _step(store: Store, layout: Layout, step: int, entries: Sequence[Entry]) -> RemoteStep:
    """Return the step with its manifest and what it lacks."""
    names = by_name(entries)
    own = names.get(layout.manifest(step))
    if own is None:
        return RemoteStep(step, max(entry.t for entry in entries), entries, None, "no manifest")
    try:
        manifest = Manifest.decode(store.read(own.name, manifests.MOST), own.name)
    except (NotThere, StoreDamaged) as error:
        return RemoteStep(step, own.t, entries, None, error.message)
    why = missing(layout, manifest, names)
    if manifest.step != step:
        why = f"its manifest is of step {manifest.step}"
    return RemoteStep(step, own.t, entries, manifest, why)


def by_name(entries: Sequence[Entry]) -> dict[str, Entry]:
    """Return the entries (versions of files in the object store) as a dictionary {name in the
    bucket: entry}.
    """
    return {entry.name: entry for entry in entries}
