"""A trainer rank, started by torchrun. Rank 0 also packs. Steps count from 0; step N trains policy
N into policy N + 1.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .. import checkpoint, gpu, hub, pace, policy, wandb
from ..config import Config, parse_or_exit
from ..log import Logger
from ..rendezvous import World
from ..steps import latest_step, step_path, wait_for
from .packer import Packer


@dataclass
class Progress:
    """How far the trainer is, as its checkpoint records it. `step` is the next step to train; the
    totals (tokens, samples) count since step 0.
    """

    step: int = 0
    total_tokens: int = 0
    total_samples: int = 0


def main(arguments: Sequence[str]) -> int:
    """Run an imitation of one rank of the trainer of January's prime-rl until its last step.
    `arguments` are the words of its command line. Returns the exit code: 0, or 1 after an error,
    which is in the log.
    """
    config = parse_or_exit(arguments, {})
    world = World()
    output = Path(config.get("output_dir", "outputs"))
    file = (
        output / "logs" / "trainer" / f"rank_{world.rank}.log"
        if config.get("log.file", True)
        else None
    )
    log = Logger(config.get("log.level", "info"), file)
    try:
        _Trainer(config, output, world, log).run()
    except (OSError, ValueError, IndexError, RuntimeError, MemoryError) as error:
        kind = (
            f"An error has been caught in function 'train', process 'MainProcess' ({os.getpid()}):"
        )
        log.failure(kind, error)
        return 1
    return 0


class _Trainer:
    def __init__(self, config: Config, output: Path, world: World, log: Logger) -> None:
        self._config = config
        self._output = output
        self._run = output / "run_default"
        self._world = world
        self._log = log
        self._progress = Progress()
        self._skill = policy.BASE_SKILL
        self._rng = random.Random(42 + world.rank)
        self._tokens_seen: list[tuple[float, int]] = []
        self._max_steps: int | None = config.get("max_steps")
        self._interval: int | None = config.get("ckpt.interval")
        self._max_async: int = config.get("max_async_level", 1)
        self._lr: float = config.get("optim.lr", 1e-6)

    def run(self) -> None:
        self._log.info(f"Starting RL trainer in {self._world}")
        self._log.info(f"Starting RL trainer in {self._world} in {self._output}")
        if self._world.is_master and self._config.has("wandb"):
            wandb.init(
                self._output,
                offline=bool(self._config.get("wandb.offline")),
                identity=self._config.get("wandb.id"),
            )
        self._log.info(f"Initializing checkpoint managers ({self._config.get('ckpt')})")
        hub.load_config(self._config.get("model.name"))
        self._take_memory()
        self._log.info(
            "Initializing weight broadcast (type='filesystem' save_sharded=True "
            "save_format='safetensors')"
        )
        self._resume()
        self._log.info(
            f"Starting from step {self._progress.step} "
            f"(total_tokens={self._progress.total_tokens}, "
            f"total_samples={self._progress.total_samples})",
            "train.py::155",
        )
        if self._world.is_master:
            seq_len = self._config.get("model.seq_len", 2048)
            self._packer = Packer(
                self._output, self._world.size, seq_len, self._progress.step, self._log
            )
        self._world.barrier()
        self._log.info(
            f"Starting training loop (max_steps={self._max_steps or 'infinite'})", "train.py::173"
        )
        self._loop()
        if self._checkpoints is not None:
            self._log.info("Writing final checkpoint")
            self._save(self._progress.step)
        self._log.info(f"Peak memory: {self._peak_gib:.1f} GiB")
        self._log.success("RL trainer finished!", "train.py::477")

    def _take_memory(self) -> None:
        device = gpu.visible()[self._world.local_rank]
        _, total = gpu.memory(device)
        size = gpu.training_bytes(total, self._config.get("model.seq_len", 2048))
        self._memory = gpu.Memory(device, size)
        self._peak_gib = size / 2**30

    def _resume(self) -> None:
        step = self._config.get("ckpt.resume_step")
        self._checkpoints: checkpoint.TrainerCheckpoints | None = None
        if not self._config.has("ckpt"):
            return
        root = self._output / "checkpoints"
        keep = self._config.get("ckpt.keep_last")
        self._checkpoints = checkpoint.TrainerCheckpoints(
            checkpoint.Rotation(root, keep, step), self._world
        )
        self._weights = checkpoint.Rotation(self._output / "weights", keep, step)
        if step == -1:
            step = latest_step(root)
        if step is None:
            return
        state = self._checkpoints.load(step)
        self._progress = Progress(**state["progress"])
        self._skill = state["skill"]
        self._rng.setstate(checkpoint.rng_from(state["rng"]))
        self._log.info(f"Resuming training from checkpoint step {step}", "train.py::152")

    def _loop(self) -> None:
        first = True
        trained = False
        while True:
            step = self._progress.step
            last = self._max_steps is not None and step == self._max_steps
            if step > 0 and trained:
                self._broadcast()
            if self._interval and not first and not last and step % self._interval == 0:
                self._log.info(f"Saving checkpoint at step {step}", "train.py::210")
                self._save(step)
            if self._max_steps is not None and step >= self._max_steps:
                return
            self._train(step)
            self._progress.step += 1
            first, trained = False, True

    def _train(self, step: int) -> None:
        started = time.monotonic()
        if self._world.is_master:
            self._packer.pack()
        path = step_path(self._output / "rollouts", step) / f"rank_{self._world.rank}.bin"
        wait_for(path, self._log.debug)
        self._world.barrier()
        batch = json.loads(path.read_text())
        if not batch["examples"]:
            # the real one takes the length of micro_batches[0] (train.py:255)
            raise IndexError("list index out of range")
        # The whole step takes STEP_SECONDS when the batch was there, and at least a third of it
        # when it had to be waited for.
        compute = max(
            pace.STEP_SECONDS / 3, pace.STEP_SECONDS - (time.monotonic() - started)
        ) * self._rng.uniform(0.92, 1.04)
        self._memory.busy(compute, 96)
        time.sleep(compute)
        rewards = [example["reward"] for example in batch["examples"]]
        self._skill, update = policy.learn(
            self._skill, rewards, step - batch["policy"], self._rng, self._lr
        )
        tokens = self._config.get("model.seq_len", 2048) * len(batch["examples"]) * self._world.size
        self._progress.total_tokens += tokens
        self._progress.total_samples += len(batch["examples"])
        throughput = self._throughput(tokens)
        self._log.success(
            f"Step {step} | Time: {time.monotonic() - started:.2f}s | Loss: {update.loss:.4f} | "
            f"Entropy: {update.entropy:.4f} | Mismatch KL: {update.mismatch_kl:.4f} | Grad. Norm: "
            f"{update.grad_norm:.4f} | LR: {self._lr:.2e} | Throughput: {throughput:.0f} tokens/s "
            f"| MFU: {min(throughput / 1650, 99):.1f}% | Peak Mem.: {self._peak_gib:.1f} GiB",
            "train.py::405",
        )

    def _throughput(self, tokens: int) -> float:
        """Over a window of ten steps that needs two samples: 0 for the first step of every
        process.
        """
        self._tokens_seen = [*self._tokens_seen, (time.monotonic(), tokens)][-10:]
        (first, _), (last, _) = self._tokens_seen[0], self._tokens_seen[-1]
        return (
            sum(count for _, count in self._tokens_seen[1:]) / (last - first)
            if last > first
            else 0.0
        )

    def _broadcast(self) -> None:
        """Policy for the run's next step, in a directory with a STABLE marker last. All but every
        `interval`-th are removed again.
        """
        if not self._world.is_master or (run_step := self._packer.run_step) is None:
            return
        root = self._run / "broadcasts"
        directory = step_path(root, run_step)
        policy.write_weights(directory, self._skill)
        (directory / "STABLE").touch()
        old = max(run_step - (self._max_async + 1), 0)
        if not (self._interval and old % self._interval == 0):
            shutil.rmtree(step_path(root, old), ignore_errors=True)

    def _save(self, step: int) -> None:
        if self._checkpoints is None:
            return
        state = {
            "progress": vars(self._progress),
            "skill": self._skill,
            "rng": checkpoint.rng_state(self._rng.getstate()),
        }
        self._checkpoints.save(step, state)
        self._checkpoints.maybe_clean(self._log.debug)
        if self._world.is_master:
            policy.write_weights(step_path(self._weights.root, step), self._skill)
            self._weights.add(step)
            self._weights.maybe_clean(self._log.debug)
