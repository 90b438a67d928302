"""The trainers: one module for each version of each, and what they share. What is needed without
any of them stands here, because the console needs it at its first paint.
"""

from __future__ import annotations

from collections.abc import Mapping

#: The number of a fresh run's first step, by the trainer's id.
FIRST_STEPS: Mapping[str, int] = {"prime-rl-2026-01": 0, "prime-rl": 1, "verl": 1}


def steps_done(trainer: str, newest: int) -> int:
    """Return how many steps a run has done whose newest finished step has the number `newest`.
    `trainer` is the trainer's id. The first step of an unknown trainer counts as 1.
    """
    return max(0, newest + 1 - FIRST_STEPS.get(trainer, 1))
