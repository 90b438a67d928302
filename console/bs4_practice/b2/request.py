"""One HTTP request to the store: its body, its answer, whose key it comes with, and the fault that
befalls it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote, urlsplit

from bs4_practice.b2.faults import Fault
from bs4_practice.b2.shelf import Key, Refusal

if TYPE_CHECKING:
    from bs4_practice.b2.server import B2Server

BLOCK = 1 << 16
_NEEDS = {
    "b2_list_buckets": "listBuckets",
    "b2_list_file_names": "listFiles",
    "b2_list_file_versions": "listFiles",
    "b2_list_unfinished_large_files": "listFiles",
    "b2_list_parts": "writeFiles",
    "b2_get_upload_url": "writeFiles",
    "b2_get_upload_part_url": "writeFiles",
    "b2_start_large_file": "writeFiles",
    "b2_finish_large_file": "writeFiles",
    "b2_cancel_large_file": "writeFiles",
    "b2_get_file_info": "readFiles",
    "b2_delete_file_version": "deleteFiles",
    "b2_hide_file": "writeFiles",
    "b2_download_file_by_name": "readFiles",
    "b2_download_file_by_id": "readFiles",
}


class Cut(Exception):
    """The connection ends here, without an answer."""


class Http(ThreadingHTTPServer):
    """`table`: how each call is answered."""

    daemon_threads = True
    request_queue_size = 128
    b2: B2Server
    table: Mapping[str, Callable[[Request], None]]

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up, or is killed, is what this server is for."""


class Request(BaseHTTPRequestHandler):
    """`call` is the API's name for it, `rest` what follows that in the path, `fault` what disturbs
    it.
    """

    protocol_version = "HTTP/1.1"
    server: Http
    timeout = 120
    rest: str
    fault: Fault | None

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

    @property
    def query(self) -> dict[str, str]:
        return dict(parse_qsl(urlsplit(self.path).query))

    def has(self, kind: str) -> bool:
        """Whether a fault of this kind befalls it."""
        return self.fault is not None and self.fault.kind == kind

    def _answer(self) -> None:
        self.call, self.rest = _call(urlsplit(self.path).path)
        self.left = int(self.headers.get("Content-Length") or 0)
        self.b2.calls[self.call] += 1
        self.fault = self.b2.faults.take(self.call, self._name())
        try:
            if self.fault is not None:
                self._befall(self.fault)
            found = self.server.table.get(self.call)
            if found is None:
                raise Refusal(400, "bad_request", f"unknown call {self.call}")
            found(self)
        except Refusal as refusal:
            self.discard()
            self.json(
                {"status": refusal.status, "code": refusal.code, "message": refusal.message},
                refusal.status,
            )
        except (Cut, ConnectionError, TimeoutError):
            self.close_connection = True

    def _name(self) -> str:
        """The file that it is about, as far as the path and the headers say."""
        if self.call == "b2_upload_part":
            known = self.b2.uploads.get(self.headers.get("Authorization") or "")
            try:
                return self.b2.shelf.get(known[0]).name if known is not None else ""
            except Refusal:
                return ""
        return unquote(self.headers.get("X-Bz-File-Name") or "") or (
            unquote(self.rest) if self.call == "b2_download_file_by_name" else ""
        )

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
            raise Cut
        if fault.kind == "stop" and not fault.after and fault.on is not None:
            fault.on()

    # The body, and the answer.

    def asked(self) -> dict[str, Any]:
        """What the call asks for, once its key may ask it."""
        self.may()
        body = self.take(self.left) if self.left else b""
        found: dict[str, Any] = json.loads(body) if body else self.query
        for number in ("maxFileCount", "maxPartCount", "startPartNumber"):
            if isinstance(found.get(number), str):
                found[number] = int(found[number])
        return found

    def take(self, count: int) -> bytes:
        """`count` bytes of the body."""
        data = self.rfile.read(count)
        self.left -= len(data)
        if len(data) < count:
            raise Cut
        return data

    def discard(self) -> None:
        """What is left of a body: a client that still sends would not read the answer."""
        while self.left > 0:
            self.take(min(BLOCK, self.left))

    def json(self, answer: dict[str, Any], status: int = 200) -> None:
        """The answer to a question."""
        body = json.dumps(answer).encode()
        self.send_response(status)
        if status == 503:
            self.send_header("Retry-After", "0")
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def done(self, answer: dict[str, Any]) -> None:
        """The answer to a change that is made: the one that `lost` keeps back."""
        if self.has("lost"):
            raise Cut
        self.json(answer)

    # Who may, and how it is said.

    def may(self) -> None:
        if _NEEDS[self.call] not in self.key().capabilities:
            raise Refusal(401, "unauthorized", f"the key lacks {_NEEDS[self.call]}")

    def key(self) -> Key:
        key = self.b2.tokens.get(self.headers.get("Authorization") or "")
        if key is None:
            raise Refusal(401, "expired_auth_token", "Authorization token has expired")
        return key

    def upload_target(self) -> str:
        """The bucket or the large file that this upload's URL and token are for."""
        known = self.b2.uploads.get(self.headers.get("Authorization") or "")
        if known is None or known[0] != self.rest:
            raise Refusal(401, "expired_auth_token", "Authorization token has expired")
        return known[0]

    def may_name(self, name: str) -> None:
        known = self.b2.uploads.get(self.headers.get("Authorization") or "")
        key = known[1] if known is not None else self.key()
        if key.prefix and not name.startswith(key.prefix):
            raise Refusal(401, "unauthorized", f"the key is for names that begin with {key.prefix}")

    def known_bucket(self, asked: dict[str, Any]) -> str:
        bucket, key = str(asked.get("bucketId")), self.key()
        name = self.b2.shelf.buckets.get(bucket)
        if name is None:
            raise Refusal(400, "bad_bucket_id", "Bucket does not exist")
        if key.bucket and key.bucket != name:
            raise Refusal(401, "unauthorized", "the key is for another bucket")
        return bucket

    def bucket_id(self, name: str) -> str:
        for known, value in self.b2.shelf.buckets.items():
            if value == name:
                return known
        raise Refusal(404, "not_found", "Bucket does not exist")


def _call(path: str) -> tuple[str, str]:
    """(API call, what follows it): /b2api/v4/CALL, /file/BUCKET/NAME, or one of our upload URLs."""
    parts = path.lstrip("/").split("/", 2)
    if parts[0] == "b2api":
        call, _, rest = parts[2].partition("/")
        return call, rest
    if parts[0] == "file":
        return "b2_download_file_by_name", path.lstrip("/").partition("/")[2]
    return parts[0], path.lstrip("/").partition("/")[2]
