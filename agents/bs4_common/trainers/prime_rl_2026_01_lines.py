"""Rules for the lines of the 2026-01-07 generation."""

from __future__ import annotations

from bs4_common.trainers.grammar import Rule
from bs4_common.trainers.prime_rl_shared_lines import SHARED_RULES
from bs4_common.trainers.programs_lines import V2026_01_PROGRAMS

TRAINER = (
    Rule(
        "trainer",
        "SUCCESS",
        "Step <step:i> | Time: <time_s>s | Loss: <loss> | Entropy: <entropy> | Mismatch KL: "
        "<mismatch_kl> | Grad. Norm: <grad_norm>"
        " | LR: <lr> | Throughput: <throughput> tokens/s | MFU: <mfu>% | Peak Mem.: "
        "<peak_mem_gib> GiB{ | Max Vio: <max_vio>}",
        "step",
    ),
    Rule("trainer", "INFO", "Starting RL trainer in", "starting", {"what": "process"}, whole=False),
    Rule(
        "trainer", "INFO", "Saving weight checkpoint at step <step:i>", "save", {"part": "weights"}
    ),
    Rule("trainer", "INFO", "Writing final weight checkpoint", "save", {"part": "weights"}),
    Rule("trainer", "WARNING", "Timeout waiting for enough tokens to pack", "waiting-batch"),
    # Only at level debug, every 10 s: the one line that names the step for which the packer polls.
    Rule(
        "trainer",
        "DEBUG",
        "Looking for batches in [PosixPath('<path:t>step_<step:i>/rollouts.bin')]{ (waiting "
        "<waited_s>s)}",
        "waiting-batch",
    ),
    Rule(
        "trainer",
        "ERROR",
        "An error has been caught in function '<function:t>',",
        "fatal",
        whole=False,
    ),
)

ORCHESTRATOR = (
    Rule(
        "orchestrator",
        "SUCCESS",
        "Step <step:i> | Time: <time_s>s | Reward: <reward> |{ Val. Reward: <val_reward> |} "
        "Throughput: <throughput> tokens/s"
        " | Seq. Length: <seq_len> tokens/sample | Async Level: <async_level:i> | Max. "
        "Off-Policy Level: <off_policy:i>",
        "step",
    ),
    Rule(
        "orchestrator",
        "SUCCESS",
        "Evaluated <env:w> in <time_s>s (Avg@<k:i>=<reward>{, Pass@<pass_k:i>: "
        "<pass_rate>{<_more:t>}}, Completion Length: <completion_len>"
        " (±<completion_std>, ∈[<completion_min>, <completion_max>]), Truncated: <truncation>%)",
        "eval",
    ),
    # The orchestrator does nothing else meanwhile; the result is the Evaluated line.
    Rule(
        "orchestrator",
        "INFO",
        "Running evals for checkpoint step <step:i> (blocking, subprocess)",
        "eval-start",
    ),
    Rule("orchestrator", "INFO", "Running final evals (subprocess)", "eval-start"),
    Rule(
        "orchestrator",
        "INFO",
        "Running validation for step <step:i>",
        "eval-start",
        {"what": "validation"},
    ),
    Rule("orchestrator", "INFO", "Starting orchestrator", "starting", {"what": "process"}),
    Rule(
        "orchestrator",
        "INFO",
        "Starting orchestrator loop (max_steps=<max_steps:i>)",
        "starting",
        {"what": "loop"},
    ),
    Rule("orchestrator", "INFO", "Starting orchestrator step <step:i>", "start-step"),
    Rule("orchestrator", "INFO", "Resuming training from checkpoint step <step:i>", "resume"),
    Rule(
        "orchestrator",
        "INFO",
        "Training from scratch. Resetting weights to base model",
        "starting",
        {"what": "scratch"},
    ),
    Rule("orchestrator", "INFO", "Waiting for inference pool to be ready", "waiting-inference"),
    Rule("orchestrator", "SUCCESS", "Inference pool ready", "ready"),
    Rule(
        "orchestrator",
        "INFO",
        "Hit async barrier because we are ><async_level:i> step(s) async. Waiting for "
        "checkpoint <checkpoint:i>",
        "barrier",
    ),
    Rule(
        "orchestrator",
        "WARNING",
        "Cancelled <count:i> old rollout requests",
        "cancelled",
        whole=False,
    ),
    Rule("orchestrator", "WARNING", "Rollout failed: <error:t>", "rollout-failed"),
    # verifiers' own logger, in the orchestrator's standard error. The error stays in the rollout's
    # state, which counts as done.
    Rule("orchestrator", "ERROR", "Aborted rollout due to <error:t>", "rollout-failed"),
    Rule(
        "orchestrator",
        "ERROR",
        "Eval subprocess failed with exit code <code:i>",
        "child-failed",
        {"process": "eval", "component": "eval"},
    ),
    Rule(
        "orchestrator",
        "ERROR",
        "An error has been caught in function '<function:t>',",
        "fatal",
        whole=False,
    ),
    Rule(
        "orchestrator",
        "",
        "FileNotFoundError: Checkpoint not found at <path:t>step_<step:i>/<part:w>",
        "fatal",
    ),
)

LAUNCHER = (
    Rule(
        "launcher",
        "SUCCESS",
        "Startup complete. Showing trainer logs...",
        "starting",
        {"what": "complete"},
    ),
    Rule("launcher", "SUCCESS", "RL training finished!", "finished"),
)

RULES = (
    *V2026_01_PROGRAMS,
    *TRAINER,
    *ORCHESTRATOR,
    *LAUNCHER,
    *SHARED_RULES,
)
