"""Talking to the inference server: the OpenAI client's retries for completions, plain requests for
admin calls.
"""

from __future__ import annotations

import http.client
import json
import random
import threading
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

from . import pace

MAX_RETRIES = 10  # what prime-rl sets; the library's own default is 2
_RETRIED = (408, 409, 429)
_COMPLETIONS = "/chat/completions"


class APIConnectionError(Exception):
    """Raised by a completion when there is no connection to the server or the connection broke. It
    stands for the OpenAI client's error of this name.
    """

    __module__ = "openai"


class APITimeoutError(APIConnectionError):
    """Raised by a completion when the server did not answer in time. It stands for the OpenAI
    client's error of this name.
    """

    __module__ = "openai"


class APIStatusError(Exception):
    """Raised by a completion when the server answers with an HTTP error. `status` is the HTTP
    status. It stands for the OpenAI client's error of this name.
    """

    __module__ = "openai"

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class ConnectError(APIConnectionError):
    """Raised by a request other than a completion when there is no connection to the server. It
    stands for httpx's error of this name.
    """

    __module__ = "httpx"


class ReadTimeout(APITimeoutError):
    """Raised by a request other than a completion when the server did not answer in time. It stands
    for httpx's error of this name.
    """

    __module__ = "httpx"


class HTTPStatusError(APIStatusError):
    """Raised by a request other than a completion when the server answers with an HTTP error.
    `status` is the HTTP status. It stands for httpx's error of this name.
    """

    __module__ = "httpx"


class Connection:
    """A client of the inference server at a base URL. It keeps one connection for each thread."""

    def __init__(self, base_url: str) -> None:
        parts = urlsplit(base_url)
        self._host = parts.hostname or "localhost"
        self._port = parts.port or 80
        self._prefix = parts.path.rstrip("/")
        self._local = threading.local()

    def request(self, method: str, path: str, body: Any, timeout: float) -> Any:
        """Send one request, with `body` as JSON unless it is None, and return the answer: its JSON
        value, or its text if it is not JSON. `timeout` is in seconds. Nothing is tried again.

        A completion raises APIConnectionError, APITimeoutError or APIStatusError, with the messages
        of the OpenAI client. A request for any other path raises ConnectError, ReadTimeout or
        HTTPStatusError, with the messages of httpx.
        """
        openai = path == _COMPLETIONS
        connection = getattr(self._local, "connection", None)
        if connection is None:
            # As name resolution of localhost would have it on a pod: one address, and no second one
            # to hide behind.
            host = "127.0.0.1" if self._host in ("localhost", "0.0.0.0") else self._host  # noqa: S104
            connection = self._local.connection = http.client.HTTPConnection(
                host, self._port, timeout=timeout
            )
        data = None if body is None else json.dumps(body)
        try:
            if connection.sock is not None:
                connection.sock.settimeout(timeout)
            connection.request(
                method, self._prefix + path, data, {"Content-Type": "application/json"}
            )
            response = connection.getresponse()
            text = response.read().decode()
        except TimeoutError as error:
            self._forget(connection)
            raise (APITimeoutError("Request timed out.") if openai else ReadTimeout("")) from error
        except (OSError, http.client.HTTPException) as error:
            self._forget(connection)
            raise (
                APIConnectionError("Connection error.")
                if openai
                else ConnectError("All connection attempts failed")
            ) from error
        if response.status >= 400 and openai:
            raise APIStatusError(response.status, f"Error code: {response.status} - {text}")
        if response.status >= 400:
            kind, url = (
                "Client" if response.status < 500 else "Server",
                f"http://{self._host}:{self._port}{self._prefix}{path}",
            )
            raise HTTPStatusError(
                response.status,
                f"{kind} error '{response.status} {HTTPStatus(response.status).phrase}' for url "
                f"'{url}'\nFor more information check: "
                f"https://developer.mozilla.org/en-US/docs/Web/HTTP/Status/{response.status}",
            )
        return json.loads(text) if text.startswith(("{", "[")) else text

    def _forget(self, connection: http.client.HTTPConnection) -> None:
        connection.close()
        self._local.connection = None

    def complete(self, body: dict[str, Any], timeout: float) -> dict[str, Any]:
        """Request a chat completion and return the server's answer. `body` is the request, and
        `timeout` how many seconds one try may take. As by the OpenAI client, it is tried again up
        to ten times, after pauses that grow from 0.5 to 8 seconds. Raises APIConnectionError or
        APIStatusError if no try succeeds; for an error of the request itself (most HTTP statuses
        from 400 to 499) at the first try.
        """
        for attempt in range(MAX_RETRIES + 1):
            try:
                answer: dict[str, Any] = self.request("POST", _COMPLETIONS, body, timeout)
            except (APIConnectionError, APIStatusError) as error:
                if attempt == MAX_RETRIES or (
                    isinstance(error, APIStatusError)
                    and error.status < 500
                    and error.status not in _RETRIED
                ):
                    raise
                pace.nap(min(0.5 * 2**attempt, 8.0) * (1 - 0.25 * random.random()))
            else:
                return answer
        raise AssertionError("unreachable")


def health(base_url: str) -> int:
    """Return the HTTP status with which the inference server at `base_url` answers /health. Raises
    APIConnectionError if it does not answer within 10 seconds or there is no connection.
    """
    try:
        Connection(base_url).request("GET", "/health", None, 10.0)
    except APIStatusError as error:
        return error.status
    return 200


def wait_until_healthy(
    base_url: str, warn: Any, *, need_success: bool, timeout: int = 1800
) -> None:
    """Ask the inference server at `base_url` for /health every second until it answers. With
    `need_success`, as in current prime-rl, only an answer without an HTTP error counts; in
    January's prime-rl any answer does. `warn(line, source)` is called every ten seconds, with a
    line for the log and the place in prime-rl's code that writes it. Raises TimeoutError `timeout`
    seconds after the call. All these seconds are multiplied by BS4_MINIATURE_PACE.
    """
    waited = 0
    while waited < timeout:
        error = ""
        try:
            status = health(base_url)
            if status < 400 or not need_success:
                return
            error = f"Server error '{status} Service Unavailable' for url '{base_url}/health'"
        except APIConnectionError as failure:
            error = str(failure)
        if waited % 10 == 0 and waited > 0:
            warn(
                f"Inference server was not reached after {waited} seconds (Error: {error}) "
                f"on {base_url}",
                "client.py::94",
            )
        pace.nap(1)
        waited += 1
    raise TimeoutError(
        f"Inference server is not ready after {waited} (>{timeout}) seconds. Aborting..."
    )
