"""What Tab offers for the argument of a command."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING

from bs4_console.tui import pins, themes
from bs4_console.tui.views.fleet import GROUPS, SORTS

if TYPE_CHECKING:
    from bs4_console.tui.app import ConsoleApp

_FIXED = {
    "sorts": SORTS,
    "groups": GROUPS,
    "silences": ("run", "pod", "all"),
    "levels": ("all", "info", "warning", "error"),
}


def offers(app: ConsoleApp, what: str, typed: str = "") -> Sequence[str]:
    """Return the values that Tab offers for the argument of a command. `what` is the kind of
    values, which is the command's field `completes`: "pods", "runs", "other runs" (without the
    one that is shown), "sources", "paths", "incidents", "playbooks", "curves", "themes", "pins"
    and others. `typed` is the argument so far, and matters only for paths. Paths come from the
    pod's agent: the first call returns none, and the prompt asks again when the agent has
    answered. The result is empty for an unknown kind, or if the pod or run that is needed is
    missing.
    """
    subject = app.subject()
    if what in ("paths", "sources") and subject.pod is not None and typed.startswith(("/", "~/")):
        return app.paths.of(subject.pod, typed)
    if what == "paths":
        if subject.run and subject.run.view.output_dir:
            return [f"{subject.run.view.output_dir}/", "~/", "/"]
        return ["~/", "/"]
    if what == "pods":
        return sorted(app.fleet.sessions)
    if what == "runs":
        return _runs(app)
    if what == "other runs":
        own = (subject.pod.name, subject.run.name) if subject.pod and subject.run else None
        return _runs(app, own)
    if what == "sources" and subject.pod and subject.run:
        prefix = f"log/{subject.run.name}/"
        found = []
        for s in subject.pod.streams:
            if s.startswith(prefix):
                found.append(s.removeprefix(prefix))
        return found
    if what == "incidents":
        return [incident.failure for incident in subject.incidents]
    if what == "playbooks":
        from bs4_console.tui.views import playbook

        return playbook.ids()
    if what == "curves":
        from bs4_console.tui.widgets.curves import TITLES  # the first paint does without curves

        return list(TITLES)
    if what == "themes":
        return themes.names(app.available_themes)
    if what == "pins":
        return pins.listed(app.settings.pins)
    return list(_FIXED.get(what, ()))


def _runs(app: ConsoleApp, without: tuple[str, str] | None = None) -> list[str]:
    """Return the names of all runs, sorted, with the pod before a name that several pods have. The
    run `without`, a pod's name and its own, is left out.
    """
    on_pods = Counter(chain(*(pod.runs for pod in app.fleet.pods)))
    found = []
    for pod in app.fleet.pods:
        for run in pod.runs:
            if (pod.name, run) != without:
                found.append(run if on_pods[run] == 1 else f"{pod.name}/{run}")
    return sorted(found)
