"""Reports the incidents that open on a run while somebody waits for an action on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from bs4_console.fleet.changes import repair
from bs4_console.pods.state import ActionView, IncidentView, PodState

#: Receives each incident once, as soon as the console knows of it.
Tell = Callable[[IncidentView], None]


@contextmanager
def reported(state: PodState, action: ActionView, tell: Tell) -> Iterator[None]:
    """Within a `with` block, call `tell` with each incident that opens on the run of `action`, once
    for each. An incident that is open when the block begins is reported too if it opened after the
    pod accepted the action. Older ones are left out, because the action may be repairing them.
    Nothing is reported if the action has no run.
    """
    told: set[str] = set()

    def look(_: PodState) -> None:
        for incident in state.ledger.open_incidents(action.run):
            if incident.id not in told and incident.opened_t >= action.accepted_t:
                told.add(incident.id)
                tell(incident)

    if not action.run:
        yield
        return
    state.listeners.append(look)
    try:
        look(state)
        yield
    finally:
        state.listeners.remove(look)


def sentences(incident: IncidentView, pod: str, *, stoppable: bool = True) -> list[str]:
    """Return sentences for a person: what the incident is, and the commands that show more of it.
    For a critical incident of a run that is `stoppable`, they also name the command that stops the
    run.
    """
    lines = [
        f"{incident.severity} on {incident.run}: {incident.title} ({incident.failure}).",
        f"See `bs4-console check --pod {pod}` and `{repair(incident, pod)}`.",
    ]
    if stoppable and incident.severity == "critical":
        lines.append(
            f"If it cannot recover, end it: `bs4-console stop --pod {pod} --run "
            f"{incident.run}` is accepted now."
        )
    return lines
