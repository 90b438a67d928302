"""One HTTP server for all practice clouds: routes, the key, faults, and a door for whoever stages
them (`/_control`).
"""

from __future__ import annotations

import contextlib
import functools
import http.server
import json
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from bs4_practice.cloud.market import Market, Metal, NoMetal
from bs4_practice.http_server import HttpServer

#: What happens to a call. `-after`: it is done, and the answer says otherwise. `twice`: it is done
#: two times. `lag`: it is done, and the list shows it only `seconds` later. `slow`: answered
#: `seconds` later. `drop`: the connection ends without an answer.
KINDS = (
    "500",
    "500-after",
    "502-html",
    "drop",
    "drop-after",
    "slow",
    "429",
    "429-daily",
    "403",
    "401",
    "not-json",
    "twice",
    "lag",
    "refuse",
    "refuse-after",
    "empty",
    "redirect",
)
PROVIDERS = ("vast", "runpod", "prime", "lambda", "verda")


@dataclass
class Request:
    """One HTTP request to a practice cloud. `path` begins with the provider's name, `body` is the
    JSON value (None if there is none or it cannot be read), and `headers` have lower-case names.
    """

    method: str
    path: str
    query: dict[str, list[str]]
    body: Any
    headers: dict[str, str]

    def one(self, name: str, default: str = "") -> str:
        """Return the first value of the URL parameter `name`, or `default` if the URL does not have
        it.
        """
        return self.query.get(name, [default])[0]


@dataclass
class Answer:
    """The answer of a practice cloud to a request: the HTTP status, the body (a JSON value, bytes
    that are sent as they are, or None for an empty body), and further headers.
    """

    status: int = 200
    body: Any = None
    """JSON, bytes, or None for an empty body."""
    headers: dict[str, str] = field(default_factory=dict)


Speaker = Callable[[Market, Request], Answer]
#: (method, path pattern, name of the call, what answers it)
Route = tuple[str, str, str, Callable[..., Answer]]


@dataclass
class Fault:
    """A rule by which the next `times` calls with the name `call` to `provider` fail; "*" as either
    of them stands for all. `kind` is how they fail, one of KINDS, for example "drop". `seconds` is
    the delay of the kinds "slow" and "lag".
    """

    provider: str
    call: str
    kind: str
    times: int
    seconds: float


class Cloud:
    """The practice clouds (imitations of GPU providers' APIs) as one HTTP server; `running` starts
    it. `market` holds the machines, and `port` is the server's port. `calls` has every request that
    came, as (provider, name of the call, request). `KEY` is the API key that all clouds accept.
    """

    KEY = "practice-key-0123456789"

    def __init__(self, market: Market) -> None:
        self.market = market
        self.port = 0
        self.calls: list[tuple[str, str, Request]] = []
        self._faults: list[Fault] = []
        self._lock = threading.Lock()
        from bs4_practice.cloud import lambda_labs, prime, runpod, vast, verda

        modules = {
            "vast": vast,
            "runpod": runpod,
            "prime": prime,
            "lambda": lambda_labs,
            "verda": verda,
        }
        self._speakers: dict[
            str, tuple[list[Route], Callable[[Request, str], bool], Callable[[int, str], Answer]]
        ] = {
            name: (module.ROUTES, module.allowed, module.failure)
            for name, module in modules.items()
        }

    def url(self, provider: str) -> str:
        """Return the base URL of a provider's API, in the form in which the console's adapter for
        that provider takes it.
        """
        return f"http://127.0.0.1:{self.port}/{provider}" + {
            "lambda": "/api/v1",
            "verda": "/v1",
            "runpod": "/v2",
        }.get(provider, "")

    def urls(self) -> dict[str, str]:
        """Return the base URL of each provider's API, as {provider: URL}."""
        return {provider: self.url(provider) for provider in PROVIDERS}

    def fault(
        self, provider: str, call: str, kind: str, *, times: int = 1, seconds: float = 1.0
    ) -> None:
        """Let the next `times` calls with the name `call` to a provider fail. `call` is "create",
        "list", "get", "offers", "terminate", "balance", "keys", "logs", "token" or "*" for any;
        `provider` may be "*" too. `kind` is how they fail, one of KINDS, for example "drop".
        `seconds` is the delay of the kinds "slow" and "lag". Raises ValueError if the kind is not
        known.
        """
        if kind not in KINDS:
            raise ValueError(f"no fault {kind}")
        with self._lock:
            self._faults.append(Fault(provider, call, kind, times, seconds))

    def heal(self) -> None:
        """Remove all faults, so that the calls work again."""
        with self._lock:
            self._faults.clear()

    def sent(self, provider: str, call: str) -> list[Request]:
        """Return all requests for the call `call` that a provider has received so far, in order of
        their arrival.
        """
        return [request for name, what, request in self.calls if (name, what) == (provider, call)]

    def answer(self, request: Request) -> Answer | None:
        """Return the simulated cloud's answer to a request. Return None if the connection is to be
        closed without an answer, because that was requested as a fault (a simulated failure).
        """
        name, _, rest = request.path.lstrip("/").partition("/")
        if name == "_control":
            return self._control(rest, request)
        if name not in self._speakers:
            return Answer(404, {"error": "no such cloud"})
        routes, allowed, failure = self._speakers[name]
        path = "/" + rest
        if name in ("lambda", "verda", "runpod"):
            path = path.removeprefix({"lambda": "/api/v1", "verda": "/v1", "runpod": "/v2"}[name])
        for method, pattern, call, work in routes:
            found = re.fullmatch(pattern, path)
            if found is not None and method == request.method:
                with self._lock:
                    self.calls.append((name, call, request))
                if call not in ("token", "log-file") and not allowed(request, self.KEY):
                    return failure(401, "unauthorized")
                return self._with_faults(
                    name,
                    call,
                    failure,
                    functools.partial(work, self.market, request, *found.groups()),
                )
        return failure(404, "no such path")

    def _with_faults(
        self,
        name: str,
        call: str,
        failure: Callable[[int, str], Answer],
        work: Callable[[], Answer],
    ) -> Answer | None:
        fault = self._take(name, call)
        kind = "" if fault is None else fault.kind
        if kind in ("500", "403", "401", "429"):
            return failure(int(kind), "practice fault")
        if kind == "429-daily":
            return Answer(429, failure(429, "search_quota_exceeded").body, {"Retry-After": "86400"})
        if kind == "502-html":
            return Answer(502, b"<html>Bad Gateway</html>")
        if kind == "refuse":
            return failure(400, "no capacity")
        if kind == "redirect":
            return Answer(302, None, {"Location": "http://127.0.0.1:9/elsewhere"})
        if kind == "drop":
            return None
        if fault is not None and kind == "slow":
            time.sleep(fault.seconds)
        before = set(self.market.rented)
        done = work()
        if kind == "twice":
            work()
        if fault is not None and kind == "lag":
            for machine_id in set(self.market.rented) - before:
                self.market.rented[machine_id].hidden_until_m = time.monotonic() + fault.seconds
        if kind == "500-after":
            return failure(500, "practice fault")
        if kind == "refuse-after":
            return failure(400, "practice fault")
        if kind == "drop-after":
            return None
        if kind == "not-json":
            return Answer(200, b"Started. Your new instance is ready")
        return Answer(200) if kind == "empty" else done

    def _take(self, name: str, call: str) -> Fault | None:
        with self._lock:
            for fault in self._faults:
                if fault.provider in (name, "*") and fault.call in (call, "*") and fault.times > 0:
                    fault.times -= 1
                    return fault
        return None

    def _control(self, what: str, request: Request) -> Answer:
        """For stagings in another process: `fault`, `heal`, `outbid`, `end`, `state`."""
        body = request.body or {}
        if what == "fault":
            self.fault(
                body["provider"],
                body["call"],
                body["kind"],
                times=int(body.get("times", 1)),
                seconds=float(body.get("seconds", 1.0)),
            )
        elif what == "heal":
            self.heal()
        elif what == "outbid":
            self.market.outbid(str(body["machine"]))
        elif what == "end":
            self.market.end(str(body["machine"]), "taken away")
        machines = [
            {
                "id": machine.id,
                "provider": machine.provider,
                "label": machine.label,
                "state": machine.state,
                "address": machine.address,
            }
            for machine in self.market.rented.values()
        ]
        return Answer(200, {"machines": machines})


@contextlib.contextmanager
def running(
    root: Path | None = None,
    *,
    metal: Metal | None = None,
    boot_s: float = 0.2,
    market: Market | None = None,
) -> Iterator[Cloud]:
    """Run the practice clouds as a server on a free port of 127.0.0.1 for the length of a `with`
    block, and yield it. When the block ends, all rented machines end too. `metal` makes the
    machines real (see Metal); None leaves them without anything behind. `boot_s` is how many
    seconds pass before a machine comes up. `market`, if given, is used instead of a new one made of
    `metal` and `boot_s`. `root` is not used.
    """
    cloud = Cloud(market or Market(metal or NoMetal(), boot_s=boot_s))

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _serve(self) -> None:
            raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            parts = urlsplit(self.path)
            try:
                body = json.loads(raw) if raw else None
            except ValueError:
                body = None
            headers = {key.lower(): value for key, value in self.headers.items()}
            answer = cloud.answer(
                Request(self.command, parts.path, parse_qs(parts.query), body, headers)
            )
            if answer is None:
                with contextlib.suppress(OSError):
                    self.connection.shutdown(socket.SHUT_RDWR)
                self.close_connection = True
                return
            data = (
                answer.body
                if isinstance(answer.body, bytes)
                else b""
                if answer.body is None
                else json.dumps(answer.body).encode()
            )
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                self.send_response(answer.status)
                for key, value in {"Content-Type": "application/json", **answer.headers}.items():
                    self.send_header(key, value)
                if answer.status != 204:
                    self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                if answer.status != 204:
                    self.wfile.write(data)

        do_GET = do_POST = do_PUT = do_DELETE = _serve  # noqa: N815

        def log_message(self, *_: Any) -> None:
            return

    server = HttpServer(("127.0.0.1", 0), Handler)
    cloud.port = server.server_address[1]
    thread = threading.Thread(
        target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
    )
    thread.start()
    try:
        yield cloud
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)
        cloud.market.close()
