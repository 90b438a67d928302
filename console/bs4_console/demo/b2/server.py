"""The HTTP side: B2's calls as b2sdk and the `b2` tool make them, answered from a Shelf, disturbed by Faults."""

from __future__ import annotations

import hashlib
import json
import secrets
import threading
import time
from collections import Counter
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from bs4_console.demo.b2.faults import Fault, Faults
from bs4_console.demo.b2.shelf import Key, Refusal, Shelf, Version

#: As the real one asks for it; a part below this is refused unless it is the last.
MINIMUM_PART = 5_000_000
_BLOCK = 1 << 16
_AT_END = "hex_digits_at_end"
_NEEDS = {
    "b2_list_buckets": "listBuckets", "b2_list_file_names": "listFiles", "b2_list_file_versions": "listFiles",
    "b2_list_unfinished_large_files": "listFiles", "b2_list_parts": "writeFiles", "b2_get_upload_url": "writeFiles",
    "b2_get_upload_part_url": "writeFiles", "b2_start_large_file": "writeFiles", "b2_finish_large_file": "writeFiles",
    "b2_cancel_large_file": "writeFiles", "b2_get_file_info": "readFiles", "b2_delete_file_version": "deleteFiles",
    "b2_hide_file": "writeFiles", "b2_download_file_by_name": "readFiles", "b2_download_file_by_id": "readFiles",
}  # fmt: skip


class B2Server:
    """`url` is the realm. `calls` counts what was asked, `received` the bytes of each name that arrived whole, by name (retries add up).

    `part_size` is what clients are told to use. `address`: where it listens; the port is always a free one.
    """

    def __init__(
        self, directory: Path, *, address: str = "127.0.0.1", part_size: int = MINIMUM_PART, clock: Callable[[], float] = time.time
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.shelf, self.faults, self.part_size = Shelf(directory, clock), Faults(), part_size
        self.tokens: dict[str, Key] = {}
        self.uploads: dict[str, tuple[str, Key]] = {}
        """Token of an upload URL -> (bucket or large file, key)."""
        self.calls: Counter[str] = Counter()
        self.received: Counter[str] = Counter()
        self._server = _Http((address, 0), _Handler)
        self._server.b2 = self
        self.url = f"http://{address}:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, name="b2", daemon=True)

    def __enter__(self) -> B2Server:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def bucket(self, name: str) -> str:
        """Make a bucket; its id."""
        return self.shelf.make_bucket(name)

    def key(self, *capabilities: str, bucket: str = "", prefix: str = "") -> Key:
        """Make a key; without capabilities it may do everything."""
        made = Key(f"00{secrets.token_hex(11)}", f"K00{secrets.token_hex(14)}", bucket=bucket, prefix=prefix)
        made.capabilities = capabilities or made.capabilities
        return self.shelf.make_key(made)

    def expire_tokens(self) -> None:
        """Every token is forgotten, as after a day."""
        self.tokens.clear()
        self.uploads.clear()


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128
    b2: B2Server

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up, or is killed, is what this server is for."""


class _Cut(Exception):
    """The connection ends here, without an answer."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Http
    timeout = 120

    def log_message(self, *args: Any) -> None:
        return

    def do_GET(self) -> None:
        self._answer()

    def do_HEAD(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    @property
    def b2(self) -> B2Server:
        return self.server.b2

    def _answer(self) -> None:
        self.path_parts = urlsplit(self.path)
        call, rest = _call(self.path_parts.path)
        self._left = int(self.headers.get("Content-Length") or 0)
        name = unquote(self.headers.get("X-Bz-File-Name") or "") or (unquote(rest) if call == "b2_download_file_by_name" else "")
        if call == "b2_upload_part":
            name = self._part_name()
        self.b2.calls[call] += 1
        fault = self.b2.faults.take(call, name)
        try:
            if fault is not None:
                self._befall(fault)
            found = getattr(self, f"_{call}", None)
            if found is None:
                raise Refusal(400, "bad_request", f"unknown call {call}")
            found(rest, fault)
        except Refusal as refusal:
            self._discard()
            self._json({"status": refusal.status, "code": refusal.code, "message": refusal.message}, refusal.status)
        except (_Cut, ConnectionError, TimeoutError):
            self.close_connection = True

    def _befall(self, fault: Fault) -> None:
        """What a fault does before the call is looked at."""
        if fault.kind == "busy":
            raise Refusal(503, "service_unavailable", "no tomes available")
        if fault.kind == "many":
            raise Refusal(429, "too_many_requests")
        if fault.kind == "full":
            raise Refusal(403, "storage_cap_exceeded", "Cannot upload files, storage cap exceeded.")
        if fault.kind == "transactions":
            raise Refusal(403, "transaction_cap_exceeded", "Transaction cap exceeded.")
        if fault.kind == "expire":
            self.b2.expire_tokens()
        if fault.kind == "hang":
            time.sleep(fault.seconds)
            raise _Cut
        if fault.kind == "stop" and not fault.after and fault.on is not None:
            fault.on()

    # Calls with a JSON body. `rest`: what follows the call in the path; `fault` what disturbs it.

    def _b2_authorize_account(self, rest: str, fault: Fault | None) -> None:
        import base64
        import binascii

        self._discard()
        try:
            given = base64.b64decode((self.headers.get("Authorization") or "").removeprefix("Basic ")).decode()
        except (binascii.Error, UnicodeDecodeError):
            given = ""
        key_id, _, secret = given.partition(":")
        key = self.b2.shelf.keys.get(key_id)
        if key is None or not secrets.compare_digest(key.secret, secret):
            raise Refusal(401, "unauthorized", "")
        token = secrets.token_hex(16)
        self.b2.tokens[token] = key
        allowed: dict[str, Any] = {"capabilities": list(key.capabilities), "namePrefix": key.prefix or None, "buckets": None}
        if key.bucket:
            allowed["buckets"] = [{"id": i, "name": n} for i, n in self.b2.shelf.buckets.items() if n == key.bucket]
        storage = {
            "absoluteMinimumPartSize": MINIMUM_PART, "apiUrl": self.b2.url, "downloadUrl": self.b2.url, "infoType": "storageApi",
            "recommendedPartSize": self.b2.part_size, "s3ApiUrl": self.b2.url, "allowed": allowed,
        }  # fmt: skip
        self._json(
            {
                "accountId": "account",
                "applicationKeyExpirationTimestamp": None,
                "authorizationToken": token,
                "apiInfo": {"storageApi": storage},
            }
        )

    def _b2_list_buckets(self, rest: str, fault: Fault | None) -> None:
        asked = self._asked("b2_list_buckets")
        names = [n for n in self.b2.shelf.buckets.values() if asked.get("bucketName") in (None, n)]
        self._json({"buckets": [_bucket(self._bucket_id(name), name) for name in names]})

    def _b2_get_upload_url(self, rest: str, fault: Fault | None) -> None:
        asked = self._asked("b2_get_upload_url")
        self._upload_url("bucketId", self._known_bucket(asked), "b2_upload_file")

    def _b2_get_upload_part_url(self, rest: str, fault: Fault | None) -> None:
        asked = self._asked("b2_get_upload_part_url")
        self._upload_url("fileId", self.b2.shelf.get(asked["fileId"], "start").id, "b2_upload_part")

    def _upload_url(self, what: str, target: str, call: str) -> None:
        token = secrets.token_hex(16)
        self.b2.uploads[token] = target, self._key()
        self._json({what: target, "authorizationToken": token, "uploadUrl": f"{self.b2.url}/{call}/{target}"})

    def _b2_start_large_file(self, rest: str, fault: Fault | None) -> None:
        asked, shelf = self._asked("b2_start_large_file"), self.b2.shelf
        bucket = self._known_bucket(asked)
        self._may_name(asked["fileName"])
        made = Version(shelf.number(), bucket, asked["fileName"], "start", shelf.now_ms(), _type(asked.get("contentType")))
        made.info = dict(asked.get("fileInfo") or {})
        self._json(shelf.put(made).as_dict(), fault=fault)

    def _b2_finish_large_file(self, rest: str, fault: Fault | None) -> None:
        asked, shelf = self._asked("b2_finish_large_file"), self.b2.shelf
        done = shelf.finish(shelf.get(asked["fileId"], "start"), asked["partSha1Array"])
        self._json(done.as_dict(), fault=fault)

    def _b2_cancel_large_file(self, rest: str, fault: Fault | None) -> None:
        asked = self._asked("b2_cancel_large_file")
        found = self.b2.shelf.get(asked["fileId"], "start")
        self.b2.shelf.remove(found)
        self._json({"accountId": "account", "bucketId": found.bucket, "fileId": found.id, "fileName": found.name}, fault=fault)

    def _b2_list_parts(self, rest: str, fault: Fault | None) -> None:
        asked = self._asked("b2_list_parts")
        found = self.b2.shelf.get(asked["fileId"], "start")
        most, first = asked.get("maxPartCount") or 100, asked.get("startPartNumber") or 1
        numbers = [number for number in sorted(found.parts) if number >= first]
        rows = [
            {
                "fileId": found.id,
                "partNumber": n,
                "contentLength": found.parts[n][1],
                "contentSha1": found.parts[n][2],
                "uploadTimestamp": 0,
            }
            for n in numbers[:most]
        ]
        self._json({"parts": rows, "nextPartNumber": numbers[most] if len(numbers) > most else None})

    def _b2_list_unfinished_large_files(self, rest: str, fault: Fault | None) -> None:
        asked = self._asked("b2_list_unfinished_large_files")
        found = [v for v in self.b2.shelf.versions(self._known_bucket(asked), asked.get("namePrefix") or "") if v.action == "start"]
        found = [v for v in sorted(found, key=lambda one: one.id) if v.id >= (asked.get("startFileId") or "")]
        most = asked.get("maxFileCount") or 100
        self._json({"files": [v.as_dict() for v in found[:most]], "nextFileId": found[most].id if len(found) > most else None})

    def _b2_list_file_names(self, rest: str, fault: Fault | None) -> None:
        asked = self._asked("b2_list_file_names")
        bucket, prefix = self._known_bucket(asked), asked.get("prefix") or ""
        self._may_name(prefix)
        found = [v for v in self.b2.shelf.newest(bucket, prefix) if v.name >= (asked.get("startFileName") or "")]
        most = asked.get("maxFileCount") or 100
        following = found[most].name if len(found) > most else None
        self._json({"files": [v.as_dict() for v in found[:most]], "nextFileName": following})

    def _b2_list_file_versions(self, rest: str, fault: Fault | None) -> None:
        asked = self._asked("b2_list_file_versions")
        bucket, prefix = self._known_bucket(asked), asked.get("prefix") or ""
        self._may_name(prefix)
        found = self.b2.shelf.versions(bucket, prefix)
        start = asked.get("startFileName") or ""
        found = [v for v in found if v.name >= start]
        if asked.get("startFileId"):
            ids = [v.id for v in found]
            found = found[ids.index(asked["startFileId"]) :] if asked["startFileId"] in ids else found
        most = asked.get("maxFileCount") or 100
        after = found[most] if len(found) > most else None
        self._json(
            {
                "files": [v.as_dict() for v in found[:most]],
                "nextFileName": after.name if after else None,
                "nextFileId": after.id if after else None,
            }
        )

    def _b2_get_file_info(self, rest: str, fault: Fault | None) -> None:
        asked = self._asked("b2_get_file_info")
        self._json(self.b2.shelf.get(asked["fileId"]).as_dict())

    def _b2_hide_file(self, rest: str, fault: Fault | None) -> None:
        asked, shelf = self._asked("b2_hide_file"), self.b2.shelf
        made = Version(shelf.number(), self._known_bucket(asked), asked["fileName"], "hide", shelf.now_ms())
        self._json(shelf.put(made).as_dict())

    def _b2_delete_file_version(self, rest: str, fault: Fault | None) -> None:
        asked, shelf = self._asked("b2_delete_file_version"), self.b2.shelf
        try:
            found = shelf.get(asked["fileId"])
        except Refusal:
            raise Refusal(400, "file_not_present", asked["fileId"]) from None
        self._may_name(found.name)
        shelf.remove(found)
        self._json({"fileId": found.id, "fileName": found.name}, fault=fault)

    # Bytes in and out.

    def _b2_upload_file(self, rest: str, fault: Fault | None) -> None:
        shelf, (bucket, _) = self.b2.shelf, self._upload_token(rest)
        name = unquote(self.headers["X-Bz-File-Name"])
        self._may_name(name)
        path, size, sha1 = self._receive(fault, name)
        info = {k[10:].lower(): unquote(v) for k, v in self.headers.items() if k.lower().startswith("x-bz-info-")}
        made = Version(shelf.number(), bucket, name, "upload", shelf.now_ms(), _type(self.headers.get("Content-Type")), info, size, sha1)
        made.pieces = [path]
        shelf.put(made)
        acknowledged = made.as_dict()
        self._rot(fault, made)
        self._json(acknowledged, fault=fault)

    def _b2_upload_part(self, rest: str, fault: Fault | None) -> None:
        shelf, (large, _) = self.b2.shelf, self._upload_token(rest)
        found = shelf.get(large, "start")
        number = int(self.headers["X-Bz-Part-Number"])
        path, size, sha1 = self._receive(fault, found.name)
        with shelf.lock:
            before = found.parts.get(number)
            found.parts[number] = path, size, sha1
        if before is not None and before[0] != path:
            before[0].unlink(missing_ok=True)
        row = {"fileId": found.id, "partNumber": number, "contentLength": size, "contentSha1": sha1, "uploadTimestamp": shelf.now_ms()}
        self._json({**row, "serverSideEncryption": {"algorithm": None, "mode": None}}, fault=fault)

    def _b2_download_file_by_name(self, rest: str, fault: Fault | None) -> None:
        self._may("b2_download_file_by_name")
        bucket, _, name = unquote(rest).partition("/")
        self._may_name(name)
        found = [v for v in self.b2.shelf.newest(self._bucket_id(bucket), name) if v.name == name]
        if not found:
            raise Refusal(404, "not_found", f"File with such name does not exist: {name}")
        self._send(found[0], fault)

    def _b2_download_file_by_id(self, rest: str, fault: Fault | None) -> None:
        self._may("b2_download_file_by_id")
        self._send(self.b2.shelf.get(dict(parse_qsl(self.path_parts.query))["fileId"], "upload"), fault)

    def _receive(self, fault: Fault | None, name: str) -> tuple[Path, int, str]:
        """The body on disk, its length and SHA-1, checked against what the client announces."""
        announced = self.headers.get("X-Bz-Content-Sha1") or ""
        size = self._left - (40 if announced == _AT_END else 0)
        path, digest, taken = self.b2.shelf.place(), hashlib.sha1(usedforsecurity=False), 0
        began = time.monotonic()
        try:
            with path.open("wb") as handle:
                while taken < size:
                    data = self._take(min(_BLOCK, size - taken))
                    if (
                        fault is not None
                        and fault.kind in ("drop", "stop")
                        and taken <= fault.after < taken + len(data)
                        and (fault.after or fault.kind == "drop")
                    ):
                        if fault.kind == "drop":
                            raise _Cut
                        if fault.on is not None:
                            fault.on()
                    if fault is not None and fault.kind == "corrupt" and not taken:
                        data = bytes([data[0] ^ 1]) + data[1:]
                    if fault is not None and fault.kind == "slow":
                        time.sleep(max(0.0, (taken + len(data)) / fault.rate - (time.monotonic() - began)))
                    taken += len(data)
                    digest.update(data)
                    handle.write(data)
            if announced == _AT_END:
                announced = self._take(40).decode("ascii", "replace")
            if announced not in ("do_not_verify", digest.hexdigest()):
                raise Refusal(400, "bad_request", "Sha1 did not match data received")
        except (_Cut, ConnectionError, Refusal):
            path.unlink(missing_ok=True)
            raise
        self.b2.received[name] += size
        return path, size, digest.hexdigest()

    def _rot(self, fault: Fault | None, version: Version) -> None:
        if fault is None or fault.kind != "rot":
            return
        data = bytearray(version.pieces[0].read_bytes())
        data[0] ^= 1
        version.pieces[0].write_bytes(data)
        version.sha1 = hashlib.sha1(data, usedforsecurity=False).hexdigest()

    def _send(self, found: Version, fault: Fault | None) -> None:
        first, last, status = 0, found.size - 1, 200
        if asked := self.headers.get("Range"):
            begin, _, end = asked.removeprefix("bytes=").partition("-")
            first, last, status = int(begin), min(int(end or last), last), 206
            if first > last:
                raise Refusal(416, "range_not_satisfiable")
        self.send_response(status)
        heads = {
            "Content-Length": str(last - first + 1), "Content-Type": found.content_type, "X-Bz-File-Id": found.id,
            "X-Bz-File-Name": quote(found.name), "X-Bz-Content-Sha1": found.sha1 or "none", "X-Bz-Upload-Timestamp": str(found.t_ms),
            "Accept-Ranges": "bytes", **{f"X-Bz-Info-{key}": quote(value) for key, value in found.info.items()},
        }  # fmt: skip
        if status == 206:
            heads["Content-Range"] = f"bytes {first}-{last}/{found.size}"
        for name, value in heads.items():
            self.send_header(name, value)
        self.end_headers()
        sent, began = 0, time.monotonic()
        for data in found.read(first, last) if self.command != "HEAD" else ():
            if fault is not None and fault.kind == "drop" and sent + len(data) > fault.after:
                raise _Cut
            if fault is not None and fault.kind == "corrupt" and not sent:
                data = bytes([data[0] ^ 1]) + data[1:]
            self.wfile.write(data)
            sent += len(data)
            if fault is not None and fault.kind == "slow":
                time.sleep(max(0.0, sent / fault.rate - (time.monotonic() - began)))

    # Who may, and how it is said.

    def _asked(self, call: str) -> dict[str, Any]:
        self._may(call)
        body = self._take(self._left) if self._left else b""
        found: dict[str, Any] = json.loads(body) if body else dict(parse_qsl(self.path_parts.query))
        for number in ("maxFileCount", "maxPartCount", "startPartNumber"):
            if isinstance(found.get(number), str):
                found[number] = int(found[number])
        return found

    def _may(self, call: str) -> None:
        if _NEEDS[call] not in self._key().capabilities:
            raise Refusal(401, "unauthorized", f"the key lacks {_NEEDS[call]}")

    def _key(self) -> Key:
        key = self.b2.tokens.get(self.headers.get("Authorization") or "")
        if key is None:
            raise Refusal(401, "expired_auth_token", "Authorization token has expired")
        return key

    def _upload_token(self, target: str) -> tuple[str, Key]:
        known = self.b2.uploads.get(self.headers.get("Authorization") or "")
        if known is None or known[0] != target:
            raise Refusal(401, "expired_auth_token", "Authorization token has expired")
        return known

    def _part_name(self) -> str:
        known = self.b2.uploads.get(self.headers.get("Authorization") or "")
        try:
            return self.b2.shelf.get(known[0]).name if known is not None else ""
        except Refusal:
            return ""

    def _may_name(self, name: str) -> None:
        known = self.b2.uploads.get(self.headers.get("Authorization") or "")
        key = known[1] if known is not None else self._key()
        if key.prefix and not name.startswith(key.prefix):
            raise Refusal(401, "unauthorized", f"the key is for names that begin with {key.prefix}")

    def _known_bucket(self, asked: dict[str, Any]) -> str:
        bucket, key = str(asked.get("bucketId")), self._key()
        name = self.b2.shelf.buckets.get(bucket)
        if name is None:
            raise Refusal(400, "bad_bucket_id", "Bucket does not exist")
        if key.bucket and key.bucket != name:
            raise Refusal(401, "unauthorized", "the key is for another bucket")
        return bucket

    def _bucket_id(self, name: str) -> str:
        for known, value in self.b2.shelf.buckets.items():
            if value == name:
                return known
        raise Refusal(404, "not_found", "Bucket does not exist")

    def _take(self, count: int) -> bytes:
        """`count` bytes of the body."""
        data = self.rfile.read(count)
        self._left -= len(data)
        if len(data) < count:
            raise _Cut
        return data

    def _discard(self) -> None:
        """What is left of a body: a client that still sends would not read the answer."""
        while self._left > 0:
            self._take(min(_BLOCK, self._left))

    def _json(self, answer: dict[str, Any], status: int = 200, fault: Fault | None = None) -> None:
        if fault is not None and fault.kind == "lost":
            raise _Cut
        body = json.dumps(answer).encode()
        self.send_response(status)
        if status == 503:
            self.send_header("Retry-After", "0")
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _call(path: str) -> tuple[str, str]:
    """(API call, what follows it): /b2api/v4/CALL, /file/BUCKET/NAME, or one of our upload URLs."""
    parts = path.lstrip("/").split("/", 2)
    if parts[0] == "b2api":
        call, _, rest = parts[2].partition("/")
        return call, rest
    if parts[0] == "file":
        return "b2_download_file_by_name", path.lstrip("/").partition("/")[2]
    return parts[0], path.lstrip("/").partition("/")[2]


def _type(given: str | None) -> str:
    return "application/octet-stream" if given in (None, "b2/x-auto") else given


def _bucket(key: str, name: str) -> dict[str, Any]:
    return {
        "accountId": "account", "bucketId": key, "bucketName": name, "bucketType": "allPrivate", "bucketInfo": {}, "corsRules": [],
        "lifecycleRules": [], "options": [], "revision": 1,
        "defaultServerSideEncryption": {"isClientAuthorizedToRead": True, "value": {"algorithm": None, "mode": None}},
        "fileLockConfiguration": {
            "isClientAuthorizedToRead": True,
            "value": {"defaultRetention": {"mode": None, "period": None}, "isFileLockEnabled": False},
        },
        "replicationConfiguration": {"isClientAuthorizedToRead": True, "value": None},
    }  # fmt: skip
