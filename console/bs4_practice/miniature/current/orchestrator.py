"""`orchestrator`: ships batch N once policy N - 2 is published, and checkpoints what it shipped,
trained or not.

Steps count from 1, policies from 0. On its way out, also after an error or an interrupt, it writes
a last checkpoint of the step shipped last: a directory that the trainer may never have completed
(prime-rl.md 2.2).
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from .. import checkpoint, client, pace, processes, rollouts, wandb
from ..config import Config, parse_or_exit
from ..log import Logger, duration
from ..steps import latest_step, step_path, wait_for
from . import settings
from .dispatcher import Batch, Dispatcher
from .monitor import FileMonitor
from .watcher import Watcher

_LAG = 1


@dataclass
class Progress:
    """How far the orchestrator is, as its checkpoint records it. `step` is the step of the next
    batch; the totals (tokens, samples, problems) count since step 1.
    """

    step: int = 1
    total_tokens: int = 0
    total_samples: int = 0
    total_problems: int = 0


def main(arguments: Sequence[str]) -> int:
    """Run an imitation of current prime-rl's orchestrator until its last batch is sent. `arguments`
    are the words of its command line. Returns the exit code: 0, or 1 after an error, which is in
    the log.
    """
    processes.set_title("PRIME-RL::Orchestrator")
    config = parse_or_exit(arguments, {})
    log = Logger(config.get("log.level", "info"), json_lines=bool(config.get("log.json_logging")))
    try:
        _Orchestrator(config, log).run()
    except (
        OSError,
        ValueError,
        RuntimeError,
        MemoryError,
        client.APIConnectionError,
        client.APIStatusError,
    ) as error:
        log.failure("Fatal error in run_orchestrator", error, "utils.py::55")
        return 1
    return 0


class _Orchestrator:
    def __init__(self, config: Config, log: Logger) -> None:
        self._config = config
        self._log = log
        self._run = Path(config.get("output_dir"))
        self._checkpoints = self._run / "checkpoints"
        self._progress = Progress()
        self._max_steps: int | None = config.get("max_steps")
        self._interval: int | None = config.get("ckpt.interval")
        self._stopped = threading.Event()

    def run(self) -> None:
        self._setup()
        started = time.monotonic()
        self._log.info(f"Starting orchestrator loop (max_steps={self._max_steps or 'infinite'})")
        threading.Thread(target=self._log_view, daemon=True).start()
        self._last_batch = time.monotonic()
        clean = False
        try:
            self._loop()
            clean = True
        finally:
            self._close(duration(time.monotonic() - started), clean=clean)

    def _setup(self) -> None:
        config, log = self._config, self._log
        log.info("Starting orchestrator (algorithm: grpo)")
        base_url = config.get("model.client.base_url", "http://localhost:8000/v1")
        admin = (
            str(config.get("model.client.admin_base_url", [base_url])[0])
            .rstrip("/")
            .removesuffix("/v1")
        )
        log.info(
            f"Initializing policy inference pool (base_url={base_url}, "
            f"model={config.get('model.name')})"
        )
        self._monitor = FileMonitor(self._run)
        if config.has("monitors.wandb"):
            wandb.init(self._run, offline=bool(config.get("monitors.wandb.offline")))
        log.info(
            f"Logging metrics to {self._run / 'metrics.jsonl'} and episodes to "
            f"{self._run / 'rollouts'}"
        )
        log.info("Loading training environments")
        limit = config.get("train.sampling.max_completion_tokens", 16)
        sampling = rollouts.Sampling(base_url, config.get("model.name"), limit, pace.paced(1200))
        sources = config.get("train.source", [])
        groups = {
            settings.source_name(source): rollouts.Groups(
                rollouts.connect(source["serve"]["address"]), sampling
            )
            for source in sources
        }
        log.success("Train environment(s) ready")
        log.info("Waiting for policy inference pool to be ready", "orchestrator.py::271")
        try:
            client.wait_until_healthy(admin, log.warning, need_success=True)
        except TimeoutError as error:
            log.error(str(error), "client.py::198")
            raise
        log.success("Policy inference pool ready", "orchestrator.py::273")
        batch_size = config.get("batch_size", 128)
        limit = config.get("concurrency.max_inflight", 1024)
        filtered = bool(config.get("train.filter_zero_advantages", True))
        self._dispatcher = Dispatcher(
            groups,
            config.get("group_size", 1),
            batch_size,
            limit,
            log,
            filter_zero_advantages=filtered,
        )
        self._watcher = Watcher(
            self._run / "broadcasts", client.Connection(admin), log, self._update_gate
        )
        version = self._resume()
        log.info(f"Initializing micro batch sender ({config.get('rollout_transport')})")
        wait_for(step_path(self._run / "broadcasts", version) / "STABLE", log.debug)
        self._watcher.update_weights(version)
        self._watcher.start(version)

    def _resume(self) -> int:
        """The policy version to start from: that of the checkpoint, or 0."""
        if not self._config.has("resume"):
            self._log.info("Training from scratch")
            return 0
        step = self._config.get("resume.step")
        if step is None:
            step = latest_step(self._checkpoints)
        if step is None:
            return 0
        state_file = step_path(self._checkpoints, step) / "orchestrator" / "progress.pt"
        if not state_file.exists():
            raise FileNotFoundError(f"Orchestrator checkpoint not found at {state_file}")
        state, _ = checkpoint.load_orchestrator(state_file.parent)
        self._dispatcher.examples = state.pop("examples", 0)
        self._progress = Progress(**state)
        self._progress.step = step + 1
        self._log.info(f"Resuming orchestrator from checkpoint step {step}")
        return int(step)

    def _log_view(self) -> None:
        while not self._stopped.wait(pace.paced(self._config.get("log.interval", 10.0))):
            self._log.info(self._dispatcher.view(), "orchestrator.py::840")

    def _loop(self) -> None:
        """Until the last batch is shipped."""
        while True:
            self._raise_watcher_error()
            if self._max_steps is not None and self._progress.step > self._max_steps:
                cancelled = self._dispatcher.close()
                self._log.info(
                    f"Shipped the final batch — draining pipeline (cancelled {cancelled} "
                    "in-flight train episode(s); any in-flight evals will complete)"
                )
                self._log.info("Pipeline drained, exiting main loop")
                return
            self._dispatcher.fill(self._watcher.version)
            group = self._dispatcher.next_episodes(pace.POLL_SECONDS)
            if not group:
                continue
            self._monitor.traces(group, self._progress.step, "all")
            batch = self._dispatcher.add(group, self._progress.step)
            if batch is not None:
                self._ship(batch)

    def _raise_watcher_error(self) -> None:
        if self._watcher.error is not None:
            raise self._watcher.error

    def _ship(self, batch: Batch) -> None:
        step = self._progress.step
        now = time.monotonic()
        step_time, self._last_batch = now - self._last_batch, now
        self._hold(step)
        self._monitor.traces(batch.effective, step, "effective")
        self._send(step, batch)
        self._progress.step += 1
        self._update_gate()
        if (
            self._interval
            and step % self._interval == 0
            and not (self._max_steps is not None and step >= self._max_steps)
        ):
            self._log.info(f"Saving checkpoint at step {step}")
            self._save(step)
        self._report(step, step_time, batch)

    def _hold(self, step: int) -> None:
        """A batch may be one policy ahead of the trainer, not more."""
        required = step - 1 - _LAG
        with self._watcher.published:
            if self._watcher.version < required:
                self._log.info(
                    f"Holding batch {step} until the trainer publishes policy v{required} "
                    f"(currently v{self._watcher.version})",
                    "orchestrator.py::671",
                )
            while self._watcher.version < required:
                self._raise_watcher_error()
                self._watcher.published.wait(0.5)

    def _update_gate(self) -> None:
        gate = self._dispatcher.gate
        if (self._progress.step - 1) - self._watcher.version > _LAG:
            if gate.is_set():
                self._log.info(
                    "Pausing dispatcher to prevent orchestrator from racing from trainer. "
                    "Waiting for new policy...",
                    "orchestrator.py::983",
                )
            gate.clear()
        else:
            if not gate.is_set():
                self._log.info("Resuming dispatcher", "orchestrator.py::989")
            gate.set()

    def _send(self, step: int, batch: Batch) -> None:
        directory = step_path(self._run / "rollouts", step)
        directory.mkdir(parents=True, exist_ok=True)
        ranks = self._config.get("num_train_workers", 1)
        for rank in range(ranks):
            partial = directory / f"rank_{rank}.bin.tmp"
            partial.write_text(json.dumps({"examples": batch.effective[rank::ranks]}))
            partial.rename(directory / f"rank_{rank}.bin")

    def _save(self, step: int) -> None:
        state: dict[str, Any] = {**asdict(self._progress), **self._dispatcher.state()}
        checkpoint.save_orchestrator(
            step_path(self._checkpoints, step) / "orchestrator", state, None
        )

    def _report(self, step: int, step_time: float, batch: Batch) -> None:
        numbers = rollouts.statistics(batch.effective)
        trainable = sum(episode["advantage"] != 0 for episode in batch.effective)
        count = len(batch.effective)
        self._progress.total_tokens += numbers["tokens"]
        self._progress.total_samples += batch.arrived
        self._progress.total_problems += len({episode["group"] for episode in batch.effective})
        totals = {
            f"progress/total_{key}": value
            for key, value in asdict(self._progress).items()
            if key == "tokens"
        }
        self._monitor.log(
            {
                "progress/tokens": numbers["tokens"],
                "progress/total_tokens": self._progress.total_tokens,
                "progress/total_rollouts": self._progress.total_samples,
                "train/agg/effective/agent/reward/mean": numbers["reward"],
                "time/step": step_time,
                "off_policy/max": float(self._staleness(step, batch)),
                **totals,
            },
            step,
        )
        self._log.progress("Generating", count, count, step)
        self._log.success(
            f"Step {step} | {duration(step_time):>7} | Reward {numbers['reward']:.4f} | Trainable "
            f"{trainable}/{count} ({trainable / count:.1%}) | Turns 1.0 | Branches 1.0 | Max "
            f"Off-Policy {self._staleness(step, batch)} | Error "
            f"{batch.errors / max(batch.arrived, 1):.1%} | Cancelled 0.0% | Truncation 0.0%",
            "orchestrator.py::880",
        )

    @staticmethod
    def _staleness(step: int, batch: Batch) -> int:
        return max(max(step - 1 - int(episode["policy"]), 0) for episode in batch.effective)

    def _close(self, elapsed: str, *, clean: bool) -> None:
        self._stopped.set()
        if clean:
            self._log.success(f"Orchestrator step loop done in {elapsed}", "orchestrator.py::499")
        else:
            self._log.warning(
                f"Orchestrator interrupted after {elapsed} — forcing cleanup (not a clean exit)",
                "orchestrator.py::508",
            )
        if self._config.has("ckpt") and self._progress.step > 1:
            self._progress.step -= 1
            self._log.info("Writing final checkpoint")
            self._save(self._progress.step)
        if clean:
            self._log.success("Orchestrator finished.", "orchestrator.py::518")
        else:
            self._log.warning("Orchestrator cleanup complete (forced).")
        sys.stdout.flush()
