"""Rules for the lines of vLLM, uvicorn and torch, which both generations run (vLLM 0.12 and 0.26,
measured on 0.32).
"""

from __future__ import annotations

from bs4_common.trainers.grammar import Rule

_NO_ROOM = (
    "{ValueError: }Free memory on device{ <device:w>} (<free_gib>/<total_gib> GiB) on startup is "
    "less than"
)
_OUT_OF_MEMORY = "<error:w>: CUDA out of memory."

INFERENCE_RULES = (
    Rule(
        "inference",
        "INFO",
        "Engine <engine:w>: Avg prompt throughput: <prompt_tps> tokens/s, Avg generation "
        "throughput: <generation_tps> tokens/s, Running: <running:i> reqs, Waiting: <waiting:i> "
        "reqs, <device:w> KV cache usage: <kv_cache>%",
        "heartbeat",
        whole=False,
    ),
    Rule("inference", "INFO", "Application startup complete.", "ready"),
    Rule("inference", "INFO", "Shutting down", "terminating"),
    # A server whose engine died sends these answers for a second, and then shuts down as if that
    # had been requested.
    Rule(
        "inference",
        "INFO",
        '<client:w> - "POST <path:w> HTTP/1.1" 500 Internal Server Error',
        "server-error",
    ),
    Rule(
        "inference",
        "INFO",
        '<client:w> - "GET /health HTTP/1.1" 503 Service Unavailable',
        "server-error",
    ),
    Rule(
        "inference",
        "ERROR",
        "<error:w>: EngineCore encountered an issue.",
        "inference-lost",
        whole=False,
    ),
    Rule("inference", "ERROR", _NO_ROOM, "gpu-memory", whole=False),
    Rule("inference", "", _NO_ROOM, "gpu-memory", whole=False),
    Rule("inference", "ERROR", _OUT_OF_MEMORY, "gpu-memory", whole=False),
    Rule("inference", "", _OUT_OF_MEMORY, "gpu-memory", whole=False),
)

#: torchrun's own messages, and exceptions that end a trainer. They are in its log without a header
#: of prime-rl's.
TORCH_RULES = (
    Rule(
        "trainer",
        "ERROR",
        "failed (exitcode: <code:i>) local_rank: <local_rank:i> (pid: <pid:i>)",
        "child-failed",
        {"process": "rank", "component": "rank"},
        whole=False,
    ),
    Rule("trainer", "", _OUT_OF_MEMORY, "gpu-memory", whole=False),
)

#: huggingface_hub 1.x and 2.x wait instead of failing (`utils/_http.py`); its logger prints the
#: bare text.
RATE_LIMIT_RULES = tuple(
    Rule(source, "", "Rate limited. Waiting <wait_s>s before retry", "rate-limited", whole=False)
    for source in ("trainer", "orchestrator", "inference", "launcher")
)
