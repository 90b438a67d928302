"""diagnose on a run directory whose newest checkpoint is incomplete."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from bs4_console.checks.diagnose import diagnose
from tests.agent.checkpoints.trees import new_run, new_step, put


def run(tmp_path: Path, last_step: int, quiet_s: float) -> Path:
    """Return the directory of a run with step 10 complete and step 15 half, whose trainer came to
    `last_step`, and which nobody has written to for `quiet_s` seconds.
    """
    spec = new_run(tmp_path)
    new_step(spec, 10)
    place = spec.output_dir / "demo"
    put(place / "checkpoints/step_15/orchestrator/progress.pt")
    log = place / "logs/attempt_1/trainer.log"
    log.parent.mkdir(parents=True)
    lines = [f"12:00:{n:02} SUCCESS Step {n} | Time: 1.00s | Loss: 0.1\n" for n in range(last_step)]
    log.write_text("".join(lines) + f"12:01:00 SUCCESS Step {last_step} | Time: 1.00s\n")
    then = time.time() - quiet_s
    for path in place.rglob("*"):
        os.utime(path, (then, then))
    return place


@pytest.mark.parametrize("last_step", [14, 15, 18])
def test_a_torn_checkpoint_is_named_wherever_the_trainer_was(
    tmp_path: Path, last_step: int
) -> None:
    [finding] = diagnose([run(tmp_path, last_step, 600)])["findings"]
    assert (finding["id"], finding["severity"]) == ("checkpoint-torn", "warning")
    assert finding["summary"] == "Checkpoint step 15 is incomplete: trainer."


@pytest.mark.parametrize("written", ["checkpoint", "log"])
def test_a_run_that_is_still_written_is_not_called_torn(tmp_path: Path, written: str) -> None:
    place = run(tmp_path, 14, 600)
    file = place / "logs/attempt_1/trainer.log"
    if written == "checkpoint":
        file = place / "checkpoints/step_15/orchestrator/progress.pt"
    os.utime(file)
    assert diagnose([place])["findings"] == []
