"""A real HTTP server on this machine that takes notices, or does not."""

from __future__ import annotations

import contextlib
import http.server
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from bs4_practice.http_server import HttpServer


@dataclass
class Got:
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Receiver:
    """`status` is answered; `hold` makes it hang until set."""

    port: int = 0
    status: int = 200
    location: str = ""
    got: list[Got] = field(default_factory=list)
    hold: threading.Event = field(default_factory=threading.Event)

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}{path}"


@contextlib.contextmanager
def receiving(*, hanging: bool = False) -> Iterator[Receiver]:
    receiver = Receiver()
    if not hanging:
        receiver.hold.set()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
            receiver.got.append(
                Got(self.path, {k.lower(): v for k, v in self.headers.items()}, body)
            )
            receiver.hold.wait(20)
            self.send_response(receiver.status)
            if receiver.location:
                self.send_header("Location", receiver.location)
            self.send_header("Content-Length", "0")
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                self.end_headers()

        do_GET = do_POST  # noqa: N815

        def log_message(self, *_: Any) -> None:
            return

    server = HttpServer(("127.0.0.1", 0), Handler)
    receiver.port = server.server_address[1]
    thread = threading.Thread(
        target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
    )
    thread.start()
    try:
        yield receiver
    finally:
        receiver.hold.set()
        server.shutdown()
        server.server_close()
        thread.join(5)
