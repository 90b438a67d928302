"""What is believed of verl, read from its release 0.7.0 (f9c855f7c). This program reads all
releases from 0.2 to 0.9, so what a release lacks may be what only others have.
"""

from __future__ import annotations

from bs4_console.trainers.belief import (
    Belief,
    Believed,
    Calls,
    Constants,
    Known,
    Place,
    Printed,
    Texts,
    belief,
    line,
)

_STEPS = "steps, curves, the progress of a run, and what watches for a stall"
_START = "the phases of a start, and what a launch waits for"
_RESUME = "the step from which a run resumed"
_SAVES = "when checkpoints were saved"
_ENDS = "whether a run ended well"
_CHECKPOINTS = "the list of checkpoints, and which of them are whole"
_METRICS = "the numbers of a step"
_VALIDATION = "validations, and which step was the best"
_COMPONENTS = "which process is which part of a run, and runs that were started by hand"
_PHASE = "where a run is within a step"
_MERGE = "putting a step together into a model"
_OPTIONS = "how a run is launched, and what it resumes from"

_MAIN = "verl/trainer/main_ppo.py"
_PPO = "verl/trainer/ppo/ray_trainer.py"
_SFT = "verl/trainer/fsdp_sft_trainer.py"
_HANDLER = "verl/utils/checkpoint/checkpoint_handler.py"
_METRIC = "verl/trainer/ppo/metric_utils.py"
_FSDP = "verl/utils/checkpoint/fsdp_checkpoint_manager.py"
_WORKERS = "verl/workers/fsdp_workers.py"


def _said(key: str, place: Place, text: str, feature: str, *rules: str) -> Belief:
    """Return a belief about a printed line."""
    return line(key, place, Printed(text, rules), feature)


_LINES = (
    _said(
        "ray-start",
        Place(_MAIN, "run_ppo"),
        "ray init kwargs: <kwargs:t>",
        _START,
        "ray init kwargs: <_rest:t>",
    ),
    _said(
        "runner-start",
        Place(_MAIN, "TaskRunner.run"),
        "TaskRunner hostname: <host:w>, PID: <pid:i>",
        _START,
    ),
    _said(
        "batches",
        Place(_PPO, "RayPPOTrainer._create_dataloader"),
        "Size of train dataloader: <_batches:i>, Size of val dataloader: <batches:i>",
        _START,
        "Size of train dataloader: <_batches:i>{<_rest:t>}",
    ),
    _said(
        "max-steps",
        Place(_PPO, "RayPPOTrainer._create_dataloader"),
        "Total training steps: <max_steps:i>",
        _START,
    ),
    _said(
        "scratch",
        Place(_PPO, "RayPPOTrainer._load_checkpoint"),
        "Training from scratch",
        _RESUME,
        "Training from scratch{<_rest:t>}",
    ),
    _said(
        "resume-step",
        Place(_PPO, "RayPPOTrainer._load_checkpoint"),
        "Setting global step to <step:i>",
        _RESUME,
    ),
    _said(
        "resume",
        Place(_PPO, "RayPPOTrainer._load_checkpoint"),
        "Resuming from <folder:t>",
        _RESUME,
        "Resuming from <_folder:t>global_step_<step:i>",
    ),
    _said(
        "save",
        Place(_PPO, "RayPPOTrainer._save_checkpoint"),
        "local_global_step_folder: <folder:t>",
        _SAVES,
        "{[<_trainer:w>] }local_global_step_folder: <_folder:t>global_step_<step:i>",
    ),
    _said(
        "end",
        Place(_PPO, "RayPPOTrainer.fit"),
        "Final validation metrics: <metrics:t>",
        _ENDS,
        "Final validation metrics: ",
        '"Final validation metrics: ',
        "'Final validation metrics: ",
        '("Final validation metrics: ',
        "('Final validation metrics: ",
    ),
    _said(
        "sft-end",
        Place(_SFT, "FSDPSFTTrainer.fit"),
        "Final validation metrics: <metrics:t>",
        _ENDS,
        "Final validation metrics: ",
    ),
    _said(
        "sft-resume",
        Place(_HANDLER, "CheckpointHandler._find_latest_checkpoint"),
        "Found latest checkpoint: <folder:t> (step <step:i>)",
        _RESUME,
        "Found latest checkpoint: <_folder:t> (step <step:i>)",
    ),
    _said(
        "sft-save",
        Place(_HANDLER, "CheckpointHandler.save_checkpoint"),
        "Saving checkpoint to: <folder:t>",
        _SAVES,
        "Saving checkpoint to: <_folder:t>global_step_<step:i>",
    ),
    belief(
        "step-line",
        "line",
        "verl/utils/logger/aggregate_logger.py",
        "concat_dict_to_str",
        Texts(("step:<step:i>", "<key>:<value>", " - ")),
        _STEPS,
    ),
)

_METRICS_KEYS = (
    belief(
        "metrics-file",
        "metric",
        "verl/utils/tracking.py",
        "FileLogger.__init__",
        Constants(("VERL_FILE_LOGGER_PATH", "VERL_FILE_LOGGER_ROOT")),
        _METRICS,
    ),
    belief(
        "metrics-row",
        "metric",
        "verl/utils/tracking.py",
        "FileLogger.log",
        Texts(("step", "data")),
        _METRICS,
    ),
    belief(
        "metrics-overwritten",
        "metric",
        "verl/utils/tracking.py",
        "FileLogger.__init__",
        Calls(("open",), ("open filepath w",)),
        "the metrics of an earlier attempt, which a second one in the same file removes",
    ),
    belief(
        "metrics-time",
        "metric",
        _METRIC,
        "compute_timing_metrics",
        Texts(("timing_s/<name>",)),
        _METRICS,
    ),
    belief(
        "metrics-throughput",
        "metric",
        _METRIC,
        "compute_throughout_metrics",
        Texts(("perf/throughput", "perf/time_per_step")),
        _METRICS,
    ),
    belief(
        "metrics-rollouts",
        "metric",
        _METRIC,
        "compute_data_metrics",
        Texts(
            (
                "critic/score/mean",
                "critic/rewards/mean",
                "response_length/clip_ratio",
                "response/aborted_ratio",
            )
        ),
        _METRICS,
    ),
    belief(
        "metrics-actor",
        "metric",
        "verl/workers/actor/dp_actor.py",
        "DataParallelPPOActor.update_policy",
        Texts(("actor/pg_loss", "actor/grad_norm")),
        _METRICS,
    ),
    belief(
        "metrics-worker",
        "metric",
        _WORKERS,
        "ActorRolloutRefWorker.update_actor",
        Texts(("perf/mfu/actor", "perf/max_memory_allocated_gb", "actor/lr")),
        _METRICS,
    ),
    belief(
        "metrics-sft",
        "metric",
        _SFT,
        "FSDPSFTTrainer.training_step",
        Texts(("train/loss", "train/time(s)")),
        _METRICS,
    ),
    belief(
        "metrics-validation",
        "metric",
        _PPO,
        "RayPPOTrainer._validate",
        Texts(("val-core", "val-aux")),
        _VALIDATION,
    ),
)

_LAYOUT = (
    belief(
        "step-dir",
        "layout",
        _PPO,
        "RayPPOTrainer._save_checkpoint",
        Texts(("global_step_<step>", "actor")),
        _CHECKPOINTS,
    ),
    belief(
        "data-file",
        "layout",
        _PPO,
        "RayPPOTrainer._save_checkpoint",
        Texts(("data.pt",)),
        _CHECKPOINTS,
    ),
    belief(
        "tracker-written",
        "layout",
        _PPO,
        "RayPPOTrainer._save_checkpoint",
        Texts(("latest_checkpointed_iteration.txt",)),
        _CHECKPOINTS,
    ),
    belief(
        "tracker-read",
        "resume",
        "verl/utils/checkpoint/checkpoint_manager.py",
        "get_checkpoint_tracker_filename",
        Texts(("latest_checkpointed_iteration.txt",)),
        _CHECKPOINTS,
    ),
    belief(
        "tracker-last",
        "layout",
        _PPO,
        "RayPPOTrainer._save_checkpoint",
        Calls(
            ("save_checkpoint", "save", "write"),
            ("save_checkpoint", "save_checkpoint", "save dataloader_local_path", "write"),
        ),
        _CHECKPOINTS,
    ),
    belief(
        "rank-files",
        "layout",
        _FSDP,
        "FSDPCheckpointManager.save_checkpoint",
        Texts(
            (
                "model_world_size_<size>_rank_<rank>.pt",
                "optim_world_size_<size>_rank_<rank>.pt",
                "extra_state_world_size_<size>_rank_<rank>.pt",
            )
        ),
        _CHECKPOINTS,
    ),
    belief(
        "sft-step-dir",
        "layout",
        _SFT,
        "FSDPSFTTrainer.save_checkpoint",
        Texts(("global_step_<step>",)),
        _CHECKPOINTS,
    ),
    belief(
        "resume-modes",
        "resume",
        _PPO,
        "RayPPOTrainer._load_checkpoint",
        Texts(("auto", "resume_path")),
        _OPTIONS,
    ),
)

_PROCESSES = (
    belief(
        "driver-waits",
        "command",
        _MAIN,
        "run_ppo",
        Calls(("get_ppo_ray_runtime_env", "init"), ("get_ppo_ray_runtime_env", "init")),
        _COMPONENTS,
    ),
    belief(
        "driver-config",
        "command",
        _MAIN,
        "main",
        Texts(("config", "ppo_trainer")),
        _OPTIONS,
    ),
    belief(
        "runner-phases",
        "title",
        _PPO,
        "RayPPOTrainer.fit",
        Calls(("_save_checkpoint", "_load_checkpoint"), ("_load_checkpoint", "_save_checkpoint")),
        _PHASE,
    ),
    belief(
        "merger-words",
        "command",
        "verl/model_merger/base_model_merger.py",
        "parse_args",
        Texts(("merge", "--backend", "--local_dir", "--target_dir")),
        _MERGE,
    ),
)

BELIEVED = Believed(
    id="verl",
    title="verl",
    code=("verl",),
    known=(
        Known(commit="8fdc4d3f2", version="0.5.0", date="2025-07-23", read=False),
        Known(commit="d62da4950", version="0.6.1", date="2025-11-14", read=False),
        Known(commit="f9c855f7c", version="0.7.0", date="2026-01-05", read=True),
        Known(commit="b178a3cd5", version="after 0.7.0", date="2026-01-29", read=False),
        Known(commit="PyPI", version="0.9.1", date="2026-09-11", read=False),
    ),
    beliefs=(*_LINES, *_METRICS_KEYS, *_LAYOUT, *_PROCESSES),
)
