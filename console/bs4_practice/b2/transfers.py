"""The bytes in and out: uploads of files and of parts, downloads, and everything that can happen to
them on the way.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote, unquote

from bs4_practice.b2.calls import content_type
from bs4_practice.b2.request import BLOCK, Cut, Request
from bs4_practice.b2.shelf import Refusal, Version

_AT_END = "hex_digits_at_end"


def upload_file(request: Request) -> None:
    """Receive the bytes of a whole file, store them as a new version, and answer with its
    description. Raises Refusal if the bytes have another SHA-1 than the client announced, the
    upload token is not valid, or the key may not use the file's name.
    """
    shelf, bucket = request.b2.shelf, request.upload_target()
    name = unquote(request.headers["X-Bz-File-Name"])
    request.may_name(name)
    path, size, sha1 = _receive(request, name)
    info = {
        key[10:].lower(): unquote(value)
        for key, value in request.headers.items()
        if key.lower().startswith("x-bz-info-")
    }
    kind = content_type(request.headers.get("Content-Type"))
    made = Version(shelf.number(), bucket, name, "upload", shelf.now_ms(), kind, info, size, sha1)
    made.pieces = [path]
    shelf.put(made)
    acknowledged = made.as_dict()
    if request.has("rot"):
        _rot(made)
    request.done(acknowledged)


def upload_part(request: Request) -> None:
    """Receive the bytes of one part of a large file, and answer with the description of the part.
    An earlier part with the same number is replaced. Raises Refusal if the bytes have another SHA-1
    than the client announced or the upload token is not valid.
    """
    shelf = request.b2.shelf
    found = shelf.get(request.upload_target(), "start")
    number = int(request.headers["X-Bz-Part-Number"])
    path, size, sha1 = _receive(request, found.name)
    with shelf.lock:
        before = found.parts.get(number)
        found.parts[number] = path, size, sha1
    if before is not None and before[0] != path:
        before[0].unlink(missing_ok=True)
    row = {
        "fileId": found.id,
        "partNumber": number,
        "contentLength": size,
        "contentSha1": sha1,
        "uploadTimestamp": shelf.now_ms(),
    }
    request.done({**row, "serverSideEncryption": {"algorithm": None, "mode": None}})


def download_file_by_name(request: Request) -> None:
    """Send the bytes of the newest version of the file that the path names as "BUCKET/NAME". Raises
    Refusal if there is no such file or the key may not read it.
    """
    request.may()
    bucket, _, name = unquote(request.rest).partition("/")
    request.may_name(name)
    found = [
        one for one in request.b2.shelf.newest(request.bucket_id(bucket), name) if one.name == name
    ]
    if not found:
        raise Refusal(404, "not_found", f"File with such name does not exist: {name}")
    _send(request, found[0])


def download_file_by_id(request: Request) -> None:
    """Send the bytes of the file version whose id the URL gives as "fileId". Raises Refusal if
    there is no such version or the key may not read files.
    """
    request.may()
    _send(request, request.b2.shelf.get(request.query["fileId"], "upload"))


def _receive(request: Request, name: str) -> tuple[Path, int, str]:
    """The body on disk, its length and SHA-1, checked against what the client announces."""
    announced = request.headers.get("X-Bz-Content-Sha1") or ""
    size = request.left - (40 if announced == _AT_END else 0)
    path, digest = request.b2.shelf.place(), hashlib.sha1(usedforsecurity=False)
    try:
        _write(request, path, size, digest.update)
        if announced == _AT_END:
            announced = request.take(40).decode("ascii", "replace")
        if announced not in ("do_not_verify", digest.hexdigest()):
            raise Refusal(400, "bad_request", "Sha1 did not match data received")
    except (Cut, ConnectionError, Refusal):
        path.unlink(missing_ok=True)
        raise
    request.b2.received[name] += size
    return path, size, digest.hexdigest()


def _write(request: Request, path: Path, size: int, each: Callable[[bytes], None]) -> None:
    """`size` bytes of the body into `path`, as the fault lets them arrive."""
    fault, taken, began = request.fault, 0, time.monotonic()
    with path.open("wb") as handle:
        while taken < size:
            data = request.take(min(BLOCK, size - taken))
            if fault is not None and taken <= fault.after < taken + len(data):
                if fault.kind == "drop":
                    raise Cut
                if fault.kind == "stop" and fault.after and fault.on is not None:
                    fault.on()
                    # What the dead peer has left in the sockets' buffers has not arrived.
                    raise Cut
            if request.has("corrupt") and not taken:
                data = _flipped(data)
            taken += len(data)
            if fault is not None and fault.kind == "slow":
                time.sleep(max(0.0, taken / fault.rate - (time.monotonic() - began)))
            each(data)
            handle.write(data)


def _rot(version: Version) -> None:
    data = _flipped(version.pieces[0].read_bytes())
    version.pieces[0].write_bytes(data)
    version.sha1 = hashlib.sha1(data, usedforsecurity=False).hexdigest()


def _flipped(data: bytes) -> bytes:
    return bytes([data[0] ^ 1]) + data[1:]


def _send(request: Request, found: Version) -> None:
    first, last, status = 0, found.size - 1, 200
    if asked := request.headers.get("Range"):
        begin, _, end = asked.removeprefix("bytes=").partition("-")
        first, last, status = int(begin), min(int(end or last), last), 206
        if first > last:
            raise Refusal(416, "range_not_satisfiable")
    request.send_response(status)
    heads = {
        "Content-Length": str(last - first + 1),
        "Content-Type": found.content_type,
        "X-Bz-File-Id": found.id,
        "X-Bz-File-Name": quote(found.name),
        "X-Bz-Content-Sha1": found.sha1 or "none",
        "X-Bz-Upload-Timestamp": str(found.t_ms),
        "Accept-Ranges": "bytes",
        **{f"X-Bz-Info-{key}": quote(value) for key, value in found.info.items()},
    }
    if status == 206:
        heads["Content-Range"] = f"bytes {first}-{last}/{found.size}"
    for name, value in heads.items():
        request.send_header(name, value)
    request.end_headers()
    fault, sent, began = request.fault, 0, time.monotonic()
    for data in found.read(first, last) if request.command != "HEAD" else ():
        if fault is not None and fault.kind == "drop" and sent + len(data) > fault.after:
            raise Cut
        request.wfile.write(_flipped(data) if request.has("corrupt") and not sent else data)
        sent += len(data)
        if fault is not None and fault.kind == "slow":
            time.sleep(max(0.0, sent / fault.rate - (time.monotonic() - began)))


CALLS: dict[str, Callable[[Request], None]] = {
    f"b2_{call.__name__}": call
    for call in (upload_file, upload_part, download_file_by_name, download_file_by_id)
}
