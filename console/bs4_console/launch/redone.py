"""Which finished steps of a run are trained again when it goes on at a checkpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bs4_console.pods.state import RunState


def steps_again(run: RunState | None, resume: int | None) -> range:
    """Return the finished steps of `run` that are trained again when it goes on at the checkpoint
    of step `resume`, or, if that is None, from no checkpoint. The range is empty if there are none,
    if it is not known how far the run is, or if its trainer is not known.

    Step numbers of some trainers begin with 0 and of others with 1. A checkpoint has the number of
    the policy that is in it, so the next step is `resume` for the former and `resume + 1` for the
    latter.
    """
    if run is None or run.step is None:
        return range(0)
    from bs4_common.trainers import registry

    trainer = registry.find(run.view.trainer)
    if trainer is None:
        return range(0)
    return range(trainer.first_step + (resume or 0), run.step + 1)
