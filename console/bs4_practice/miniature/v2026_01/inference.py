"""`inference`: the server with the config keys of 2026-01."""

from __future__ import annotations

from collections.abc import Sequence

from .. import gpu
from ..config import parse_or_exit
from ..vllm.server import Settings, serve


def main(arguments: Sequence[str]) -> int:
    """Run an imitation of the inference server of January's prime-rl until it ends, and return its
    exit code. `arguments` are the words of its command line.
    """
    config = parse_or_exit(arguments, {})
    return serve(
        Settings(
            host=config.get("server.host", ""),
            port=config.get("server.port", 8000),
            model=config.get("model.name", "Qwen/Qwen3-0.6B"),
            max_model_len=config.get("model.max_model_len", 4096),
            utilization=config.get("gpu_memory_utilization", 0.9),
            devices=gpu.visible()[: config.get("parallel.tp", 1) * config.get("parallel.dp", 1)],
        )
    )
