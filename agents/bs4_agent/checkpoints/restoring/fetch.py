"""Fetches one step from a store into a staging directory: only the files that are missing there,
each verified. Nothing is put in its final place yet.
"""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from bs4_agent.tree.changes import remove
from bs4_common.checkpoints.inventory import nearest
from bs4_common.checkpoints.remote.errors import StoreDamaged
from bs4_common.checkpoints.remote.source import RemoteFile
from bs4_common.checkpoints.remote.store import Store
from bs4_common.descriptors import at, open_directory, open_file, real
from bs4_common.errors import StepFailed
from bs4_common.failures.detectors.reporting import size as size_text
from bs4_common.files import sync_directory, write_json

_CHUNK = 4 * 1024 * 1024
#: A file in the staging directory that exists once every file there was read back and has the right
#: hash.
VERIFIED = "verified.json"
#: Bytes that stay free on the disk: a full file system stops the agent and the run's logs.
MARGIN = 64 * 1024 * 1024


@dataclass(frozen=True)
class Target:
    """One file to fetch from the object store. `staged` is its path in the staging directory.
    `present` is its final path, where the same file may exist already from an earlier restore or an
    incomplete step; None if it has no final path.
    """

    file: RemoteFile
    staged: Path
    present: Path | None = None


Say = Callable[[int, int, int, int], None]
"""Called with (files done, files in all, bytes done, bytes in all)."""


def fetch(
    store: Store,
    targets: Iterable[Target],
    staging: Path,
    identity: str,
    say: Say = lambda *_: None,
) -> int:
    """Fetch all files of `targets` into the directory `staging`, verify them, and return the number
    of bytes that had to be fetched. Files that are there already are not fetched again.

    `identity` is the hash of the checkpoint's manifest (the list of its files with their sizes and
    hashes); it is saved in `staging` with the list of the verified files. `say` is called with four
    numbers: files done, files in all, bytes done, bytes in all. Raises a StoreError if the object
    store fails or refuses the call, StoreDamaged if a file is not what the manifest says, and
    StepFailed if the disk is full.
    """
    wanted = list(targets)
    total = got = fetched = 0
    try:
        lacking = set()
        for target in wanted:
            total += target.file.size
            if not _there(target, staging):
                lacking.add(target.staged)
                fetched += target.file.size
        _refuse_full(staging, fetched)
        for number, target in enumerate(wanted, 1):
            if target.staged in lacking:
                _download(store, target, staging)
            got += target.file.size
            say(number, len(wanted), got, total)
        for directory in {target.staged.parent for target in wanted}:
            sync_directory(directory)
        write_json(
            staging / VERIFIED,
            {"identity": identity, "files": receipt(targets=wanted, staging=staging)},
        )
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise StepFailed(
                f"The disk of {staging} is full; what was fetched stays. Free space there, "
                "then restore again."
            ) from error
        raise
    return fetched


def receipt(targets: Iterable[Target], staging: Path) -> dict[str, list[int]]:
    """Return {path relative to `staging`: [size, mtime in ns]} of each fetched file. A later call
    of `unchanged` compares the files with this record instead of reading them.
    """
    found = {}
    for target in targets:
        status = target.staged.stat()
        found[str(target.staged.relative_to(staging))] = [status.st_size, status.st_mtime_ns]
    return found


def unchanged(staging: Path, files: object, targets: Iterable[Target]) -> str:
    """Return "" if the files in `staging` have not changed since they were fetched and verified,
    otherwise a phrase that says what has changed. `files` has their sizes and times, as `receipt`
    returned them after the fetch; if it is no dictionary, the phrase says so. A file of `targets`
    that is not in `staging` any more counts as unchanged if it is in its final place with the right
    size.
    """
    wanted = {str(target.staged.relative_to(staging)): target for target in targets}
    for name, kept in files.items() if isinstance(files, dict) else ():
        try:
            status = (staging / name).stat()
        except FileNotFoundError:
            target = wanted.get(name)
            if target is None or sized(target.present, target.file):
                continue  # it is not wanted, or a restore that was interrupted has placed it
            return f"{staging / name} has vanished since it was verified"
        if [status.st_size, status.st_mtime_ns] != kept:
            return f"{staging / name} has changed since it was verified"
    if isinstance(files, dict):
        return ""
    return f"{staging / VERIFIED} is no receipt"


def missing_bytes(targets: Iterable[Target]) -> int:
    """Return the number of bytes that `fetch` would have to transfer: the full size of each of the
    files `targets` that is not on the disk or has another size there. No file is read.
    """
    return sum(
        target.file.size
        for target in targets
        if not (sized(target.staged, target.file) or sized(target.present, target.file))
    )


def free_bytes(staging: Path) -> int:
    """Return the number of free bytes on the disk of the directory `staging`, which need not exist
    yet.
    """
    found = os.statvfs(nearest(staging))
    return found.f_bavail * found.f_frsize


def _refuse_full(staging: Path, needed: int) -> None:
    """Raise StepFailed if `needed` bytes do not fit on the disk."""
    free = free_bytes(staging)
    if needed and needed + MARGIN > free:
        raise StepFailed(
            f"The disk of {staging} has {size_text(free)} free and {size_text(needed)} are to "
            "be fetched; nothing was fetched. Free space there, or give another --output-dir."
        )


def _there(target: Target, staging: Path) -> bool:
    """Return True if the file is in the staging directory with the right content. A file with the
    right content in its final place is linked there. Its directory is made.
    """
    if sized(target.staged, target.file) and _same(target.staged, target.file):
        return True
    with open_directory(target.staged.parent, ours=staging, make=0o755) as directory:
        remove(target.staged, ours=staging)
        if target.present is None or not sized(target.present, target.file):
            return False
        present = real(target.present)
        if not _same(present, target.file):
            return False
        try:
            with open_file(present) as found:
                os.link(at(found), target.staged.name, dst_dir_fd=directory, follow_symlinks=True)
        except OSError:
            return False  # it is on another disk, or the disk has no links: it is fetched
    return True


def sized(path: Path | None, file: RemoteFile) -> bool:
    """Return True if `path` is a regular file, not a symbolic link, and has the size that `file`
    has in the object store. Return False otherwise, and if `path` is None.
    """
    try:
        return path is not None and not path.is_symlink() and path.stat().st_size == file.size
    except OSError:
        return False


def _same(path: Path, file: RemoteFile) -> bool:
    """Return True if the bytes match the manifest. Without a known hash nothing proves that, so the
    file is fetched again.
    """
    if file.sha1 is None:
        return False
    sha1, sha256 = hashes(path)
    return sha1 == file.sha1 and file.sha256 in (None, sha256)


def hashes(path: Path) -> tuple[str, str]:
    """Return (SHA-1, SHA-256) of a file, each in hexadecimal digits. The object store B2 itself
    keeps only the SHA-1, which protects against damage but not against an attacker. Raises Refused
    if the path is no regular file, and OSError if it cannot be opened.
    """
    one, two = hashlib.sha1(usedforsecurity=False), hashlib.sha256()
    with open_file(path) as found:
        offset = 0
        while block := os.pread(found, _CHUNK, offset):
            one.update(block)
            two.update(block)
            offset += len(block)
    return one.hexdigest(), two.hexdigest()


def _download(store: Store, target: Target, staging: Path) -> None:
    """Fetch one file and verify it. Raises StoreDamaged if it does not match the manifest."""
    file, staged = target.file, target.staged
    with open_directory(staged.parent, ours=staging) as directory:
        store.download(file.name, at(directory, staged.name), size=file.size)
        size = os.stat(staged.name, dir_fd=directory, follow_symlinks=False).st_size
        sha1, sha256 = hashes(staged)
        if size == file.size and file.sha1 in (None, sha1) and file.sha256 in (None, sha256):
            with open_file(staged) as found:
                os.fsync(found)
                # b2sdk gives the file the time of its upload. With that time it would look like an
                # old step, and would be the first to be removed.
                os.utime(found)
            return
        os.unlink(staged.name, dir_fd=directory)
    raise StoreDamaged(
        f"{file.name} has {size} bytes or content that its manifest does not name; restore "
        "an older step with --step."
    )
