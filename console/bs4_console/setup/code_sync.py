"""Brings a directory of code to a pod. The differences are planned first, and then sent by rsync,
or over SFTP if rsync is missing.
"""

from __future__ import annotations

import asyncio
import fnmatch
import hashlib
import io
import json
import os
import shlex
import shutil
import stat
import tarfile
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from bs4_common.credentials.file_names import HEAD_BYTES, private_key, secret_name
from bs4_console.assets import find
from bs4_console.errors import ConsoleError, UsageError
from bs4_console.pods import shell
from bs4_console.pods.gate.rules import RecordRefused
from bs4_console.pods.inventory import Pod
from bs4_console.pods.port import Completed
from bs4_console.setup.code_sync_answer import RemoteAnswer, parse
from bs4_console.setup.code_sync_remote import SCRIPT

#: Seconds. As in rsync's default, a file with the same size and time is the same file. The coarsest
#: filesystems keep times to a second.
_TIME_S = 1.0
#: The bytes of files in one upload. A larger file is uploaded alone, if it is no larger than
#: LARGEST.
_BATCH, LARGEST = 16 << 20, 1 << 30
_REMOTE_S, _RSYNC_S = 120.0, 3600.0
#: Files that are about credentials and hold none: program text (`secrets.py`) and templates
#: (`.env.example`).
_HARMLESS = (".py", ".pyi", ".md", ".rst", ".example", ".sample", ".template", ".dist", ".pub")
#: A private key is a small file. Larger ones are not opened for it.
_KEY_BYTES = 64 << 10
_NO_CREDENTIALS = "may hold credentials; `pods setup --credentials` brings keys to a pod"


@runtime_checkable
class Machine(Protocol):
    """The pod to which code is sent. It has only the methods that sending code needs: commands can
    be run on it and files uploaded.
    """

    async def run(
        self, argv: Sequence[str], *, stdin: bytes = b"", timeout: float = 30.0
    ) -> Completed:
        """Run the command `argv` on the pod to its end, with `stdin` as its input, and return its
        exit status and output. Raises a LinkError after `timeout` seconds or if the connection
        fails.
        """

    async def upload(self, path: str, data: bytes) -> None:
        """Write `data` to a new file `path` on the pod. Raises a ConsoleError if that is not
        possible.
        """


class SyncFailed(ConsoleError):
    """Raised if files could not be sent or compared. Files that arrived before stay on the pod, and
    running the same command again sends the rest.
    """


@dataclass(frozen=True)
class Entry:
    """One file to send, or a symbolic link if `link` (its target) is not "". `size` is in bytes,
    `mtime` is the time of its last change as Unix time in seconds, and `mode` has the permission
    bits.
    """

    size: int
    mtime: float
    mode: int = 0o644
    link: str = ""


@dataclass(frozen=True, kw_only=True)
class SyncPlan:
    """What would be done to send a directory of code to a pod. `send` are the paths below `source`
    that are new on the pod or differ there, `new` is how many of them are new, and `same` counts
    the files that are equal on both sides. `gone` are files that only the pod has: they are moved
    to the directory `trash` there if `delete` is True, else they stay. `skipped` maps each path
    that is not sent to the reason.
    """

    source: Path
    target: str
    entries: dict[str, Entry]
    send: list[str]
    new: int
    gone: list[str]
    skipped: dict[str, str]
    delete: bool
    trash: str
    same: int = 0

    @property
    def bytes(self) -> int:
        """Return the size of all files to send, in bytes."""
        return sum(self.entries[name].size for name in self.send)

    @property
    def empty(self) -> bool:
        """Return True if there is nothing to do: no file to send and none to move to the trash (the
        directory for removed files).
        """
        return not self.send and not (self.delete and self.gone)

    @property
    def hash(self) -> str:
        """Return the SHA-256, in hexadecimal digits, by which a person confirms the plan. It covers
        the source, the target, the files to send and the files to move.
        """
        told: list[list[str | float]] = []
        for name in self.send:
            entry = self.entries[name]
            told.append([name, entry.size, entry.mtime, entry.link])
        whole = [str(self.source), self.target, told, self.gone if self.delete else []]
        return hashlib.sha256(json.dumps(whole).encode()).hexdigest()

    def lines(self) -> list[str]:
        """Return the plan as lines for a person. Of the paths to send, of those to move to the
        trash (the directory for removed files) and of those that are skipped, at most 20 each are
        listed.
        """
        text = [
            f"{self.source} -> {self.target}: {len(self.send)} files to send, {self.bytes} bytes "
            f"({self.new} new, {len(self.send) - self.new} changed); {self.same} are there already"
        ]
        if self.gone:
            what = "left there (--delete moves them to a trash)"
            if self.delete:
                what = f"moved to {self.trash}"
            text.append(f"{len(self.gone)} only on the pod: {what}")
        for name in self.send[:20]:
            text.append(f"  send {name} ({self.entries[name].size} bytes)")
        for name in self.gone[:20] if self.delete else []:
            text.append(f"  move {name}")
        for name, why in list(self.skipped.items())[:20]:
            text.append(f"  not sent: {name}: {why}")
        if len(self.send) > 20:
            text.append(f"  and {len(self.send) - 20} more")
        return text


@dataclass(frozen=True)
class Sent:
    """The result of sending a directory of code: how many `files` and `bytes` were sent, and how
    many files were moved to the trash on the pod (`moved`). `how` is "rsync" or "sftp". `why` is
    the reason why rsync was not used, or "" if it was.
    """

    how: str
    files: int
    bytes: int
    moved: int
    why: str = ""


@dataclass(kw_only=True)
class Sync:
    """Sends a directory of code from this machine (`source`) to a directory on a pod (`target`). A
    relative target begins at the pod's home directory. With `delete`, files that only the pod has
    are moved to a directory for removed files there, the trash; `stamp` is the name of the
    directory in it for this sync. `excludes` are patterns for names that are not sent, with * and ?
    as in a shell.
    """

    pod: Pod
    machine: Machine
    source: Path
    target: str
    delete: bool = False
    stamp: str = ""
    excludes: list[str] = field(default_factory=lambda: excluded())

    async def plan(self) -> SyncPlan:
        """Compare the source on this machine with the target on the pod, and return a plan of what
        has to be sent. Nothing is changed.

        Raises UsageError if the source is not a directory, or if the pod has a symbolic link where
        the source has a directory, because links are not followed. Raises SyncFailed if the files
        on the pod cannot be listed.
        """
        if not self.source.is_dir():
            raise UsageError(
                f"{self.source} is no directory.", "Name the directory of code to send."
            )
        entries, skipped = await asyncio.to_thread(local, self.source, self.excludes)
        there = await self._ask(op="list", exclude=self.excludes)
        remote = there["files"]
        for name in there["links"]:
            if any(path.startswith(f"{name}/") for path in entries):
                raise UsageError(
                    f"{there['root']}/{name} is a link on {self.pod.name}; nothing is sent "
                    "through it.",
                    "Replace it there.",
                )
        send = [
            name for name, entry in sorted(entries.items()) if not _same(entry, remote.get(name))
        ]
        return SyncPlan(
            source=self.source,
            target=there["root"],
            entries=entries,
            send=send,
            new=len(set(send) - remote.keys()),
            gone=_gone(remote, entries, skipped),
            skipped=skipped,
            delete=self.delete,
            trash=f"{there['store']}/trash/{self.stamp}",
            same=len(entries) - len(send),
        )

    async def carry_out(
        self, plan: SyncPlan, progress: Callable[[str], None] = lambda text: None
    ) -> Sent:
        """Send the files of the plan to the pod, move files to the trash on the pod (the directory
        for removed files) if the plan says so, compare again, and return how much was sent and
        moved. The function `progress` is called with short phrases for a person. Raises SyncFailed
        if a file on the pod still differs from the source or the files there cannot be listed.
        """
        how, why = "rsync", await self._why_not_rsync()
        await self._ask(op="prepare")
        if plan.send and not why:
            progress(f"rsync sends {len(plan.send)} files")
            why = await self._rsync(plan)
        if plan.send and why:
            how = "sftp"
            for number, batch in enumerate(batches(plan), 1):
                progress(f"upload {number}: {len(batch)} files")
                await self._upload(plan, batch)
        moved = 0
        if plan.delete and plan.gone:
            moved = (await self._ask(op="trash", names=plan.gone, stamp=self.stamp))["moved"]
        left = (await self.plan()).send
        if missing := [name for name in left if name in plan.send]:
            raise SyncFailed(
                f"{len(missing)} files are not there as they are here ({missing[0]} first).",
                "Run the same command again.",
            )
        return Sent(how, len(plan.send), plan.bytes, moved, why)

    async def _ask(self, op: str, **question: Any) -> RemoteAnswer:
        done = await self.machine.run(
            ["python3", "-I", "-c", SCRIPT],
            stdin=json.dumps({"root": self.target, "op": op, **question}).encode(),
            timeout=_REMOTE_S,
        )
        if done.exit_status != 0:
            words = done.stderr.decode("utf-8", "replace").strip().splitlines()
            last = words[-1] if words else "nothing was said"
            last = "".join(filter(str.isprintable, last))[:200]
            raise SyncFailed(
                f"{self.pod.name} could not look at {self.target}: {last}.",
                "Check the target directory there.",
            )
        try:
            return await asyncio.to_thread(parse, op, done.stdout)
        except RecordRefused as error:
            raise SyncFailed(
                f"{self.pod.name} gave no usable answer about {self.target}: {error}.",
                "Nothing was made of it. Look at the pod's python3 and the target directory.",
            ) from None

    async def _why_not_rsync(self) -> str:
        if self.pod.is_local or not self.pod.host:
            return "the pod is this machine"
        for program in ("rsync", "ssh"):
            if shutil.which(program) is None:
                return f"there is no {program} here"
        there = await self.machine.run(["sh", "-c", "command -v rsync"])
        if there.exit_status == 0:
            return ""
        return f"{self.pod.name} has no rsync"

    async def _rsync(self, plan: SyncPlan) -> str:
        """Send exactly the files of the plan by rsync, over the system's ssh with the pod's
        address, key, jump host and pinned host key. Return "" or the reason why it failed.
        """
        *words, _, login = [word for word in shell.of_pod(self.pod) if word != "-t"]
        remote = shlex.join(
            [
                *words,
                "-o",
                "BatchMode=yes",
                "-o",
                "StrictHostKeyChecking=yes",
                "-o",
                "ClearAllForwardings=yes",
            ]
        )
        user, at, name = login.rpartition("@")
        if ":" in name:
            name = f"[{name}]"
        argv = [
            "rsync",
            "--links",
            "--perms",
            "--times",
            "--omit-dir-times",
            "--protect-args",
            "--from0",
            "--files-from=-",
            "-e",
            remote,
            f"{self.source}/",
            f"{user}{at}{name}:{plan.target}/",
        ]
        process = await asyncio.create_subprocess_exec(
            *argv, stdin=-1, stdout=asyncio.subprocess.DEVNULL, stderr=-1, start_new_session=True
        )
        try:
            async with asyncio.timeout(_RSYNC_S):
                _, err = await process.communicate(
                    "\0".join(plan.send).encode("utf-8", "surrogateescape")
                )
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode == 0:
            return ""
        said = err.decode("utf-8", "replace").strip().splitlines()
        return (
            "rsync ended with " + str(process.returncode) + (f": {said[0][:160]}" if said else "")
        )

    async def _upload(self, plan: SyncPlan, names: Sequence[str]) -> None:
        """Send files as one archive over SFTP beside the target. The pod puts each file into place
        by one rename.
        """
        data = await asyncio.to_thread(packed, plan, names)
        path = (await self._ask(op="prepare"))["archive"]
        await self.machine.upload(path, data)
        await self._ask(op="place", archive=path)


def excluded() -> list[str]:
    """Return the patterns, from configs/sync.toml, for the names of files and directories that are
    never sent to a pod as code. In a pattern, * and ? have the meaning that they have in a shell.
    Raises ConsoleError if a file of this console's own installation is missing.
    """
    with (find("configs") / "sync.toml").open("rb") as handle:
        return list(map(str, tomllib.load(handle)["exclude"]))


def local(source: Path, excludes: Sequence[str]) -> tuple[dict[str, Entry], dict[str, str]]:
    """List what would be sent from the directory `source`. Return two things: the files and links
    to send, by their path below it, and the reason for each path that is skipped, by that path.
    `excludes` are patterns for names of files and directories that are not sent, with * and ? as in
    a shell, such as "*.pyc".

    Directories that are symbolic links are not entered. A link that leads out of `source` is
    skipped, because on the pod it would point to something else. A file that may hold credentials
    (by its name, or because it is a private key) is skipped: credentials are sent to a pod by `pods
    setup`.
    """
    entries: dict[str, Entry] = {}
    skipped: dict[str, str] = {}
    root = source.resolve()
    for path in _walk(root, excludes):
        name = path.relative_to(root).as_posix()
        status = path.lstat()
        if stat.S_ISLNK(status.st_mode):
            target = path.readlink()
            if target.is_absolute() or root not in path.resolve().parents:
                skipped[name] = f"a link out of the tree, to {target}"
            elif _credentials(name):
                skipped[name] = _NO_CREDENTIALS
            else:
                entries[name] = Entry(0, status.st_mtime, 0o777, str(target))
        elif stat.S_ISREG(status.st_mode) and (_credentials(name) or _is_key(path, status.st_size)):
            skipped[name] = _NO_CREDENTIALS
        elif stat.S_ISREG(status.st_mode):
            entries[name] = Entry(status.st_size, status.st_mtime, stat.S_IMODE(status.st_mode))
        else:
            skipped[name] = "no file"
    return entries, skipped


def _credentials(name: str) -> bool:
    """Return True if the path `name` below the source usually holds credentials, by the name of the
    file or of one of its directories.
    """
    *directories, last = name.split("/")
    if any(secret_name(directory) for directory in directories):
        return True
    return secret_name(last) and not last.lower().endswith(_HARMLESS)


def _is_key(path: Path, size: int) -> bool:
    """Return True if the file of `size` bytes is a private key. A file that cannot be read is none:
    sending it fails with a sentence.
    """
    if size > _KEY_BYTES:
        return False
    try:
        with path.open("rb") as handle:
            return private_key(handle.read(HEAD_BYTES))
    except OSError:
        return False


def _gone(
    remote: Iterable[str], entries: Mapping[str, Entry], skipped: Mapping[str, str]
) -> list[str]:
    """Return the files that only the pod has, sorted. The pod's own credentials are left out: they
    were never sent, so that they are missing here says nothing.
    """
    only = set(remote) - entries.keys() - skipped.keys()
    return sorted(name for name in only if not _credentials(name))


def _walk(directory: Path, excludes: Sequence[str]) -> Iterator[Path]:
    for entry in sorted(os.scandir(directory), key=lambda one: one.name):
        if any(fnmatch.fnmatchcase(entry.name, pattern) for pattern in excludes):
            continue
        if entry.is_dir(follow_symlinks=False):
            yield from _walk(Path(entry.path), excludes)
        else:
            yield Path(entry.path)


def _same(entry: Entry, there: list[Any] | None) -> bool:
    if there is None:
        return False
    size, mtime, link = there
    if entry.link or link:
        return bool(entry.link == link)
    return bool(size == entry.size and abs(mtime - entry.mtime) < _TIME_S)


def batches(plan: SyncPlan) -> Iterator[list[str]]:
    """Divide the files of the plan into groups that are uploaded one after the other, and yield the
    paths of each group. The files of a group have at most 16 MiB; a larger file is a group of its
    own. Raises SyncFailed for a file above 1 GiB.
    """
    batch: list[str] = []
    size = 0
    for name in plan.send:
        weight = plan.entries[name].size
        if weight > LARGEST:
            raise SyncFailed(
                f"{name} is larger than {LARGEST >> 30} GiB.",
                "Install rsync on both sides, or leave it out.",
            )
        if batch and size + weight > _BATCH:
            yield batch
            batch, size = [], 0
        batch.append(name)
        size += weight
    if batch:
        yield batch


def packed(plan: SyncPlan, names: Sequence[str]) -> bytes:
    """Return the files `names` of the plan's source as the bytes of one tar.gz archive. The archive
    has their modes and times, but no user names.
    """
    buffer = io.BytesIO()
    root = plan.source.resolve()
    with tarfile.open(
        fileobj=buffer, mode="w:gz", compresslevel=3, format=tarfile.PAX_FORMAT
    ) as archive:
        for name in names:
            entry, info = plan.entries[name], tarfile.TarInfo(name)
            info.mtime, info.mode = entry.mtime, entry.mode
            if entry.link:
                info.type, info.linkname = tarfile.SYMTYPE, entry.link
                archive.addfile(info)
                continue
            with open(os.open(root / name, os.O_RDONLY | os.O_NOFOLLOW), "rb") as handle:
                info.size = os.fstat(handle.fileno()).st_size
                archive.addfile(info, handle)
    return buffer.getvalue()
