"""What was read from a pod, kept on this machine at the pod's own offsets, so that a pod that is
gone can still be looked at.
"""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from bs4_agent.streams.segments import parse
from bs4_console import ceilings, files
from bs4_console.pods.range_set import Spans

#: A stream keeps at most this many bytes here; the oldest files go first. A journal never comes
#: near it.
STREAM_CAP = 512 * 1024 * 1024
#: A log's generation is kept in files of this size, so that the beginning of a log of many
#: gigabytes can go.
PART_BYTES = 16 * 1024 * 1024
#: Stop keeping logs and telemetry below this much free space: a full laptop disk must not come from
#: us.
MIN_FREE = 1024 * 1024 * 1024
#: The journal and the steps, which are small and worth most, go on down to this.
MIN_FREE_RECORDS = 128 * 1024 * 1024

#: What a pod calls things becomes file names here: nothing that leads out of the directory.
_STREAM = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}(/[A-Za-z0-9][A-Za-z0-9._-]{0,99}){0,3}")
_HOME = re.compile(r"(?!home\Z)[A-Za-z0-9]{1,64}")
_DATA = re.compile(r"([0-9]{1,12})(?:\.([0-9]{1,12}))?\.data")
_LAST_USED = "home"


#: What is counted apart.
Kind = Literal["journal", "steps", "gaps", "other"]
_KINDS: Mapping[Kind, str] = {
    "journal": "New journal records",
    "steps": "New steps",
    "gaps": "New gaps",
    "other": "New logs and telemetry",
}
#: What is kept of a gap.
_GAP, _GAP_BYTES = ("generation", "from", "to", "reason"), 500


def directory_name(home: str) -> str:
    """Return the name of the directory for the agent's home that calls itself `home`: the same for
    all whose name no agent makes.
    """
    if _HOME.fullmatch(home):
        return home
    return "unnamed"


class Mirror:
    """`<root>/<agent's home id>/<stream>/<generation>.data` holds a generation's bytes at their own
    offsets (what was not read is a hole: the files are sparse); `<generation>.spans` says which
    ranges were read. Logs, which have no bound, are `<generation>.<part>.data`.

    A pod that was made anew under the same name begins its cursors at 1:0 again, so everything lies
    below the random id of the agent's home; `<root>/home` names the last one. Two consoles may keep
    the same pod at once: they write the same bytes at the same places.

    `root` None keeps nothing. `write` False reads what an earlier console kept and adds nothing. A
    full disk (or one that fails) ends the keeping, not the watching: `stopped` then says so in a
    sentence, until the console is started again.
    """

    def __init__(
        self, root: Path | None, *, write: bool = True, records_only: bool = False
    ) -> None:
        """`records_only` keeps journal and steps, which the record of a run is made of, and no logs
        and telemetry.
        """
        self._root = root
        self._write = write and root is not None
        self._records_only = records_only
        self._cursors: dict[str, str] = {}
        self._spans: dict[Path, Spans] = {}
        self._held: dict[Kind, int] | None = None
        """Bytes of this home by kind, counted at the first write."""
        self.over: dict[Kind, str] = {}
        """What is not kept any more because the pod has reached a ceiling, each with a sentence."""
        if root is None:
            self.home = ""
        else:
            self.home = _last_used(root / _LAST_USED)
        self.stopped = ""

    @property
    def keeps(self) -> bool:
        """Whether what is read now is kept."""
        return self._write and not self.stopped

    @property
    def keeps_telemetry(self) -> bool:
        """Whether logs and telemetry are kept too."""
        return self.keeps and not self._records_only

    def use(self, home: str) -> bool:
        """The pod's agent lives in `home`; whether that is another one than so far, so that nothing
        known before is of this pod.
        """
        home = directory_name(home)
        changed = home != self.home
        if changed:
            self.home = home
            self._forget()
        if self._root is not None and self.keeps:
            try:
                files.replace(self._root / _LAST_USED, home.encode())
            except OSError as error:
                self._stop(error)
        return changed

    def start_anew(self) -> None:
        """The agent does not know our cursors (its disk was set back): what is here stays, under
        another name, and reading begins anew.
        """
        self._forget()
        old = self._home_directory()
        if old is not None and self.keeps and old.is_dir():
            try:
                number = next(
                    n for n in range(1, 1000) if not old.with_name(f"{old.name}.{n}").exists()
                )
                old.rename(old.with_name(f"{old.name}.{number}"))
            except OSError as error:
                self._stop(error)

    def _forget(self) -> None:
        self._cursors.clear()
        self._spans.clear()
        self._held = None
        self.over.clear()

    def cursor(self, stream: str) -> str | None:
        """Where the next read of a record stream starts: behind the last whole record that is held;
        None when none is. It comes from the data itself: a file of its own would be one more that
        can be torn.
        """
        if stream not in self._cursors:
            for path in reversed(self._files(stream)):
                for _ in self._read(stream, [path]):
                    pass
                if stream in self._cursors:
                    break
        return self._cursors.get(stream)

    def append(self, stream: str, start: str, next_cursor: str, data: bytes) -> None:
        """Keep `data`, which began at cursor `start`; the next read is at `next_cursor` whether or
        not it could be kept.
        """
        self._cursors[stream] = next_cursor
        self.keep(stream, start, data)

    def keep(self, stream: str, start: str, data: bytes) -> None:
        """Keep `data` without moving the cursor: older telemetry, a piece of a log."""
        directory = self._directory(stream)
        if (
            directory is None
            or not self.keeps
            or not data
            or (self._records_only and _kind(stream) == "other")
        ):
            return
        generation, offset = start.split(":")
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            free = shutil.disk_usage(directory).free
            if _kind(stream) == "other" and free < MIN_FREE:
                return
            if free < MIN_FREE_RECORDS:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            if stream.startswith("log/"):
                for part, at, piece in _parts(int(offset), data):
                    self._put(stream, directory, f"{generation}.{part}", at, piece)
            else:
                self._put(stream, directory, generation, int(offset), data)
        except OSError as error:
            self._stop(error)

    def note_gap(self, stream: str, gap: dict[str, Any]) -> None:
        """Bytes that the pod itself lost before they were read."""
        directory = self._directory(stream)
        if directory is None or not self.keeps:
            return
        try:
            entry = (
                json.dumps({key: gap[key] for key in _GAP if isinstance(gap.get(key), (int, str))})[
                    :_GAP_BYTES
                ]
                + "\n"
            )
            if not self._has_room("gaps", len(entry)):
                return
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            with (directory / "gaps.ndjson").open("a") as handle:
                handle.write(entry)
        except OSError as error:
            self._stop(error)

    def secure(self, stream: str) -> str | None:
        """Write the finished generations through to the disk; the cursor up to which `stream` is
        held, None when nothing of it is kept.
        """
        directory, cursor = self._directory(stream), self.cursor(stream)
        if directory is None or cursor is None or not self.keeps or _kind(stream) in self.over:
            return None
        finished = directory / f"{int(cursor.split(':')[0]) - 1}.data"
        try:
            # Those before it were written through when the stream went on from them.
            if finished.exists():
                _sync(finished)
        except OSError as error:
            self._stop(error)
            return None
        return cursor

    def hole(self, stream: str, cursor: str) -> str:
        """The first place at or behind `cursor`, in its generation, that is not held."""
        generation, offset = cursor.split(":")
        directory = self._directory(stream)
        if directory is None:
            return cursor
        return f"{generation}:{self._spans_of(directory, generation).first_missing(int(offset))}"

    def records(self, stream: str) -> Iterator[dict[str, Any]]:
        """The records of a mirrored record stream, oldest first; what is torn (the console or the
        machine ended in a write) is left out. Afterwards `cursor` is behind the last of them,
        whatever another console adds meanwhile.
        """
        yield from self._read(stream, self._files(stream))

    def tail(self, stream: str, count: int) -> list[dict[str, Any]]:
        """As `records`, of the newest files only: at least the last `count` records, as far as
        there are.
        """
        paths: list[Path] = []
        lines = 0
        for path in reversed(self._files(stream)):
            paths.insert(0, path)
            lines += path.read_bytes().count(b"\n")
            if lines >= count:
                break
        return list(self._read(stream, paths))

    def _read(self, stream: str, paths: Sequence[Path]) -> Iterator[dict[str, Any]]:
        for path in paths:
            end = 0
            for line in path.read_bytes().splitlines(keepends=True):
                record = None
                if line.endswith(b"\n"):
                    record = parse(line.lstrip(b"\0"))
                end += len(line)
                if record is not None:
                    self._cursors[stream] = f"{path.stem}:{end}"
                    yield record

    def directory(self, stream: str) -> Path | None:
        """Where the files of `stream` lie or would lie; None where nothing of it is kept."""
        return self._directory(stream)

    def close(self) -> None:
        """Nothing is held open; there for symmetry with the session."""

    def _directory(self, stream: str) -> Path | None:
        """None: nothing of `stream` is or will be here."""
        below = self._home_directory()
        if below is None or not _STREAM.fullmatch(stream):
            return None
        return below / stream

    def _home_directory(self) -> Path | None:
        if self._root is not None and self.home:
            return self._root / self.home
        return None

    def _files(self, stream: str) -> list[Path]:
        directory = self._directory(stream)
        if directory is None:
            return []
        return _data_files(directory)

    def _put(self, stream: str, directory: Path, name: str, offset: int, data: bytes) -> None:
        """Data before span: a crash in between repeats a write, never claims one."""
        path = directory / f"{name}.data"
        length = path.stat().st_size if path.exists() else 0
        new, end = not length, offset + len(data)
        if not stream.startswith("log/") and end > ceilings.RECORD_FILE_BYTES:
            self._mark(_kind(stream), f"a file of {stream} would have {end:,} bytes")
            return
        if not self._has_room(_kind(stream), max(0, end - length)):
            return
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            if os.pwrite(fd, data, offset) < len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        finally:
            os.close(fd)
        self._spans_of(directory, name).add(offset, offset + len(data))
        if new:
            self._trim(directory)

    def _spans_of(self, directory: Path, name: str) -> Spans:
        path = directory / f"{name}.spans"
        if path not in self._spans:
            self._spans[path] = Spans(path)
        return self._spans[path]

    def _has_room(self, kind: Kind, more: int) -> bool:
        """Count `more` bytes of a kind; False, and said in `over`, when they do not fit below its
        ceiling.
        """
        if self._held is None:
            self._held = _count(self._home_directory())
        most = _ceiling(kind)
        if self._held[kind] + more > most:
            self._mark(kind, f"this pod has {most // ceilings.MIB:,} MiB of it here already")
            return False
        if sum(self._held.values()) + more > ceilings.DISK_BYTES:
            self._mark(
                kind, f"this pod has {ceilings.DISK_BYTES // ceilings.MIB:,} MiB here already"
            )
            return False
        self._held[kind] += more
        return True

    def _mark(self, kind: Kind, why: str) -> None:
        self.over.setdefault(
            kind,
            f"{_KINDS[kind]} of this pod are no longer kept on this machine: {why}. Nothing "
            "that is held was deleted.",
        )

    def _trim(self, directory: Path) -> None:
        held = [(path, path.stat().st_size) for path in _data_files(directory)]
        total = sum(size for _, size in held)
        for path, size in held[:-1]:
            if total <= STREAM_CAP:
                return
            total -= size
            self._held = None
            self._spans.pop(path.with_suffix(".spans"), None)
            path.with_suffix(".spans").unlink(missing_ok=True)
            path.unlink(missing_ok=True)

    def _stop(self, error: OSError) -> None:
        self.stopped = (
            f"What is read is no longer kept on this machine ({error.strerror}); free some space "
            "(or mend that), then start the console again: it goes on where it stopped."
        )


def _kind(stream: str) -> Kind:
    if stream == "journal":
        return "journal"
    if stream.startswith("steps/"):
        return "steps"
    return "other"


def _ceiling(kind: Kind) -> int:
    ceilings_of: Mapping[Kind, int] = {
        "journal": ceilings.JOURNAL_BYTES,
        "steps": ceilings.STEPS_BYTES,
        "gaps": ceilings.GAPS_BYTES,
        "other": ceilings.DISK_BYTES,
    }
    return ceilings_of[kind]


def _count(home: Path | None) -> dict[Kind, int]:
    """Return the bytes that lie in a home's directory by kind, each file by its length."""
    held: dict[Kind, int] = {"journal": 0, "steps": 0, "gaps": 0, "other": 0}
    for path in home.rglob("*") if home is not None else ():
        if not path.is_file():
            continue
        kind: Kind
        if path.name == "gaps.ndjson":
            kind = "gaps"
        elif home:
            kind = _kind(path.parent.relative_to(home).as_posix())
        else:
            kind = "other"
        held[kind] += path.stat().st_size
    return held


def _last_used(path: Path) -> str:
    """The home that was looked at last; empty for none, or when the file is torn."""
    try:
        home = path.read_text("ascii", "replace").strip()
    except OSError:
        return ""
    if _HOME.fullmatch(home):
        return home
    return ""


def _data_files(directory: Path) -> list[Path]:
    """Oldest first: by generation, then by part."""
    if not directory.is_dir():
        return []
    found = []
    for path in directory.iterdir():
        if (match := _DATA.fullmatch(path.name)) and path.is_file():
            found.append((match, path))
    return [
        path for _, path in sorted(found, key=lambda item: (int(item[0][1]), int(item[0][2] or 0)))
    ]


def _parts(offset: int, data: bytes) -> Iterator[tuple[int, int, bytes]]:
    """(part, offset in the part, bytes) of a piece of a log."""
    at = 0
    while at < len(data):
        part, inside = divmod(offset + at, PART_BYTES)
        piece = data[at : at + PART_BYTES - inside]
        yield part, inside, piece
        at += len(piece)


def _sync(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
