"""Probes a vLLM server over HTTP, from the pod on which it runs.

/health stays 200 while an engine hangs, and its metrics then look idle. Only `one_token` proves
that the server answers (seen on vLLM 0.32).
"""

from __future__ import annotations

import ipaddress
import json
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from bs4_agent.probes.exchange import NoHttp, exchange, request
from bs4_agent.probes.own_addresses import own_addresses
from bs4_common.errors import AgentError, Refused
from bs4_common.foreign_json import loads

#: The metrics that are read and how they are combined over engines. Of a share (0..1) the largest
#: counts, because one full engine is enough to make requests wait.
METRICS: Mapping[str, str] = {
    "vllm:num_requests_running": "sum",
    "vllm:num_requests_waiting": "sum",
    "vllm:kv_cache_usage_perc": "max",
    "vllm:generation_tokens_total": "sum",
}


@dataclass(frozen=True)
class Probe:
    """The result of one probe (test request) of a vLLM server. `ok` is True if it answered as it
    should.

    `error` is None, or one of: refused (no process listens), timeout, reset (the connection was
    closed in the middle of the answer), http (an error status), bad-answer (another program
    answered). `status` is the HTTP status, or None if there was no answer. `seconds` is how long
    the probe took.
    """

    ok: bool
    status: int | None
    error: str | None
    seconds: float


class ProbeFailed(AgentError):
    """Raised if the metrics of a vLLM server cannot be read. The attribute `probe` says how the
    probe failed.
    """

    type = "probe-failed"

    def __init__(self, message: str, probe: Probe) -> None:
        super().__init__(message)
        self.probe = probe


def health(url: str, timeout: float) -> Probe:
    """Request GET /health from the vLLM server at `url` and return the result. Status 200 proves
    that its API process is alive, but nothing about the engine that generates tokens. `timeout` is
    in seconds. A timeout and a refused or broken connection raise nothing; `error` of the result
    names them. Raises Refused if `url` is no http:// address of this pod.
    """
    return _ask(url, "GET", "/health", None, time.monotonic(), timeout)[0]


def one_token(url: str, timeout: float, model: str | None = None) -> Probe:
    """Let the vLLM server generate one token and return the result, which proves that its engine
    works. `timeout` in seconds covers everything, including the query for the model's name if
    `model` is None. A timeout and a refused or broken connection raise nothing; `error` of the
    result names them. Raises Refused if `url` is no http:// address of this pod.
    """
    start = time.monotonic()
    if model is None:
        probe, body = _ask(url, "GET", "/v1/models", None, start, timeout)
        if not probe.ok:
            return probe
        model = _first_model(body)
        if model is None:
            return _ended(start, probe.status, "bad-answer")
    probe, body = _ask(
        url,
        "POST",
        "/v1/completions",
        json.dumps({"model": model, "prompt": "1", "max_tokens": 1, "temperature": 0}).encode(),
        start,
        timeout,
    )
    if probe.ok and not _completed(body):
        return _ended(start, probe.status, "bad-answer")
    return probe


def metrics(url: str, timeout: float) -> dict[str, float]:
    """Return {name: value} for those metrics of the vLLM server at `url` that the agent uses (their
    names are in this module's METRICS) and that the server has. `timeout` is in seconds. Raises
    ProbeFailed if the server does not answer, and Refused if `url` is not on this pod.
    """
    probe, body = _ask(url, "GET", "/metrics", None, time.monotonic(), timeout)
    if not probe.ok:
        raise ProbeFailed(
            f"{url}/metrics gave no answer ({probe.error}); is the inference server up?", probe
        )
    return parse_metrics(body.decode("utf-8", "replace"))


def parse_metrics(text: str) -> dict[str, float]:
    """Return {name: value} for those metrics in `text` that the agent uses; their names are in this
    module's METRICS. `text` is what a vLLM server has returned, in Prometheus format.
    """
    values: dict[str, list[float]] = {}
    for line in text.splitlines():
        name = line.partition("{")[0].partition(" ")[0]
        if name not in METRICS:
            continue
        try:
            value = float(line.rpartition("}")[2].split()[0] if "}" in line else line.split()[1])
        except (ValueError, IndexError):
            continue
        values.setdefault(name, []).append(value)
    return {
        name: max(found) if METRICS[name] == "max" else sum(found) for name, found in values.items()
    }


def own_address(host: str) -> str:
    """Return an IP address of this machine for `host`, such as "127.0.0.1" for "localhost". Raises
    Refused for a host that is not this machine, so that a config cannot make the agent connect to
    other machines.

    Only localhost and the machine's own host name are looked up, because the look-up of another
    name may hang for 30 s. Connect to the returned address and not to the name, which could change
    its meaning in between.
    """
    if host in ("localhost", ""):
        return "127.0.0.1"
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return _own_name(host)
    if address.is_unspecified:  # a server on all addresses is probed through loopback
        if address.version == 4:
            return "127.0.0.1"
        return "::1"
    if address.is_loopback or str(address) in own_addresses():
        return str(address)
    raise Refused(
        f"{host} is not an address of this pod, so it is not probed; check the server's host "
        "and port in the config."
    )


def _own_name(name: str) -> str:
    """Return the IP address of our own host name. Raises Refused for any other name."""
    if name.lower().rstrip(".") not in (socket.gethostname().lower(), "localhost.localdomain"):
        raise Refused(
            f"{name!r} is not this pod's own name, so it is not probed; check the server's "
            "host and port in the config."
        )
    own = own_addresses()
    try:
        found = []
        for e in socket.getaddrinfo(name, None, type=socket.SOCK_STREAM):
            found.append(str(e[4][0]))
    except socket.gaierror:
        found = []
    for address in found:
        if address in own or ipaddress.ip_address(address).is_loopback:
            return address
    return "127.0.0.1"


def _ask(
    url: str, method: str, path: str, payload: bytes | None, start: float, timeout: float
) -> tuple[Probe, bytes]:
    """Send one request and return its result and the body of the answer. It ends by `start +
    timeout`, however the server hangs.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port or 80
        where = parts.path.rstrip("/") + path
        asked = request(method, parts.netloc.rpartition("@")[2], where, payload)
    except ValueError:
        host = None  # its brackets, its port or its characters make no address
    if host is None or parts.scheme != "http":
        raise Refused(
            f"{url!r} is no http:// address; check the server's host and port in the config."
        )
    address = own_address(host)
    try:
        answer = exchange(address, port, asked, start + timeout)
    except ConnectionRefusedError:
        return _ended(start, None, "refused"), b""
    except TimeoutError:
        return _ended(start, None, "timeout"), b""
    except ConnectionError:
        return _ended(start, None, "reset"), b""
    except NoHttp:
        return _ended(start, None, "bad-answer"), b""
    return _ended(start, answer.status, None if answer.status == 200 else "http"), answer.body


def _ended(start: float, status: int | None, error: str | None) -> Probe:
    """Return the result of a probe that began at `start` (seconds of the monotonic clock) and ends
    now.
    """
    return Probe(error is None, status, error, round(time.monotonic() - start, 3))


def _first_model(body: bytes) -> str | None:
    """Return the id of the first model in the answer to /v1/models, or None."""
    try:
        return str(loads(body)["data"][0]["id"])
    except (ValueError, KeyError, IndexError, TypeError):
        return None


def _completed(body: bytes) -> bool:
    """Return True if the body is a completion."""
    try:
        return bool(loads(body)["choices"])
    except (ValueError, KeyError, TypeError):
        return False
