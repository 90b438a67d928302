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
    """An error as the API words it."""

    def __init__(self, status: int, code: str, message: str = "") -> None:
        super().__init__(message or code)
        self.status, self.code, self.message = status, code, message or code


@dataclass
class Key:
    """An application key. `bucket` and `prefix` "" where it is not restricted."""

    id: str
    secret: str
    capabilities: tuple[str, ...] = ALL
    bucket: str = ""
    prefix: str = ""


@dataclass
class Version:
    """One version of a file; `action` "upload", or "start" while a large file is unfinished, or
    "hide". `pieces`: its bytes, in order.
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
        """As b2_list_file_versions and b2_upload_file answer."""
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
        """Bytes `first` to `last`, both included."""
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
    """Everything below one directory. Thread-safe. `clock` gives the server's wall seconds; no two
    versions have the same time.
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
        with self.lock:
            self.buckets[f"bucket{len(self.buckets) + 1:018d}"] = name
            return next(key for key, value in self.buckets.items() if value == name)

    def make_key(self, key: Key) -> Key:
        with self.lock:
            self.keys[key.id] = key
        return key

    def number(self) -> str:
        with self.lock:
            self._numbers += 1
            return f"4_z{self._numbers:020d}"

    def place(self) -> Path:
        """Where the bytes of one request may go."""
        return self.directory / self.number()

    def now_ms(self) -> int:
        with self.lock:
            self._last_ms = max(self._last_ms + 1, int(self.clock() * 1000))
            return self._last_ms

    def put(self, version: Version) -> Version:
        with self.lock:
            self._versions[version.id] = version
        return version

    def get(self, version: str, action: str | None = None) -> Version:
        with self.lock:
            found = self._versions.get(version)
        if found is None or (action is not None and found.action != action):
            raise Refusal(404, "not_found", f"no file {version}")
        return found

    def finish(self, version: Version, hashes: list[str]) -> Version:
        """b2_finish_large_file: all parts from 1 on, with the hashes that the client says."""
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
        with self.lock:
            self._versions.pop(version.id, None)
        for path in [*version.pieces, *(part[0] for part in version.parts.values())]:
            path.unlink(missing_ok=True)

    def versions(self, bucket: str, prefix: str = "") -> list[Version]:
        """By name, newest first, unfinished ones too."""
        with self.lock:
            found = [
                one
                for one in self._versions.values()
                if one.bucket == bucket and one.name.startswith(prefix)
            ]
        return sorted(found, key=lambda one: (one.name.encode(), -one.t_ms))

    def newest(self, bucket: str, prefix: str = "") -> list[Version]:
        """The visible version of every name."""
        seen: dict[str, Version] = {}
        for one in self.versions(bucket, prefix):
            if one.action != "start":
                seen.setdefault(one.name, one)
        return [one for one in seen.values() if one.action == "upload"]
