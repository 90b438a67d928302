"""Pinned places: numbers 1 to 9 that bring back a screen. They are kept in the settings and checked
when they are used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from bs4_console.tui import commands
from bs4_console.tui.screens.base import ConsoleScreen, Subject
from bs4_console.tui.screens.fleet import FleetScreen

if TYPE_CHECKING:
    from bs4_console.pods.state import PodState, RunState
    from bs4_console.tui.app import ConsoleApp

Pin = dict[str, str]


def toggle(app: ConsoleApp) -> None:
    """Pin the screen that is shown to the first free number from 1 to 9 in the app's settings, or
    unpin it if it is pinned. A message gives the number, or says that none is free.
    """
    screen = app.screen
    if not isinstance(screen, ConsoleScreen):
        return
    pins, here = app.settings.pins, pin_of(screen, screen.subject())
    if here in pins:
        at = pins.index(here)
        pins[at] = {}
        app.say(f"{at + 1} is free again.")
        return
    free = pins.index({}) if {} in pins else len(pins)
    if free >= len(commands.DIGITS):
        app.say(
            "All nine numbers are taken; go to one and pin again to free it.", severity="warning"
        )
        return
    pins[free : free + 1] = [here]
    app.say(f"{free + 1} comes back here: {describe(here)}.")


def jump(app: ConsoleApp, args: str) -> None:
    """Go to the screen that is pinned to the number (1 to 9) that `args` begins with. If `args` is
    empty, a message lists the pinned screens. If nothing is pinned to the number, or the pod or run
    of the pinned screen is gone, a message says so.
    """
    pins = app.settings.pins
    number = args.split()[0] if args.strip() else ""
    pin = dict(zip(commands.DIGITS, pins, strict=False)).get(number)
    if not pin:
        what = f"Pinned: {', '.join(listed(pins)) or 'nothing'}."
        if number in commands.DIGITS:
            what = f"Nothing is pinned as {number}."
        app.say(
            f"{what} {app.keys['pin']} pins the place that is shown.",
            severity="warning" if number else "information",
        )
    elif not _whole(app, pin):
        app.say(f"{describe(pin)} is not there any more.", severity="warning")
    else:
        app.do_fleet("")
        app.call_later(reopen, app, pin)


def _whole(app: ConsoleApp, pin: Mapping[str, str]) -> bool:
    """Return True if the pin's pod and run are known. The journal and the GPUs need neither."""
    if pin.get("place") in (commands.JOURNAL, commands.GPUS):
        return True
    pod = app.fleet.pod(pin.get("pod", ""))
    return pod is not None and (not pin.get("run") or pin["run"] in pod.runs)


def reopen(app: ConsoleApp, pin: Mapping[str, str]) -> bool:
    """Open the screen that `pin` (see `pin_of`) names and return True. Do nothing and return False
    if another screen than the fleet is shown, or if the pod or run of the pin is not known.
    """
    screen = app.screen
    if not isinstance(screen, FleetScreen) or not _whole(app, pin):
        return False
    pod = app.fleet.pod(pin.get("pod", ""))
    run = pod.runs.get(pin.get("run", "")) if pod else None
    if pod is not None:
        screen.point_at(pod.name, run.name if run else "")
    _open(app, pin, pod, run)
    return True


def _open(
    app: ConsoleApp, pin: Mapping[str, str], pod: PodState | None, run: RunState | None
) -> None:
    place, incident = pin.get("place"), pin.get("incident", "")
    if place == commands.JOURNAL:
        app.do_journal("")
    elif place == commands.GPUS:
        app.do_gpus("")
    elif pod is None:
        return
    elif place == commands.INCIDENT and incident in pod.ledger.incidents:
        from bs4_console.tui.screens.incident import IncidentScreen

        app.push_screen(IncidentScreen(pod, incident))
    elif place == commands.LOG and run is not None:
        source = pin.get("source", "")
        app.open_logs(pod, run.name, source if f"log/{run.name}/{source}" in pod.streams else None)
    elif place == commands.LOG and pin.get("source", "").startswith(("/", "~/")):
        app.open_file(pod, pin["source"])
    elif place in (commands.RUN, commands.INCIDENT) and run is not None:
        app.open_run(pod, run)
    elif place == commands.POD:
        app.open_pod(pod)


def pin_of(screen: ConsoleScreen, subject: Subject) -> Pin:
    """Return what is needed to open `screen` again later, as a dict. `pod` and `run` are the names
    of the pod and run of `subject`, or "". `place` is the screen's name, such as "log". `source` is
    there if the screen shows one source of a log, and `incident` (the incident's id) if it shows an
    incident.
    """
    pod, run = subject.names
    pin = {"pod": pod, "run": run, "place": screen.place}
    pane, incident = getattr(screen, "pane", None), getattr(screen, "incident_id", None)
    if screen.place == commands.LOG and pane is not None and pane.source:
        pin["source"] = pane.source
    if incident:
        pin["incident"] = incident
    return pin


def describe(pin: Mapping[str, str]) -> str:
    """Return in words which screen `pin` (see `pin_of`) leads to, for example "h100-a/math-7b log
    trainer".
    """
    where = f"{pin.get('pod', '')}/{pin.get('run', '')}".strip("/")
    return " ".join(part for part in (where, pin.get("place"), pin.get("source")) if part)


def listed(pins: Sequence[Mapping[str, str]]) -> list[str]:
    """Return one line of text for each number to which a screen is pinned, for example "1
    h100-a/math-7b run". `pins` are the pinned screens in the order of their numbers, from 1 on; an
    empty entry stands for a free number.
    """
    return [f"{i} {describe(pin)}" for i, pin in enumerate(pins, 1) if pin]
