"""The file monitor: `metrics.jsonl`, to which trainer and orchestrator both append, and the traces
of every episode.
"""

from __future__ import annotations

import json
import math
import os
import time
from pathlib import Path
from typing import Any

from .. import rollouts
from ..steps import step_path


class FileMonitor:
    """Writes the metrics and episodes of a run to files in the run's directory `run`, as prime-rl's
    file monitor does.
    """

    def __init__(self, run: Path) -> None:
        self._run = run
        run.mkdir(parents=True, exist_ok=True)
        self._fd = os.open(run / "metrics.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def log(self, metrics: dict[str, Any], step: int) -> None:
        """Append a row with the metrics of `step`, and the time in seconds since the epoch, to
        `metrics.jsonl`. Metrics that are NaN or infinite are left out.
        """
        finite = {
            key: value
            for key, value in metrics.items()
            if not isinstance(value, float) or math.isfinite(value)
        }
        os.write(
            self._fd, (json.dumps({"step": step, "time": time.time(), **finite}) + "\n").encode()
        )

    def traces(self, episodes: list[dict[str, Any]], step: int, subset: str) -> None:
        """Append episodes of `step` to `rollouts/step_N/train/SUBSET/traces.jsonl`. `subset` is
        "all" for the episodes that came back, or "effective" for those that the trainer gets.
        """
        path = step_path(self._run / "rollouts", step) / "train" / subset / "traces.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as out:
            out.writelines(json.dumps(_episode(episode)) + "\n" for episode in episodes)


def _episode(episode: dict[str, Any]) -> dict[str, Any]:
    """Return an episode as verifiers 0.4 writes it, as far as anybody reads it."""
    question = rollouts.prompt(episode["example"])
    errors = []
    if "error" in episode:
        kind, text = episode["error"]
        errors.append({"type": kind, "message": text})
    messages = [{"role": "user", "content": question}]
    if not errors:
        messages.append({"role": "assistant", "content": episode["answer"]})
    task = {"type": "ReverseText", "data": {"idx": episode["example"], "prompt": question}}
    trace = {
        "version": 1,
        "task": task,
        "nodes": [{"message": message} for message in messages],
        "rewards": {"lcs": {"score": episode["reward"], "weight": 1.0}},
        "ok": not errors,
        "errors": errors,
    }
    name = episode["env"]
    return {
        "env": {"id": name, "name": name},
        "task": task,
        "ok": True,
        "errors": [],
        "traces": [trace],
    }
