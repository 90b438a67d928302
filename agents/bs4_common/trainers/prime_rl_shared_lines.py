"""Rules for lines that both generations of prime-rl write with the same words."""

from __future__ import annotations

from bs4_common.trainers.grammar import Rule
from bs4_common.trainers.inference_lines import INFERENCE_RULES, RATE_LIMIT_RULES, TORCH_RULES

_NOT_REACHED = (
    "Inference server was not reached after <waited_s> seconds (Error: <error:t>) on <url:w>"
)

#: Also the lines of the programs that both generations run.
SHARED_RULES = (
    Rule("trainer", "INFO", "Resuming training from checkpoint step <step:i>", "resume"),
    Rule(
        "trainer",
        "INFO",
        "Starting from step <step:i> (total_tokens=<total_tokens:i>, "
        "total_samples=<total_samples:i>)",
        "starting",
        {"what": "position"},
    ),
    Rule(
        "trainer",
        "INFO",
        "Starting training loop (max_steps=<max_steps:i>)",
        "starting",
        {"what": "loop"},
    ),
    Rule(
        "trainer",
        "INFO",
        "Starting training loop (max_steps=infinite)",
        "starting",
        {"what": "loop"},
    ),
    Rule("trainer", "INFO", "Saving checkpoint at step <step:i>", "save", {"part": "trainer"}),
    Rule("trainer", "INFO", "Writing final checkpoint", "save", {"part": "trainer"}),
    Rule(
        "trainer",
        "",
        "FileNotFoundError: Checkpoint not found at <path:t>step_<step:i>/<part:w>",
        "fatal",
    ),
    Rule("trainer", "SUCCESS", "RL trainer finished!", "finished"),
    Rule(
        "orchestrator",
        "INFO",
        "Saving checkpoint at step <step:i>",
        "save",
        {"part": "orchestrator"},
    ),
    Rule("orchestrator", "INFO", "Writing final checkpoint", "save", {"part": "orchestrator"}),
    Rule(
        "orchestrator",
        "WARNING",
        _NOT_REACHED,
        "waiting-inference",
    ),
    Rule(
        "orchestrator",
        "ERROR",
        "Inference server is not ready after <waited_s> (>",
        "inference-lost",
        whole=False,
    ),
    Rule("orchestrator", "", "httpx.ConnectError: <error:t>", "fatal"),
    Rule("orchestrator", "SUCCESS", "Orchestrator finished.", "finished"),
    Rule("launcher", "INFO", "Starting RL run", "starting", {"what": "process"}),
    Rule(
        "launcher",
        "ERROR",
        "Error: <process:t> failed with exit code <code:i>",
        "child-failed",
        whole=False,
    ),
    Rule("launcher", "ERROR", "Error occurred: <error:t>", "fatal"),
    Rule("launcher", "ERROR", "Terminating all processes...", "terminating"),
    Rule(
        "launcher",
        "WARNING",
        "Received interrupt signal, terminating all processes...",
        "terminating",
        {"signal": "SIGINT"},
    ),
    *INFERENCE_RULES,
    *TORCH_RULES,
    *RATE_LIMIT_RULES,
)
