"""Where the trainers keep the rollouts of a training step as text."""

from __future__ import annotations

from bs4_console.errors import NotApplicableError

#: Why the trainer has no such file at a place that is known, and what a person does.
_OTHERWISE = {
    "prime-rl-2026-01": (
        "prime-rl of January 2026 keeps its rollouts as token ids and no text.",
        "W&B has samples of them if the config sets orchestrator.wandb.log_extras; an evaluation's "
        "results.jsonl can be named with --file.",
    ),
    "verl": (
        "verl keeps rollouts only where trainer.rollout_data_dir says.",
        "Name the file of a step there: --file DIR/STEP.jsonl.",
    ),
}


def path(trainer: str, *, output_dir: str, run: str, step: int) -> str:
    """Return the path on the pod of the file with the rollouts (the model's answers and their
    rewards) of the training step `step` of a run. `trainer` is the trainer's id, and `output_dir`
    the run's output directory. Raises NotApplicableError for a trainer that has no such file at a
    known place.
    """
    if trainer in _OTHERWISE:
        raise NotApplicableError(*_OTHERWISE[trainer])
    return f"{output_dir.rstrip('/')}/{run}/rollouts/step_{step}/train/all/traces.jsonl"
