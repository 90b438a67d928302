"""The HTTP server beneath the practice clouds and the servers of tests."""

from __future__ import annotations

import sys
from http.server import ThreadingHTTPServer
from typing import Any


class HttpServer(ThreadingHTTPServer):
    """An HTTP server with a thread for each connection. It prints nothing if a request ends with an
    OSError, which is what happens when the client has closed the connection. It prints every other
    error of a request on standard error.
    """

    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print the error of a request on standard error, unless it is one of the connection."""
        if not isinstance(sys.exc_info()[1], ConnectionError | TimeoutError):
            super().handle_error(request, client_address)
