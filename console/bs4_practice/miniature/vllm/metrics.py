"""/metrics in Prometheus text form, under vLLM's names."""

from __future__ import annotations

from .state import EngineClient

_KV_TOKENS = 200_000


def exposition(engine: EngineClient, model: str) -> str:
    """Return the text for /metrics in Prometheus's format: those of vLLM's metrics that the agent
    on a pod reads. `engine` knows their values, and `model` is the model's name.
    """
    running, waiting = engine.load
    label = f'engine="0",model_name="{model}"'
    gauges = {
        "num_requests_running": ("Number of requests in model execution batches.", running),
        "num_requests_waiting": ("Number of requests waiting to be processed.", waiting),
        "kv_cache_usage_perc": (
            "KV-cache usage. 1 means 100 percent usage.",
            running * 64 / _KV_TOKENS,
        ),
    }
    counters = {
        "prompt_tokens": ("Number of prefill tokens processed.", engine.prompt_tokens),
        "generation_tokens": ("Number of generation tokens processed.", engine.generation_tokens),
        "num_preemptions": ("Cumulative number of preemption from the engine.", 0),
    }
    lines = []
    for name, (text, value) in gauges.items():
        lines += [
            f"# HELP vllm:{name} {text}",
            f"# TYPE vllm:{name} gauge",
            f"vllm:{name}{{{label}}} {float(value)}",
        ]
    for name, (text, count) in counters.items():
        lines += [
            f"# HELP vllm:{name}_total {text}",
            f"# TYPE vllm:{name}_total counter",
            f"vllm:{name}_total{{{label}}} {float(count)}",
        ]
    lines += [
        "# HELP vllm:request_success_total Count of successfully processed requests.",
        "# TYPE vllm:request_success_total counter",
        f'vllm:request_success_total{{{label},finished_reason="length"}} {float(engine.finished)}',
    ]
    return "\n".join(lines) + "\n"
