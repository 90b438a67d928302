"""What Tab offers for the argument of a command."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from bs4_console.tui import pins, themes
from bs4_console.tui.screens.base import ConsoleScreen, Subject
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
    """Return the possible values of a command's argument. `what` is the command's `completes`.
    `typed` is the argument so far; only paths, for which the pod is queried, depend on it.
    """
    if isinstance(app.screen, ConsoleScreen):
        subject = app.screen.subject()
    else:
        subject = Subject()
    pods = app.fleet.pods
    if what in ("paths", "sources") and subject.pod is not None and typed.startswith(("/", "~/")):
        return app.paths.of(subject.pod, typed)
    if what == "paths":
        return [
            *(
                [f"{subject.run.view.output_dir}/"]
                if subject.run and subject.run.view.output_dir
                else []
            ),
            "~/",
            "/",
        ]
    if what == "pods":
        return sorted(pod.name for pod in pods)
    if what == "runs":
        names = []
        for pod in pods:
            for run in pod.runs:
                names.append((pod.name, run))
        return sorted(
            run if sum(run == other for _, other in names) == 1 else f"{pod}/{run}"
            for pod, run in names
        )
    if what == "sources" and subject.pod and subject.run:
        prefix = f"log/{subject.run.name}/"
        found = []
        for stream in subject.pod.streams:
            if stream.startswith(prefix):
                found.append(stream.removeprefix(prefix))
        return found
    if what == "incidents":
        found = []
        for incident in subject.incidents:
            found.append(incident.failure)
        return found
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
