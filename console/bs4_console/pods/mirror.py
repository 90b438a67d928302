"""Keep what was read from a pod on this machine, at the pod's own offsets, so that it can still be
read when the pod is gone.
"""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

from bs4_common.streams.cursor import Gap
from bs4_common.streams.segments import parse
from bs4_console import ceilings, files
from bs4_console.pods.range_set import RangeSet

#: Bytes that a stream keeps here at most; the oldest files are deleted first. A journal never gets
#: near it.
STREAM_CAP = 512 * 1024 * 1024
#: Bytes of each file of a log's generation, so that the beginning of a log of many gigabytes can be
#: deleted.
PART_BYTES = 16 * 1024 * 1024
#: Free bytes of the disk below which logs and telemetry are no longer kept: we must not fill a
#: laptop's disk.
MIN_FREE = 1024 * 1024 * 1024
#: The same limit for the journal and the steps, which are small and worth most.
MIN_FREE_RECORDS = 128 * 1024 * 1024

#: A stream's name becomes a path here, so it must not lead out of the directory.
_STREAM = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}(/[A-Za-z0-9][A-Za-z0-9._-]{0,99}){0,3}")
_HOME = re.compile(r"(?!home\Z)[A-Za-z0-9]{1,64}")
_DATA = re.compile(r"([0-9]{1,12})(?:\.([0-9]{1,12}))?\.data")
_LAST_USED = "home"


#: The kinds of data that are counted separately.
Kind = Literal["journal", "steps", "gaps", "other"]
_KINDS: Mapping[Kind, str] = {
    "journal": "New journal records",
    "steps": "New steps",
    "gaps": "New gaps",
    "other": "New logs and telemetry",
}
#: The keys of a gap that are kept, and the bytes of one entry at most.
_GAP, _GAP_BYTES = ("generation", "from", "to", "reason"), 500


def homes(root: Path) -> list[str]:
    """Return the ids of the agents' homes of which `root`, the directory of one pod's mirrors, has
    data. The home that was used last comes at the end. A pod has several if it was made anew under
    the same name, on another machine or on the same one.
    """
    last = _last_used(root / _LAST_USED)
    found = []
    for directory in sorted(root.iterdir()):
        if directory.is_dir() and _HOME.fullmatch(directory.name) and directory.name != last:
            found.append(directory.name)
    if last:
        found.append(last)
    return found


def continues(one: Path, other: Path) -> bool:
    """Return True if one and the same agent wrote what lies in `one` and `other`, directories for
    the same home below the mirrors of two pods' names: as far as both hold its journal, they hold
    the same bytes. The id of a home alone is no proof, because a pod says itself which it has.
    """
    known = {path.name: path for path in _data_files(one / "journal")}
    common = 0
    for path in _data_files(other / "journal"):
        if path.name in known:
            mine, theirs = known[path.name].read_bytes(), path.read_bytes()
            size = min(len(mine), len(theirs))
            if mine[:size] != theirs[:size]:
                return False
            common += mine.count(b"\n", 0, size)
    return common > 0


def directory_name(home: str) -> str:
    """Return the name of the directory on this machine for what is saved of the agent whose home
    directory has the id `home`: the id itself, or "unnamed" if it is not an id that an agent could
    have made.
    """
    if _HOME.fullmatch(home):
        return home
    return "unnamed"


class Mirror:
    """The copy of one pod's streams on this machine. A stream is a log ("log/RUN/trainer") or
    records ("journal", "telemetry", "steps/RUN"); each of its files on the pod is one generation.

    `<root>/<agent's home id>/<stream>/<generation>.data` holds a generation's bytes at their own
    offsets (what was not read is a hole: the files are sparse). `<generation>.spans` lists the
    ranges that were read. Logs, whose size has no limit, are in `<generation>.<part>.data`.

    If a pod is made anew under the same name, its cursors begin at 1:0 again. So everything lies
    below the random id of the agent's home, and `<root>/home` names the home used last. Two
    consoles may mirror the same pod at once: they write the same bytes at the same places.

    If `root` is None, nothing is saved. If `write` is False, the mirror reads what an earlier
    console saved and adds nothing. When the disk is full or fails, the mirror saves nothing more
    until the console is started again, and the sentence in `stopped` says so; the console goes on
    watching.
    """

    def __init__(
        self,
        root: Path | None,
        *,
        write: bool = True,
        records_only: bool = False,
        others: Sequence[Path] = (),
    ) -> None:
        """Open the mirror. `records_only` keeps journal and steps, which the record of a run is
        made of, and no logs and telemetry. `others` are the mirrors of further names under which
        the same agent was read (see `continues`): of each file that one is read which goes on
        furthest.
        """
        self._root = root
        self._others = others
        self._write = write and root is not None
        self._records_only = records_only
        self._cursors: dict[str, str] = {}
        self._spans: dict[Path, RangeSet] = {}
        self._held: dict[Kind, int] | None = None
        """The bytes of this home by kind. None until the first write counts them."""
        self._held_of_others = 0
        """The bytes of the pod's other homes, which count for the whole pod's limit."""
        self.over: dict[Kind, str] = {}
        """A sentence for each kind that is no longer kept because the pod has reached a limit."""
        self.home = "" if root is None else _last_used(root / _LAST_USED)
        self.stopped = ""

    @property
    def keeps(self) -> bool:
        """Return True if the mirror (the copy of the pod's data on this machine) saves data that is
        read from the pod now. It is False for a mirror that only reads what was saved earlier, and
        after saving failed.
        """
        return self._write and not self.stopped

    @property
    def keeps_telemetry(self) -> bool:
        """Return True if the mirror (the copy of the pod's data on this machine) saves logs and
        telemetry, and not only the journal (the agent's log of actions and incidents) and the
        records of training steps.
        """
        return self.keeps and not self._records_only

    def use(self, home: str) -> bool:
        """Switch the mirror (the copy of the pod's data on this machine) to the agent's home
        directory with the id `home`. What is saved of the pod is kept apart by that id, because
        another machine may answer under the same name. Return True if it is another home than
        before, so that the caller must forget what it knew of the pod.
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
        """Rename the directory in which the pod's data is saved on this machine, so that all
        streams are read again from their beginning. This is for an agent that rejects the cursors
        of the saved data, because its disk was set back to an earlier state. The renamed data stays
        on this machine.
        """
        self._forget()
        old = self._home_directory()
        if old is not None and self.keeps and old.is_dir():
            try:
                free = (n for n in range(1, 1000) if not old.with_name(f"{old.name}.{n}").exists())
                number = next(free, None)
                if number is None:
                    why = "999 earlier states of this pod are here already"
                    raise OSError(errno.EEXIST, why)
                old.rename(old.with_name(f"{old.name}.{number}"))
            except OSError as error:
                self._stop(error)

    def _forget(self) -> None:
        self._cursors.clear()
        self._spans.clear()
        self._held = None
        self.over.clear()

    def cursor(self, stream: str) -> str | None:
        """Return the cursor (GENERATION:OFFSET: the number of the stream's file and a byte offset
        in it) at which reading of a record stream (such as "journal" or "telemetry") has to
        continue: just after the last whole record in the mirror (the copy of the pod's data on this
        machine). Return None if the mirror holds no record of it. The cursor is found from the data
        itself, so that no further file can be damaged.
        """
        if stream not in self._cursors:
            for path in reversed(self._files(stream)):
                for _ in self._read(stream, [path]):
                    pass
                if stream in self._cursors:
                    break
        return self._cursors.get(stream)

    def append(self, stream: str, start: str, next_cursor: str, data: bytes) -> None:
        """Save `data`, which was read from `stream` (such as "journal") at the cursor `start`, and
        remember `next_cursor` as the place of the next read. The next read begins there even if the
        data could not be saved. A cursor is GENERATION:OFFSET: the number of the stream's file and
        a byte offset in it.
        """
        self._cursors[stream] = next_cursor
        self.keep(stream, start, data)

    def keep(self, stream: str, start: str, data: bytes) -> None:
        """Save `data`, which was read from `stream` (such as "telemetry") at the cursor `start`,
        without changing where the next read begins. This is for older telemetry and for pieces of a
        log. Nothing is saved if the mirror (the copy of the pod's data on this machine) does not
        save this stream, or if the disk has less than 1 GiB free (128 MiB for the journal and the
        training steps).
        """
        directory = self.directory(stream)
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

    def note_gap(self, stream: str, gap: Gap) -> None:
        """Record that a part of `stream` is missing: `gap` describes bytes that the pod deleted
        before the console could read them. It is appended to a list in the mirror (the copy of the
        pod's data on this machine). Nothing is written if the mirror does not save data.
        """
        directory = self.directory(stream)
        if directory is None or not self.keeps:
            return
        try:
            known = {}
            for key in _GAP:
                if isinstance(value := gap.get(key), (int, str)):
                    known[key] = value
            entry = json.dumps(known)[:_GAP_BYTES] + "\n"
            if not self._has_room("gaps", len(entry)):
                return
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            with (directory / "gaps.ndjson").open("a") as handle:
                handle.write(entry)
        except OSError as error:
            self._stop(error)

    def secure(self, stream: str) -> str | None:
        """Flush the newest finished file (generation) of `stream` in the mirror (the copy of the
        pod's data on this machine) to the disk. Return the cursor, GENERATION:OFFSET, up to which
        the mirror holds the stream. Return None if it holds nothing of the stream, or if saving has
        stopped or fails.
        """
        directory, cursor = self.directory(stream), self.cursor(stream)
        if directory is None or cursor is None or not self.keeps or _kind(stream) in self.over:
            return None
        finished = directory / f"{int(cursor.split(':')[0]) - 1}.data"
        try:
            # The generations before it were flushed when the stream went on from them.
            if finished.exists():
                _sync(finished)
        except OSError as error:
            self._stop(error)
            return None
        return cursor

    def hole(self, stream: str, cursor: str) -> str:
        """Return the cursor (GENERATION:OFFSET: the number of the stream's file and a byte offset
        in it) of the first byte at or after `cursor`, in the same generation, that the mirror (the
        copy of the pod's data on this machine) does not hold.
        """
        generation, offset = cursor.split(":")
        directory = self.directory(stream)
        if directory is None:
            return cursor
        return f"{generation}:{self._spans_of(directory, generation).first_missing(int(offset))}"

    def records(self, stream: str) -> Iterator[object]:
        """Yield the records of a stream (such as "journal") that the mirror (the copy of the pod's
        data on this machine) holds, oldest first, as JSON objects of which nothing is checked yet
        (see pods/gate/records.py). Lines that were cut off while being written are skipped.
        Afterwards `cursor` returns the place after the last record that was yielded, even if
        another console has added more meanwhile.
        """
        yield from self._read(stream, self._files(stream))

    def tail(self, stream: str, count: int) -> list[object]:
        """Return at least the last `count` records of `stream` (such as "journal") that are saved
        on this machine, oldest first, or all of them if there are fewer. Only as many of the newest
        files are read as are needed.
        """
        paths: list[Path] = []
        lines = 0
        for path in reversed(self._files(stream)):
            paths.insert(0, path)
            lines += path.read_bytes().count(b"\n")
            if lines >= count:
                break
        return list(self._read(stream, paths))

    def _read(self, stream: str, paths: Sequence[Path]) -> Iterator[object]:
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

    def close(self) -> None:
        """Do nothing, because the mirror (the copy of the pod's data on this machine) holds no file
        open. The method exists so that callers can treat a mirror like a session.
        """

    def directory(self, stream: str) -> Path | None:
        """Return the directory on this machine in which the mirror (the copy of the pod's data on
        this machine) saves `stream`, such as "journal". The directory need not exist. Return
        None if the mirror saves nothing, or if the stream's name could lead out of the mirror's
        directory. Return None also before the first connection to the pod, because the id of the
        agent's home directory, which is a part of the path, is not known then.
        """
        below = self._home_directory()
        if below is None or not _STREAM.fullmatch(stream):
            return None
        return below / stream

    def _home_directory(self) -> Path | None:
        if self._root is not None and self.home:
            return self._root / self.home
        return None

    def _files(self, stream: str) -> list[Path]:
        directory = self.directory(stream)
        if directory is None:
            return []
        others = (root / self.home / stream for root in self._others)
        return _data_files(directory, *others)

    def _put(self, stream: str, directory: Path, name: str, offset: int, data: bytes) -> None:
        """Write data at an offset of a file, and then its range. After a crash in between the write
        is repeated; a range is never recorded without its data.
        """
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

    def _spans_of(self, directory: Path, name: str) -> RangeSet:
        path = directory / f"{name}.spans"
        if path not in self._spans:
            self._spans[path] = RangeSet(path)
        return self._spans[path]

    def _has_room(self, kind: Kind, more: int) -> bool:
        """Count `more` bytes of a kind. Return False, with a sentence in `over`, if they exceed a
        limit.
        """
        if self._held is None:
            self._held = _count(self._home_directory())
            self._held_of_others = _bytes(self._root) - sum(self._held.values())
        most = _ceiling(kind)
        if self._held[kind] + more > most:
            self._mark(kind, f"this pod has {most // ceilings.MIB:,} MiB of it here already")
            return False
        if sum(self._held.values()) + self._held_of_others + more > ceilings.DISK_BYTES:
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
    """Return the bytes in a home's directory by kind, each file by its length."""
    held: dict[Kind, int] = {"journal": 0, "steps": 0, "gaps": 0, "other": 0}
    if home is None:
        return held
    for path in home.rglob("*"):
        if path.is_file():
            kind = _kind(path.parent.relative_to(home).as_posix())
            held["gaps" if path.name == "gaps.ndjson" else kind] += path.stat().st_size
    return held


def _bytes(root: Path | None) -> int:
    """Return the bytes of all data of a pod, each file by its length."""
    if root is None or not root.is_dir():
        return 0
    return sum(sum(_count(home).values()) for home in root.iterdir() if home.is_dir())


def _last_used(path: Path) -> str:
    """Return the id of the home that was used last, or "" if there is none or the file is torn."""
    try:
        home = path.read_text("ascii", "replace").strip()
    except OSError:
        return ""
    return home if _HOME.fullmatch(home) else ""


def _data_files(*directories: Path) -> list[Path]:
    """Return the data files of the directories, oldest first: by generation, then by part. Of those
    of one name it is the longest.
    """
    found: dict[tuple[int, int], Path] = {}
    for directory in directories:
        for path in directory.iterdir() if directory.is_dir() else []:
            if (match := _DATA.fullmatch(path.name)) and path.is_file():
                place = int(match[1]), int(match[2] or 0)
                if place not in found or path.stat().st_size > found[place].stat().st_size:
                    found[place] = path
    return [path for _, path in sorted(found.items())]


def _parts(offset: int, data: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Yield (part, offset in the part, bytes) for each part of a log that the data touches."""
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
