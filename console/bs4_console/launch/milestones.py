"""The evaluations of a run's checkpoints at certain steps: which are done, which one is due, and
the launch that makes it.

An evaluation is a run of its own on the same pod. Its name says of which run and step it is, so the
pod itself remembers what was evaluated, and every console sees the same.
"""

from __future__ import annotations

import re
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

#: A host as every program reads it. Some take other characters for letters of a name.
_HOST = re.compile(r"[A-Za-z0-9._:-]+")


@dataclass(frozen=True, kw_only=True)
class Milestone:
    """One training step (`step`) of a run at which its checkpoint is to be evaluated. `examples` is
    how many examples of each environment are used, or None for as many as the evaluation's config
    says. `run` is the name of the evaluation, which is a run of its own, and `state` says whether
    it is due, under way, done or still to come.
    """

    step: int
    examples: int | None
    run: str
    state: State


def name_of(run: str, step: int) -> str:
    """Return the name of the run that evaluates the checkpoint of `run` at the training step
    `step`, such as "math-at-500".
    """
    return f"{run}-at-{step}"


def look(
    state: PodState, run: RunState, wanted: Mapping[int, int | None], saved: Collection[int]
) -> list[Milestone]:
    """Return the state of each evaluation of `run` that is wanted, the lowest training step first.
    `wanted` is {training step: number of examples, or None for as many as the config says}. `saved`
    are the steps whose weights are on the pod.
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
    """Return the milestone (a training step at which the checkpoint is to be evaluated) whose
    evaluation may be started now. If several are due, it is the first of them in `found`, which is
    sorted by step. Return None if none is due, or if an evaluation of a milestone is under way.
    """
    if any(one.state == "under-way" for one in found):
        return None
    return next((one for one in found if one.state == "due"), None)


def is_over(found: Collection[Milestone], run: RunState) -> bool:
    """Return True if nothing is left to wait for: no evaluation is due or under way, and none is
    still to come. If the run is not alive, steps that it has not reached do not count.
    """
    waits = {"due", "under-way"} | ({"to-come"} if run.alive else set())
    return not any(one.state in waits for one in found)


def request(run: RunState, milestone: Milestone, *, config: str, server: str) -> LaunchRequest:
    """Return the request to launch the evaluation of `milestone`, a training step of `run`, by the
    trainer's own program with the config file `config` on the pod. `server` is the URL of the
    inference server into which the checkpoint is loaded. Raises NotApplicableError if the trainer
    has no such program, and UsageError if `server` is not an http or https URL.
    """
    view = run.view
    _checked(server)
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


def refuse_training_server(looked: Preflight, server: str) -> None:
    """Raise RefusedError if a living run of the pod uses the inference server at the URL `server`,
    or if that is not known. The evaluation would load its checkpoint into that server, and a
    training would then get rollouts of those weights. `looked` is the preflight of the evaluation,
    for which the pod has found out where the URL leads and who uses the server there.
    """
    part = looked.facts.get("server", {})
    users = part.get("used_by")
    if users is None:
        why = part.get("unknown", "the pod's agent does not say it")
        raise RefusedError(
            f"Nothing was evaluated: whether a run uses {server} is not known ({why}).",
            "Look again, or write the server's IP address.",
        )
    if users:
        raise RefusedError(
            f"Nothing was evaluated: {server} is the inference server of {', '.join(users)}, "
            "and an evaluation would load other weights into it.",
            "Start one of its own on another port and on GPUs that are free: `bs4-console "
            "launch CONFIG --component inference`.",
        )


def _checked(server: str) -> None:
    """Raise UsageError if `server` is not the URL of a server: http or https, a host, perhaps a
    port, and perhaps a path.
    """
    try:
        place = urlsplit(server)
        known = _HOST.fullmatch(place.hostname or "") and place.port != 0
    except ValueError:  # of the port, or of brackets
        known = False
    if not known or place.scheme not in ("http", "https") or "@" in place.netloc:
        raise UsageError(f"{server!r} is no address of a server.", "Write http://HOST:PORT/v1.")
