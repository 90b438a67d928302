"""What the store holds: buckets, keys, versions of files and unfinished large files. Bytes lie on
disk, one file a version or part.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ALL = ("listBuckets", "listFiles", "readFiles", "writeFiles", "deleteFiles")


class Refusal(Exception):
    """Raised when the practice store refuses a call. `status` is the HTTP status of the answer,
    `code` B2's word for the reason (such as "bad_request"), and `message` a sentence, or the code
    again if none is given.
    """

    def __init__(self, status: int, code: str, message: str = "") -> None:
        super().__init__(message or code)
        self.status, self.code, self.message = status, code, message or code


@dataclass
class Key:
    """An application key, with which a client logs in: `id`, `secret`, and in `capabilities` what
    the key may do, such as "writeFiles". It is restricted to the bucket with the name `bucket` and
    to file names that begin with `prefix`; "" is no restriction.
    """

    id: str
    secret: str
    capabilities: tuple[str, ...] = ALL
    bucket: str = ""
    prefix: str = ""


@dataclass
class Version:
    """One version of a file. `id` is its own id and `bucket` the id of its bucket. `action` is
    "upload" for a file, "start" for a large file whose parts are still to come, or "hide" for a
    version that hides the name. `t_ms` is the time of the upload in milliseconds since the epoch.
    `size` is in bytes, and `sha1` is None for a large file.

    `pieces` are the paths of the files that hold its bytes, in order. `parts` maps the number of a
    part of an unfinished large file to (path, size in bytes, SHA-1).
    """

    id: str
    bucket: str
    name: str
    action: str
    t_ms: int
    content_type: str = "application/octet-stream"
    info: dict[str, str] = field(default_factory=dict)
    size: int = 0
    sha1: str | None = None
    pieces: list[Path] = field(default_factory=list)
    parts: dict[int, tuple[Path, int, str]] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Return the description of the version as B2's API sends it, with keys such as "fileId",
        "fileName" and "contentLength" (bytes).
        """
        return {
            "accountId": "account",
            "action": self.action,
            "bucketId": self.bucket,
            "contentLength": self.size,
            "contentSha1": self.sha1 if self.action == "upload" else None,
            "contentType": self.content_type,
            "fileId": self.id,
            "fileInfo": self.info,
            "fileName": self.name,
            "uploadTimestamp": self.t_ms,
            "fileRetention": {
                "isClientAuthorizedToRead": True,
                "value": {"mode": None, "retainUntilTimestamp": None},
            },
            "legalHold": {"isClientAuthorizedToRead": True, "value": None},
            "replicationStatus": None,
            "serverSideEncryption": {"algorithm": None, "mode": None},
        }

    def read(self, first: int, last: int, block: int = 1 << 16) -> Iterator[bytes]:
        """Yield the bytes `first` to `last` of the file, both included, in blocks of at most
        `block` bytes.
        """
        at = 0
        for path in self.pieces:
            size = path.stat().st_size
            begin, end = max(first - at, 0), min(last + 1 - at, size)
            if begin < end:
                with path.open("rb") as handle:
                    handle.seek(begin)
                    left = end - begin
                    while left > 0 and (data := handle.read(min(block, left))):
                        left -= len(data)
                        yield data
            at += size


class Shelf:
    """Everything that a practice store (an imitation of Backblaze B2) holds: buckets, keys and
    versions of files. The bytes of the files lie below `directory`. It can be used from several
    threads. The function `clock` returns Unix seconds; `now_ms` turns these into times of which no
    two are the same.
    """

    def __init__(self, directory: Path, clock: Callable[[], float] = time.time) -> None:
        self.directory, self.clock = directory, clock
        self.keys: dict[str, Key] = {}
        self.buckets: dict[str, str] = {}
        """Id -> name."""
        self.lock = threading.RLock()
        self._versions: dict[str, Version] = {}
        self._numbers = 0
        self._last_ms = 0

    def make_bucket(self, name: str) -> str:
        """Make a bucket called `name` and return its id."""
        with self.lock:
            self.buckets[f"bucket{len(self.buckets) + 1:018d}"] = name
            return next(key for key, value in self.buckets.items() if value == name)

    def make_key(self, key: Key) -> Key:
        """Add `key` to the application keys that the store accepts, and return it."""
        with self.lock:
            self.keys[key.id] = key
        return key

    def number(self) -> str:
        """Return a new id for a bucket, a file or a version. No id is returned twice."""
        with self.lock:
            self._numbers += 1
            return f"4_z{self._numbers:020d}"

    def place(self) -> Path:
        """Return a new path below the store's directory, to which the bytes of one upload can be
        written. No file is there yet.
        """
        return self.directory / self.number()

    def now_ms(self) -> int:
        """Return the present time for a new version in milliseconds since the epoch. It is always
        later than all times that were returned before.
        """
        with self.lock:
            self._last_ms = max(self._last_ms + 1, int(self.clock() * 1000))
            return self._last_ms

    def put(self, version: Version) -> Version:
        """Store `version`, one version of a file, and return it. It replaces a version with the
        same id.
        """
        with self.lock:
            self._versions[version.id] = version
        return version

    def get(self, version: str, action: str | None = None) -> Version:
        """Return the version with the id `version`. If `action` is not None, the version's `action`
        must be the same: "upload" (a file), "start" (an unfinished large file) or "hide" (a version
        that hides the name). Raises Refusal if there is no such version.
        """
        with self.lock:
            found = self._versions.get(version)
        if found is None or (action is not None and found.action != action):
            raise Refusal(404, "not_found", f"no file {version}")
        return found

    def finish(self, version: Version, hashes: list[str]) -> Version:
        """Make a file of all parts of the unfinished `version`, from part 1 on, and return it.
        `hashes` has the parts' SHA-1 as the client gives them. Raises Refusal if a part is missing
        or a hash differs.
        """
        with self.lock:
            parts = [version.parts.get(number) for number in range(1, len(hashes) + 1)]
            if len(version.parts) != len(hashes) or None in parts:
                raise Refusal(400, "missing_part", "parts are missing")
            known = [part for part in parts if part is not None]
            if [part[2] for part in known] != hashes:
                raise Refusal(400, "bad_request", "part SHA-1 does not match")
            version.pieces = [part[0] for part in known]
            version.size = sum(part[1] for part in known)
            version.action, version.t_ms, version.sha1 = "upload", self.now_ms(), None
            return version

    def remove(self, version: Version) -> None:
        """Delete `version` with its bytes. Do nothing if it is gone already."""
        with self.lock:
            self._versions.pop(version.id, None)
        for path in [*version.pieces, *(part[0] for part in version.parts.values())]:
            path.unlink(missing_ok=True)

    def versions(self, bucket: str, prefix: str = "") -> list[Version]:
        """Return all versions of the files in the bucket with the id `bucket`. They are sorted by
        name, and versions with the same name by time, newest first. Among them are unfinished large
        files and "hide" versions, which make B2 treat a file as deleted. With `prefix`, only files
        whose names begin with it are returned.
        """
        with self.lock:
            found = [
                one
                for one in self._versions.values()
                if one.bucket == bucket and one.name.startswith(prefix)
            ]
        return sorted(found, key=lambda one: (one.name.encode(), -one.t_ms))

    def newest(self, bucket: str, prefix: str = "") -> list[Version]:
        """Return the newest version of each file of a bucket, sorted by name. Hidden and unfinished
        files are left out. `bucket` is the bucket's id. With `prefix` only files whose names begin
        with it are returned.
        """
        seen: dict[str, Version] = {}
        for one in self.versions(bucket, prefix):
            if one.action != "start":
                seen.setdefault(one.name, one)
        return [one for one in seen.values() if one.action == "upload"]
