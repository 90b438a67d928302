"""`orchestrator`: collects batches of rollouts and writes them for the trainer's packer, at most
`max_async_level` steps ahead.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from .. import checkpoint, client, environment, pace, rollouts, wandb
from ..config import Config, parse_or_exit, to_toml
from ..lines import Message
from ..log import Logger
from ..steps import latest_step, step_path
from .scheduler import Scheduler


@dataclass
class Progress:
    """How far the orchestrator is, as its checkpoint records it. `step` is the step of the next
    batch; the totals (tokens, samples, problems) count since step 0.
    """

    step: int = 0
    total_tokens: int = 0
    total_samples: int = 0
    total_problems: int = 0


def main(arguments: Sequence[str]) -> int:
    """Run an imitation of the orchestrator of January's prime-rl until its last batch is written.
    `arguments` are the words of its command line. Returns the exit code: 0, or 1 after an error,
    which is in the log.
    """
    config = parse_or_exit(arguments, {})
    output = Path(config.get("output_dir", "outputs/run_default"))
    log = Logger(
        config.get("log.level", "info"),
        output / "logs" / "orchestrator.log" if config.get("log.file", True) else None,
    )
    try:
        _Orchestrator(config, output, log).run()
    except (
        OSError,
        ValueError,
        RuntimeError,
        MemoryError,
        client.APIConnectionError,
        client.APIStatusError,
    ) as error:
        log.failure(
            "An error has been caught in function 'orchestrate', process 'MainProcess' "
            f"({os.getpid()}):",
            error,
        )
        rollouts.end_workers()
        return 1
    return 0


class _Orchestrator:
    def __init__(self, config: Config, output: Path, log: Logger) -> None:
        self._config = config
        self._output = output
        self._log = log
        self._base_url = str(config.get("client.base_url", ["http://localhost:8000/v1"])[0])
        self._server = self._base_url.rstrip("/").removesuffix("/v1")
        self._checkpoints = output / "checkpoints" if config.has("ckpt") else None
        self._progress = Progress()

    def run(self) -> None:
        log, config = self._log, self._config
        log.info("Starting orchestrator")
        configs = self._output / "configs"
        configs.mkdir(parents=True, exist_ok=True)
        (configs / "orch.toml").write_text(to_toml(config.tree))
        log.info(
            f"Initializing OpenAI client (base_url={self._base_url}, api_key_var=OPENAI_API_KEY, "
            f"headers={{}})"
        )
        log.info(f"Initializing checkpoint manager ({config.get('ckpt')})")
        resume = self._resume_step()
        if config.has("wandb"):
            wandb.init(
                self._output,
                offline=bool(config.get("wandb.offline")),
                identity=config.get("wandb.id"),
            )
        scores = [
            environment.load(env["id"], log.error)
            for env in config.get("env", [{"id": "reverse-text"}])
        ]
        log.info("Starting 1 env worker(s) (1 per env)")
        sampling = rollouts.Sampling(
            self._base_url,
            config.get("model.name"),
            config.get("sampling.max_tokens", 16),
            pace.paced(config.get("client.timeout", 1200)),
        )
        groups = rollouts.Groups(rollouts.fork_worker(scores[0]), sampling)
        self._scheduler = Scheduler(config, groups, client.Connection(self._server), log)
        log.info("Waiting for inference pool to be ready", "orchestrator.py::194")
        self._wait_for_server()
        log.success("Inference pool ready", "orchestrator.py::197")
        if resume is None:
            log.info("Training from scratch. Resetting weights to base model")
            self._scheduler.reload_weights()
        else:
            self._load(resume)
        log.info(f"Starting orchestrator loop (max_steps={config.get('max_steps') or int(1e9)})")
        self._scheduler.start()
        self._loop()
        self._finish(groups)

    def _resume_step(self) -> int | None:
        """-1 means the largest directory of *this* side's checkpoints, which need not be the
        trainer's.
        """
        step = self._config.get("ckpt.resume_step")
        if step is None or self._checkpoints is None:
            return None
        return latest_step(self._checkpoints) if step == -1 else int(step)

    def _wait_for_server(self) -> None:
        try:
            client.wait_until_healthy(self._server, self._log.warning, need_success=False)
        except TimeoutError as error:
            self._log.error(str(error), "client.py::98")
            raise

    def _load(self, step: int) -> None:
        directory = step_path(self._checkpoints or Path(), step) / "orchestrator"
        if not directory.exists():
            raise FileNotFoundError(f"Checkpoint not found at {directory}")
        progress, buffer = checkpoint.load_orchestrator(directory)
        self._progress = Progress(**progress)
        self._scheduler.examples = (buffer or {}).get("examples", 0)
        self._log.info(f"Resuming training from checkpoint step {step}")
        self._scheduler.ckpt_step = self._progress.step
        self._scheduler.update_weights(step_path(self._output / "broadcasts", self._progress.step))

    def _loop(self) -> None:
        max_steps = self._config.get("max_steps")
        first = True
        while True:
            if self._scheduler.update_error is not None:
                raise self._scheduler.update_error
            step = self._progress.step
            last = max_steps is not None and step == max_steps - 1
            interval = self._config.get("ckpt.interval")
            if interval and not first and not last and step % interval == 0:
                self._log.info(f"Saving checkpoint at step {step}")
                self._save(step)
            if max_steps and step >= max_steps:
                return
            self._one_step(step)
            self._progress.step += 1
            first = False

    def _one_step(self, step: int) -> None:
        self._log.info(f"Starting orchestrator step {step}", "orchestrator.py::270")
        started = time.monotonic()
        ckpt_step = self._scheduler.ckpt_step
        batch = self._scheduler.generate_batch(step)
        taken = time.monotonic() - started
        self._send(step, self._trainable(batch), ckpt_step)
        numbers = rollouts.statistics(batch)
        self._progress.total_tokens += numbers["tokens"]
        self._progress.total_samples += len(batch)
        self._progress.total_problems += len(batch) // self._config.get("rollouts_per_example", 1)
        self._log.success(
            f"Step {step} | Time: {time.monotonic() - started:.2f}s | Reward: "
            f"{numbers['reward']:.4f} | Throughput: {numbers['tokens'] / taken:.1f} tokens/s | "
            f"Seq. Length: {numbers['seq_len']:.1f} tokens/sample | Async Level: "
            f"{self._scheduler.async_level} | Max. Off-Policy Level: "
            f"{self._scheduler.max_off_policy_level}",
            "orchestrator.py::527",
        )

    def _trainable(self, batch: list[Message]) -> list[Message]:
        """Return the rollouts that have tokens. After the death of the engine the batch shrinks, at
        last to nothing.
        """
        kept = []
        for rollout in batch:
            if rollout["tokens"]:
                kept.append(rollout)
            else:
                text = f"No trajectory steps for example {rollout['example']}. Skipping rollout."
                self._log.warning(text, "trajectories.py::21")
        return kept

    def _send(self, step: int, batch: list[Message], ckpt_step: int) -> None:
        directory = step_path(self._output / "rollouts", step)
        directory.mkdir(parents=True, exist_ok=True)
        partial = directory / "rollouts.bin.tmp"
        partial.write_text(json.dumps({"step": step, "policy": ckpt_step, "examples": batch}))
        partial.rename(directory / "rollouts.bin")

    def _save(self, step: int) -> None:
        if self._checkpoints is not None:
            directory = step_path(self._checkpoints, step) / "orchestrator"
            checkpoint.save_orchestrator(directory, asdict(self._progress), self._scheduler.state())

    def _finish(self, groups: rollouts.Groups) -> None:
        if self._checkpoints is not None:
            self._log.info("Writing final checkpoint")
            self._save(self._progress.step)
        groups.stop()
        self._log.success("Orchestrator finished.", "orchestrator.py::572")
