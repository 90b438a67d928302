"""`vllm serve MODEL`: the server alone, without the routes that prime-rl adds to it."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from .. import gpu
from .server import Settings, serve


def main(arguments: Sequence[str]) -> int:
    """Run an imitation of `vllm serve` until the server ends, and return its exit code. `arguments`
    are the words of vllm's command line. For another command than `serve`, print how it is used and
    return 2.
    """
    if len(arguments) < 2 or arguments[0] != "serve":
        sys.stderr.write(
            "usage: vllm serve MODEL [--port PORT] [--max-model-len N] [--gpu-memory-utilization "
            "SHARE]\n"
        )
        return 2
    options = dict(zip(arguments[2::2], arguments[3::2], strict=False))
    return serve(
        Settings(
            host=options.get("--host", ""),
            port=int(options.get("--port", "8000")),
            model=arguments[1],
            max_model_len=int(options.get("--max-model-len", "4096")),
            utilization=float(options.get("--gpu-memory-utilization", "0.9")),
            devices=gpu.visible()[:1],
            weight_routes=False,
        )
    )
