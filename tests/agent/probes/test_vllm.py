"""The HTTP probe against real sockets that answer, hang, slam the door or talk nonsense."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import psutil
import pytest

from bs4_agent.probes import vllm
from bs4_agent.probes.exchange import Answer
from bs4_agent.probes.vllm import (
    ProbeFailed,
    health,
    metrics,
    one_token,
    own_address,
    parse_metrics,
)
from bs4_common.errors import Refused
from bs4_practice.http_server import HttpServer

CORPUS = Path(__file__).resolve().parents[3] / "../shared/corpus/vllm/metrics.txt"

METRICS = """# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="a } b"} 3.0
vllm:num_requests_running{engine="1",model_name="a"} 4.0
vllm:num_requests_waiting{engine="0"} 0.0
vllm:kv_cache_usage_perc{engine="0"} 0.25
vllm:kv_cache_usage_perc{engine="1"} 0.75
vllm:generation_tokens_total{engine="0"} 1.5e+03
vllm:generation_tokens_created{engine="0"} 1.7e+09
vllm:num_requests_running_total 9
vllm:num_requests_waiting
"""


class Server:
    """`answers`: path -> (status, body) or a callable that gets the handler. `asked`: what came in,
    in order.
    """

    def __init__(self) -> None:
        self.answers: dict[str, Any] = {
            "/health": (200, b""),
            "/v1/models": (200, json.dumps({"data": [{"id": "Qwen/Qwen3-0.6B"}]}).encode()),
            "/v1/completions": (200, json.dumps({"choices": [{"text": "2"}]}).encode()),
            "/metrics": (200, METRICS.encode()),
        }
        self.asked: list[tuple[str, str, Any]] = []
        self.over = threading.Event()
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                server.asked.append((self.command, self.path, json.loads(body) if body else None))
                answer = server.answers[self.path]
                if callable(answer):
                    answer(self)
                    return
                self.send_response(answer[0])
                self.send_header("Content-Length", str(len(answer[1])))
                self.end_headers()
                self.wfile.write(answer[1])

            do_POST = do_GET  # noqa: N815  http.server's own names

            # The base class names it.
            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                return

        self._http = HttpServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._http.server_port}"
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,))
        self._thread.start()

    def hang(self, handler: BaseHTTPRequestHandler) -> None:
        self.over.wait(30)

    def close(self) -> None:
        self.over.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.close()


@pytest.fixture
def raw() -> Iterator[Callable[[Callable[[socket.socket], None]], str]]:
    """A listener whose first connection is handled by a function; gives its URL."""
    listeners: list[socket.socket] = []
    threads: list[threading.Thread] = []

    def listen(handle: Callable[[socket.socket], None]) -> str:
        listener = socket.create_server(("127.0.0.1", 0))

        def serve() -> None:
            try:
                connection = listener.accept()[0]
            except OSError:
                return
            with connection:
                handle(connection)

        listeners.append(listener)
        threads.append(threading.Thread(target=serve))
        threads[-1].start()
        return f"http://127.0.0.1:{listener.getsockname()[1]}"

    yield listen
    for thread in threads:
        thread.join(5)
    for listener in listeners:
        listener.close()


def test_a_healthy_server(server: Server) -> None:
    probe = health(server.url, 20.0)
    assert (probe.ok, probe.status, probe.error) == (True, 200, None)
    assert probe.seconds < 20


def test_one_token_asks_for_one_token_of_the_served_model(server: Server) -> None:
    assert one_token(server.url, 20.0).ok
    assert [entry[:2] for entry in server.asked] == [
        ("GET", "/v1/models"),
        ("POST", "/v1/completions"),
    ]
    request = server.asked[1][2]
    assert (request["model"], request["max_tokens"]) == ("Qwen/Qwen3-0.6B", 1)
    server.asked.clear()
    assert one_token(server.url + "/", 20.0, model="given").ok
    assert [entry[1] for entry in server.asked] == ["/v1/completions"]


def test_a_hung_engine_is_healthy_and_gives_no_token(server: Server) -> None:
    server.answers["/v1/completions"] = server.hang
    assert health(server.url, 20.0).ok
    start = time.monotonic()
    probe = one_token(server.url, 0.3)
    assert (probe.ok, probe.status, probe.error) == (False, None, "timeout")
    # It hangs for 30 s.
    assert 0.25 < probe.seconds < 20
    assert time.monotonic() - start < 20


def test_the_timeout_bounds_both_questions_together(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow_models(handler: BaseHTTPRequestHandler) -> None:
        server.over.wait(0.1)
        handler.wfile.write(b'HTTP/1.0 200 OK\r\n\r\n{"data": [{"id": "m"}]}')

    really = vllm.exchange
    server.answers["/v1/models"] = slow_models
    server.answers["/v1/completions"] = server.hang
    deadlines: list[float] = []

    def exchange(address: str, port: int, asked: bytes, deadline: float) -> Answer:
        deadlines.append(deadline)
        return really(address, port, asked, deadline)

    monkeypatch.setattr(vllm, "exchange", exchange)
    assert one_token(server.url, 0.5).error == "timeout"
    assert len(set(deadlines)) == 1, "the second question has no time of its own"


def test_an_answer_that_trickles_ends_too(raw: Any) -> None:
    def trickle(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
        try:
            for _ in range(3000):
                connection.sendall(b"x")
                time.sleep(0.01)
        except OSError:
            return

    probe = health(raw(trickle), 0.3)
    assert (probe.error, probe.seconds < 15) == ("timeout", True)


def test_nobody_listens() -> None:
    # Bound and not listening: refused, and no other process can get the port.
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        probe = one_token(f"http://127.0.0.1:{nobody.getsockname()[1]}", 20.0)
    assert (probe.ok, probe.status, probe.error) == (False, None, "refused")


@pytest.mark.parametrize(
    ("answer", "status", "error"),
    [
        ((503, b""), 503, "http"),
        ((500, b"EngineCore encountered an issue"), 500, "http"),
        ((200, b"not json"), 200, "bad-answer"),
        ((200, b"[]"), 200, "bad-answer"),
        ((200, b'{"choices": []}'), 200, "bad-answer"),
    ],
)
def test_an_answer_that_is_none(
    server: Server, answer: tuple[int, bytes], status: int, error: str
) -> None:
    server.answers["/v1/completions"] = answer
    probe = one_token(server.url, 20.0)
    assert (probe.ok, probe.status, probe.error) == (False, status, error)


@pytest.mark.parametrize("body", [b"", b'{"data": []}', b'{"data": 3}'])
def test_a_server_without_models(server: Server, body: bytes) -> None:
    server.answers["/v1/models"] = (200, body)
    assert one_token(server.url, 20.0).error == "bad-answer"


@pytest.mark.parametrize(
    ("sent", "error"),
    [
        (b"", "reset"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf", "reset"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "bad-answer"),
        (b"HTTP/1.1 200 OK\r\n\r\n" + bytes(5 << 20), "bad-answer"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab", "reset"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffff\r\nab", "bad-answer"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nsome\r\n", "bad-answer"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", "bad-answer"),
        (b"HTTP/1.1 yes\r\n\r\n", "bad-answer"),
        (b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 20_000, "bad-answer"),
    ],
    ids=[
        "closed at once",
        "in the middle",
        "not HTTP",
        "endless",
        "in a chunk",
        "huge chunk",
        "no size",
        "length",
        "no status",
        "headers",
    ],
)
def test_what_is_no_server_of_ours(raw: Any, sent: bytes, error: str) -> None:
    def say(connection: socket.socket) -> None:
        connection.recv(65536)
        try:
            connection.sendall(sent)
        except OSError:
            return

    assert health(raw(say), 20.0).error == error


@pytest.mark.parametrize(
    "sent",
    [
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"1c;name=x\r\nvllm:num_requests_running 2\n\r\n1\r\n\n\r\n0\r\nTrailer: x\r\n\r\n",
        (
            b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length:28\r\n\r\n"
            b"vllm:num_requests_running 2\nand more"
        ),
        b"HTTP/1.0 200 OK\r\n\r\nvllm:num_requests_running 2\n",
    ],
    ids=["in chunks", "after a 100", "until it closes"],
)
def test_an_answer_in_every_form(raw: Any, sent: bytes) -> None:
    def say(connection: socket.socket) -> None:
        connection.recv(65536)
        with contextlib.suppress(ConnectionError):  # the trailer comes after all that is asked for
            for byte in sent:
                connection.sendall(bytes([byte]))

    assert metrics(raw(say), 20.0) == {"vllm:num_requests_running": 2.0}


def test_metrics_of_all_engines(server: Server) -> None:
    assert metrics(server.url, 20.0) == {
        "vllm:num_requests_running": 7.0,
        "vllm:num_requests_waiting": 0.0,
        "vllm:kv_cache_usage_perc": 0.75,
        "vllm:generation_tokens_total": 1500.0,
    }


def test_metrics_that_cannot_be_had(server: Server) -> None:
    server.answers["/metrics"] = (404, b"")
    with pytest.raises(ProbeFailed) as caught:
        metrics(server.url, 20.0)
    assert (caught.value.type, caught.value.probe.status) == ("probe-failed", 404)


def test_metrics_of_a_real_server() -> None:
    if not CORPUS.exists():
        pytest.skip("the recorded metrics of a real vLLM lie outside this checkout (../shared)")
    found = parse_metrics(CORPUS.read_text())
    assert set(found) == {
        "vllm:num_requests_running",
        "vllm:num_requests_waiting",
        "vllm:kv_cache_usage_perc",
        "vllm:generation_tokens_total",
    }
    assert found["vllm:generation_tokens_total"] > 0


@pytest.mark.parametrize(
    "url",
    [
        "http://192.0.2.1:8000",
        "http://169.254.169.254/latest/meta-data",
        "http://[2001:db8::1]:8000",
        "http://example.org:8000",
        "http://2130706433:8000",
        "http://localhost.evil.example:8000",
        "http://127.0.0.1@192.0.2.1:8000",
        "https://127.0.0.1:8000",
        "file:///etc/passwd",
        "127.0.0.1:8000",
        "",
    ],
)
def test_strangers_are_never_asked(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*arguments: object, **named: object) -> None:
        raise AssertionError("something was contacted or looked up")

    monkeypatch.setattr(socket.socket, "connect", forbidden)
    monkeypatch.setattr(socket, "getaddrinfo", forbidden)
    for probe in (health, one_token, metrics):
        with pytest.raises(Refused):
            probe(url, 1.0)


def test_our_own_addresses_may_be_asked(server: Server) -> None:
    for host in ("localhost", "0.0.0.0"):
        assert health(server.url.replace("127.0.0.1", host), 20.0).ok
    assert own_address("::") == "::1"
    assert own_address("127.0.0.5") == "127.0.0.5"
    own = [
        entry.address
        for entries in psutil.net_if_addrs().values()
        for entry in entries
        if entry.family == socket.AF_INET
    ]
    assert [own_address(address) for address in own] == own
    ours = own_address(socket.gethostname())
    assert ours in own or ours.startswith("127.") or ":" in ours


def test_the_agent_carries_no_http_client(server: Server) -> None:
    """http.client with its e-mail parser would be a twentieth of the memory that an agent may
    use.
    """
    import subprocess
    import sys

    program = (
        f"import sys; from bs4_agent.probes.vllm import health; print(health({server.url!r}, "
        "20.0).ok, 'http.client' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=True, timeout=20
    )
    assert done.stdout == b"True False\n"
