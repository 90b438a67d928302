"""vllm-router (current generation): stands on the client's port and hands requests on to the
engine's API server.
"""

from __future__ import annotations

import http.client
import signal
import sys
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit


def main(arguments: Sequence[str]) -> int:
    """Run an imitation of prime-rl's router, which passes the requests of clients on to vLLM's API
    server, until it is ended. `arguments` are the words of its command line. Returns the exit code
    1 if its port is taken. SIGTERM ends the process with code 0.
    """
    options = dict(zip(arguments[::2], arguments[1::2], strict=False))
    worker = urlsplit(options["--worker-urls"])
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(0))

    class Handler(_Handler):
        backend = ("127.0.0.1", worker.port or 80)

    try:
        server = _Server((_address(options["--host"]), int(options["--port"])), Handler)
    except OSError as error:
        sys.stderr.write(
            f"Error: failed to bind {options['--host']}:{options['--port']}: "
            f"{error.strerror} (os error {error.errno})\n"
        )
        return 1
    server.serve_forever(poll_interval=60)
    return 0


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = (
        256  # all rollouts of a batch come at once; a full queue costs a client one second
    )


def _address(host: str) -> str:
    # A practice pod serves this machine only, whatever its config says.
    return "127.0.0.1" if host in ("0.0.0.0", "localhost") else host  # noqa: S104


class _Handler(BaseHTTPRequestHandler):
    backend: tuple[str, int]
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        self._pass_on("GET")

    def do_POST(self) -> None:
        self._pass_on("POST")

    def _pass_on(self, method: str) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        connection = http.client.HTTPConnection(*self.backend)
        try:
            connection.request(method, self.path, body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            status, data = answer.status, answer.read()
        except (OSError, http.client.HTTPException):
            status, data = (
                503,
                (
                    b'{"error": {"message": "No available workers (all circuits open or '
                    b'unhealthy)", "code": 503}}'
                ),
            )
        finally:
            connection.close()
        try:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)
        except OSError:  # the client did not wait
            self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """The real router logs nothing for a request that it could serve."""
