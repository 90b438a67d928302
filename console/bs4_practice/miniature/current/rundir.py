"""The run directory: its guard, what a start cleans, and one log directory an attempt."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from ..config import Config
from ..log import Logger
from ..steps import latest_step, remove_steps_above

_LAUNCHER_FILES = ("configs", "rl.sbatch", "sft.sbatch")


def prepare(config: Config, run: Path, log: Logger) -> int | None:
    """Prepare `run`, the run's directory, for a start, and return the step to resume from, or None
    to begin at the first step. Directories `step_N` of rollouts and broadcasts (weights for the
    inference server) are deleted: those above the returned step, or all of them if it is None. If
    the config says `clean` and does not resume, the whole directory is deleted first.

    If the config resumes without naming a step, the highest step with a directory of checkpoints is
    taken, complete or not. Raises FileExistsError if the config does not resume and the directory
    holds files of a run.
    """
    checkpoints = Path(config.get("ckpt.output_dir") or run) / "checkpoints"
    if not config.has("resume"):
        _guard(run, clean=bool(config.get("clean")) and not os.environ.get("NEVER_CLEAN"), log=log)
    run.mkdir(parents=True, exist_ok=True)
    step: int | None = None
    if config.has("resume"):
        step = config.get("resume.step")
        if step is None:
            step = latest_step(checkpoints)
            if step is None:
                log.warning(f"No checkpoints found in {checkpoints}. Starting from scratch.")
            else:
                log.info(f"Found latest checkpoint in {checkpoints}: {step}")
    if step is None:
        log.info("Training from scratch, cleaning any stale rollouts and broadcasts", "rl.py::650")
    else:
        log.info(
            f"Resuming from step {step}, cleaning future rollouts and broadcasts", "rl.py::647"
        )
    for directory in (run / "rollouts", run / "broadcasts"):
        gone = remove_steps_above(directory, -1 if step is None else step)
        if gone:
            log.info(
                f"Deleting {len(gone)} step directories in {directory} ({','.join(map(str, gone))})"
            )
    return step


def _guard(run: Path, *, clean: bool, log: Logger) -> None:
    if clean:
        if run.exists():
            log.warning(f"Cleaning existing directory: {run}")
            shutil.rmtree(run)
        return
    if run.exists() and any(entry.name not in _LAUNCHER_FILES for entry in run.iterdir()):
        raise FileExistsError(
            f"Run directory '{run}' already contains artifacts from a previous run. To resume the "
            "latest step of the previous run, pass --resume (or --resume.step N). To delete the "
            "existing directory and start fresh, set clean=true or --clean via CLI. Otherwise "
            "use a unique run name (run.name or --run.name via CLI) or output_dir for this run."
        )


def new_log_dir(run: Path) -> Path:
    """Make the next log directory `logs/attempt_<n>` in `run`, the run's directory, and return it.
    The link `logs/latest` leads to it from then on.
    """
    logs = run / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    numbers = [
        int(path.name.removeprefix("attempt_"))
        for path in logs.glob("attempt_*")
        if path.name.removeprefix("attempt_").isdigit()
    ]
    attempt = logs / f"attempt_{1 + max(numbers, default=0)}"
    attempt.mkdir()
    link = logs / f".{attempt.name}"
    link.unlink(missing_ok=True)
    link.symlink_to(attempt.name)
    os.replace(link, logs / "latest")
    return attempt
