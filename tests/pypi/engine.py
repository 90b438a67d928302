"""Stands in for an inference server: speaks the streamed chat protocol, answers `N + 1` rightly
unless N is divisible by three.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@contextmanager
def engine() -> Iterator[str]:
    """Yield the address of a server that runs meanwhile."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        number = int(asked["messages"][-1]["content"].split()[0])
        said = str(number + 1) if number % 3 else "I do not know"
        head = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": asked["model"]}
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        for choices in (
            [{"index": 0, "delta": {"role": "assistant", "content": said}, "finish_reason": None}],
            [{"index": 0, "delta": {}, "finish_reason": "stop"}],
        ):
            self._tell({**head, "choices": choices})
        usage = {"prompt_tokens": 5, "completion_tokens": 3, "total_tokens": 8}
        self._tell({**head, "choices": [], "usage": usage})
        self.wfile.write(b"data: [DONE]\n\n")

    def _tell(self, part: dict[str, Any]) -> None:
        self.wfile.write(f"data: {json.dumps(part)}\n\n".encode())

    def log_message(self, *_: object) -> None: ...
