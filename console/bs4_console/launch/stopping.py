"""What stopping a run would do, from what its pod reported last: which signals go to which
processes, and how long each is waited for.

The agent scans again when it acts. Processes that come or go until then are found by descent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypedDict

from bs4_console.pods.samples import Process
from bs4_console.pods.session import PodSession
from bs4_console.pods.state import ActionView, PodState, RunState


class StopSubject(TypedDict):
    """Which attempt (life of the processes) of which run a stop is meant for, and on which pod. The
    agent refuses the stop if it finds another one.
    """

    home: str
    """The id of the agent's home directory, which tells one pod from another."""
    run: str
    attempt: int
    """The number of the run's newest attempt, or 0 if the run has had none."""


@dataclass(frozen=True)
class StopStep:
    """One signal that a stop of a run sends to some of its processes. `command` is the kill command
    as a person would type it, and `seconds` is how long these processes get to end before the next
    signal is sent.
    """

    command: str
    seconds: float


def subject(live: PodSession, run: RunState) -> StopSubject:
    """Return what exactly a stop of `run` would stop, as it is now: the id of the agent's home, the
    run, and its newest attempt (life of its processes). Call this before a person confirms the
    stop. The agent then refuses it if another pod or attempt is there by that time.
    """
    attempt = run.view.attempt
    return {
        "home": live.home,
        "run": run.name,
        "attempt": attempt.number if attempt is not None else 0,
    }


def processes(run: RunState) -> list[Process]:
    """Return the run's living processes as the pod's newest telemetry record lists them. The list
    is empty if the run is not alive.
    """
    return list(run.components) if run.alive else []


def ended_first(pod: PodState, run: str) -> list[ActionView]:
    """Return the actions on the run `run` that are still under way on the pod: a launch, a repair
    by a playbook, or a restore. A stop of the run first ends these actions, and then the run's
    processes. The list is empty if no action is under way.
    """
    ended = ("launch", "playbook", "restore")
    actions = pod.ledger.actions.values()
    rows = []
    for a in actions:
        if a.run == run and not a.ended and a.kind in ended:
            rows.append(a)
    return rows


def steps(run: RunState) -> list[StopStep]:
    """Return what a stop of the run would do, in order: the signals that the agent would send to
    the run's processes, by the rules of the run's trainer. A process that is still alive after the
    last signal is not killed but only reported. The list is empty if no process is alive.
    """
    living = processes(run)
    if not living:
        return []
    from bs4_common.errors import BadRequest
    from bs4_common.runs.model import KILL_S, TERM_S
    from bs4_common.trainers import registry

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


def _kill(signal: str, targets: Sequence[Process]) -> str:
    return (
        f"kill -{signal.removeprefix('SIG')} "
        f"{' '.join(str(target.get('pid')) for target in targets)}"
    )
