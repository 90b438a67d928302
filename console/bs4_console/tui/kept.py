"""The screen as it was left, brought back after the start, and noted when one leaves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bs4_console.tui import commands
from bs4_console.tui.screens.base import ConsoleScreen
from bs4_console.tui.screens.fleet import FleetScreen

if TYPE_CHECKING:
    from bs4_console.core.settings import Settings
    from bs4_console.tui.app import ConsoleApp

#: Seconds after the first look in which the screen that was left comes back.
RESTORE_S = 5.0


class Kept:
    def __init__(self, settings: Settings) -> None:
        self._waiting = bool(settings.pod)
        self._until: float | None = None

    def give_up(self) -> None:
        """A person has begun to do something: nobody is carried off."""
        self._waiting = False

    def restore(self, app: ConsoleApp) -> None:
        """Back to the row and the screen one left, as soon as its pod is known; called after each look at the pods."""
        screen = app.screen
        if not self._waiting or not isinstance(screen, FleetScreen) or not screen.ready:
            return
        now = app.clock.mono()
        self._until = self._until or now + RESTORE_S
        if now > self._until or screen.prompt.is_open:
            self.give_up()
            return
        left = app.settings
        pod = next((pod for pod in app.fleet.pods if pod.name == left.pod), None)
        run = pod.runs.get(left.run) if pod else None
        if pod is None or (left.run and run is None):
            return
        self.give_up()
        screen.point_at(left.pod, left.run)
        if left.place in (commands.RUN, commands.LOG) and run is not None:
            app.open_run(pod, run)
            if left.place == commands.LOG:
                app.open_logs(pod, run.name)
        elif left.place == commands.POD and run is None:
            app.open_pod(pod)

    def note(self, app: ConsoleApp) -> None:
        """Into the settings: what the next start comes back to."""
        screens = [screen for screen in app.screen_stack if isinstance(screen, ConsoleScreen)]
        left = app.settings
        left.theme = app.theme
        fleet = screens[0] if screens else None
        if isinstance(fleet, FleetScreen) and fleet.ready and (row := fleet.table.selected) is not None:
            left.pod, left.run = row.key
        places = [screen.place for screen in reversed(screens) if screen.place in (commands.POD, commands.RUN, commands.LOG)]
        left.place = places[0] if places else commands.FLEET
