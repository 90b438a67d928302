"""`verl.trainer.fsdp_sft_trainer` of 0.6: one rank under torchrun. Rank 0 prints all that there is
to say, without Ray's prefixes.
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..rendezvous import World
from . import settings
from .driver import write_overrides
from .runner import TRACKER, FileLogger
from .worker import Worker

#: Batches of the data that nobody has: an epoch.
_EPOCH = 100


def main(arguments: Sequence[str]) -> int:
    """Run an imitation of one rank of a supervised fine-tuning with verl. `arguments` are the words
    of its command line. Returns the exit code: 0, or 1 if Hydra refuses a word, which is written to
    standard error.
    """
    try:
        config = settings.parse(arguments, settings.SFT_DEFAULTS, settings.SFT_OPEN)
    except settings.Refused as error:
        sys.stderr.write(
            f"{error}\n\nSet the environment variable HYDRA_FULL_ERROR=1 for a complete "
            "stack trace.\n"
        )
        return 1
    world = World()
    if world.is_master:
        write_overrides(Path(config["hydra.run.dir"]), arguments)
    _Trainer(config, world).fit()
    return 0


class _Trainer:
    def __init__(self, config: dict[str, Any], world: World) -> None:
        self._config, self._world = config, world
        self._root = Path(config["trainer.default_local_dir"])
        self._worker = Worker(world.local_rank, world.size)
        self._kept: list[Path] = []
        self._file = FileLogger(config) if world.is_master else None
        self._total = int(
            config["trainer.total_training_steps"] or int(config["trainer.total_epochs"]) * _EPOCH
        )

    def fit(self) -> None:
        self._ask("init_model")
        step, spent, last = self._load_checkpoint(), 0.0, None
        while step < self._total:
            step += 1
            metrics = self._train()
            spent += metrics["train/time(s)"]
            self._bar(step)
            self._log(step, metrics)
            if step >= self._total or self._due("trainer.test_freq", step):
                last = {"val/loss": metrics["train/loss"] * 1.1}
                self._log(step, last)
                self._world.barrier()
            if step >= self._total or self._due("trainer.save_freq", step):
                self._save_checkpoint(step)
        self._say(f"Total time for train steps: {spent:.2f}s")
        self._say(f"Final validation metrics: {last}")

    def _train(self) -> dict[str, float]:
        began = time.monotonic()
        # What teaches in the miniature is a spread of rewards; here every row is the answer itself,
        # and half of them are known already.
        self._ask(
            "actor_rollout_update_actor", rewards=[0.0, 1.0], rate=float(self._config["optim.lr"])
        )
        self._world.barrier()  # the gradients of all ranks
        loss = -math.log(min(0.99, max(0.01, self._worker.skill)))
        return {
            "train/loss": loss,
            "train/lr(1e-3)": float(self._config["optim.lr"]) * 1e3,
            "train/time(s)": time.monotonic() - began,
        }

    def _due(self, key: str, step: int) -> bool:
        often = int(self._config[key])
        return often > 0 and step % often == 0

    def _ask(self, method: str, **arguments: Any) -> None:
        """RuntimeError for what this rank's GPU or its file says."""
        answer = self._worker.call({"method": method, **arguments})
        if "error" in answer:
            raise RuntimeError(answer["error"])

    def _save_checkpoint(self, step: int) -> None:
        """Every rank its files, then rank 0 the data loader's, then the number, which is renamed
        into its place.
        """
        folder = self._root / f"global_step_{step}"
        self._say(f"Saving checkpoint to: {folder}")
        keep = self._config["trainer.max_ckpt_to_keep"]
        # What was saved before this process began is not in the list, so a restart forgets it.
        while keep and len(self._kept) >= int(keep):
            old = self._kept.pop(0)
            if self._world.is_master:
                for path in sorted(old.rglob("*"), reverse=True):
                    path.rmdir() if path.is_dir() else path.unlink()
        self._ask("save_checkpoint", directory=str(folder))
        self._kept.append(folder)
        self._world.barrier()
        if self._world.is_master:
            (folder / "data.pt").write_text(json.dumps({"step": step}))
            self._say(f"Saved dataloader state to: {folder / 'data.pt'}")
            temporary = self._root / f"{TRACKER}.tmp"
            temporary.write_text(str(step))
            temporary.rename(self._root / TRACKER)
            self._say(f"Updated checkpoint tracker: {self._root / TRACKER}")
        self._world.barrier()

    def _load_checkpoint(self) -> int:
        """The step that it goes on from, 0 for none. The real one says nothing of it at its usual
        level.
        """
        mode, given = self._config["trainer.resume_mode"], self._config["trainer.resume_from_path"]
        if mode not in ("auto", "disable", "resume_path"):
            raise ValueError(
                f"Invalid resume_mode: {mode}. Must be 'auto', 'disable', or 'resume_path'"
            )
        folder = Path(given) if given is not None and mode != "disable" else None
        if folder is None and mode == "auto":
            try:
                folder = self._root / f"global_step_{int((self._root / TRACKER).read_text())}"
            except FileNotFoundError:
                return 0
            self._say(f"Found latest checkpoint: {folder} (step {folder.name.rpartition('_')[2]})")
        if folder is None:
            return 0
        if not folder.exists():
            raise RuntimeError(
                "AssertionError: resume_from_path must be an existing path when resume_mode "
                "is 'resume_path'"
            )
        self._ask("load_checkpoint", directory=str(folder))
        return int(folder.name.rpartition("_")[2])

    def _log(self, step: int, metrics: dict[str, float]) -> None:
        if self._file is not None:
            print(
                " - ".join(
                    [f"step:{step}", *(f"{key}:{value!r}" for key, value in metrics.items())]
                ),
                flush=True,
            )
            self._file.log(step, metrics)

    def _bar(self, step: int) -> None:
        """One for each epoch; it counts within the epoch."""
        if self._world.is_master:
            epoch, done = divmod(step - 1, _EPOCH)
            epochs = int(self._config["trainer.total_epochs"])
            bar = "█" * ((done + 1) // 10)
            sys.stderr.write(
                f"\rEpoch {epoch + 1}/{epochs}: {done + 1:3d}%|{bar:<10}| {done + 1}/{_EPOCH} "
                "[00:01<00:09,  1.00s/it]"
            )

    def _say(self, text: str) -> None:
        if self._world.is_master:
            print(text, flush=True)
