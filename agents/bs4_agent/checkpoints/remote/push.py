"""Uploads one step to the store in a safe order: manifest, data, verification by a fresh listing,
pointer.

If it is killed anywhere, the step that the pointer names is complete and verified, and the next
push of the same step sends only what is missing. A step that the pointer names is never
overwritten: the pointer is first moved to another complete step, or the push is refused.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bs4_agent.checkpoints.hashing import Hashes, Stamp
from bs4_agent.checkpoints.sync_set import LocalSet
from bs4_common.checkpoints.remote import pointer as pointers
from bs4_common.checkpoints.remote import steps
from bs4_common.checkpoints.remote.errors import StoreDamaged, StoreError
from bs4_common.checkpoints.remote.launched import Launched
from bs4_common.checkpoints.remote.layout import Layout
from bs4_common.checkpoints.remote.manifest import File, Manifest
from bs4_common.checkpoints.remote.pointer import Pointer
from bs4_common.checkpoints.remote.store import Entry, Store
from bs4_common.errors import Refused, StepFailed

#: Files at a time. Parts of large ones share the store's own threads.
FILES = 8
#: How often files that do not verify are sent again within one push.
_AGAIN = 1

#: Called with `(event, **fields)`; the events are hashing, manifest, sending, verified, pointed and
#: held.
Say = Callable[..., None]


@dataclass(frozen=True)
class Origin:
    """The attempt (one start of a run) whose checkpoint is uploaded.

    `attempt` is its number and `resumed` the step from which it was resumed (None if it started
    from step 0). `wandb` maps each side ("trainer", "orchestrator") to its W&B run id. `launch` is
    the record of how the run was started, or None if that is not known; the config files that it
    refers to are among the uploaded files.
    """

    run: str
    trainer: str
    attempt: int
    resumed: int | None
    wandb: Mapping[str, str]
    launch: Launched | None = None


@dataclass(frozen=True)
class Pushed:
    """The result of the upload of one training step. `bytes` is the size of the step's `files`
    files, of which `sent` bytes were not yet in the object store. `manifest_sha256` is the hash of
    the step's manifest, the list of its files with their sizes and hashes. `held` says why the file
    latest.json, which names the newest step in the store, was not changed to this step; it is "" if
    it was changed or was not meant to be.
    """

    step: int
    files: int
    bytes: int
    sent: int
    manifest_sha256: str
    held: str


class Push:
    """Uploads checkpoint steps of one run to the object store. `say` is called with the name of
    each event (for example "sending", "manifest" or "pointed") and its fields as keyword arguments.
    `progress` receives the number of bytes that were sent since its last call (negative if a
    transfer begins anew); bytes that were in the store before are not counted.
    """

    def __init__(
        self,
        store: Store,
        layout: Layout,
        hashes: Hashes,
        say: Say = lambda *_, **__: None,
        progress: Callable[[int], None] | None = None,
    ) -> None:
        self._store, self._layout, self._hashes, self._say, self._progress = (
            store,
            layout,
            hashes,
            say,
            progress,
        )

    def step(self, local: LocalSet, origin: Origin, *, point: bool = True) -> Pushed:
        """Upload the step whose files are `local`, verify it in the object store, and return the
        result. `origin` is the attempt that saved it. If `point` is True, the store's pointer
        (latest.json) then names this step.

        Raises Refused if the pointer already names this step with other content and the step must
        not be overwritten, StepFailed if a file vanished or changed during the upload, and
        StoreDamaged if the uploaded step does not verify in the store. Raises another StoreError if
        the object store fails or refuses the call.
        """
        paths = local.paths
        known = self._hashes.of(paths.values())
        there = steps.look_at(self._store, self._layout, local.step)
        manifest, mine = self._manifest(local, origin, known, there)
        # The files to send follow from the same listing as the manifest; a fresh listing verifies
        # them afterwards.
        entries = steps.by_name(() if there is None else there.entries)
        sent = self._send(manifest, paths, known, entries) if mine else 0
        for again in range(_AGAIN + 1):
            entries = steps.by_name(self._store.entries(self._layout.step(local.step)))
            why = steps.missing(self._layout, manifest, entries)
            if not why:
                break
            if again == _AGAIN:
                raise StoreDamaged(
                    f"Step {local.step} of {origin.run} does not verify in the store: {why}. "
                    "It is uploaded again by itself."
                )
            self._store.write(self._layout.manifest(local.step), manifest.encode())
            sent += self._send(manifest, paths, known, entries)
        self._say(
            "verified",
            step=local.step,
            files=len(manifest.files),
            bytes=manifest.bytes,
            sent=sent,
            sha256=manifest.sha256,
        )
        held = self._point(manifest, local, origin) if point else ""
        return Pushed(local.step, len(manifest.files), manifest.bytes, sent, manifest.sha256, held)

    def _manifest(
        self,
        local: LocalSet,
        origin: Origin,
        known: Mapping[Path, tuple[Stamp, str]],
        there: steps.RemoteStep | None,
    ) -> tuple[Manifest, bool]:
        """Return the manifest that stands for the step in the store, and whether its files may have
        to be sent. It is written before any data. `there` is the step as it was just listed.
        """
        files = []
        for file in local.files:
            files.append(File(file.name, file.size, known[file.path][1]))
        launch = origin.launch
        if launch is not None:
            launch = replace(
                launch,
                files=local.configs.named,
                left_out=[*launch.left_out, *local.configs.left_out],
            )
        wanted = Manifest(
            run=origin.run,
            trainer=origin.trainer,
            step=local.step,
            attempt=origin.attempt,
            created_t=local.t,
            files=files,
            parts=local.parts,
            config=local.config,
            wandb=origin.wandb,
            launch=launch,
        )
        if (
            there is not None
            and there.manifest is not None
            and _same_data(there.manifest, wanted, local)
        ):
            if there.whole:
                return there.manifest, False  # saved before, with the configs of its own time
            if there.manifest.encode() == wanted.encode():
                return wanted, True
        pointer, _ = steps.read_pointer(self._store, self._layout)
        if pointer is not None and pointer.step == local.step:
            self._leave(pointer, origin, lossless=there is None or not there.whole)
        self._store.write(self._layout.manifest(local.step), wanted.encode())
        self._say("manifest", step=local.step, files=len(files), bytes=wanted.bytes)
        return wanted, True

    def _leave(self, pointer: Pointer, origin: Origin, *, lossless: bool) -> None:
        """Move the pointer to another step before this step is overwritten. If `lossless` is True,
        the step in the store is incomplete already (somebody removed files), so without another
        step it is repaired in its place.
        """
        whole = steps.scan(self._store, self._layout).whole
        other = next((one for one in whole if one.step < pointer.step), None)
        if other is None or other.manifest is None:
            if lossless:
                return
            raise Refused(
                f"The store's pointer names step {pointer.step} of {origin.run} with other "
                "content, and no older step there is whole; this one is left out, the next step "
                "is uploaded."
            )
        self._write_pointer(other.manifest)
        self._say(
            "pointed",
            step=other.step,
            sha256=other.manifest.sha256,
            detail=f"step {pointer.step} was trained anew",
        )

    def _send(
        self,
        manifest: Manifest,
        paths: Mapping[str, Path],
        known: Mapping[Path, tuple[Stamp, str]],
        entries: Mapping[str, Entry],
    ) -> int:
        """Upload the files that `entries` does not have in the right state, and return their size
        in bytes. Raises StepFailed if a file is not what was hashed.
        """
        try:
            sent = self._send_missing(manifest, paths, entries)
        except StoreError:
            # If a file changed meanwhile, that is the cause and not the store.
            self._unchanged(known)
            raise
        self._unchanged(known)
        return sent

    def _send_missing(
        self, manifest: Manifest, paths: Mapping[str, Path], entries: Mapping[str, Entry]
    ) -> int:
        """Upload the files that `entries` does not have in the right state, and return their size
        in bytes.
        """
        wanted, size = [], 0
        for file in sorted(manifest.files, key=lambda one: -one.size):
            name = self._layout.file(manifest.step, file.path)
            entry = entries.get(name)
            if entry is None or (entry.size, entry.sha1) != (file.size, file.sha1):
                wanted.append((file, name))
                size += file.size
        self._say("sending", step=manifest.step, files=len(wanted), bytes=size, of=manifest.bytes)
        stop = threading.Event()

        def one(file: File, name: str) -> None:
            if not stop.is_set():
                self._store.upload(paths[file.path], name, file.sha1, self._progress)

        with ThreadPoolExecutor(FILES, "upload") as pool:
            pending = [pool.submit(one, file, name) for file, name in wanted]
            done, _ = wait(pending, return_when=FIRST_EXCEPTION)
            if any(future.exception() for future in done):
                stop.set()  # skips uploads that have not begun
        for future in pending:
            try:
                future.result()
            except FileNotFoundError as error:
                raise StepFailed(
                    f"{error.filename} vanished while step {manifest.step} was uploaded; a "
                    "newer step is taken by itself."
                ) from error
        return size

    @staticmethod
    def _unchanged(known: Mapping[Path, tuple[Stamp, str]]) -> None:
        """Raise StepFailed if a file has changed since it was hashed."""
        for path, (stamp, _) in known.items():
            try:
                same = Stamp.of(path) == stamp
            except FileNotFoundError:
                same = False
            if not same:
                raise StepFailed(
                    f"{path} changed while it was uploaded, so the pointer is not moved; the "
                    "step is looked at again by itself."
                )

    def _point(self, manifest: Manifest, local: LocalSet, origin: Origin) -> str:
        """Move the pointer to this step. Return "" if it names this step now, otherwise why it
        stays.
        """
        pointer, _ = steps.read_pointer(self._store, self._layout)
        if (
            pointer is not None
            and pointer.step == manifest.step
            and pointer.manifest_sha256 == manifest.sha256
        ):
            return ""
        if (
            pointer is not None
            and pointer.step > manifest.step
            and not _set_back(pointer, local, origin)
        ):
            held = (
                f"the store's pointer names step {pointer.step}, which is newer than anything "
                "that was resumed here; restore that step, or give this run another name or "
                "prefix"
            )
            self._say("held", step=manifest.step, detail=held)
            return held
        self._write_pointer(manifest)
        self._say("pointed", step=manifest.step, sha256=manifest.sha256)
        return ""

    def _write_pointer(self, manifest: Manifest) -> None:
        """Write the pointer and read it back. Raises StoreDamaged if it differs."""
        sha1 = {file.path: file.sha1 for file in manifest.files}
        data = Pointer(
            step=manifest.step,
            run=manifest.run,
            t=manifest.created_t,
            manifest=self._layout.manifest(manifest.step),
            manifest_sha256=manifest.sha256,
            bytes=manifest.bytes,
            trainer=manifest.trainer,
            wandb=manifest.wandb,
            config_version=sha1.get(manifest.config, ""),
        ).encode()
        self._store.write(self._layout.pointer, data)
        if self._store.read(self._layout.pointer, pointers.MOST) != data:
            raise StoreDamaged(
                f"{self._layout.pointer} does not read as it was written; somebody else "
                "writes there too: stop one of them."
            )


def _same_data(there: Manifest, wanted: Manifest, local: LocalSet) -> bool:
    """Return True if the parts of both manifests are the same. Configs are written anew at every
    start and do not make another step.
    """
    before, now = _content(there), _content(wanted)
    for file in local.data:
        if before.get(file.name) != now.get(file.name):
            return False
    for name in before.keys() - now.keys():
        if any(name.startswith(f"{part}/") for part in there.parts.values()):
            return False
    return set(there.parts) >= set(wanted.parts)


def _content(manifest: Manifest) -> dict[str, tuple[int, str]]:
    """Return {path: (bytes, SHA-1)} of the files."""
    return {file.path: (file.size, file.sha1) for file in manifest.files}


def _set_back(pointer: Pointer, local: LocalSet, origin: Origin) -> bool:
    """Return True if this run was deliberately resumed below the step that the pointer names, and
    has trained on from there since.
    """
    return origin.resumed is not None and origin.resumed < local.step and local.t > pointer.t


def upload_others(store: Store, files: Mapping[str, Path], hashes: Hashes) -> int:
    """Upload logs and crash reports to the object store, and return how many of them were sent. A
    file whose bytes the store has already is not sent. `files` maps the name in the bucket to the
    path on the pod. A file that does not exist any more is left out.
    """
    sent = 0
    for name, path in files.items():
        try:
            [(_, sha1)] = hashes.of([path]).values()
            newest: Any = next(iter(store.versions(name)), None)
            if newest is None or newest.sha1 != sha1:
                store.upload(path, name, sha1)
                sent += 1
        except FileNotFoundError:
            continue
    return sent
