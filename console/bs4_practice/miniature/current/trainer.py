"""A trainer rank, started by torchrun. Steps count from 1; step N trains policy N - 1 into policy N
and broadcasts it.
"""

from __future__ import annotations

import json
import random
import shutil
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from .. import checkpoint, gpu, hub, pace, policy, processes, wandb
from ..config import Config, parse_or_exit
from ..log import Logger, duration
from ..rendezvous import World
from ..steps import latest_step, step_path, wait_for
from .monitor import FileMonitor


@dataclass
class Progress:
    """How far the trainer is, as its checkpoint records it. `step` is the next step to train; the
    totals (tokens, samples) count since step 1.
    """

    step: int = 1
    total_tokens: int = 0
    total_samples: int = 0


def main(arguments: Sequence[str]) -> int:
    """Run an imitation of one rank of current prime-rl's trainer until its last step. `arguments`
    are the words of its command line. Returns the exit code: 0, or 1 after an error, which is in
    the log.
    """
    processes.set_title("PRIME-RL::Trainer")
    config = parse_or_exit(arguments, {})
    world = World()
    log = Logger(config.get("log.level", "info"), json_lines=bool(config.get("log.json_logging")))
    try:
        _Trainer(config, world, log).run()
    except (OSError, ValueError, RuntimeError, MemoryError) as error:
        log.failure("Fatal error in train", error, "utils.py::76")
        return 1
    return 0


class _Trainer:
    def __init__(self, config: Config, world: World, log: Logger) -> None:
        self._config = config
        self._world = world
        self._log = log
        self._run = Path(config.get("output_dir"))
        self._broadcasts = self._run / "broadcasts"
        self._progress = Progress()
        self._skill = policy.BASE_SKILL
        self._rng = random.Random(42 + world.rank)
        self._max_steps: int | None = config.get("max_steps")
        self._interval: int | None = config.get("ckpt.interval")

    def run(self) -> None:
        self._log.info(f"Starting RL trainer in {self._world} in {self._run}")
        self._monitor = FileMonitor(self._run)
        if self._world.is_master and self._config.has("monitors.wandb"):
            wandb.init(self._run, offline=bool(self._config.get("monitors.wandb.offline")))
        self._log.info(f"Initializing checkpoint manager ({self._config.get('ckpt')})")
        hub.load_config(self._config.get("model.name"))
        self._take_memory()
        self._log.info("Initializing weight broadcast (type='filesystem')")
        self._resume()
        self._log.info(
            f"Starting from step {self._progress.step} "
            f"(total_tokens={self._progress.total_tokens}, "
            f"total_samples={self._progress.total_samples})",
            "train.py::234",
        )
        self._log.info(f"Starting training loop (max_steps={self._max_steps or 'infinite'})")
        self._log.info(
            f"Broadcasting startup policy weights (v{self._progress.step - 1}) to inference "
            "engines",
            "train.py::276",
        )
        self._broadcast(self._progress.step - 1)
        self._loop()
        if self._config.has("ckpt"):
            self._log.info("Writing final checkpoint")
            self._save()
        self._log.info(f"Peak memory: {self._peak_gib:.1f} GiB")
        self._log.success("RL trainer finished!", "train.py::737")

    def _take_memory(self) -> None:
        device = gpu.visible()[self._world.local_rank]
        _, total = gpu.memory(device)
        size = gpu.training_bytes(total, self._config.get("model.seq_len", 2048))
        self._memory = gpu.Memory(device, size)
        self._peak_gib = size / 2**30

    def _resume(self) -> None:
        root = Path(self._config.get("ckpt.output_dir") or self._run) / "checkpoints"
        rotation = checkpoint.Rotation(
            root, self._config.get("ckpt.keep_last"), self._config.get("resume.step")
        )
        self._checkpoints = checkpoint.TrainerCheckpoints(rotation, self._world)
        if not self._config.has("resume"):
            return
        step = self._config.get("resume.step")
        if step is None:
            step = latest_step(root)
        if step is None:
            return
        state = self._checkpoints.load(step)
        self._progress = Progress(**state["progress"])
        self._progress.step = step + 1
        self._skill = state["skill"]
        self._rng.setstate(checkpoint.rng_from(state["rng"]))
        self._log.info(f"Resuming training from checkpoint step {step}", "train.py::231")

    def _loop(self) -> None:
        while True:
            step = self._progress.step
            last = self._max_steps is not None and step >= self._max_steps
            self._train(
                step, save=bool(self._interval) and not last and step % (self._interval or 1) == 0
            )
            if last:
                return
            self._progress.step += 1

    def _train(self, step: int, *, save: bool) -> None:
        started = time.monotonic()
        path = step_path(self._run / "rollouts", step) / f"rank_{self._world.rank}.bin"
        wait_for(path, self._log.debug)
        self._world.barrier()
        waited = time.monotonic() - started
        examples = json.loads(path.read_text())["examples"]
        # The whole step takes STEP_SECONDS when the batch was there, and at least a third of it
        # when it had to be waited for.
        compute = max(pace.STEP_SECONDS / 3, pace.STEP_SECONDS - waited) * self._rng.uniform(
            0.92, 1.04
        )
        self._memory.busy(compute, 96)
        time.sleep(compute)
        lag = max((step - 1 - example["policy"] for example in examples), default=0)
        rewards, rate = (
            [example["reward"] for example in examples],
            self._config.get("optim.lr", 1e-6),
        )
        self._skill, update = policy.learn(self._skill, rewards, max(lag, 0), self._rng, rate)
        self._broadcast(step)
        tokens = self._config.get("model.seq_len", 2048) * len(examples) * self._world.size
        self._progress.total_tokens += tokens
        self._progress.total_samples += len(examples)
        if save:
            self._log.info(f"Saving checkpoint at step {step}", "train.py::609")
            self._save()
        self._report(step, time.monotonic() - started, waited, compute, tokens, update)

    def _report(
        self,
        step: int,
        seconds: float,
        waited: float,
        compute: float,
        tokens: int,
        update: policy.Update,
    ) -> None:
        throughput, lr = tokens / compute, self._config.get("optim.lr", 1e-6)
        mfu = min(throughput / 1650, 99)
        self._log.success(
            f"Step {step} | {duration(seconds):>7} | Loss {update.loss:.4f} | Entropy "
            f"{update.entropy:.4f} | Mismatch KL {update.mismatch_kl:.4f} | Grad. Norm "
            f"{update.grad_norm:.4f} | LR {lr:.2e} | Throughput {throughput:.0f} tokens/s | MFU "
            f"{mfu:.1f}% | Peak Mem. {self._peak_gib:.1f} GiB",
            "train.py::638",
        )
        if not self._world.is_master:
            return
        for row in (
            {
                "perf/throughput": throughput,
                "perf/throughput_per_gpu": throughput / self._world.size,
                "perf/mfu": mfu,
            }
            | {"perf/peak_memory": self._peak_gib},
            {"optim/lr": lr, "optim/grad_norm": update.grad_norm},
            {
                "loss/mean": update.loss,
                "entropy/all/mean": update.entropy,
                "mismatch_kl/all/mean": update.mismatch_kl,
            },
            {"time/step": seconds, "time/wait_for_batch": waited, "time/forward_backward": compute},
        ):
            self._monitor.log(row, step)

    def _broadcast(self, version: int) -> None:
        """The directory two versions back is removed again, unless a checkpoint's resume would need
        it.
        """
        if not self._world.is_master:
            return
        directory = step_path(self._broadcasts, version)
        policy.write_weights(directory, self._skill)
        (directory / "STABLE").touch()
        old = version - 2
        if old >= 0 and not (self._interval and old % self._interval == 0):
            shutil.rmtree(step_path(self._broadcasts, old), ignore_errors=True)

    def _save(self) -> None:
        """The step just finished. `total_tokens` and the random state go on from here after a
        resume.
        """
        state = {
            "progress": asdict(self._progress),
            "skill": self._skill,
            "rng": checkpoint.rng_state(self._rng.getstate()),
        }
        self._checkpoints.save(self._progress.step, state)
        self._checkpoints.maybe_clean(self._log.debug)
