"""`inference`: the engine's API server on `backend_port`, behind a router on `server.port` that is
its child.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Sequence

from .. import gpu, processes
from ..config import Config, parse_or_exit
from ..log import Logger
from ..vllm.server import Settings, serve


def main(arguments: Sequence[str]) -> int:
    """Run an imitation of current prime-rl's inference server and its router until the server ends,
    and return the server's exit code. `arguments` are the words of its command line. The router
    ends with the server.
    """
    processes.set_title("PRIME-RL::Inference")
    config = parse_or_exit(arguments, {})
    log = Logger(config.get("log.level", "info"), json_lines=bool(config.get("log.json_logging")))
    port, backend = config.get("server.port", 8000), config.get("backend_port", 8100)
    host = config.get("server.host", "0.0.0.0")  # noqa: S104
    log.info(f"Starting router on http://{host}:{port}/v1 (engine on port {backend})\n")
    router = _Router(_router_command(config, host, port, backend), log)
    try:
        return serve(
            Settings(
                host=host,
                port=backend,
                model=config.get("vllm.model", "Qwen/Qwen3-0.6B"),
                max_model_len=config.get("vllm.max_model_len", 4096),
                utilization=config.get("vllm.gpu_memory_utilization", 0.9),
                devices=gpu.visible()[
                    : config.get("vllm.tensor_parallel_size", 1)
                    * config.get("vllm.data_parallel_size", 1)
                ],
            )
        )
    finally:
        router.stop()


def _router_command(config: Config, host: str, port: int, backend: int) -> list[str]:
    command = [
        "vllm-router",
        "--policy",
        config.get("router.policy", "consistent_hash"),
        "--host",
        host,
        "--port",
        str(port),
    ]
    command += [
        "--worker-urls",
        f"http://localhost:{backend}",
        "--intra-node-data-parallel-size",
        "1",
    ]
    command += ["--request-id-headers", "x-session-id", "--worker-startup-timeout-secs", "4200"]
    return [*command, "--prometheus-port", str(port + 21000)]


class _Router:
    """Its death ends the server, by a SIGTERM that the server sends itself."""

    def __init__(self, command: list[str], log: Logger) -> None:
        self._process = subprocess.Popen(command)
        self._stopping = threading.Event()
        self._log = log
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        code = self._process.wait()
        if not self._stopping.is_set():
            self._log.error(f"Router exited with code {code} - shutting down", "inference.py::213")
            os.kill(os.getpid(), signal.SIGTERM)

    def stop(self) -> None:
        self._stopping.set()
        if self._process.poll() is None:
            self._process.terminate()
            self._process.wait()
