"""Reports the incidents that open on a run while somebody waits for an action on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from bs4_console.pods.state import ActionView, IncidentView, PodState

#: Receives each incident once, as soon as the console knows of it.
Tell = Callable[[IncidentView], None]


@contextmanager
def reported(state: PodState, action: ActionView, tell: Tell) -> Iterator[None]:
    """Call `tell` once for each incident that opens on the action's run inside the block, and on
    entry for those that have opened since the action was accepted. Older incidents belong to an
    earlier attempt, or are what the action repairs. An action without a run has none.
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
    """Return what an incident is and how to see more of it, as sentences. If it is critical and the
    run is `stoppable`, they also say how to stop the run.
    """
    fix = f"playbook show {incident.failure}"
    if incident.playbook is not None:
        fix = f"playbook plan {incident.playbook} --pod {pod} --run {incident.run}"
    lines = [
        f"{incident.severity} on {incident.run}: {incident.title} ({incident.failure}).",
        f"See `bs4-console check --pod {pod}` and `bs4-console {fix}`.",
    ]
    if stoppable and incident.severity == "critical":
        lines.append(
            f"If it cannot recover, end it: `bs4-console stop --pod {pod} --run "
            f"{incident.run}` is accepted now."
        )
    return lines
