"""The evaluations of a run's checkpoints at certain steps: which are done, which one is due, and
the launch that makes it.

An evaluation is a run of its own on the same pod. Its name says of which run and step it is, so the
pod itself remembers what was evaluated, and every console sees the same.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal
from urllib.parse import urlsplit

from bs4_console.errors import RefusedError, UsageError
from bs4_console.launch.guide import LaunchRequest
from bs4_console.pods.state import PodState, RunState
from bs4_console.preflight.examine import Preflight
from bs4_console.trainers import checkpoint_eval

#: to-come: the run has not reached the step. due: its weights are there and not evaluated.
#: no-weights: the step is passed, and its weights are not on the pod. under-way, evaluated and
#: failed are states of the evaluation.
State = Literal["to-come", "due", "no-weights", "under-way", "evaluated", "failed"]

_LOCAL = ("localhost", "127.0.0.1", "0.0.0.0", "::1")  # noqa: S104


@dataclass(frozen=True, kw_only=True)
class Milestone:
    """One step at which a run is evaluated. `examples` is how many of each environment, or None for
    as many as the config says. `run` is the name of the evaluation.
    """

    step: int
    examples: int | None
    run: str
    state: State


def name_of(run: str, step: int) -> str:
    """Return the name of the evaluation of a run at a step."""
    return f"{run}-at-{step}"


def look(
    state: PodState, run: RunState, wanted: Mapping[int, int | None], saved: Collection[int]
) -> list[Milestone]:
    """Return the milestones `wanted` ({step: examples}) of a run, lowest first. `saved` are the
    steps whose weights are on the pod.
    """
    found = []
    for step in sorted(wanted):
        name = name_of(run.name, step)
        evaluation = state.runs.get(name)
        found.append(
            Milestone(
                step=step,
                examples=wanted[step],
                run=name,
                state=_state(evaluation, run, step, saved),
            )
        )
    return found


def _state(evaluation: RunState | None, run: RunState, step: int, saved: Collection[int]) -> State:
    attempt = None if evaluation is None else evaluation.view.attempt
    if attempt is not None and attempt.ended_t is None:
        return "under-way"
    if attempt is not None:
        return "evaluated" if attempt.good else "failed"
    if step in saved:
        return "due"
    return "no-weights" if run.step is not None and run.step > step else "to-come"


def due(found: Collection[Milestone]) -> Milestone | None:
    """Return the milestone whose evaluation may begin now, the lowest that is due, or None. While
    one is under way no other begins.
    """
    if any(one.state == "under-way" for one in found):
        return None
    return next((one for one in found if one.state == "due"), None)


def is_over(found: Collection[Milestone], run: RunState) -> bool:
    """Return True if no evaluation is due, under way or still to come."""
    waits = {"due", "under-way"} | ({"to-come"} if run.alive else set())
    return not any(one.state in waits for one in found)


def request(run: RunState, milestone: Milestone, *, config: str, server: str) -> LaunchRequest:
    """Return the launch of a milestone's evaluation, by the trainer's own program with the config
    file `config` on the pod. `server` is the URL of the inference server that loads the checkpoint.
    Raises NotApplicableError if the trainer has no such program.
    """
    view = run.view
    if not urlsplit(server).scheme.startswith("http"):
        raise UsageError(f"{server!r} is no address of a server.", "Write http://HOST:PORT/v1.")
    return LaunchRequest(
        run=milestone.run,
        trainer=view.trainer,
        config=config,
        cwd=view.cwd,
        output_dir=f"{view.output_dir.rstrip('/')}-at-{milestone.step}",
        component="eval",
        overrides=checkpoint_eval.options(
            view.trainer,
            weights=f"{view.output_dir.rstrip('/')}/weights",
            step=milestone.step,
            server=server,
            examples=milestone.examples,
        ),
    )


def refuse_training_server(looked: Preflight, server: str, run: RunState) -> None:
    """Raise RefusedError if the server at the URL `server` is the one that `run` trains with: an
    evaluation loads its checkpoint into it, and the rollouts of the training would come from those
    weights. `looked` is the preflight of the evaluation, which asked who listens.
    """
    place = urlsplit(server)
    if place.hostname not in _LOCAL:
        return
    for row in looked.facts.get("run", {}).get("ports", ()):
        if row.get("port") == (place.port or 80) and row.get("run") == run.name:
            raise RefusedError(
                f"Nothing was evaluated: {server} is the inference server of {run.name} itself, "
                "and an evaluation would load other weights into it.",
                "Start one of its own on another port and on GPUs that are free: `bs4-console "
                "launch CONFIG --component inference`.",
            )
