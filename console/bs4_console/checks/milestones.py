"""The standing order to go through a run's checklist each so many steps, as notes of the run tell
it, and whether that is due.
"""

from __future__ import annotations

from dataclasses import dataclass

from bs4_console.pods.state import RunState


@dataclass(frozen=True)
class Order:
    """The checklist is due at each multiple of `every`, a number of steps. It was gone through last
    for the step `seen`.
    """

    every: int
    seen: int = 0


def order(run: RunState) -> Order | None:
    """Return the order in force for a run, or None if there is none."""
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
    """Return the step for which the checklist of a run is due, or None if it is not, or nobody
    has ordered it.
    """
    standing = order(run)
    if standing is None:
        return None
    at = reached(run.step, standing.every)
    if at > standing.seen:
        return at
    return None
