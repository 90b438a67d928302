"""The packer (in the trainer's rank 0): the orchestrator's batches in, micro batches for the ranks
out.

Which batch it reads next is counted by itself, and it begins at the largest step number that it
finds among the *orchestrator's* checkpoints when it first sees the run: neither the step to resume
from nor a fresh start matters to it (runs.py:100 of a24ec986b).
"""

from __future__ import annotations

import json
import shutil
import time
import tomllib
from pathlib import Path

from .. import pace
from ..lines import Message
from ..log import Logger
from ..steps import latest_step, step_path


class Packer:
    """Divides the orchestrator's batches among the trainer's ranks. It runs in rank 0. `output` is
    the run's output directory, `world` the number of ranks, `seq_len` the length of a sequence in
    tokens, and `start_step` the trainer's first step. The constructor deletes what the packer of an
    earlier start has written for the ranks.
    """

    def __init__(
        self, output: Path, world: int, seq_len: int, start_step: int, log: Logger
    ) -> None:
        self._output = output
        self._world = world
        self._threshold = seq_len * world
        self._log = log
        self._sent = start_step
        self._seen: int | None = None
        self._look_again = 0.0
        shutil.rmtree(output / "rollouts", ignore_errors=True)

    @property
    def run_step(self) -> int | None:
        """Return the number of the orchestrator's step whose batch `pack` reads next. Return None
        until `pack` has found the run, which is when its valid config is in the output directory.
        """
        return self._seen

    def pack(self) -> None:
        """Wait without limit for the next batch of the orchestrator, divide it among the ranks, and
        write one file for each rank. A batch that has too few tokens to fill the ranks is written
        too, as it is, but not before 10 seconds (times BS4_MINIATURE_PACE) after the call.
        """
        batch = self._wait_for_batch()
        examples: list[Message] = batch["examples"]
        if examples:
            # A batch that is smaller than the number of ranks is filled up with copies, so that
            # every rank has one. An empty one is not.
            examples = examples + [examples[0]] * max(self._world - len(examples), 0)
        shares = [examples[rank :: self._world] for rank in range(self._world)]
        directory = step_path(self._output / "rollouts", self._sent)
        directory.mkdir(parents=True, exist_ok=True)
        for rank, share in enumerate(shares):
            partial = directory / f"rank_{rank}.bin.tmp"
            partial.write_text(json.dumps({"policy": batch["policy"], "examples": share}))
            partial.rename(directory / f"rank_{rank}.bin")
        self._sent += 1
        self._seen = (self._seen or 0) + 1

    def _wait_for_batch(self) -> Message:
        started = time.monotonic()
        since: float | None = None
        logged = 0.0
        path: Path | None = None
        while True:
            if (found := self._batch_path()) is not None:
                if found.exists():
                    batch: Message = json.loads(found.read_text())
                    if (
                        sum(example["tokens"] for example in batch["examples"]) * 2
                        >= self._threshold
                    ):
                        return batch
                    if time.monotonic() - started > pace.paced(10):
                        self._log.warning(
                            "Timeout waiting for enough tokens to pack", "packer.py::68"
                        )
                        return batch
                since = since or time.monotonic()
                waited = time.monotonic() - since
                if found != path or waited - logged > pace.paced(10):
                    suffix = "" if found.exists() else f" (waiting {waited / pace.PACE:.1f}s)"
                    self._log.debug(
                        f"Looking for batches in {[found]}{suffix}", "filesystem.py::77"
                    )
                    path, logged = found, waited
            pace.poll()

    def _refused(self, configs: Path) -> bool:
        """A run whose config cannot be used is told so in a file and looked at again a second
        later; the file goes once the config is valid (runs.py:53-90 of a24ec986b).
        """
        note = configs / "error.txt"
        if time.monotonic() < self._look_again:
            return True
        try:
            tomllib.loads((configs / "orch.toml").read_text())
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            note.write_text(f"Error parsing orchestrator config:\n{error}\n")
            self._look_again = time.monotonic() + pace.paced(1)
            self._log.error(
                f"Error parsing orchestrator config for run {configs.parent.name}: {error}",
                "runs.py::88",
            )
            return True
        note.unlink(missing_ok=True)
        return False

    def _batch_path(self) -> Path | None:
        """Where the next batch must appear. The run is not seen before its orchestrator wrote its
        config.
        """
        run = self._output / "run_default"
        if self._seen is None:
            if not (run / "configs" / "orch.toml").exists() or self._refused(run / "configs"):
                return None
            self._seen = latest_step(run / "checkpoints") or 0
        return step_path(run / "rollouts", self._seen) / "rollouts.bin"
