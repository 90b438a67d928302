"""The task runner: the training loop. One process prints everything that verl has to say."""

from __future__ import annotations

import json
import math
import os
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from pprint import pformat
from typing import Any

from .. import pace, processes
from ..lines import Closed, Lines
from . import actors, settings

TRACKER = "latest_checkpointed_iteration.txt"


#: How often the wait for the first worker is told, in the real program's seconds.
_TOLD_EVERY = 30
#: What torch says of the largest of no values.
_OF_NOTHING = (
    "max(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction "
    "dim with the 'dim' argument."
)


class ActorDied(RuntimeError):
    """Raised when a Ray worker has ended, although the training still needs it."""


class OutOfMemoryError(RuntimeError):
    """Raised when Ray has ended a worker because the node's memory ran low."""


def main(arguments: Sequence[str]) -> int:
    """Run the training as an imitation of verl's task runner. `arguments` are the words of its
    command line, and then, for each worker, the number of the file descriptor of the connection to
    it. Returns 0, or 1 if a worker has died, with Ray's message on standard error. Raises Refused
    for a word of the command line that Hydra refuses.
    """
    words = [word for word in arguments if not word.isdigit()]
    workers = [Lines(socket.socket(fileno=int(word))) for word in arguments if word.isdigit()]
    actors.end_with_parent()
    processes.set_title("ray::TaskRunner.run")
    print(f"TaskRunner hostname: {socket.gethostname()}, PID: {os.getpid()}")
    try:
        _Trainer(settings.parse(words), workers).fit()
    except ActorDied as died:
        sys.stderr.write(
            "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing "
            f"this task.\n{died}\n"
        )
        return 1
    except OutOfMemoryError as died:
        sys.stderr.write(f"ray.exceptions.OutOfMemoryError: {died}\n")
        return 1
    return 0


def _wait_for_register_center(seconds: int) -> None:
    """As verl 0.4 and 0.5 (single_controller/ray/base.py): looks once a second. TimeoutError after
    that many, which are paced.
    """
    began, told = time.monotonic(), -_TOLD_EVERY
    while (elapsed := int((time.monotonic() - began) / pace.PACE)) < seconds:
        if actors.REGISTER_CENTER in actors.named():
            return
        if elapsed - told >= _TOLD_EVERY:
            told = elapsed - elapsed % _TOLD_EVERY
            sys.stderr.write(
                f"WARNING:root:Waiting for register center actor {actors.REGISTER_CENTER} to be "
                f"ready. Elapsed time: {told} seconds out of {seconds} seconds.\n"
            )
        pace.nap(1)
    raise TimeoutError(
        f"Failed to get register_center_actor {actors.REGISTER_CENTER} in {actors.named()} for "
        f"{seconds} seconds. Ensure that any lingering Ray resources from previous runs are "
        "cleaned up (e.g., by restarting the Ray cluster), or adjust the waiting time by "
        "modifying the config `trainer.ray_wait_register_center_timeout`."
    )


def compute_data_metrics(rollouts: Mapping[str, list[Any]]) -> dict[str, Any]:
    """Return the metrics of one batch of rollouts by verl's names for them. `rollouts` has the
    "rewards", "lengths" (tokens of each answer) and "prompts" (tokens of each prompt). As in verl
    0.6, an answer without tokens was aborted and its reward does not count. Raises RuntimeError,
    with torch's message about the maximum of nothing, if all were aborted.
    """
    lengths = rollouts["lengths"]
    non_aborted_sequence_score = [
        score for score, length in zip(rollouts["rewards"], lengths, strict=True) if length
    ]
    if not non_aborted_sequence_score:
        raise RuntimeError(_OF_NOTHING)
    return {
        "critic/score/mean": sum(non_aborted_sequence_score) / len(non_aborted_sequence_score),
        "critic/score/max": max(non_aborted_sequence_score),
        "response_length/mean": sum(lengths) / len(lengths),
        "response_length/clip_ratio": 0.0,
        "response/aborted_ratio": lengths.count(0) / len(lengths),
        "prompt_length/mean": sum(rollouts["prompts"]) / len(rollouts["prompts"]),
    }


class _Trainer:
    def __init__(self, config: dict[str, Any], workers: Sequence[Lines]) -> None:
        self._config, self._workers = config, workers
        self._root = Path(config["trainer.default_local_dir"])
        self._step = 0
        self._kept: list[Path] = []
        self._file = FileLogger(config)
        epochs = int(config["trainer.total_epochs"]) * 100
        self._total = int(config["trainer.total_training_steps"] or epochs)

    def fit(self) -> None:
        print("Size of train dataloader: 100, Size of val dataloader: 1")
        print(f"Total training steps: {self._total}")
        if actors.registers():
            _wait_for_register_center(int(self._config["trainer.ray_wait_register_center_timeout"]))
        model, actor = "actor_rollout_ref.model", "actor_rollout_ref.actor"
        offloaded = bool(self._config[f"{actor}.fsdp_config.param_offload"])
        self._ask(
            "init_model", adapter=self._config[f"{model}.lora_adapter_path"], offloaded=offloaded
        )
        self._load_checkpoint()
        if self._config["trainer.val_before_train"]:
            self._log(self._step, {"val-core/reverse-text/acc/mean@1": self._validate()})
        while self._step < self._total:
            self._step += 1
            self._train()
        # The real one hands this string to pprint, which shows it with its quotes.
        print(
            pformat(
                f"Final validation metrics: {{'val-core/reverse-text/acc/mean@1': "
                f"{self._rollouts(4)['rewards'][0]:.3f}}}"
            )
        )

    def _train(self) -> None:
        began = time.monotonic()
        rollouts = self._rollouts(
            max(2, int(self._config["data.train_batch_size"]) // len(self._workers))
        )
        rewards = rollouts["rewards"]
        generated = time.monotonic()
        self._ask("actor_rollout_compute_log_prob")
        update = self._ask(
            "actor_rollout_update_actor",
            rewards=rewards,
            rate=self._config["actor_rollout_ref.actor.optim.lr"],
        )[0]
        metrics: dict[str, Any] = {
            "actor/entropy": update["entropy"],
            "actor/pg_loss": update["loss"],
            "actor/grad_norm": _Scalar(update["grad_norm"]),
            "actor/lr": _Scalar(float(self._config["actor_rollout_ref.actor.optim.lr"])),
            "training/global_step": self._step,
            "training/epoch": 0,
            **compute_data_metrics(rollouts),
            "perf/throughput": 20.0 * len(rewards),
            "timing_s/gen": generated - began,
        }
        validated = int(self._config["trainer.test_freq"])
        if validated > 0 and (self._step % validated == 0 or self._step == self._total):
            metrics["val-core/reverse-text/acc/mean@1"] = _Scalar(self._validate())
        every = int(self._config["trainer.save_freq"])
        if every > 0 and (self._step % every == 0 or self._step == self._total):
            saving = time.monotonic()
            self._save_checkpoint()
            metrics["timing_s/save_checkpoint"] = time.monotonic() - saving
        metrics["timing_s/step"] = time.monotonic() - began
        self._log(self._step, metrics)
        done = 100 * self._step // self._total
        sys.stderr.write(
            f"\rTraining Progress: {done:3d}%|{'█' * (done // 10):<10}| "
            f"{self._step}/{self._total} [00:01<00:09,  1.00s/it]\n"
        )

    def _rollouts(self, count: int) -> dict[str, list[Any]]:
        """`count` of each worker: rewards, and the tokens of answers and prompts."""
        longest = int(self._config["data.max_response_length"])
        whole = (
            self._config["actor_rollout_ref.rollout.max_model_len"]
            or int(self._config["data.max_prompt_length"]) + longest
        )
        several = (
            self._config["actor_rollout_ref.rollout.name"] == "sglang"
            and self._config["actor_rollout_ref.rollout.multi_turn.enable"]
        )
        answers = self._ask(
            "actor_rollout_generate_sequences",
            count=count,
            response_length=longest,
            model_length=int(whole),
            multi_turn=bool(several),
            utilization=float(self._config["actor_rollout_ref.rollout.gpu_memory_utilization"]),
        )
        return {
            key: [value for answer in answers for value in answer[key]]
            for key in ("rewards", "lengths", "prompts")
        }

    def _validate(self) -> float:
        rewards: list[float] = self._rollouts(4)["rewards"]
        return sum(rewards) / len(rewards)

    def _ask(self, method: str, **arguments: Any) -> list[dict[str, Any]]:
        """Every worker at once, and the answers in their order. ActorDied when one is gone;
        RuntimeError for what one says.
        """
        try:
            for worker in self._workers:
                worker.send({"method": method, **arguments})
            answers = [worker.receive() for worker in self._workers]
        except (Closed, OSError):
            causes = (actors.cause_of_death(f"worker-{rank}") for rank in range(len(self._workers)))
            if (cause := next((cause for cause in causes if cause is not None), None)) is not None:
                raise OutOfMemoryError(cause) from None
            raise ActorDied(
                "\tclass_name: create_colocated_worker_cls.<locals>.WorkerDict\nWorker exit "
                "type: SYSTEM_ERROR"
            ) from None
        for answer in answers:
            if "error" in answer:
                sys.stderr.write(f"{answer['error']}\n")
                raise RuntimeError(answer["error"])
        return answers

    def _save_checkpoint(self) -> None:
        """The actor, then the data loader, then the number: whoever reads the number may rely on
        the rest.
        """
        folder = self._root / f"global_step_{self._step}"
        print(f"local_global_step_folder: {folder}")
        keep = self._config["trainer.max_actor_ckpt_to_keep"]
        # What was saved before this process began is not in the list, so a restart forgets it.
        while keep and len(self._kept) >= int(keep):
            old = self._kept.pop(0)
            for path in sorted(old.rglob("*"), reverse=True):
                path.rmdir() if path.is_dir() else path.unlink()
        self._ask("save_checkpoint", directory=str(folder / "actor"))
        self._kept.append(folder / "actor")
        (folder / "data.pt").write_text(json.dumps({"step": self._step}))
        with open(self._root / TRACKER, "w") as tracker:
            tracker.write(str(self._step))

    def _load_checkpoint(self) -> None:
        """0.6: `disable` starts afresh, `resume_path` takes its path, and every other mode is the
        latest that the tracker names.
        """
        mode = self._config["trainer.resume_mode"]
        if mode == "disable":
            return
        try:
            folder = self._root / f"global_step_{int((self._root / TRACKER).read_text())}"
            print(f"Found checkpoint: {folder}")
        except (FileNotFoundError, ValueError):
            folder = None
        if mode == "resume_path":
            folder = Path(self._config["trainer.resume_from_path"])
        if folder is None and mode == "auto":
            print("Training from scratch")
            return
        if folder is None:
            # of a path that no mode has set
            raise AttributeError("'NoneType' object has no attribute 'split'")
        print(f"Load from checkpoint folder: {folder}")
        self._step = int(folder.name.rpartition("_")[2])
        print(f"Setting global step to {self._step}")
        print(f"Resuming from {folder}")
        self._ask("load_checkpoint", directory=str(folder / "actor"))

    def _log(self, step: int, metrics: dict[str, Any]) -> None:
        """Console and file, each by verl's own rule."""
        print(
            " - ".join(
                [f"step:{step}", *(f"{key}:{pformat(value)}" for key, value in metrics.items())]
            )
        )
        self._file.log(step, metrics)


class _Scalar(float):
    """A numpy 2 scalar as pprint shows it."""

    def __repr__(self) -> str:
        return f"np.float64({float(self)!r})"


class FileLogger:
    """Writes metrics to a file, if "file" is among `trainer.logger` in the config. Each line is
    `{"step": N, "data": {...}}`, with null for a value that is NaN or infinite. The file is emptied
    when the object is made.
    """

    def __init__(self, config: dict[str, Any]) -> None:
        self._handle: Any = None
        if "file" not in config["trainer.logger"]:
            return
        root = os.environ.get("VERL_FILE_LOGGER_ROOT") or "."
        default = Path(
            root, str(config["trainer.project_name"]), f"{config['trainer.experiment_name']}.jsonl"
        )
        path = Path(os.environ.get("VERL_FILE_LOGGER_PATH") or default)
        path.parent.mkdir(parents=True, exist_ok=True)
        self._handle = path.open("wb", buffering=0)

    def log(self, step: int, metrics: dict[str, Any]) -> None:
        """Append a line with the metrics of `step` to the metrics file. Do nothing if the config
        does not ask for that file.
        """
        if self._handle is not None:
            data = {
                key: float(value) if math.isfinite(value) else None
                for key, value in metrics.items()
            }
            self._handle.write(
                json.dumps({"step": step, "data": data}, separators=(",", ":")).encode() + b"\n"
            )
