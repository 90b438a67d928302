"""What external observers report about a pod's runs, compared with what the pod says. The pod's own
word counts more.

A pod that answers is believed: an observer that lags behind it gives a warning about the observer.
If a pod does not answer, a fresh heartbeat says that its run goes on and that the link is broken;
an old heartbeat proves nothing. No action follows from either.
"""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from bs4_console.errors import ConsoleError
from bs4_console.pods.observer import FRESH_S, IncidentRow, Observation, ago
from bs4_console.pods.state import PodState, RunState

if TYPE_CHECKING:
    from bs4_common.failures.facts import Facts
    from bs4_console.checks.wandb import WandbApi, WandbRow

#: Seconds between two polls of a console that stays open.
EVERY_S = 60.0
#: Seconds after which a finished run is polled no more.
_ENDED_S = 3600.0


class SightRow(TypedDict):
    """What W&B said about the run `run`, in the JSON of the command `check`. `state` is running,
    stopped, gone or unknown, and `detail` a sentence about it. `coverage` is a phrase about what
    W&B could not tell, or "".
    """

    run: str
    witness: str
    """Always "wandb"."""
    state: str
    detail: str
    seen_t: float | None
    """Wall seconds since 1970 at which W&B last heard of the run."""
    looked_t: float
    """Wall seconds since 1970 of the query."""
    step: int | None
    """The newest training step."""
    coverage: str


@dataclass(frozen=True)
class Outside:
    """What W&B said about one pod's runs at one time. `sights` maps each run's name to the
    observation of it. `incidents` are the failures that follow from the observations, as JSON
    objects. `coverage` has phrases about what could not be seen.
    """

    sights: Mapping[str, Observation] = field(default_factory=dict)
    incidents: Sequence[IncidentRow] = ()
    coverage: Sequence[str] = ()

    def as_list(self) -> list[SightRow]:
        """Return the observations as JSON objects, one for each run."""
        found: list[SightRow] = []
        for run, sight in self.sights.items():
            found.append(
                {
                    "run": run,
                    "witness": "wandb",
                    "state": sight.state,
                    "detail": sight.detail,
                    "seen_t": sight.seen_t,
                    "looked_t": sight.looked_t,
                    "step": sight.step,
                    "coverage": sight.coverage,
                }
            )
        return found


def watched(pod: PodState) -> list[RunState]:
    """Return the pod's runs about which W&B is worth asking: those of which it is known where W&B
    shows them, and that are running or ended less than an hour ago.
    """
    found = []
    for run in pod.runs.values():
        if run.view.tracked and _matters(run):
            found.append(run)
    return found


def _matters(run: RunState) -> bool:
    """Return True if the run is running or ended less than an hour ago."""
    attempt = run.view.attempt
    return attempt is not None and (
        attempt.ended_t is None or time.time() - attempt.ended_t < _ENDED_S
    )


async def observe(pod: PodState, api: WandbApi) -> Outside:
    """Query W&B, over `api` and at the same time, about each run of the pod that is running or
    ended less than an hour ago, if it is known where W&B shows the run. Return the observations. A
    query that fails becomes an observation with the state "unknown".
    """
    from bs4_console.checks.wandb import WandbRow, WandbWitness

    runs = watched(pod)
    witnesses = [WandbWitness(api, run.name, run.view.tracked) for run in runs]
    seen = await asyncio.gather(*(witness.observe() for witness in witnesses))
    sights, rows, coverage = dict[str, Observation](), list[WandbRow](), []
    for run, witness, sight in zip(runs, witnesses, seen, strict=True):
        sights[run.name] = sight
        rows += witness.rows
        if sight.coverage:
            coverage.append(f"{run.name}: {sight.coverage}")
    incidents = _incidents(pod, rows, coverage) if rows and pod.link.up else []
    return Outside(sights, incidents, coverage)


async def ask(pod: PodState) -> Outside:
    """Query W&B about the pod's runs with the key of this machine, and return the observations. If
    there is no usable key, the result has no observations, and its `coverage` says so. If no run
    has a known place at W&B, nothing is sent.
    """
    if not watched(pod):
        return Outside()
    from bs4_console.checks.wandb import WandbApi, account

    try:
        known = account()
    except ConsoleError as error:
        return Outside(coverage=[f"W&B: {error.message}"])
    if known is None:
        return Outside(coverage=["W&B: this machine has no key for it"])
    async with WandbApi(known) as api:
        return await observe(pod, api)


def beside_the_pod(run: RunState, sight: Observation, now_t: float | None = None) -> str:
    """Return a sentence if W&B and the pod disagree about a run that lives according to the pod:
    W&B shows it as not running, or has not heard of it for ten minutes. Return "" if they agree,
    if the run does not live, or if W&B did not say when it last heard of it. `sight` is what W&B
    said. `now_t` is the present Unix time in seconds; None means this machine's.
    """
    age = sight.age_s(now_t)
    if age is None or not run.alive:
        return ""
    if sight.state != "running":
        return f"W&B has {run.name} as {sight.raw_state} though it lives: trust the pod, not W&B."
    if age > FRESH_S:
        return (
            f"W&B has heard nothing of {run.name} for {ago(age)} though it lives: trust the pod, "
            "not W&B."
        )
    return ""


def _incidents(pod: PodState, rows: Sequence[WandbRow], coverage: list[str]) -> list[IncidentRow]:
    """Return the incidents that the agent's engine finds in facts that only this machine knows.
    Nothing is kept from earlier rounds: each round decides anew. A failure that could not be looked
    for is added to `coverage`, in words.
    """
    from bs4_common.failures.engine import Engine

    found: list[IncidentRow] = []
    engine = Engine(_playbooks(), live=False)
    for transition in engine.evaluate(_facts(pod, rows), complete=True):
        if transition.event == "opened":
            item, playbook = transition.finding, transition.playbook
            found.append(
                {
                    "id": transition.incident,
                    "failure": item.failure,
                    "run": item.run,
                    "severity": item.severity or playbook.severity,
                    "summary": item.summary,
                    "playbook": None,
                }
            )
    coverage += [fault.phrase for fault in engine.faults]
    return found


@functools.cache
def _playbooks() -> list[Any]:
    """Return the W&B playbooks that are evaluated on the console."""
    from bs4_common.failures.compiled import Library
    from bs4_console.failures.playbooks import compile_all

    known = Library(compile_all())
    found = []
    for book in known:
        if book.family == "wandb" and book.where == "console":
            found.append(book)
    return found


def _facts(pod: PodState, rows: Sequence[WandbRow]) -> Facts:
    """Return the facts that the engine needs: the observed runs and W&B's rows."""
    from bs4_common.failures.environment import ConsoleFacts
    from bs4_common.failures.facts import Facts, RunFacts, Side
    from bs4_common.states import SeenState
    from bs4_common.trainers.base import LaunchSpec, RunLayout

    def run_facts(run: RunState) -> RunFacts:
        view = run.view
        out = Path(view.output_dir)
        state: SeenState = "running" if run.alive else "ended"
        return RunFacts(
            name=run.name,
            spec=LaunchSpec(
                run=run.name,
                trainer=view.trainer,
                config=Path(view.config),
                cwd=Path(view.cwd),
                output_dir=out,
            ),
            layout=RunLayout(
                output_dir=out,
                run_dir=out,
                trainer_checkpoints=out,
                orchestrator_checkpoints=out,
                broadcasts=out,
                rollouts=out,
                weights=None,
            ),
            attempt=view.attempt.number if view.attempt else 0,
            state=state,
            started_m=0.0,
            started_t=view.attempt.started_t if view.attempt else 0.0,
            trainer_side=Side(run.step, None, len(run.trainer_steps)),
        )

    return Facts(
        now_m=time.monotonic(),
        now_t=time.time(),
        runs=[run_facts(run) for run in watched(pod)],
        console=ConsoleFacts(wandb=list(rows)),
    )


class Lookout:
    """Queries W&B every `every` seconds for a console that stays open, with the key of this
    machine, and stores what it says of each run in `PodState.sights`.
    """

    def __init__(self, pods: Callable[[], Sequence[PodState]], every: float = EVERY_S) -> None:
        """Keep the function that returns the pods, and the number of seconds between two rounds."""
        self._pods, self._every = pods, every

    async def run(self) -> None:
        """Query W&B about the runs of all pods, wait (60 seconds by default), and begin again,
        until cancelled.
        """
        while True:
            await asyncio.gather(*(self._look(pod) for pod in self._pods() if watched(pod)))
            await asyncio.sleep(self._every)

    @staticmethod
    async def _look(pod: PodState) -> None:
        """Store the new observations of one pod in its state."""
        seen = await ask(pod)
        pod.sights, pod.unseen = dict(seen.sights), tuple(seen.coverage)
        pod.changed()
