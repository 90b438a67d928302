"""The standing order to go through a run's checklist each so many steps, as notes of the run tell
it, and whether that is due.
"""

from __future__ import annotations

from dataclasses import dataclass

from bs4_console.pods.state import RunState


@dataclass(frozen=True)
class Order:
    """The instruction for a run that a person goes through its checklist at each training step that
    is a multiple of `every`. `seen` is the step for which this was done last (0: never).
    """

    every: int
    seen: int = 0


def order(run: RunState) -> Order | None:
    """Return the instruction that a person must go through the run's checklist at every N-th
    training step, as the run's notes record it. Return None if there is no such instruction, or if
    it was switched off.
    """
    every = seen = 0
    for note in run.view.notes:
        if note.get("checklist_every") is not None:
            every = note["checklist_every"]
        if note.get("checklist_step") is not None:
            seen = note["checklist_step"]
    if every > 0:
        return Order(every, seen)
    return None


def reached(step: int | None, every: int) -> int:
    """Return the newest multiple of `every` that a run at `step` has reached, 0 if it has none."""
    return (step or 0) // every * every


def due(run: RunState) -> int | None:
    """Return the training step for which a person should go through the run's checklist now. Return
    None if that was done already, if the run has not come so far, or if no checklist is ordered for
    it.
    """
    standing = order(run)
    if standing is None:
        return None
    at = reached(run.step, standing.every)
    if at > standing.seen:
        return at
    return None
