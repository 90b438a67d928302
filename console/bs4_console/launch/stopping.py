"""What stopping a run would do, from what its pod reported last: which signals go to which
processes, and how long each is waited for.

The agent scans again when it acts. Processes that come or go until then are found by descent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bs4_console.pods.state import ActionView, PodState, RunState


@dataclass(frozen=True)
class StopStep:
    """One step of stopping a run. `command` is the kill command as a person would type it, and
    `seconds` is how long its targets get to end.
    """

    command: str
    seconds: float


def processes(run: RunState) -> list[dict[str, Any]]:
    """Return the run's living processes as telemetry lists them. Empty if none is known to live."""
    return list(run.components) if run.alive else []


def ended_first(pod: PodState, run: str) -> list[ActionView]:
    """Return the actions on the run that are under way. A stop ends them before it does anything
    else.
    """
    ended = ("launch", "playbook", "restore")
    actions = pod.ledger.actions.values()
    rows = []
    for a in actions:
        if a.run == run and not a.ended and a.kind in ended:
            rows.append(a)
    return rows


def steps(run: RunState) -> list[StopStep]:
    """Return the steps of stopping the run in order, by the rules of its trainer. After the last
    one the agent reports what is left. Empty if no process lives.
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
        tree = policy.target == "tree"
        targets = []
        for c in living:
            if tree or c.get("component") == "launcher":
                targets.append(c)
        if targets:
            found = []
            for name, seconds in policy.signals:
                found.append(StopStep(_kill(name, targets), seconds))
        if tree and policy.signals[-1][0] == "SIGKILL":
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
