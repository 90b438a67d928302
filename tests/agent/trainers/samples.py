"""Lines as both generations print them, with what they mean. The numbers are sample values; the
formats are the trainers' own.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

SHARED = Path(__file__).resolve().parents[3] / "../shared"
CORPUS = SHARED / "corpus/prime-rl-samples"
SCHEMAS = SHARED / "reference/schemas"

#: The generations whose lines stand here; verl's are in test_verl_lines.py.
PRIME_RL = ("prime-rl-2026-01", "prime-rl")

#: (source, level, message) -> (kind, step, values); None for a line without a meaning of its own.
Meaning = tuple[str, int | None, dict[str, Any]] | None

_WAITED = {"waited_s": 30.0, "error": "All connection attempts failed"}

V2026_01: dict[tuple[str, str, str], Meaning] = {
    ("trainer", "INFO", "Starting training loop (max_steps=20)"): (
        "starting",
        None,
        {"what": "loop", "max_steps": 20},
    ),
    (
        "trainer",
        "SUCCESS",
        "Step 0 | Time: 31.27s | Loss: 0.0012 | Entropy: 0.4310 | Mismatch KL: 0.0007 | Grad. "
        "Norm: 0.1420 | LR: 3.00e-06 | Throughput: 20311 tokens/s | MFU: 12.3% | Peak Mem.: 41.2 "
        "GiB",
    ): (
        "step",
        0,
        {
            "time_s": 31.27,
            "loss": 0.0012,
            "entropy": 0.431,
            "mismatch_kl": 0.0007,
            "grad_norm": 0.142,
            "lr": 3e-06,
            "throughput": 20311.0,
            "mfu": 12.3,
            "peak_mem_gib": 41.2,
        },
    ),
    (
        "trainer",
        "SUCCESS",
        "Step 1 | Time: 32.27s | Loss: 0.0031 | Entropy: 0.4221 | Mismatch KL: 0.0009 | Grad. "
        "Norm: 0.1511 | LR: 3.00e-06 | Throughput: 20311 tokens/s | MFU: 12.3% | Peak Mem.: 41.2 "
        "GiB",
    ): (
        "step",
        1,
        {
            "time_s": 32.27,
            "loss": 0.0031,
            "entropy": 0.4221,
            "mismatch_kl": 0.0009,
            "grad_norm": 0.1511,
            "lr": 3e-06,
            "throughput": 20311.0,
            "mfu": 12.3,
            "peak_mem_gib": 41.2,
        },
    ),
    (
        "trainer",
        "SUCCESS",
        "Step 1 | Time: 32.27s | Loss: 0.0031 | Entropy: 0.4221 | Mismatch KL: 0.0009 | Grad. "
        "Norm: 0.1511 | LR: 3.00e-06 | Throughput: 20311 tokens/s | MFU: 12.3% | Peak Mem.: 41.2 "
        "GiB | Max Vio: 0.1234",
    ): (
        "step",
        1,
        {
            "time_s": 32.27,
            "loss": 0.0031,
            "entropy": 0.4221,
            "mismatch_kl": 0.0009,
            "grad_norm": 0.1511,
            "lr": 3e-06,
            "throughput": 20311.0,
            "mfu": 12.3,
            "peak_mem_gib": 41.2,
            "max_vio": 0.1234,
        },
    ),
    ("trainer", "INFO", "Saving checkpoint at step 20"): ("save", 20, {"part": "trainer"}),
    ("trainer", "INFO", "Resuming training from checkpoint step 20"): ("resume", 20, {}),
    ("trainer", "INFO", "Starting from step 20 (total_tokens=0, total_samples=0)"): (
        "starting",
        20,
        {"what": "position", "total_tokens": 0, "total_samples": 0},
    ),
    ("trainer", "WARNING", "Timeout waiting for enough tokens to pack"): (
        "waiting-batch",
        None,
        {},
    ),
    ("trainer", "SUCCESS", "RL trainer finished!"): ("finished", None, {}),
    (
        "orchestrator",
        "SUCCESS",
        "Step 3 | Time: 42.50s | Reward: 0.3750 | Throughput: 5123.4 tokens/s | Seq. Length: "
        "320.0 tokens/sample | Async Level: 1 | Max. Off-Policy Level: 2",
    ): (
        "step",
        3,
        {
            "time_s": 42.5,
            "reward": 0.375,
            "throughput": 5123.4,
            "seq_len": 320.0,
            "async_level": 1,
            "off_policy": 2,
        },
    ),
    (
        "orchestrator",
        "SUCCESS",
        "Step 3 | Time: 42.50s | Reward: 0.3750 | Val. Reward: 0.4000 | Throughput: 5123.4 "
        "tokens/s | Seq. Length: 320.0 tokens/sample | Async Level: 1 | Max. Off-Policy Level: 2",
    ): (
        "step",
        3,
        {
            "time_s": 42.5,
            "reward": 0.375,
            "val_reward": 0.4,
            "throughput": 5123.4,
            "seq_len": 320.0,
            "async_level": 1,
            "off_policy": 2,
        },
    ),
    ("orchestrator", "INFO", "Starting orchestrator step 3"): ("start-step", 3, {}),
    ("orchestrator", "INFO", "Waiting for inference pool to be ready"): (
        "waiting-inference",
        None,
        {},
    ),
    ("orchestrator", "SUCCESS", "Inference pool ready"): ("ready", None, {}),
    (
        "orchestrator",
        "INFO",
        "Hit async barrier because we are >1 step(s) async. Waiting for checkpoint 4",
    ): (
        "barrier",
        None,
        {"async_level": 1, "checkpoint": 4},
    ),
    (
        "orchestrator",
        "WARNING",
        (
            "Cancelled 4 old rollout requests (will refill naturally). Consider increasing "
            "max_off_policy_steps to avoid this."
        ),
    ): ("cancelled", None, {"count": 4}),
    ("orchestrator", "WARNING", "Rollout failed: Request timed out."): (
        "rollout-failed",
        None,
        {"error": "Request timed out."},
    ),
    (
        "orchestrator",
        "ERROR",
        "Aborted rollout due to ModelError(), caused by APIConnectionError('Connection error.')",
    ): (
        "rollout-failed",
        None,
        {"error": "ModelError(), caused by APIConnectionError('Connection error.')"},
    ),
    (
        "orchestrator",
        "WARNING",
        (
            "Inference server was not reached after 30 seconds (Error: All connection attempts "
            "failed) on http://localhost:8000"
        ),
    ): ("waiting-inference", None, {**_WAITED, "url": "http://localhost:8000"}),
    (
        "orchestrator",
        "ERROR",
        "Inference server is not ready after 1800 (>1800) seconds. Aborting...",
    ): (
        "inference-lost",
        None,
        {"waited_s": 1800.0},
    ),
    (
        "orchestrator",
        "SUCCESS",
        "Evaluated aime2024 in 123.40s (Avg@4=0.3100, Pass@4: 0.5000, Completion Length: 1200.50 "
        "(±300.25, ∈[10.00, 4096.00]), Truncated: 3.1%)",
    ): (
        "eval",
        None,
        {
            "env": "aime2024",
            "time_s": 123.4,
            "k": 4,
            "reward": 0.31,
            "pass_k": 4,
            "pass_rate": 0.5,
            "completion_len": 1200.5,
            "completion_std": 300.25,
            "completion_min": 10.0,
            "completion_max": 4096.0,
            "truncation": 3.1,
        },
    ),
    ("orchestrator", "ERROR", "Eval subprocess failed with exit code -9"): (
        "child-failed",
        None,
        {"process": "eval", "component": "eval", "code": -9},
    ),
    ("orchestrator", "SUCCESS", "Orchestrator finished."): ("finished", None, {}),
    ("launcher", "SUCCESS", "Startup complete. Showing trainer logs..."): (
        "starting",
        None,
        {"what": "complete"},
    ),
    ("launcher", "ERROR", "Error: Inference failed with exit code 1"): (
        "child-failed",
        None,
        {"process": "inference", "component": "inference", "code": 1},
    ),
    ("launcher", "ERROR", "Terminating all processes..."): ("terminating", None, {}),
    ("launcher", "SUCCESS", "RL training finished!"): ("finished", None, {}),
    ("launcher", "WARNING", "Received interrupt signal, terminating all processes..."): (
        "terminating",
        None,
        {"signal": "SIGINT"},
    ),
}

_CURRENT_STEP = {
    "time_s": 42.5,
    "reward": 0.375,
    "trainable_traces": 96,
    "effective_traces": 128,
    "trainable": 75.0,
    "turns": 1.0,
    "branches": 1.0,
    "off_policy": 1,
    "error": 0.8,
    "cancelled": 0.0,
    "truncation": 1.6,
}

CURRENT: dict[tuple[str, str, str], Meaning] = {
    ("trainer", "INFO", "Broadcasting startup policy weights (v0) to inference engines"): (
        "starting",
        None,
        {"what": "broadcast", "policy": 0},
    ),
    (
        "trainer",
        "SUCCESS",
        "Step 1 |   31.3s | Loss 0.0012 | Entropy 0.4310 | Mismatch KL 0.0007 | Grad. Norm 0.1420 "
        "| LR 3.00e-06 | Throughput 20311 tokens/s | MFU 12.3% | Peak Mem. 41.2 GiB",
    ): (
        "step",
        1,
        {
            "time_s": 31.3,
            "loss": 0.0012,
            "entropy": 0.431,
            "mismatch_kl": 0.0007,
            "grad_norm": 0.142,
            "lr": 3e-06,
            "throughput": 20311.0,
            "mfu": 12.3,
            "peak_mem_gib": 41.2,
        },
    ),
    (
        "trainer",
        "SUCCESS",
        "Step 1 |   31.3s | Loss 0.0012 | Entropy 0.4310 | LR 3.00e-06 | Throughput 20311 "
        "tokens/s | MFU 12.3% | Peak Mem. 41.2 GiB | Max Vio 0.1234 | Routing Conf. 0.7700",
    ): (
        "step",
        1,
        {
            "time_s": 31.3,
            "loss": 0.0012,
            "entropy": 0.431,
            "lr": 3e-06,
            "throughput": 20311.0,
            "mfu": 12.3,
            "peak_mem_gib": 41.2,
            "max_vio": 0.1234,
            "routing_conf": 0.77,
        },
    ),
    ("trainer", "INFO", "Saving checkpoint at step 20"): ("save", 20, {"part": "trainer"}),
    ("trainer", "INFO", "Resuming training from checkpoint step 20"): ("resume", 20, {}),
    ("orchestrator", "INFO", "Resuming orchestrator from checkpoint step 20"): ("resume", 20, {}),
    ("trainer", "INFO", "Starting from step 21 (total_tokens=0, total_samples=0)"): (
        "starting",
        21,
        {"what": "position", "total_tokens": 0, "total_samples": 0},
    ),
    ("trainer", "SUCCESS", "RL trainer finished!"): ("finished", None, {}),
    (
        "orchestrator",
        "SUCCESS",
        "Step 3 |   42.5s | Reward 0.3750 | Trainable 96/128 (75.0%) | Turns 1.0 | Branches 1.0 | "
        "Max Off-Policy 1 | Error 0.8% | Cancelled 0.0% | Truncation 1.6%",
    ): ("step", 3, _CURRENT_STEP),
    (
        "orchestrator",
        "SUCCESS",
        (
            "Evaluated aime25 (Step 20) | Policy v19 |   3m 3s | Reward 0.3750 | Turns 1.0 | "
            "Branches 1.0 | Error 0.8% | Truncation 1.6%"
        ),
    ): (
        "eval",
        20,
        {
            "env": "aime25",
            "policy": 19,
            "time_s": 183.0,
            "reward": 0.375,
            "turns": 1.0,
            "branches": 1.0,
            "error": 0.8,
            "truncation": 1.6,
        },
    ),
    (
        "orchestrator",
        "INFO",
        "Holding batch 5 until the trainer publishes policy v3 (currently v2)",
    ): (
        "holding",
        5,
        {"needed_policy": 3, "policy": 2},
    ),
    (
        "orchestrator",
        "INFO",
        (
            "Pausing dispatcher to prevent orchestrator from racing from trainer. Waiting for "
            "new policy..."
        ),
    ): (
        "holding",
        None,
        {"dispatcher": "paused"},
    ),
    ("orchestrator", "INFO", "Resuming dispatcher"): ("holding", None, {"dispatcher": "resumed"}),
    ("orchestrator", "INFO", "Waiting for policy inference pool to be ready"): (
        "waiting-inference",
        None,
        {},
    ),
    ("orchestrator", "SUCCESS", "Policy inference pool ready"): ("ready", None, {}),
    (
        "orchestrator",
        "WARNING",
        "Step 4: empty train batch after 128 finalized episodes (consecutive empty batches: 3/10)",
    ): (
        "empty-batch",
        4,
        {"episodes": 128, "consecutive": 3, "limit": 10},
    ),
    (
        "orchestrator",
        "WARNING",
        "Only 3/128 effective traces are trainable (2.3%) — consider reviewing task difficulty",
    ): (
        "low-trainable",
        None,
        {"trainable_traces": 3, "effective_traces": 128, "trainable": 2.3},
    ),
    (
        "orchestrator",
        "WARNING",
        "Orchestrator interrupted after 1h 3m — forcing cleanup (not a clean exit)",
    ): (
        "terminating",
        None,
        {"elapsed_s": 3780.0},
    ),
    ("orchestrator", "SUCCESS", "Orchestrator step loop done in 1h 3m"): None,
    ("orchestrator", "SUCCESS", "Orchestrator finished."): ("finished", None, {}),
    (
        "orchestrator",
        "INFO",
        (
            "Orchestrator paused: waiting for trainer to broadcast checkpoint 4. Training is "
            "progressing normally."
        ),
    ): ("barrier", None, {"checkpoint": 4}),
    (
        "orchestrator",
        "WARNING",
        (
            "Cancelled 4 train episodes past max_off_policy_steps=8. Consider increasing it to "
            "avoid this."
        ),
    ): ("cancelled", None, {"count": 4, "limit": 8}),
    (
        "orchestrator",
        "WARNING",
        "Trace failed in group ab12cd34 (reverse-text) — SandboxError: Sandbox not ready",
    ): (
        "rollout-failed",
        None,
        {
            "group": "ab12cd34",
            "env": "reverse-text",
            "error_type": "SandboxError",
            "error": "Sandbox not ready",
        },
    ),
    (
        "orchestrator",
        "WARNING",
        (
            "Inference server was not reached after 30 seconds (Error: All connection attempts "
            "failed) on http://localhost:8100"
        ),
    ): ("waiting-inference", None, {**_WAITED, "url": "http://localhost:8100"}),
    (
        "orchestrator",
        "ERROR",
        "Inference server is not ready after 1800 (>1800) seconds. Aborting...",
    ): (
        "inference-lost",
        None,
        {"waited_s": 1800.0},
    ),
    ("orchestrator", "INFO", "Updating policy in-flight to v4"): (
        "policy-update",
        None,
        {"policy": 4},
    ),
    ("orchestrator", "ERROR", "Fatal error in run_orchestrator"): (
        "fatal",
        None,
        {"function": "run_orchestrator"},
    ),
    (
        "orchestrator",
        "INFO",
        "Train batch 64/128 (50.0%) (+12 buffered); 120 inflight episodes (train=120, eval=0)",
    ): (
        "heartbeat",
        None,
        {
            "have": 64,
            "target": 128,
            "percent": 50.0,
            "buffered": 12,
            "inflight": 120,
            "train": 120,
            "eval": 0,
        },
    ),
    ("launcher", "SUCCESS", "Startup complete. Showing orchestrator logs..."): (
        "starting",
        None,
        {"what": "complete"},
    ),
    ("launcher", "ERROR", "Error: Train env server reverse-text failed with exit code 1"): (
        "child-failed",
        None,
        {"process": "train env server reverse-text", "component": "env-server", "code": 1},
    ),
    ("launcher", "ERROR", "Terminating all processes..."): ("terminating", None, {}),
    ("launcher", "SUCCESS", "Training finished!"): ("finished", None, {}),
    ("launcher", "WARNING", "Received SIGTERM, terminating all processes..."): (
        "terminating",
        None,
        {"signal": "SIGTERM"},
    ),
    ("launcher", "INFO", "Resuming from step 20, cleaning future rollouts and broadcasts"): (
        "resume",
        20,
        {},
    ),
    ("launcher", "INFO", "Training from scratch, cleaning any stale rollouts and broadcasts"): (
        "starting",
        None,
        {"what": "scratch"},
    ),
    ("inference", "ERROR", "Router exited with code -9 - shutting down"): (
        "inference-lost",
        None,
        {"component": "router", "code": -9},
    ),
}

MEANINGS = {"prime-rl-2026-01": V2026_01, "prime-rl": CURRENT}
CORPUS_FOLDERS = {"prime-rl-2026-01": "v2026-01", "prime-rl": "current"}

_COLOURS = {
    "INFO": "\x1b[1m",
    "SUCCESS": "\x1b[32m\x1b[1m",
    "WARNING": "\x1b[33m\x1b[1m",
    "ERROR": "\x1b[31m\x1b[1m",
}


def plain(level: str, message: str, clock: str = "21:36:59") -> bytes:
    """A line as loguru writes it without colours."""
    return f"{clock} {level:>7} {message}\n".encode()


def coloured(level: str, message: str, clock: str = "21:36:59") -> bytes:
    """The same with the colours that both launchers force."""
    colour = _COLOURS[level]
    return (
        f"\x1b[2m{clock}\x1b[0m {colour}{level:>7}\x1b[0m {colour}\x1b[22m{message}\x1b[0m\x1b[0m\n"
    ).encode()
