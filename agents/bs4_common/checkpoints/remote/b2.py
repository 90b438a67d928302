"""Backblaze B2 through b2sdk. This is the only module that imports b2sdk, which comes to a pod as a
bundle of its own (`~/.bs4/b2-current`).

The module is shaped by these facts about b2sdk 2.13. An upload is tried five times without a pause,
so five 503s in a row end it; we wait and begin again. A large file has no SHA-1 of its own at the
server, only the `large_file_sha1` that the uploader states and the SHA-1 of each part, which the
server checks. An unfinished large file is resumed by its name, even if its stated SHA-1 is another
one.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import ipaddress
import os
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any, TypedDict, TypeVar
from urllib.parse import urlsplit

import requests
from b2sdk.v3 import (
    AbstractProgressListener,
    B2Api,
    B2HttpApiConfig,
    Bucket,
    DownloadedFile,
    InMemoryAccountInfo,
    UploadSourceLocalFile,
)
from b2sdk.v3 import exception as b2

from bs4_common.checkpoints.remote.errors import (
    NotThere,
    StoreAuth,
    StoreDamaged,
    StoreError,
    StoreFull,
    StoreThrottled,
    StoreUnreachable,
)
from bs4_common.checkpoints.remote.store import Entry, Progress
from bs4_common.descriptors import at, open_file
from bs4_common.errors import BadRequest

#: Transfers at a time, of small files and parts of large files together. `b2 sync` uses 10.
THREADS = 10
#: Seconds between two tries of one upload or download: enough for a store that restarts, without
#: holding a step for ever.
PAUSES_S = (1.0, 2.0, 4.0, 8.0, 16.0)
#: The most names in one answer; more than 1000 are billed as several calls.
_PAGE = 1000
#: The most answers to one listing: a million names, ten times what a large run has. A store that
#: always tells of a next one would be listed for ever.
_PAGES = 1000
_BLOCK = 1024 * 1024
_SENT = 256 * 1024
_LARGE_SHA1 = "large_file_sha1"
_PRODUCTION = "production"
#: Errors that pass by themselves.
_TRANSIENT = (
    b2.TransientErrorMixin,
    b2.BrokenPipe,
    b2.ConnectionReset,
    b2.UnknownHost,
    b2.AlreadyFailed,
)

Result = TypeVar("Result")

#: Called with the number of bytes that are about to be sent; sleeps to keep a rate.
Pace = Callable[[int], None]


def realm() -> str:
    """Return the URL at which B2 accounts are authorized: that of Backblaze, or the one in the
    environment variable BS4_B2_REALM. Raises BadRequest if that URL has no TLS and is not on this
    machine, because the key could be read on the way.
    """
    given = os.environ.get("BS4_B2_REALM", "")
    if not given:
        return _PRODUCTION
    parts = urlsplit(given)
    if parts.scheme != "https" and not (parts.scheme == "http" and _loopback(parts.hostname or "")):
        raise BadRequest(
            f"BS4_B2_REALM is {given[:100]!r}; use https://, or leave it out for Backblaze."
        )
    return given


def _loopback(host: str) -> bool:
    """Return True if the host is a loopback address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class B2Store:
    """A bucket of Backblaze B2, as an implementation of `store.Store`. Create it with `open`, which
    authorizes the account and finds the bucket.
    """

    def __init__(
        self,
        bucket: Bucket,
        *,
        pauses: tuple[float, ...] = PAUSES_S,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._bucket, self._session, self._pauses, self._sleep = (
            bucket,
            bucket.api.session,
            pauses,
            sleep,
        )
        self.name = str(bucket.name)

    @classmethod
    def open(
        cls,
        bucket: str,
        key_id: str,
        key: str,
        *,
        at: str = _PRODUCTION,
        threads: int = THREADS,
        pace: Pace | None = None,
        pauses: tuple[float, ...] = PAUSES_S,
        raw_api: Any = None,
    ) -> B2Store:
        """Authorize the account and return the bucket. Raises StoreAuth if the key is not accepted
        or is for another bucket, and NotThere if the bucket does not exist.

        `at` is the URL at which the account is authorized, `threads` the number of simultaneous
        transfers, `pace` the bandwidth limit over all threads, and `pauses` the seconds to wait
        before each retry. `raw_api` is b2sdk's simulator in tests.
        """
        api = B2Api(
            InMemoryAccountInfo(),
            api_config=B2HttpApiConfig(
                http_session_factory=lambda: _PacedSession(threads, pace),
                # A wrong clock on the pod must not keep its checkpoints from being saved. Nothing
                # we store has an encoding; otherwise b2sdk would replace our adapter by its own.
                decode_content=True,
                install_clock_skew_hook=False,
                user_agent_append="bs4-console",
                _raw_api_class=raw_api,
            ),
            max_upload_workers=threads,
            max_download_workers=threads,
        )
        with _told(f"b2://{bucket}"):
            api.authorize_account(key_id, key, realm=at)
            found = api.get_bucket_by_name(bucket)
        return cls(found, pauses=pauses)

    @classmethod
    def of_api(cls, api: B2Api, bucket: str, *, pauses: tuple[float, ...] = PAUSES_S) -> B2Store:
        """Return the bucket of an API object that is authorized already. Tests use it with b2sdk's
        simulator, which keeps its account in memory.
        """
        with _told(f"b2://{bucket}"):
            return cls(api.get_bucket_by_name(bucket), pauses=pauses)

    def entries(self, prefix: str) -> list[Entry]:
        """Return the newest version of every file whose name begins with `prefix`, sorted by name;
        empty if there is no such file. Every 1000 names take one request. Raises a StoreError if
        the object store fails or refuses the call.
        """
        found: list[Entry] = []
        # It starts at the prefix: the service skips to it by itself, the simulator does not.
        start: str | None = prefix or None
        with self._told(prefix):
            for _ in range(_PAGES):
                page = self._session.list_file_names(self._bucket.id_, start, _PAGE, prefix)
                for row in page["files"]:
                    if row["action"] == "upload":
                        found.append(_entry(row))
                start = page["nextFileName"]
                if start is None:
                    return found
        raise _endless(prefix)

    def versions(self, name: str) -> list[Entry]:
        """Return every version of the file with exactly this name, newest first, or an empty list.
        The versions of a hidden file are included, because hiding a file deletes nothing. Raises a
        StoreError if the object store fails or refuses the call.
        """
        found: list[Entry] = []
        start, version = name, None
        with self._told(name):
            for _ in range(_PAGES):
                page = self._session.list_file_versions(
                    self._bucket.id_, start, version, _PAGE, name
                )
                for row in page["files"]:
                    if row["action"] == "upload" and row["fileName"] == name:
                        found.append(_entry(row))
                start, version = page["nextFileName"], page["nextFileId"]
                if start != name:
                    return found
        raise _endless(name)

    def read(self, name: str, most: int) -> bytes:
        """Return the content of a small file. Raises NotThere if it does not exist, and
        StoreDamaged if it has more than `most` bytes. Raises another StoreError if the object store
        fails or refuses the call.
        """
        with self._told(name):
            return self._tried(lambda: _small(self._bucket.download_file_by_name(name), name, most))

    def content(self, entry: Entry, most: int) -> bytes:
        """Return the content of exactly this version of a small file. Raises NotThere if it does
        not exist, and StoreDamaged if it has more than `most` bytes. Raises another StoreError if
        the object store fails or refuses the call.
        """
        with self._told(entry.name):
            return self._tried(
                lambda: _small(self._bucket.download_file_by_id(entry.version), entry.name, most)
            )

    def write(self, name: str, data: bytes) -> Entry:
        """Write `data` as the content of the small file `name` in one request, and return its
        entry. Older versions of the file stay until they are deleted. Raises a StoreError if the
        object store fails or refuses the call.
        """
        with self._told(name):
            return self._tried(
                lambda: _of_version(
                    self._bucket.upload_bytes(data, name, content_type="application/json")
                )
            )

    def upload(self, path: Path, name: str, sha1: str, progress: Progress | None = None) -> Entry:
        """Upload the file at `path`, whose SHA-1 is `sha1`, under `name`, and return its entry. If
        an earlier upload of the same bytes was interrupted, only its missing parts are sent.
        `progress` receives the number of bytes that were sent since its last call (negative if the
        transfer begins anew). The path must contain no symbolic link. Raises Refused if the path is
        no regular file, OSError if the file cannot be opened, and a StoreError if the object store
        fails or refuses the call.
        """
        with open_file(path) as opened, self._told(name):
            # A file that is smaller than two parts is sent in one call, whatever was begun under
            # its name.
            size = os.fstat(opened).st_size
            if size > self._bucket.api.account_info.get_absolute_minimum_part_size():
                self._cancel_others(name, sha1)
            return self._tried(
                lambda: self._upload(at(opened), name, sha1, progress),
                again=lambda: self._arrived(name, size, sha1),
            )

    def download(
        self,
        name: str,
        path: Path,
        progress: Progress | None = None,
        *,
        size: int | None = None,
    ) -> Entry:
        """Download the file `name` to `path` and return its entry. The file appears at `path` only
        when it is complete. `progress` is as in `upload`. Raises NotThere if it does not exist, and
        StoreDamaged if the bytes do not have the SHA-1 that the object store reports, or if the
        file is larger than `size` bytes (None: of any size); nothing of such a file is written,
        because it may fill the disk. Raises another StoreError if the object store fails or refuses
        the call.
        """
        half = path.with_name(f".{path.name[:200]}.bs4-part")
        try:
            with self._told(name):
                entry = self._tried(lambda: self._download(name, half, progress, size))
            half.replace(path)
        finally:
            half.unlink(missing_ok=True)
        return entry

    def delete(self, entry: Entry) -> None:
        """Delete this version of the file for good. Do nothing if the version is gone already.
        Raises a StoreError if the object store fails or refuses the call.
        """
        with self._told(entry.name), contextlib.suppress(b2.FileNotPresent):
            self._session.delete_file_version(entry.version, entry.name)

    def unfinished(self, prefix: str) -> list[Entry]:
        """Return the uploads of large files below `prefix` that were begun and neither finished nor
        cancelled. B2 bills their parts, and the listing of `entries` does not show them. Raises a
        StoreError if the object store fails or refuses the call.
        """
        with self._told(prefix):
            found = []
            for row in self._bucket.list_unfinished_large_files(prefix=prefix):
                found.append(
                    Entry(
                        str(row.file_name), 0, row.file_info.get(_LARGE_SHA1), 0.0, str(row.file_id)
                    )
                )
            return found

    def cancel(self, entry: Entry) -> None:
        """Cancel an unfinished upload from `unfinished` and delete its parts. Do nothing if it is
        gone already. Raises a StoreError if the object store fails or refuses the call.
        """
        with self._told(entry.name), contextlib.suppress(b2.FileNotPresent, b2.BadRequest):
            self._session.cancel_large_file(entry.version)

    def _upload(self, path: Path, name: str, sha1: str, progress: Progress | None) -> Entry:
        """Upload the file once. b2sdk opens it again for each part, so `path` must go on to name
        the same file.
        """
        return _of_version(
            self._bucket.upload(
                UploadSourceLocalFile(path, sha1),
                name,
                progress_listener=_Listener(progress),
                large_file_sha1=sha1,
            )
        )

    def _arrived(self, name: str, size: int, sha1: str) -> Entry | None:
        """Return the entry of the file if the store has it already, otherwise None: the answer to
        the last call may have been lost although the call succeeded.
        """
        newest = next(iter(self.versions(name)), None)
        if newest is not None and (newest.size, newest.sha1) == (size, sha1):
            return newest
        return None

    def _cancel_others(self, name: str, sha1: str) -> None:
        """Cancel unfinished uploads of other bytes under this name. b2sdk would finish such an
        upload under the SHA-1 of the other bytes.
        """
        for row in self._bucket.list_unfinished_large_files(prefix=name):
            if row.file_name == name and row.file_info.get(_LARGE_SHA1) != sha1:
                with contextlib.suppress(b2.FileNotPresent, b2.BadRequest):
                    self._session.cancel_large_file(row.file_id)

    def _download(
        self, name: str, half: Path, progress: Progress | None, size: int | None
    ) -> Entry:
        """Download the file once, to `half`, and check its size and SHA-1."""
        found = self._bucket.download_file_by_name(name, progress_listener=_Listener(progress))
        about = found.download_version
        if size is not None and int(about.content_length) > size:
            found.response.close()
            raise StoreDamaged(
                f"{name} has {about.content_length} bytes by now and not {size}; somebody has "
                "written it anew there, take another step."
            )
        stated = _stated(about.content_sha1, about.file_info)
        found.save_to(half)
        with half.open("rb") as handle:
            os.fsync(handle.fileno())
            if stated is not None and (seen := _sha1(handle)) != stated:
                raise StoreDamaged(
                    f"{name} arrived with SHA-1 {seen}, the store says {stated}; it is "
                    "damaged there, take another step."
                )
        return Entry(
            name, int(about.content_length), stated, about.upload_timestamp / 1000, str(about.id_)
        )

    def _tried(
        self, work: Callable[[], Result], again: Callable[[], Result | None] | None = None
    ) -> Result:
        """Return the result of `work`, which is tried again after errors that pass by themselves.
        `again` (for an upload) finds a result whose answer was lost: b2sdk then wants to finish a
        file that is finished, and the store answers that there is no such file.
        """
        for pause in self._pauses:
            try:
                return work()
            except b2.B2Error as error:
                if not _passing(error) and not (
                    again is not None and isinstance(error, b2.FileNotPresent)
                ):
                    raise
                # The store itself may say when to come back. This waits at most a minute; the sync
                # as a whole waits longer.
                self._sleep(
                    min(60.0, max(pause, float(getattr(error, "retry_after_seconds", None) or 0)))
                )
            if again is not None and (found := again()) is not None:
                return found
        return work()

    def _told(self, what: str) -> contextlib.AbstractContextManager[None]:
        """Return a context that turns b2sdk's errors into ours."""
        return _told(f"b2://{self.name}/{what}")


class _WideAdapter(requests.adapters.HTTPAdapter):
    """Sends request bodies in blocks of 256 KiB. With urllib3's own 16 KiB, ten uploading threads
    wait for the interpreter and not for the network.
    """

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        """Make the connection pool with the larger block size."""
        super().init_poolmanager(*args, **{**kwargs, "blocksize": _SENT})


class _PacedSession(requests.Session):
    """A requests session whose uploads are slowed down by `pace`. It counts everything that really
    goes out, part by part and including retries.
    """

    def __init__(self, threads: int, pace: Pace | None) -> None:
        super().__init__()
        self._pace = pace
        adapter = _WideAdapter(pool_connections=threads, pool_maxsize=2 * threads)
        self.mount("https://", adapter)
        self.mount("http://", adapter)
        # The key goes only to the realm: no ~/.netrc is read, and proxies are as b2sdk has them.
        self.auth = _no_auth

    def request(
        self, method: str, url: str | bytes, *args: Any, **kwargs: Any
    ) -> requests.Response:  # type: ignore[override, unused-ignore]
        """Send a request; its body is read no faster than `pace` allows."""
        data = kwargs.get("data")
        if self._pace is not None and hasattr(data, "read"):
            kwargs["data"] = _PacedBody(data, self._pace)
        return super().request(method, url, *args, **kwargs)


def _endless(what: str) -> StoreDamaged:
    """Return the error for a listing that does not end."""
    return StoreDamaged(
        f"The list of {what} has no end after {_PAGES} answers of the store; look at the bucket."
    )


def _no_auth(request: requests.PreparedRequest) -> requests.PreparedRequest:
    """Return the request unchanged, so that no credentials are added."""
    return request


class _PacedBody:
    """A request body that is read no faster than `pace` allows."""

    def __init__(self, body: Any, pace: Pace) -> None:
        self._body, self._pace = body, pace

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes, after a wait if the rate requires one."""
        data: bytes = self._body.read(size)
        self._pace(len(data))
        return data

    def __len__(self) -> int:
        return len(self._body)

    def __iter__(self) -> Iterator[bytes]:
        return iter(lambda: self.read(64 * 1024), b"")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._body, name)


class _Listener(AbstractProgressListener):  # type: ignore[misc, unused-ignore]
    """Turns b2sdk's progress (bytes done of a file, which shrink if it begins anew) into the number
    of bytes that were added.
    """

    def __init__(self, progress: Progress | None) -> None:
        super().__init__()
        self._progress, self._done = progress, 0

    def set_total_bytes(self, total_byte_count: int) -> None:
        """Ignore the size of the file."""
        return

    def bytes_completed(self, byte_count: int) -> None:
        """Report the bytes that were added since the last call."""
        added, self._done = byte_count - self._done, byte_count
        if self._progress is not None and added:
            self._progress(added)


def _small(found: DownloadedFile, name: str, most: int) -> bytes:
    """Return the content of a file. Raises StoreDamaged if it has more than `most` bytes."""
    size = int(found.download_version.content_length)
    if size > most:
        raise StoreDamaged(
            f"{name} has {size} bytes where at most {most} make sense; it is not what its "
            "name says."
        )
    whole = io.BytesIO()
    found.save(whole)
    return whole.getvalue()


class ListedFile(TypedDict, total=False):
    """One file in B2's listing of a bucket, with the names that B2's API has for its fields.
    `contentSha1` is the SHA-1 of the content, None or "none" for a file that was uploaded in parts.
    `fileInfo` is what the uploading program has noted about the file. `fileId` identifies this
    version of it.
    """

    fileName: str
    contentLength: int
    """Bytes."""
    contentSha1: str | None
    fileInfo: Mapping[str, str] | None
    uploadTimestamp: int
    """Milliseconds since 1970."""
    fileId: str


def _entry(row: ListedFile) -> Entry:
    """Return the entry for a row of a listing."""
    return Entry(
        str(row["fileName"]),
        int(row["contentLength"]),
        _stated(row.get("contentSha1"), row.get("fileInfo")),
        row["uploadTimestamp"] / 1000,
        str(row["fileId"]),
    )


def _stated(sha1: str | None, info: Mapping[str, str] | None) -> str | None:
    """Return the SHA-1 that the store states for a file: its own, or for a large file that of its
    uploader. Return None if there is none.
    """
    if sha1 in (None, "none"):
        sha1 = (info or {}).get(_LARGE_SHA1)
    if sha1 is None:
        return None
    return str(sha1).removeprefix("unverified:")


def _of_version(version: Any) -> Entry:
    """Return the entry for a file version of b2sdk."""
    return _entry(
        version.as_dict() | {"contentLength": version.size, "fileInfo": version.file_info}
    )


def _sha1(handle: IO[bytes]) -> str:
    """Return the SHA-1 digest of the rest of the file, in hex."""
    digest = hashlib.sha1(usedforsecurity=False)
    while block := handle.read(_BLOCK):
        digest.update(block)
    return digest.hexdigest()


def _passing(error: b2.B2Error) -> bool:
    """Return True if the same call may succeed later by itself."""
    if isinstance(error, b2.MaxRetriesExceeded):
        return not error.exception_info_list or _passing(error.exception_info_list[-1])
    return isinstance(error, (*_TRANSIENT, b2.TooManyRequests)) or "sha1" in str(error).lower()


@contextlib.contextmanager
def _told(what: str) -> Iterator[None]:
    """Turn b2sdk's errors in the block into ours. Their own texts may contain tokens and URLs with
    tokens, so only their kind is repeated.
    """
    try:
        yield
    except StoreError:
        raise
    except b2.B2Error as error:
        raise _ours(error, what) from error
    except AssertionError as error:  # b2sdk compares the server's hash by an assert
        raise StoreDamaged(
            f"{what}: the store answered with another SHA-1 than was sent; sync again."
        ) from error
    except requests.RequestException as error:
        raise StoreUnreachable(
            f"{what}: the connection broke ({type(error).__name__}); it is tried again by itself."
        ) from error


def _ours(error: b2.B2Error, what: str) -> StoreError:
    """Return the error of b2sdk as one of ours."""
    if isinstance(error, b2.MaxRetriesExceeded) and error.exception_info_list:
        return _ours(error.exception_info_list[-1], what)
    kind = type(error).__name__
    if isinstance(error, (b2.StorageCapExceeded, b2.TransactionCapExceeded)):
        cap = "storage" if isinstance(error, b2.StorageCapExceeded) else "transaction"
        return StoreFull(
            f"{what}: the account's {cap} cap is reached; raise it in the B2 console (Caps & "
            "Alerts), or prune older steps."
        )
    if isinstance(
        error, (b2.Unauthorized, b2.NotAllowedByAppKeyError, b2.AccessDenied, b2.RestrictedBucket)
    ):
        return StoreAuth(
            f"{what}: the store refuses this key ({kind}); check the key, its bucket, its "
            "name prefix and what it may do."
        )
    if isinstance(error, (b2.FileNotPresent, b2.NonExistentBucket, b2.BucketIdNotFound)):
        return NotThere(
            f"{what} is not in the store; check the bucket, the prefix and the run's name."
        )
    if isinstance(error, (b2.TooManyRequests, b2.ServiceError)):
        return StoreThrottled(
            f"{what}: the store takes no more for now ({kind}); it is tried again by itself."
        )
    if isinstance(error, _TRANSIENT):
        return StoreUnreachable(
            f"{what}: no answer from the store ({kind}); it is tried again by itself."
        )
    if "sha1" in str(error).lower():
        return StoreDamaged(
            f"{what}: the store says that other bytes arrived than were sent ({kind}); sync "
            "again, and look at the network."
        )
    return StoreError(
        f"{what}: the store says {kind}; sync again, and if it stays so look at its status page."
    )
