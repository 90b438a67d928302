"""The log lines of the current prime-rl, with the calls that make them (559b44772)."""

from __future__ import annotations

from bs4_console.trainers.belief import Belief, Logged, Place, Raised, Texts, line

_STEPS = "steps, curves, the progress of a run, and what watches for a stall"
_START = "the phases of a start, and what a launch waits for"
_RESUME = "the step from which a run resumed, and silent-fresh-start"
_SAVES = "when checkpoints were saved"
_ENDS = "whether a run ended well"
_DEATHS = "which part of a run failed, and why"
_WAITS = "what a run is waiting for"
_ALIVE = "whether an orchestrator between two steps is alive, and run-stalled"
_EVALS = "evaluations and their results"
_ROLLOUTS = "failed and cancelled rollouts, and empty-batches"
_SERVER = "whether the inference server is reached"

_LAUNCHER = Place("src/prime_rl/entrypoints/rl.py", "rl_local")
_RL = Place("src/prime_rl/entrypoints/rl.py", "rl")
_SFT_LAUNCHER = Place("src/prime_rl/entrypoints/sft.py", "sft_local")
_TRAINER = Place("src/prime_rl/trainer/rl/train.py", "train")
_SFT = Place("src/prime_rl/trainer/sft/train.py", "train")
_HEALTH = Place("src/prime_rl/utils/client.py", "check_health._check_health")


def _orchestrator(method: str) -> Place:
    """Return the place of a method of the orchestrator."""
    return Place("src/prime_rl/orchestrator/orchestrator.py", f"Orchestrator.{method}")


_LOOP = Logged(
    "INFO",
    "Starting training loop (max_steps=<max_steps:i>)",
    (
        "Starting training loop (max_steps=<max_steps:i>)",
        "Starting training loop (max_steps=infinite)",
    ),
)
_RESUMED = Logged("INFO", "Resuming training from checkpoint step <step:i>")
_SAVED = Logged("INFO", "Saving checkpoint at step <step:i>")
_LAST = Logged("INFO", "Writing final checkpoint")
_FATAL = Logged("ERROR", "Fatal error in <function:w>")
_ERROR = Logged("ERROR", "Error occurred: <error:t>")
_TERMINATES = Logged("ERROR", "Terminating all processes...")
_INTERRUPTED = Logged("WARNING", "Received interrupt signal, terminating all processes...")
_SIGTERM = Logged("WARNING", "Received SIGTERM, terminating all processes...")
_CHILD_FAILED = (
    "Error: <process:t> failed with exit code <code:i>",
    "<process:w> failed with exit code <code:i>",
)

_TRAINERS: tuple[Belief, ...] = (
    line(
        "trainer-step",
        _TRAINER,
        Logged(
            "SUCCESS",
            "Step <step:i> | <time_s:d> | Loss <loss> | Entropy <entropy>{ | Mismatch KL "
            "<mismatch_kl>}{ | Grad. Norm <grad_norm>} | LR <lr> | Throughput <throughput> "
            "tokens/s | MFU <mfu>% | Peak Mem. <peak_mem_gib> GiB{ | Max Vio <max_vio>}"
            "{ | Routing Conf. <routing_conf>}",
        ),
        _STEPS,
    ),
    line(
        "trainer-position",
        _TRAINER,
        Logged(
            "INFO",
            "Starting from step <step:i> (total_tokens=<total_tokens:i>, "
            "total_samples=<total_samples:i>)",
        ),
        _RESUME,
    ),
    line("trainer-loop", _TRAINER, _LOOP, _START),
    line(
        "trainer-first-broadcast",
        _TRAINER,
        Logged(
            "INFO",
            "Broadcasting startup policy weights (v<policy:i>) to inference engines",
        ),
        _START,
    ),
    line("trainer-resume", _TRAINER, _RESUMED, _RESUME),
    line("trainer-save", _TRAINER, _SAVED, _SAVES),
    line("trainer-save-last", _TRAINER, _LAST, _SAVES),
    line("trainer-end", _TRAINER, Logged("SUCCESS", "RL trainer finished!"), _ENDS),
    line(
        "trainer-no-checkpoint",
        Place("src/prime_rl/trainer/ckpt.py", "CheckpointManager.load"),
        Raised(
            "FileNotFoundError",
            "Checkpoint not found at <path:t>",
            ("FileNotFoundError: Checkpoint not found at <path:t>step_<step:i>/<part:w>",),
        ),
        _DEATHS,
    ),
    line(
        "sft-step",
        _SFT,
        Logged(
            "SUCCESS",
            "Step <step:i> | <time_s:d> | Loss <loss>{ | Grad. Norm <grad_norm>} | LR <lr> | "
            "Throughput <throughput> tokens/s | MFU <mfu>% | Peak Mem. "
            "<peak_mem_gib>/<_gpu_gib> GiB (<_share>%)",
            (
                "Step <step:i> | <time_s:d> | Loss <loss>{ | Grad. Norm <grad_norm>} | LR <lr> | "
                "Throughput <throughput> tokens/s | MFU <mfu>% | Peak Mem. "
                "<peak_mem_gib>/<_gpu_gib> GiB (<_share>%){ | Max Vio <max_vio>}"
                "{ | Routing Conf. <routing_conf>}",
            ),
        ),
        _STEPS,
    ),
    line(
        "sft-start",
        _SFT,
        Logged("INFO", "Starting SFT trainer in <world>", ("Starting SFT trainer in",)),
        _START,
    ),
    line(
        "sft-position",
        _SFT,
        Logged(
            "INFO",
            "Starting from step <step:i> (total_tokens=<total_tokens:i>, "
            "total_samples=<total_samples:i>, dataset_state=<_state:t>)",
        ),
        _RESUME,
    ),
    line("sft-loop", _SFT, _LOOP, _START),
    line("sft-resume", _SFT, _RESUMED, _RESUME),
    line("sft-save", _SFT, _SAVED, _SAVES),
    line("sft-save-last", _SFT, _LAST, _SAVES),
    line("sft-end", _SFT, Logged("SUCCESS", "SFT trainer finished!"), _ENDS),
)

_ORCHESTRATORS: tuple[Belief, ...] = (
    line(
        "orchestrator-step",
        _orchestrator("log_train_batch"),
        Logged(
            "SUCCESS",
            "Step <step:i> | <time_s:d> | Reward <reward> | Trainable "
            "<trainable_traces:i>/<effective_traces:i> (<trainable>) | Turns <turns> | Branches "
            "<branches> | Max Off-Policy <off_policy:i> | Error <error> | Cancelled <cancelled> | "
            "Truncation <truncation>",
            (
                "Step <step:i> | <time_s:d> | Reward <reward> | Trainable "
                "<trainable_traces:i>/<effective_traces:i> (<trainable>%) | Turns <turns> | "
                "Branches <branches> | Max Off-Policy <off_policy:i> | Error <error>% | "
                "Cancelled <cancelled>% | Truncation <truncation>%",
            ),
        ),
        _STEPS,
    ),
    line(
        "orchestrator-eval",
        _orchestrator("finalize_eval_batch"),
        Logged(
            "SUCCESS",
            "Evaluated <env:w> (Step <step:i>) | Policy v<policy:i> | <time_s:d> | Reward "
            "<reward> | Turns <turns> | Branches <branches> | Error <error> | Truncation "
            "<truncation>",
            (
                "Evaluated <env:w> (Step <step:i>) | Policy v<policy:i> | <time_s:d> | Reward "
                "<reward> | Turns <turns> | Branches <branches> | Error <error>% | Truncation "
                "<truncation>%",
            ),
        ),
        _EVALS,
    ),
    line(
        "orchestrator-evals",
        _orchestrator("maybe_trigger_eval"),
        Logged("INFO", "Starting evals in <envs:t> (<rollouts:i> total rollouts)"),
        _EVALS,
    ),
    line(
        "orchestrator-heartbeat",
        _orchestrator("collect_pipeline_view"),
        Texts(
            (
                "Train batch <have:i>/<target:i> (<percent>)",
                " (+<buffered:i> buffered)",
                "<inflight:i> inflight episodes (train=<train:i>, eval=<eval:i>",
            ),
            (
                "Train batch <have:i>/<target:i> (<percent>%){<_envs:t>} (+<buffered:i> "
                "buffered){<_evals:t>}; <inflight:i> inflight episodes (train=<train:i>, "
                "eval=<eval:i>",
                "Train batch <have:i>/<target:i> (<percent>%){<_rest:t>}; <inflight:i> inflight "
                "episodes (train=<train:i>, eval=<eval:i>",
            ),
        ),
        _ALIVE,
    ),
    line(
        "orchestrator-holds",
        _orchestrator("finalize_train_batch"),
        Logged(
            "INFO",
            "Holding batch <step:i> until the trainer publishes policy v<needed_policy:i> "
            "(currently v<policy:i>)",
        ),
        _WAITS,
    ),
    line(
        "orchestrator-empty-batch",
        _orchestrator("finalize_train_batch"),
        Logged(
            "WARNING",
            "Step <step:i>: empty train batch after <episodes:i> finalized episodes (consecutive "
            "empty batches: <consecutive:i>/<limit:i>)",
        ),
        _ROLLOUTS,
    ),
    line(
        "orchestrator-low-trainable",
        _orchestrator("finalize_train_batch"),
        Logged(
            "WARNING",
            "Only <trainable_traces:i>/<effective_traces:i> effective traces are trainable "
            "(<trainable>)",
            (
                "Only <trainable_traces:i>/<effective_traces:i> effective traces are trainable "
                "(<trainable>%)",
            ),
            whole=False,
        ),
        _ROLLOUTS,
    ),
    line(
        "orchestrator-pauses",
        _orchestrator("update_dispatch_gate"),
        Logged(
            "INFO",
            "Pausing dispatcher to prevent orchestrator from racing from trainer.",
            whole=False,
        ),
        _WAITS,
    ),
    line(
        "orchestrator-goes-on",
        _orchestrator("update_dispatch_gate"),
        Logged("INFO", "Resuming dispatcher"),
        _WAITS,
    ),
    line(
        "orchestrator-waits-for-weights",
        Place("src/prime_rl/orchestrator/watcher.py", "WeightWatcher.apply_policy_update"),
        Logged(
            "INFO",
            "Orchestrator paused: waiting for trainer to broadcast checkpoint <checkpoint:i>.",
            whole=False,
        ),
        _WAITS,
    ),
    line(
        "orchestrator-policy",
        Place("src/prime_rl/utils/client.py", "_pause_engines"),
        Logged("INFO", "Updating policy in-flight to v<policy:i>"),
        _WAITS,
    ),
    line(
        "orchestrator-pool",
        _orchestrator("setup"),
        Logged("INFO", "Waiting for policy inference pool to be ready"),
        _START,
    ),
    line(
        "orchestrator-ready",
        _orchestrator("setup"),
        Logged("SUCCESS", "Policy inference pool ready"),
        _START,
    ),
    line(
        "orchestrator-resume",
        _orchestrator("setup"),
        Logged("INFO", "Resuming orchestrator from checkpoint step <step:i>"),
        _RESUME,
    ),
    line("orchestrator-save", _orchestrator("maybe_save_ckpt"), _SAVED, _SAVES),
    line("orchestrator-save-last", _orchestrator("start"), _LAST, _SAVES),
    line(
        "orchestrator-end",
        _orchestrator("start"),
        Logged("SUCCESS", "Orchestrator finished."),
        _ENDS,
    ),
    line(
        "orchestrator-interrupted",
        _orchestrator("start"),
        Logged(
            "WARNING", "Orchestrator interrupted after <elapsed_s:d> — forcing cleanup", whole=False
        ),
        _ENDS,
    ),
    line(
        "orchestrator-cleaned-up",
        _orchestrator("start"),
        Logged("WARNING", "Orchestrator cleanup complete (forced)."),
        _ENDS,
    ),
    line(
        "orchestrator-cancelled",
        Place("src/prime_rl/orchestrator/dispatcher.py", "Dispatcher.on_version_pending"),
        Logged(
            "WARNING",
            "Cancelled <count:i> train episodes past max_off_policy_steps=<limit:i>.",
            whole=False,
        ),
        _ROLLOUTS,
    ),
    line(
        "orchestrator-trace-failed",
        Place("src/prime_rl/orchestrator/dispatcher.py", "Dispatcher.handle_completed_episode"),
        Logged(
            "WARNING",
            "Trace failed in group <group:w> (<env:t>) — <error_type:w>: <error:t>",
        ),
        _ROLLOUTS,
    ),
    line(
        "orchestrator-no-checkpoint",
        Place("src/prime_rl/orchestrator/ckpt.py", "CheckpointManager.load"),
        Raised(
            "FileNotFoundError",
            "Orchestrator checkpoint not found at <path:t>",
            (
                "FileNotFoundError: Orchestrator checkpoint not found at "
                "<path:t>step_<step:i>/<part:w>",
            ),
        ),
        _DEATHS,
    ),
    line(
        "server-not-reached",
        _HEALTH,
        Logged(
            "WARNING",
            "Inference server was not reached after <waited_s> seconds (Error: <error:t>) on "
            "<url:w>",
        ),
        _SERVER,
    ),
    line(
        "server-not-ready",
        _HEALTH,
        Logged("ERROR", "Inference server is not ready after <waited_s> (>", whole=False),
        _SERVER,
    ),
)

_OTHERS: tuple[Belief, ...] = (
    line("launcher-start", _LAUNCHER, Logged("INFO", "Starting RL run"), _START),
    line(
        "launcher-resume",
        _RL,
        Logged("INFO", "Resuming from step <step:i>, cleaning future rollouts and broadcasts"),
        _RESUME,
    ),
    line(
        "launcher-scratch",
        _RL,
        Logged("INFO", "Training from scratch, cleaning any stale rollouts and broadcasts"),
        _RESUME,
    ),
    line(
        "launcher-started",
        _LAUNCHER,
        Logged("SUCCESS", "Startup complete. Showing orchestrator logs..."),
        _START,
    ),
    line("launcher-end", _LAUNCHER, Logged("SUCCESS", "Training finished!"), _ENDS),
    line("launcher-error", _LAUNCHER, _ERROR, _DEATHS),
    line(
        "launcher-child-error",
        _LAUNCHER,
        Logged("ERROR", "Error: <error:t>", _CHILD_FAILED),
        _DEATHS,
    ),
    line(
        "launcher-child-failed",
        Place("src/prime_rl/utils/process.py", "monitor_process"),
        Texts(("<process:t> failed with exit code <code:i>",), _CHILD_FAILED),
        _DEATHS,
    ),
    line(
        "launcher-trainer-failed",
        _LAUNCHER,
        Logged("ERROR", "Trainer failed with exit code <code:i>", _CHILD_FAILED),
        _DEATHS,
    ),
    line(
        "launcher-orchestrator-failed",
        _LAUNCHER,
        Logged("ERROR", "Orchestrator failed with exit code <code:i>", _CHILD_FAILED),
        _DEATHS,
    ),
    line("launcher-terminates", _LAUNCHER, _TERMINATES, _DEATHS),
    line("launcher-interrupted", _LAUNCHER, _INTERRUPTED, _ENDS),
    line("launcher-sigterm", _LAUNCHER, _SIGTERM, _ENDS),
    line(
        "sft-launcher-started",
        _SFT_LAUNCHER,
        Logged("SUCCESS", "Startup complete. Showing trainer logs..."),
        _START,
    ),
    line("sft-launcher-end", _SFT_LAUNCHER, Logged("SUCCESS", "SFT training finished!"), _ENDS),
    line("sft-launcher-error", _SFT_LAUNCHER, _ERROR, _DEATHS),
    line("sft-launcher-terminates", _SFT_LAUNCHER, _TERMINATES, _DEATHS),
    line("sft-launcher-interrupted", _SFT_LAUNCHER, _INTERRUPTED, _ENDS),
    line("sft-launcher-sigterm", _SFT_LAUNCHER, _SIGTERM, _ENDS),
    line(
        "fatal-async",
        Place("src/prime_rl/utils/utils.py", "clean_exit.async_wrapper"),
        _FATAL,
        _DEATHS,
    ),
    line(
        "fatal",
        Place("src/prime_rl/utils/utils.py", "clean_exit.sync_wrapper"),
        _FATAL,
        _DEATHS,
    ),
    line(
        "router-exited",
        Place("src/prime_rl/entrypoints/inference.py", "inference_local.watch_router"),
        Logged("ERROR", "Router exited with code <code:i> - shutting down"),
        _SERVER,
    ),
    line(
        "eval-result",
        Place("src/prime_rl/evals/evals.py", "Evals.finalize_eval_batch"),
        Logged(
            "SUCCESS",
            "Evaluated <env:w> (Step <step:i>) | <time_s:d> | Reward <reward> | Turns <turns> | "
            "Branches <branches> | Error <error> | Truncation <truncation>",
            (
                "Evaluated <env:w> (Step <step:i>) | <time_s:d> | Reward <reward> | Turns "
                "<turns> | Branches <branches> | Error <error>% | Truncation <truncation>%",
            ),
        ),
        _EVALS,
    ),
)

LINES = (*_TRAINERS, *_ORCHESTRATORS, *_OTHERS)
