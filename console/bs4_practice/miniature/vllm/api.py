"""The HTTP face: OpenAI's routes, vLLM's own, and those that prime-rl adds."""

from __future__ import annotations

import json
import sys
import time
import uuid
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from .metrics import exposition
from .state import EngineClient, EngineDead

_DEAD_TEXT = "EngineCore encountered an issue. See stack trace (above) for the root cause."


@dataclass
class Served:
    """What the API server needs to answer: the connection to the engine, the model's name, and the
    most tokens of prompt and answer together. Without `weight_routes` it lacks the routes by which
    prime-rl loads new weights.
    """

    engine: EngineClient
    model: str
    max_model_len: int
    weight_routes: bool = True


class Server(ThreadingHTTPServer):
    """The HTTP server of vLLM's API. `sock` is the socket on which it listens, bound already."""

    daemon_threads = True
    request_queue_size = 256

    def __init__(self, sock: Any, served: Served) -> None:
        super().__init__(sock.getsockname(), Handler, bind_and_activate=False)
        self.socket.close()
        self.socket = sock  # bound before the engine was loaded, as the real server does
        self.served = served
        self.server_activate()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print an error of a request on standard error, unless it is only that the client has
        gone.
        """
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class Handler(BaseHTTPRequestHandler):
    """Answers the requests to vLLM's API, and to the routes that prime-rl adds."""

    server: Server
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        """Answer a GET request: /health, /metrics, /v1/models or /version."""
        served = self.server.served
        path = self.path.partition("?")[0]
        if path == "/health":
            self._answer(
                HTTPStatus.SERVICE_UNAVAILABLE if served.engine.dead.is_set() else HTTPStatus.OK,
                None,
            )
        elif path == "/metrics":
            self._answer(
                HTTPStatus.OK, exposition(served.engine, served.model), "text/plain; version=0.0.4"
            )
        elif path == "/v1/models":
            card = {
                "id": served.model,
                "object": "model",
                "owned_by": "vllm",
                "root": served.model,
                "max_model_len": served.max_model_len,
            }
            self._answer(HTTPStatus.OK, {"object": "list", "data": [card]})
        elif path == "/version":
            self._answer(HTTPStatus.OK, {"version": "0.14.0"})
        else:
            self._answer(HTTPStatus.NOT_FOUND, {"detail": "Not Found"})

    def do_POST(self) -> None:
        """Answer a POST request: for a completion, or to load weights, or to pause or resume the
        engine.
        """
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        try:
            body = json.loads(raw) if raw.strip() else {}
        except json.JSONDecodeError as error:
            self._fail(HTTPStatus.BAD_REQUEST, f"Invalid JSON: {error}", "BadRequestError")
            return
        path = self.path.partition("?")[0]
        try:
            self._post(path, body)
        except EngineDead:
            self._fail(HTTPStatus.INTERNAL_SERVER_ERROR, _DEAD_TEXT, "InternalServerError")

    def _post(self, path: str, body: dict[str, Any]) -> None:
        engine = self.server.served.engine
        if path in ("/v1/completions", "/v1/chat/completions"):
            self._complete(body, chat=path.endswith("chat/completions"))
        elif not self.server.served.weight_routes:
            self._answer(HTTPStatus.NOT_FOUND, {"detail": "Not Found"})
        elif path == "/update_weights":
            self._admin(engine.call("load", dir=body.get("weight_dir")))
        elif path == "/reload_weights":
            self._admin(engine.call("load", dir=None))
        elif path in ("/load_lora_adapter", "/v1/load_lora_adapter"):
            self._admin(engine.call("load", dir=body.get("lora_path")))
        elif path in ("/pause", "/resume"):
            self._admin(engine.call(path[1:]))
        elif path in ("/init_broadcaster", "/v1/unload_lora_adapter"):
            self._admin(None)
        else:
            self._answer(HTTPStatus.NOT_FOUND, {"detail": "Not Found"})

    def _complete(self, body: dict[str, Any], *, chat: bool) -> None:
        served = self.server.served
        messages = body.get("messages") or [{}]
        prompt = str(messages[-1].get("content", "") if chat else body.get("prompt", ""))
        limit = int(body.get("max_completion_tokens") or body.get("max_tokens") or 16)
        if body.get("model") not in (None, served.model):
            self._fail(
                HTTPStatus.NOT_FOUND,
                f"The model `{body['model']}` does not exist.",
                "NotFoundError",
            )
            return
        if limit + len(prompt) > served.max_model_len:
            text = (
                f"'max_tokens' or 'max_completion_tokens' is too large: {limit}. This model's "
                "maximum context length is "
            )
            text += (
                f"{served.max_model_len} tokens and your request has {len(prompt)} input tokens."
            )
            self._fail(HTTPStatus.BAD_REQUEST, text, "BadRequestError")
            return
        text = served.engine.generate(prompt, limit)
        choice: dict[str, Any] = {"index": 0, "finish_reason": "length", "logprobs": None}
        choice |= {"message": {"role": "assistant", "content": text}} if chat else {"text": text}
        usage = {
            "prompt_tokens": len(prompt),
            "completion_tokens": limit,
            "total_tokens": len(prompt) + limit,
        }
        kind = "chat.completion" if chat else "text_completion"
        answer = {
            "id": f"cmpl-{uuid.uuid4().hex}",
            "object": kind,
            "created": int(time.time()),
            "model": served.model,
        }
        self._answer(HTTPStatus.OK, {**answer, "choices": [choice], "usage": usage})

    def _admin(self, failure: str | None) -> None:
        if failure is None:
            self._answer(HTTPStatus.OK, {"status": "ok"})
        else:
            self._fail(HTTPStatus.INTERNAL_SERVER_ERROR, failure, "InternalServerError")

    def _fail(self, status: HTTPStatus, message: str, kind: str) -> None:
        self._answer(
            status,
            {"error": {"message": message, "type": kind, "param": None, "code": status.value}},
        )

    def _answer(
        self, status: HTTPStatus, body: Any, content_type: str = "application/json"
    ) -> None:
        data = (
            b""
            if body is None
            else body.encode()
            if isinstance(body, str)
            else json.dumps(body).encode()
        )
        try:
            self.send_response(status)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)
        except OSError:  # the client did not wait
            self.close_connection = True
        self._log_access(status)

    def _log_access(self, status: HTTPStatus) -> None:
        host, port = self.client_address[:2]
        sys.stdout.write(
            f'INFO:     {host}:{port} - "{self.command} {self.path} HTTP/1.1" {status.value} '
            f"{status.phrase}\n"
        )
        sys.stdout.flush()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Write nothing: requests are logged in uvicorn's form and not in that of http.server."""
