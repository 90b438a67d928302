"""The API server's life: bind, start the engine, serve, and end as the real one ends."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from .. import hub, pace
from ..lines import Closed, Lines
from . import engine
from .api import Served, Server
from .state import EngineClient


@dataclass(frozen=True)
class Settings:
    """What the inference server takes from its config. `devices` are the numbers of the GPUs, one
    for each worker. `utilization` is the share of each GPU's memory to take, from 0 to 1, and
    `max_model_len` the most tokens of a prompt with its answer.
    """

    host: str
    port: int
    model: str
    max_model_len: int
    utilization: float
    devices: list[int]
    weight_routes: bool = True
    """Whether prime-rl's own routes are there; a plain `vllm serve` has none of them."""


def serve(settings: Settings) -> int:
    """Run an imitation of vLLM's server until it ends, and return its exit code: 0 when it was told
    to end, and also when its engine has died, as was measured on vLLM 0.32; 1 when the engine could
    not be started. Raises SystemExit with code 1 if the port is taken, and OSError or ValueError if
    the model cannot be loaded.
    """
    sock = _bind(settings)
    hub.load_config(settings.model)
    ours, theirs = Lines.pair()
    child = os.fork()
    if child == 0:
        sock.close()
        ours.close()
        engine.run(
            theirs, settings.devices, settings.utilization, pace.SEQUENCES, settings.max_model_len
        )
    theirs.close()
    _on_signals(lambda: _abandon(child))
    if not _started(ours):
        os.waitpid(child, 0)
        sys.stderr.write(
            "RuntimeError: Engine core initialization failed. See root cause above. Failed "
            "core proc(s): {}\n"
        )
        return 1
    terminated = threading.Event()
    _on_signals(terminated.set)
    client = EngineClient(ours)
    server = Server(
        sock, Served(client, settings.model, settings.max_model_len, settings.weight_routes)
    )
    threading.Thread(
        target=server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True
    ).start()
    _say(f"INFO:     Started server process [{os.getpid()}]")
    _say("INFO:     Waiting for application startup.\nINFO:     Application startup complete.")
    _watch(client, child, terminated)
    _shut_down(server, client, child)
    return 0


def _bind(settings: Settings) -> socket.socket:
    """The port, before anything else. OSError [Errno 98] when somebody has it."""
    # A practice pod serves this machine only, whatever its config says.
    address = "127.0.0.1" if settings.host in ("", "0.0.0.0", "localhost") else settings.host  # noqa: S104
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((address, settings.port))
    except OSError as error:
        where = f"('{address}', {settings.port})"
        sys.stderr.write(
            f"ERROR:    [Errno 98] error while attempting to bind on address {where}: "
            "address already in use\n"
        )
        raise SystemExit(1) from error
    return sock


def _on_signals(action: Callable[[], None]) -> None:
    """Also where SIGINT was inherited as ignored: the real server installs its own handlers in any
    case.
    """
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda signum, frame: action())


def _abandon(child: int) -> None:
    """Ended while the engine still loads."""
    os.kill(child, signal.SIGTERM)
    os._exit(1)


def _started(channel: Lines) -> bool:
    try:
        return "ready" in channel.receive()
    except Closed:
        return False


def _watch(client: EngineClient, child: int, terminated: threading.Event) -> None:
    """Until the end has a reason. Over open requests a dead engine ends the server in about 1 s; an
    idle one is found by a 5 s watchdog.
    """
    next_look = time.monotonic() + pace.paced(5)
    next_stats = time.monotonic() + pace.paced(10)
    tokens = 0
    while not terminated.wait(0.05):
        now = time.monotonic()
        if client.dead.is_set():
            _reap(child)
        if client.dead.is_set() and client.failed_in_flight:
            terminated.wait(pace.paced(1))
            return
        if now >= next_look:
            next_look = now + pace.paced(5)
            if client.dead.is_set():
                return
        if now >= next_stats:
            next_stats = now + pace.paced(10)
            tokens = _log_stats(client, tokens)


def _log_stats(client: EngineClient, before: int) -> int:
    running, waiting = client.load
    rate = (client.generation_tokens - before) / max(pace.paced(10), 0.001)
    stamp = time.strftime("%m-%d %H:%M:%S")
    _say(
        f"(APIServer pid={os.getpid()}) INFO {stamp} [loggers.py:335] Engine 000: Avg prompt "
        f"throughput: 0.0 tokens/s, Avg generation throughput: {rate:.1f} tokens/s, Running: "
        f"{running} reqs, Waiting: {waiting} reqs, GPU KV cache usage: {running * 0.03:.1f}%"
    )
    return client.generation_tokens


def _shut_down(server: Server, client: EngineClient, child: int) -> None:
    _say(
        "INFO:     Shutting down\nINFO:     Waiting for application shutdown.\nINFO:     "
        "Application shutdown complete."
    )
    server.shutdown()
    server.server_close()
    _say(f"INFO:     Finished server process [{os.getpid()}]")
    if client.dead.is_set():
        pace.nap(0.4)
    # It may be stopped: then neither SIGTERM nor patience helps, and the real one kills it too.
    for number, seconds in ((signal.SIGTERM, 5.0), (signal.SIGKILL, 60.0)):
        if _gone(child, number, pace.paced(seconds)):
            return


def _gone(child: int, number: int, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    if _reap(child):
        return True
    os.kill(child, number)  # our own child, not yet waited for: the pid cannot be anyone else's
    while time.monotonic() < deadline:
        if _reap(child):
            return True
        time.sleep(0.01)
    return False


def _reap(child: int) -> bool:
    """Whether the engine is gone; a dead one must not stay behind as a zombie."""
    try:
        return os.waitpid(child, os.WNOHANG)[0] == child
    except ChildProcessError:
        return True


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
