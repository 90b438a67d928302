"""W&B's API as far as the console asks it: GraphQL over real HTTP, with the state of its runs
changed from outside.
"""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler
from typing import Any

from bs4_practice.http_server import HttpServer

KEY = "0123456789abcdef" * 2 + "01234567"


def stamp(t: float) -> str:
    """As W&B writes it: UTC without a zone."""
    return datetime.fromtimestamp(t, UTC).strftime("%Y-%m-%dT%H:%M:%S")


@dataclass
class WandbServer:
    """`runs`: by (entity, project, id) what a Run's fields are. `fault`: an HTTP status for every
    answer. `delay_s`: before each.
    """

    base: str = ""
    entity: str = "team"
    runs: dict[tuple[str, str, str], dict[str, Any]] = field(default_factory=dict)
    fault: int | None = None
    delay_s: float = 0.0
    raw: bytes | None = None
    asked: list[dict[str, Any]] = field(default_factory=list)
    headers: list[str] = field(default_factory=list)

    def put(
        self,
        identity: str,
        state: str = "running",
        age_s: float = 5.0,
        step: int | None = 7,
        project: str = "proj",
        **more: Any,
    ) -> None:
        summary = {} if step is None else {"_step": step, "_timestamp": time.time() - age_s}
        self.runs[self.entity, project, identity] = {
            "name": identity,
            "displayName": f"demo-{identity}",
            "state": state,
            "heartbeatAt": stamp(time.time() - age_s),
            "historyLineCount": (step or 0) + 1,
            "summaryMetrics": json.dumps(summary),
            **more,
        }

    def answer(self, authorization: str, body: dict[str, Any]) -> tuple[int, Any]:
        if authorization != "Basic " + base64.b64encode(f"api:{KEY}".encode()).decode():
            return 401, {"errors": [{"message": "user is not logged in"}]}
        self.asked.append(body)
        if self.fault is not None:
            return self.fault, {"errors": [{"message": "try later"}]}
        variables = body.get("variables") or {}
        if "viewer" in body["query"] and "project(" not in body["query"]:
            return 200, {"data": {"viewer": {"entity": self.entity}}}
        entity, project = variables.get("entity"), variables["project"]
        if not any(key[:2] == (entity, project) for key in self.runs):
            return 200, {"data": {"project": None}}
        run = self.runs.get((entity, project, variables["run"]))
        return 200, {"data": {"project": {"run": run}}}


@contextmanager
def wandb_server() -> Iterator[WandbServer]:
    """One on a free port of 127.0.0.1, ended with the block."""
    told = WandbServer()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            told.headers.append(str(self.headers))
            time.sleep(told.delay_s)
            status, answer = (
                told.answer(self.headers.get("Authorization", ""), json.loads(body))
                if self.path == "/graphql"
                else (404, {})
            )
            data = json.dumps(answer).encode() if told.raw is None else told.raw
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: Any) -> None:
            """Tests print what matters."""

    server = HttpServer(("127.0.0.1", 0), Handler)
    told.base = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield told
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
