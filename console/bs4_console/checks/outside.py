"""What witnesses outside a pod say of its runs, beside what the pod says itself: local truth
outranks them.

A pod that answers is believed; a witness that lags behind it is a warning about the witness. Of a
pod that does not answer, a fresh heartbeat says that its run goes on and that the link is what is
broken; an old one says nothing by itself. No action comes of either.
"""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bs4_console.errors import ConsoleError
from bs4_console.pods.state import PodState, RunState
from bs4_console.pods.witness import FRESH_S, Sight, ago

if TYPE_CHECKING:
    from bs4_agent.detect.engine import Engine
    from bs4_agent.detect.facts import Facts
    from bs4_console.checks.wandb import WandbApi

#: Between two looks of a console that stays open.
EVERY_S = 60.0
#: A finished run is looked at no more after this.
_ENDED_S = 3600.0


@dataclass(frozen=True)
class Outside:
    """One round of looks at one pod's runs. `sights` by run; `incidents` as `check` lists them;
    `coverage`: what could not be seen.
    """

    sights: Mapping[str, Sight] = field(default_factory=dict)
    incidents: Sequence[dict[str, Any]] = ()
    coverage: Sequence[str] = ()

    def as_list(self) -> list[dict[str, Any]]:
        """Plain data: `run`, `witness`, `state`, `detail`, `seen_t`, `looked_t`, `step`,
        `coverage`.
        """
        return [
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
            for run, sight in self.sights.items()
        ]


def watched(pod: PodState) -> list[RunState]:
    """The runs of which W&B may know more: those that said where it shows them, and that go on or
    ended lately.
    """
    result = []
    for run in pod.runs.values():
        if run.view.tracked and _matters(run):
            result.append(run)
    return result


def _matters(run: RunState) -> bool:
    attempt = run.view.attempt
    return attempt is not None and (
        attempt.ended_t is None or time.time() - attempt.ended_t < _ENDED_S
    )


async def look(pod: PodState, api: WandbApi) -> Outside:
    """Ask W&B about each of the pod's runs, at once."""
    from bs4_console.checks.wandb import WandbWitness

    witnesses = {}
    for run in watched(pod):
        witnesses[run.name] = WandbWitness(api, run.name, run.view.tracked)
    sights = dict(
        zip(
            witnesses,
            await asyncio.gather(*(one.look() for one in witnesses.values())),
            strict=True,
        )
    )
    rows = []
    for one in witnesses.values():
        for row in one.rows:
            rows.append(row)
    incidents = []
    if rows and pod.link.up:
        incidents = _incidents(pod, rows)
    return Outside(
        sights,
        incidents,
        [f"{run}: {sight.coverage}" for run, sight in sights.items() if sight.coverage],
    )


async def ask(pod: PodState) -> Outside:
    """The same with this machine's own key; no network where it has none or no run says where W&B
    shows it.
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
        return await look(pod, api)


def beside_the_pod(run: RunState, sight: Sight, now_t: float | None = None) -> str:
    """What is wrong with W&B about a run whose pod answers and says that it lives; "" where nothing
    is.
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


def _incidents(pod: PodState, rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The agent's engine over what only this machine knows. Nothing is held: what a look of minutes
    ago said is asked anew each time.
    """
    engine = _engine()
    found = []
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
    return found


def _engine() -> Engine:
    from bs4_agent.detect.engine import Engine

    return Engine(_playbooks(), live=False)


@functools.cache
def _playbooks() -> list[Any]:
    from bs4_agent.playbooks.compiled import Library
    from bs4_console.failures.playbooks import compile_all

    result = []
    for playbook in Library(compile_all()):
        if playbook.family == "wandb" and playbook.where == "console":
            result.append(playbook)
    return result


def _facts(pod: PodState, rows: Sequence[Mapping[str, Any]]) -> Facts:
    from bs4_agent.detect.facts import Facts, RunFacts, Side
    from bs4_agent.detect.surroundings import ConsoleFacts
    from bs4_agent.states import SeenState
    from bs4_agent.trainers.base import LaunchSpec, RunLayout

    def run_facts(run: RunState) -> RunFacts:
        view = run.view
        out = Path(view.output_dir)
        spec = LaunchSpec(
            run=run.name,
            trainer=view.trainer,
            config=Path(view.config),
            cwd=Path(view.cwd),
            output_dir=out,
        )
        attempt = view.attempt
        side = Side(run.step, None, len(run.trainer_steps))
        if attempt is None:
            number, started = (0, 0.0)
        else:
            number, started = (attempt.number, attempt.started_t)
        state: SeenState = "ended"
        if run.alive:
            state = "running"
        layout = RunLayout(
            output_dir=out,
            run_dir=out,
            trainer_checkpoints=out,
            orchestrator_checkpoints=out,
            broadcasts=out,
            rollouts=out,
            weights=None,
        )
        return RunFacts(
            name=run.name,
            spec=spec,
            layout=layout,
            attempt=number,
            state=state,
            started_m=0.0,
            started_t=started,
            trainer_side=side,
        )

    runs = [run_facts(run) for run in watched(pod)]
    return Facts(
        now_m=time.monotonic(), now_t=time.time(), runs=runs, console=ConsoleFacts(wandb=list(rows))
    )


class Lookout:
    """For a console that stays open: keeps `PodState.sights` up to date, with this machine's own
    key.
    """

    def __init__(self, pods: Callable[[], Sequence[PodState]], every: float = EVERY_S) -> None:
        self._pods, self._every = pods, every

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await asyncio.gather(*(self._look(pod) for pod in self._pods() if watched(pod)))
            await asyncio.sleep(self._every)

    @staticmethod
    async def _look(pod: PodState) -> None:
        seen = await ask(pod)
        pod.sights, pod.unseen = dict(seen.sights), tuple(seen.coverage)
        pod.changed()
