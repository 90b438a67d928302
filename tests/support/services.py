"""Hub, W&B and B2 as one real HTTP server on this machine, which knows one token of each."""

from __future__ import annotations

import base64
import contextlib
import http.server
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from email.utils import formatdate
from typing import Any

from bs4_practice.http_server import HttpServer

# nobody's
TOKEN, KEY, KEY_ID, STORE_KEY = (
    "hf_canary4711",
    "wandbcanary4711",
    "0042canary",
    "K004canary4711",
)
CAPABLE = ["listFiles", "readFiles", "writeFiles", "deleteFiles"]


@dataclass
class Services:
    """`models`: id -> what /api/models says of it. `statuses`: path -> status instead of the
    answer. `date`: of every answer, None: now.
    """

    port: int = 0
    host: str = "127.0.0.1"
    models: dict[str, dict[str, Any]] = field(
        default_factory=lambda: {"owner/small": {"gated": False}}
    )
    config: dict[str, Any] = field(
        default_factory=lambda: {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3"}
    )
    capabilities: list[str] = field(default_factory=lambda: list(CAPABLE))
    whoami: dict[str, Any] = field(default_factory=dict)
    """What the hub says of a token beside the name of its owner."""
    viewer: bool = True
    statuses: dict[str, int] = field(default_factory=dict)
    redirect: dict[str, str] = field(default_factory=dict)
    date: float | None = None
    asked: list[tuple[str, str]] = field(default_factory=list)
    """(path, Authorization)"""

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}"

    @property
    def urls(self) -> dict[str, str]:
        return {"hub": self.url, "wandb": self.url, "b2": self.url}

    def answer(self, path: str, authorization: str) -> tuple[int, Any]:
        if path in self.statuses:
            return self.statuses[path], {}
        if path == "/api/whoami-v2":
            return (
                (200, {"name": "somebody", **self.whoami})
                if authorization == f"Bearer {TOKEN}"
                else (401, {})
            )
        if path == "/graphql":
            good = authorization == _basic("api", KEY)
            return (
                (200, {"data": {"viewer": {"id": "1"} if self.viewer else None}})
                if good
                else (401, {})
            )
        if path == "/b2api/v3/b2_authorize_account":
            good = authorization == _basic(KEY_ID, STORE_KEY)
            return (
                (200, {"apiInfo": {"storageApi": {"capabilities": self.capabilities}}})
                if good
                else (401, {})
            )
        for model, info in self.models.items():
            if path == f"/api/models/{model}":
                return 200, info
            if path == f"/{model}/resolve/main/config.json":
                return (
                    (403, {})
                    if info.get("gated") and authorization != f"Bearer {TOKEN}"
                    else (200, self.config)
                )
        return 404, {}


@contextlib.contextmanager
def serving(host: str = "127.0.0.1") -> Iterator[Services]:
    services = Services(host=host)

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", "0")))
            authorization = self.headers.get("Authorization", "")
            services.asked.append((self.path, authorization))
            status, body = services.answer(self.path, authorization)
            raw = json.dumps(body).encode()
            self.send_response_only(307 if self.path in services.redirect else status)
            self.send_header("Date", formatdate(services.date, usegmt=True))
            if self.path in services.redirect:
                self.send_header("Location", services.redirect[self.path])
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

        do_GET = do_POST  # noqa: N815

        def log_message(self, *_: Any) -> None:
            return

    with HttpServer((host, 0), Handler) as server:
        services.port = server.server_port
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield services
        finally:
            server.shutdown()
            thread.join()


def _basic(user: str, secret: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{secret}".encode()).decode()
