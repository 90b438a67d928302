"""One HTTP request to the store: its body, its answer, whose key it comes with, and the fault that
befalls it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote, urlsplit

from bs4_practice.b2.faults import Fault, FaultKind
from bs4_practice.b2.shelf import Key, Refusal
from bs4_practice.http_server import HttpServer

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
    """Raised to end the connection to a client at once, without sending an answer."""


class Http(HttpServer):
    """The HTTP server of a practice store. `b2` is the store, and `table` maps each API call to the
    function that answers it.
    """

    b2: B2Server
    table: Mapping[str, Callable[[Request], None]]

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print nothing about an error of a connection, because clients that hang up or are killed
        are what this server is for.
        """


class Request(BaseHTTPRequestHandler):
    """One HTTP request to a practice store. `call` is the name of the API call, such as
    "b2_upload_file", and `rest` the part of the path after it. `left` is how many bytes of the body
    were not read yet. `fault` is the failure that the store simulates in its answer to this
    request, or None if it answers properly.
    """

    protocol_version = "HTTP/1.1"
    server: Http
    timeout = 120
    rest: str
    fault: Fault | None

    def log_message(self, *args: Any) -> None:
        """Do nothing. The base class calls this for each request and would print a line about it on
        standard error.
        """
        return

    def do_GET(self) -> None:
        """Answer a GET request: carry out the API call that its path names."""
        self._answer()

    def do_HEAD(self) -> None:
        """Answer a HEAD request: carry out the API call that its path names."""
        self._answer()

    def do_POST(self) -> None:
        """Answer a POST request: carry out the API call that its path names."""
        self._answer()

    @property
    def b2(self) -> B2Server:
        """Return the store that the request came to."""
        return self.server.b2

    @property
    def query(self) -> dict[str, str]:
        """Return the parameters of the URL by name. If a name occurs more than once, its last value
        counts.
        """
        return dict(parse_qsl(urlsplit(self.path).query))

    def has(self, kind: FaultKind) -> bool:
        """Return True if a fault of this kind (see Fault) is played on the request."""
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
        """Return what the client sends with the call: the JSON body, or the parameters of the URL
        if there is no body. Raises Refusal if the client's key does not allow the call.
        """
        self.may()
        body = self.take(self.left) if self.left else b""
        found: dict[str, Any] = json.loads(body) if body else self.query
        for number in ("maxFileCount", "maxPartCount", "startPartNumber"):
            if isinstance(found.get(number), str):
                found[number] = int(found[number])
        return found

    def take(self, count: int) -> bytes:
        """Read `count` bytes of the request's body and return them. Raises Cut if the body ends
        before that.
        """
        data = self.rfile.read(count)
        self.left -= len(data)
        if len(data) < count:
            raise Cut
        return data

    def discard(self) -> None:
        """Read the rest of the body and drop it, because a client that is still sending would not
        read the answer. Raises Cut if the body ends too early.
        """
        while self.left > 0:
            self.take(min(BLOCK, self.left))

    def json(self, answer: dict[str, Any], status: int = 200) -> None:
        """Send `answer` as JSON with the HTTP status `status`."""
        body = json.dumps(answer).encode()
        self.send_response(status)
        if status == 503:
            self.send_header("Retry-After", "0")
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def done(self, answer: dict[str, Any]) -> None:
        """Send `answer` as JSON. Call this after the change that the client asked for was made. If
        the practice store is to simulate the fault "lost" for this request, raise Cut instead: the
        client then gets no answer although the change was made.
        """
        if self.has("lost"):
            raise Cut
        self.json(answer)

    # Who may, and how it is said.

    def may(self) -> None:
        """Raise Refusal if the client's key lacks the capability that the call needs."""
        if _NEEDS[self.call] not in self.key().capabilities:
            raise Refusal(401, "unauthorized", f"the key lacks {_NEEDS[self.call]}")

    def key(self) -> Key:
        """Return the key that the client's token belongs to. Raises Refusal if the token is unknown
        or has expired.
        """
        key = self.b2.tokens.get(self.headers.get("Authorization") or "")
        if key is None:
            raise Refusal(401, "expired_auth_token", "Authorization token has expired")
        return key

    def upload_target(self) -> str:
        """Return the id of the bucket or the large file for which this upload's URL was made.
        Raises Refusal if the token that comes with the upload is unknown, has expired, or belongs
        to another URL.
        """
        known = self.b2.uploads.get(self.headers.get("Authorization") or "")
        if known is None or known[0] != self.rest:
            raise Refusal(401, "expired_auth_token", "Authorization token has expired")
        return known[0]

    def may_name(self, name: str) -> None:
        """Raise Refusal if the client's key is restricted to file names with a certain prefix and
        `name` does not begin with it.
        """
        known = self.b2.uploads.get(self.headers.get("Authorization") or "")
        key = known[1] if known is not None else self.key()
        if key.prefix and not name.startswith(key.prefix):
            raise Refusal(401, "unauthorized", f"the key is for names that begin with {key.prefix}")

    def known_bucket(self, asked: dict[str, Any]) -> str:
        """Return the id of the bucket to which the call of the client is addressed. `asked` is what
        the client sent with the call (see the method `asked`), with the id under "bucketId". Raises
        Refusal if there is no such bucket or the client's key is restricted to another one.
        """
        bucket, key = str(asked.get("bucketId")), self.key()
        name = self.b2.shelf.buckets.get(bucket)
        if name is None:
            raise Refusal(400, "bad_bucket_id", "Bucket does not exist")
        if key.bucket and key.bucket != name:
            raise Refusal(401, "unauthorized", "the key is for another bucket")
        return bucket

    def bucket_id(self, name: str) -> str:
        """Return the id of the bucket called `name`. Raises Refusal if there is none."""
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
