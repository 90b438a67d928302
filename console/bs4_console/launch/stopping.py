"""What stopping a run would do, from what its pod last told: which signals to which processes, and
how long each is waited for.

The agent looks again when it acts: processes that come or go until then are counted in or out by
descent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bs4_console.pods.state import ActionView, PodState, RunState


@dataclass(frozen=True)
class StopStep:
    """`command` as a person would type it; `seconds`: how long its targets get to end."""

    command: str
    seconds: float


def processes(run: RunState) -> list[dict[str, Any]]:
    """The run's living processes as telemetry lists them; empty when nothing of it is known to
    live.
    """
    if run.alive:
        return list(run.components)
    return []


def ended_first(pod: PodState, run: str) -> list[ActionView]:
    """The actions on the run that are under way, and that a stop ends early before it does anything
    else.
    """
    rows = []
    for a in pod.ledger.actions.values():
        if a.run == run and not a.ended and a.kind in ("launch", "playbook", "restore"):
            rows.append(a)
    return rows


def steps(run: RunState) -> list[StopStep]:
    """In order, by the rules of the run's trainer; what is left after the last is named by the
    agent. Empty when nothing lives.
    """
    living = processes(run)
    if not living:
        return []
    from bs4_agent.errors import BadRequest
    from bs4_agent.runs.ending import KILL_S, TERM_S
    from bs4_agent.trainers import registry

    found: list[StopStep] = []
    try:
        policy = registry.get(run.view.trainer).stop_policy
    except BadRequest:
        policy = None  # a trainer that only a newer agent knows
    if policy is not None:
        if policy.target == "tree":
            told = living
        else:
            told = []
            for c in living:
                if c.get("component") == "launcher":
                    told.append(c)
        found = []
        for name, seconds in policy.signals:
            if told:
                found.append(StopStep(_kill(name, told), seconds))
        if policy.target == "tree" and policy.signals[-1][0] == "SIGKILL":
            return found
    return [
        *found,
        StopStep(_kill("SIGTERM", living), TERM_S),
        StopStep(_kill("SIGKILL", living), KILL_S),
    ]


def _kill(signal: str, targets: Sequence[dict[str, Any]]) -> str:
    return (
        f"kill -{signal.removeprefix('SIG')} "
        f"{' '.join(str(target.get('pid')) for target in targets)}"
    )
