"""Rules for the lines of the current generation (2026-08-21). JSON logs carry the same messages;
`lines` has unpacked them.
"""

from __future__ import annotations

from bs4_common.trainers.grammar import Rule
from bs4_common.trainers.prime_rl_shared_lines import SHARED_RULES
from bs4_common.trainers.programs_lines import CURRENT_PROGRAMS

_QUALITY = "Turns <turns> | Branches <branches>"

TRAINER = (
    Rule(
        "trainer",
        "SUCCESS",
        "Step <step:i> | <time_s:d> | Loss <loss> | Entropy <entropy>{ | Mismatch KL "
        "<mismatch_kl>}{ | Grad. Norm <grad_norm>} | LR <lr>"
        " | Throughput <throughput> tokens/s | MFU <mfu>% | Peak Mem. <peak_mem_gib> GiB{ | Max "
        "Vio <max_vio>}"
        "{ | Routing Conf. <routing_conf>}",
        "step",
    ),
    Rule(
        "trainer",
        "INFO",
        "Broadcasting startup policy weights (v<policy:i>) to inference engines",
        "starting",
        {"what": "broadcast"},
    ),
    Rule("trainer", "ERROR", "Fatal error in <function:w>", "fatal"),
)

ORCHESTRATOR = (
    Rule(
        "orchestrator",
        "SUCCESS",
        "Step <step:i> | <time_s:d> | Reward <reward> | Trainable "
        f"<trainable_traces:i>/<effective_traces:i> (<trainable>%) | {_QUALITY}"
        " | Max Off-Policy <off_policy:i> | Error <error>% | Cancelled <cancelled>% | Truncation "
        "<truncation>%",
        "step",
    ),
    Rule(
        "orchestrator",
        "SUCCESS",
        "Evaluated <env:w> (Step <step:i>) | Policy v<policy:i> | <time_s:d> | Reward <reward> | "
        f"{_QUALITY} | Error <error>% | Truncation <truncation>%",
        "eval",
    ),
    Rule(
        "orchestrator",
        "INFO",
        "Starting evals in <envs:t> (<rollouts:i> total rollouts)",
        "eval-start",
    ),
    # Every log.interval (10 s): the best sign that the orchestrator lives.
    Rule(
        "orchestrator",
        "INFO",
        "Train batch <have:i>/<target:i> (<percent>%){<_envs:t>} (+<buffered:i> "
        "buffered){<_evals:t>}; <inflight:i> inflight episodes (train=<train:i>, eval=<eval:i>",
        "heartbeat",
        whole=False,
    ),
    Rule(
        "orchestrator",
        "INFO",
        "Train batch <have:i>/<target:i> (<percent>%){<_rest:t>}; <inflight:i> inflight "
        "episodes (train=<train:i>, eval=<eval:i>",
        "heartbeat",
        whole=False,
    ),
    Rule(
        "orchestrator",
        "INFO",
        "Holding batch <step:i> until the trainer publishes policy v<needed_policy:i> "
        "(currently v<policy:i>)",
        "holding",
    ),
    Rule(
        "orchestrator",
        "INFO",
        "Pausing dispatcher to prevent orchestrator from racing from trainer.",
        "holding",
        {"dispatcher": "paused"},
        whole=False,
    ),
    Rule("orchestrator", "INFO", "Resuming dispatcher", "holding", {"dispatcher": "resumed"}),
    Rule(
        "orchestrator",
        "INFO",
        "Orchestrator paused: waiting for trainer to broadcast checkpoint <checkpoint:i>.",
        "barrier",
        whole=False,
    ),
    Rule("orchestrator", "INFO", "Updating policy in-flight to v<policy:i>", "policy-update"),
    Rule("orchestrator", "INFO", "Resuming orchestrator from checkpoint step <step:i>", "resume"),
    Rule(
        "orchestrator", "INFO", "Waiting for policy inference pool to be ready", "waiting-inference"
    ),
    Rule("orchestrator", "SUCCESS", "Policy inference pool ready", "ready"),
    Rule(
        "orchestrator",
        "WARNING",
        "Step <step:i>: empty train batch after <episodes:i> finalized episodes (consecutive "
        "empty batches: <consecutive:i>/<limit:i>)",
        "empty-batch",
    ),
    Rule(
        "orchestrator",
        "WARNING",
        "Only <trainable_traces:i>/<effective_traces:i> effective traces are trainable "
        "(<trainable>%)",
        "low-trainable",
        whole=False,
    ),
    Rule(
        "orchestrator",
        "WARNING",
        "Cancelled <count:i> train episodes past max_off_policy_steps=<limit:i>.",
        "cancelled",
        whole=False,
    ),
    Rule(
        "orchestrator",
        "WARNING",
        "Trace failed in group <group:w> (<env:t>) — <error_type:w>: <error:t>",
        "rollout-failed",
    ),
    Rule(
        "orchestrator",
        "WARNING",
        "Orchestrator interrupted after <elapsed_s:d> — forcing cleanup",
        "terminating",
        whole=False,
    ),
    Rule("orchestrator", "WARNING", "Orchestrator cleanup complete (forced).", "terminating"),
    Rule("orchestrator", "ERROR", "Fatal error in <function:w>", "fatal"),
    Rule(
        "orchestrator",
        "",
        "FileNotFoundError: Orchestrator checkpoint not found at <path:t>step_<step:i>/<part:w>",
        "fatal",
    ),
)

LAUNCHER = (
    Rule(
        "launcher",
        "INFO",
        "Resuming from step <step:i>, cleaning future rollouts and broadcasts",
        "resume",
    ),
    Rule(
        "launcher",
        "INFO",
        "Training from scratch, cleaning any stale rollouts and broadcasts",
        "starting",
        {"what": "scratch"},
    ),
    Rule(
        "launcher",
        "SUCCESS",
        "Startup complete. Showing orchestrator logs...",
        "starting",
        {"what": "complete"},
    ),
    Rule("launcher", "ERROR", "<process:w> failed with exit code <code:i>", "child-failed"),
    Rule(
        "launcher",
        "WARNING",
        "Received SIGTERM, terminating all processes...",
        "terminating",
        {"signal": "SIGTERM"},
    ),
    Rule("launcher", "SUCCESS", "Training finished!", "finished"),
)

INFERENCE = (
    Rule(
        "inference",
        "ERROR",
        "Router exited with code <code:i> - shutting down",
        "inference-lost",
        {"component": "router"},
    ),
)

RULES = (
    *CURRENT_PROGRAMS,
    *TRAINER,
    *ORCHESTRATOR,
    *LAUNCHER,
    *INFERENCE,
    *SHARED_RULES,
)
