"""The log lines of prime-rl of January 2026, with the calls that make them (a24ec986b)."""

from __future__ import annotations

from bs4_console.trainers.belief import Belief, Logged, Place, Raised, Texts, line

_STEPS = "steps, curves, the progress of a run, and what watches for a stall"
_START = "the phases of a start, and what a launch waits for"
_RESUME = "the step from which a run resumed, and silent-fresh-start"
_SAVES = "when checkpoints were saved"
_ENDS = "whether a run ended well"
_DEATHS = "which part of a run failed, and why"
_WAITS = "what a run is waiting for, and step-desync"
_EVALS = "evaluations and their results"
_ROLLOUTS = "failed and cancelled rollouts"
_SERVER = "whether the inference server is reached"

_LAUNCHER = Place("src/prime_rl/rl.py", "rl")
_TRAINER = Place("src/prime_rl/trainer/rl/train.py", "train")
_SFT = Place("src/prime_rl/trainer/sft/train.py", "train")
_ORCHESTRATOR = Place("src/prime_rl/orchestrator/orchestrator.py", "orchestrate")
_POLICY = Place("src/prime_rl/orchestrator/scheduler.py", "Scheduler.update_policy")
_BATCH = Place("src/prime_rl/orchestrator/scheduler.py", "Scheduler.generate_batch")
_EVAL = Place("src/prime_rl/eval/eval.py", "eval")
_RUN_EVAL = Place("src/prime_rl/eval/utils.py", "run_eval")
_HEALTH = Place("src/prime_rl/utils/client.py", "check_health._check_health")

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
_SAVED_WEIGHTS = Logged("INFO", "Saving weight checkpoint at step <step:i>")
_LAST_WEIGHTS = Logged("INFO", "Writing final weight checkpoint")
_POOL = Logged("INFO", "Waiting for inference pool to be ready")
_NOT_FOUND = Raised(
    "FileNotFoundError",
    "Checkpoint not found at <path:t>",
    ("FileNotFoundError: Checkpoint not found at <path:t>step_<step:i>/<part:w>",),
)

_TRAINERS: tuple[Belief, ...] = (
    line(
        "trainer-step",
        _TRAINER,
        Logged(
            "SUCCESS",
            "Step <step:i> | Time: <time_s>s | Loss: <loss> | Entropy: <entropy> | Mismatch KL: "
            "<mismatch_kl> | Grad. Norm: <grad_norm> | LR: <lr> | Throughput: <throughput> "
            "tokens/s | MFU: <mfu>% | Peak Mem.: <peak_mem_gib> GiB{ | Max Vio: <max_vio>}",
        ),
        _STEPS,
    ),
    line(
        "trainer-start",
        _TRAINER,
        Logged("INFO", "Starting RL trainer in <world>", ("Starting RL trainer in",), whole=False),
        _START,
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
    line("trainer-resume", _TRAINER, _RESUMED, _RESUME),
    line("trainer-save", _TRAINER, _SAVED, _SAVES),
    line("trainer-save-last", _TRAINER, _LAST, _SAVES),
    line("trainer-save-weights", _TRAINER, _SAVED_WEIGHTS, _SAVES),
    line("trainer-save-weights-last", _TRAINER, _LAST_WEIGHTS, _SAVES),
    line("trainer-end", _TRAINER, Logged("SUCCESS", "RL trainer finished!"), _ENDS),
    line(
        "trainer-no-checkpoint",
        Place("src/prime_rl/trainer/ckpt.py", "CheckpointManager.load"),
        _NOT_FOUND,
        _DEATHS,
    ),
    line(
        "trainer-few-tokens",
        Place("src/prime_rl/trainer/rl/packer.py", "Packer.pack"),
        Logged("WARNING", "Timeout waiting for enough tokens to pack"),
        _WAITS,
    ),
    line(
        "trainer-looks-for-batches",
        Place("src/prime_rl/transport/filesystem.py", "FileSystemTrainingBatchReceiver.receive"),
        Logged(
            "DEBUG",
            "Looking for batches in <paths>{ (waiting <waited_s>s)}",
            (
                "Looking for batches in [PosixPath('<path:t>step_<step:i>/rollouts.bin')]"
                "{ (waiting <waited_s>s)}",
            ),
        ),
        _WAITS,
    ),
    line(
        "sft-step",
        _SFT,
        Logged(
            "SUCCESS",
            "Step <step:i> | Time: <time_s>s | Loss: <loss> | Grad. Norm: <grad_norm> | LR: <lr> | "
            "Throughput: <throughput> tokens/s | MFU: <mfu>% | Peak Mem.: "
            "<peak_mem_gib>/<_gpu_gib> GiB (<_share>%){ | Max Vio: <max_vio>}",
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
    line("sft-save-weights", _SFT, _SAVED_WEIGHTS, _SAVES),
    line("sft-save-weights-last", _SFT, _LAST_WEIGHTS, _SAVES),
    line("sft-end", _SFT, Logged("SUCCESS", "SFT trainer finished!"), _ENDS),
)

_ORCHESTRATORS: tuple[Belief, ...] = (
    line(
        "orchestrator-step",
        _ORCHESTRATOR,
        Logged(
            "SUCCESS",
            "Step <step:i> | Time: <time_s>s | Reward: <reward> |{ Val. Reward: <val_reward> |} "
            "Throughput: <throughput> tokens/s | Seq. Length: <seq_len> tokens/sample | Async "
            "Level: <async_level:i> | Max. Off-Policy Level: <off_policy:i>",
        ),
        _STEPS,
    ),
    line("orchestrator-start", _ORCHESTRATOR, Logged("INFO", "Starting orchestrator"), _START),
    line(
        "orchestrator-loop",
        _ORCHESTRATOR,
        Logged("INFO", "Starting orchestrator loop (max_steps=<max_steps:i>)"),
        _START,
    ),
    line(
        "orchestrator-begins-step",
        _ORCHESTRATOR,
        Logged("INFO", "Starting orchestrator step <step:i>"),
        _WAITS,
    ),
    line(
        "orchestrator-scratch",
        _ORCHESTRATOR,
        Logged("INFO", "Training from scratch. Resetting weights to base model"),
        _RESUME,
    ),
    line("orchestrator-pool", _ORCHESTRATOR, _POOL, _START),
    line("orchestrator-ready", _ORCHESTRATOR, Logged("SUCCESS", "Inference pool ready"), _START),
    line("orchestrator-resume", _ORCHESTRATOR, _RESUMED, _RESUME),
    line("orchestrator-save", _ORCHESTRATOR, _SAVED, _SAVES),
    line("orchestrator-save-last", _ORCHESTRATOR, _LAST, _SAVES),
    line("orchestrator-end", _ORCHESTRATOR, Logged("SUCCESS", "Orchestrator finished."), _ENDS),
    line(
        "orchestrator-evals",
        _ORCHESTRATOR,
        Logged("INFO", "Running evals for checkpoint step <step:i> (blocking, subprocess)"),
        _EVALS,
    ),
    line(
        "orchestrator-evals-last",
        _ORCHESTRATOR,
        Logged("INFO", "Running final evals (subprocess)"),
        _EVALS,
    ),
    line(
        "orchestrator-validation",
        _ORCHESTRATOR,
        Logged("INFO", "Running validation for step <step:i>"),
        _EVALS,
    ),
    line(
        "orchestrator-barrier",
        _POLICY,
        Logged(
            "INFO",
            "Hit async barrier because we are ><async_level:i> step(s) async. Waiting for "
            "checkpoint <checkpoint:i>",
        ),
        _WAITS,
    ),
    line(
        "orchestrator-cancelled",
        _POLICY,
        Logged(
            "WARNING",
            "Cancelled <count:i> old rollout requests",
            whole=False,
        ),
        _ROLLOUTS,
    ),
    line(
        "orchestrator-rollout-failed",
        _BATCH,
        Logged("WARNING", "Rollout failed: <error:t>"),
        _ROLLOUTS,
    ),
    line(
        "orchestrator-no-checkpoint",
        Place("src/prime_rl/orchestrator/ckpt.py", "CheckpointManager.load"),
        _NOT_FOUND,
        _DEATHS,
    ),
    line(
        "orchestrator-eval-failed",
        Place("src/prime_rl/eval/utils.py", "run_evals_subprocess"),
        Logged("ERROR", "Eval subprocess failed with exit code <code:i>"),
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
        "launcher-started",
        _LAUNCHER,
        Logged("SUCCESS", "Startup complete. Showing trainer logs..."),
        _START,
    ),
    line("launcher-end", _LAUNCHER, Logged("SUCCESS", "RL training finished!"), _ENDS),
    line("launcher-error", _LAUNCHER, Logged("ERROR", "Error occurred: <error:t>"), _DEATHS),
    line(
        "launcher-child-error",
        _LAUNCHER,
        Logged("ERROR", "Error: <error:t>", ("Error: <process:t> failed with exit code <code:i>",)),
        _DEATHS,
    ),
    line(
        "launcher-child-failed",
        Place("src/prime_rl/rl.py", "monitor_process"),
        Texts(
            ("<process:t> failed with exit code <code:i>",),
            ("Error: <process:t> failed with exit code <code:i>",),
        ),
        _DEATHS,
    ),
    line(
        "launcher-terminates",
        _LAUNCHER,
        Logged("ERROR", "Terminating all processes..."),
        _DEATHS,
    ),
    line(
        "launcher-interrupted",
        _LAUNCHER,
        Logged("WARNING", "Received interrupt signal, terminating all processes..."),
        _ENDS,
    ),
    line(
        "eval-start",
        _EVAL,
        Logged("INFO", "Starting evals for <model:w> in environments <envs:t>"),
        _EVALS,
    ),
    line("eval-pool", _EVAL, _POOL, _START),
    line(
        "eval-ready",
        _EVAL,
        Logged("SUCCESS", "Inference pool is healthy and serves <model:w>"),
        _START,
    ),
    line(
        "eval-result",
        _RUN_EVAL,
        Logged(
            "SUCCESS",
            "Evaluated <env:w> in <time_s>s (Avg@<k:i>=<reward>{, Pass@<pass_k:i>: "
            "<pass_rate>{<_more:t>}}, Completion Length: <completion_len> (±<completion_std>, "
            "∈[<completion_min>, <completion_max>]), Truncated: <truncation>%)",
        ),
        _EVALS,
    ),
    line("eval-end", _EVAL, Logged("SUCCESS", "Eval finished!"), _ENDS),
)

LINES = (*_TRAINERS, *_ORCHESTRATORS, *_OTHERS)
