"""Keeps the state of the screen across sessions. It is saved shortly after each change, so that it
survives a kill, and is restored after the start.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from copy import deepcopy
from dataclasses import asdict
from typing import TYPE_CHECKING

from textual.css.query import NoMatches

from bs4_console.tui import commands, pins
from bs4_console.tui.screens.base import ConsoleScreen

if TYPE_CHECKING:
    from bs4_console.tui.app import ConsoleApp
    from bs4_console.ui_state import Settings

#: Seconds after the start in which the last screen can be restored.
RESTORE_S = 5.0
#: Least seconds between two writes, so that a cursor moving down the fleet is written once.
SAVE_S = 1.0
#: What the settings keep of the place where the person is.
_KEPT = ("pod", "run", "place", "source", "incident")
_PLACES = (
    commands.POD,
    commands.RUN,
    commands.LOG,
    commands.INCIDENT,
    commands.JOURNAL,
    commands.GPUS,
)

#: (settings, settings as they were written last) -> error message, or "".
Saver = Callable[["Settings", "Settings"], str]


class SavedView:
    """Remembers in the settings which screen and row are shown, and opens them again after the next
    start. `settings` are those of the last session. `save` writes settings to disk: it is called
    with (settings now, settings as they were written last), and returns an error message or "".
    With None, for practice pods (simulated ones), nothing is written.
    """

    def __init__(self, settings: Settings, save: Saver | None = None) -> None:
        self._waiting = bool(settings.pod or settings.place)
        self._until: float | None = None
        self._save, self._saved = save, deepcopy(settings)
        self._next = float("-inf")
        self._complaint = ""
        self._said = False
        self.busy = False
        """True while settings are being written."""

    def give_up(self) -> None:
        """Stop trying to open the screen of the last session again, because the person has begun to
        do something else.
        """
        self._waiting = False

    def restore(self, app: ConsoleApp) -> None:
        """Open the screen of the last session and select its row again, as soon as its pod and run
        are known. `app` calls this several times a second. The method stops trying, so that later
        calls do nothing, after a success, RESTORE_S (5) seconds after the first call, and once the
        person has opened a prompt.
        """
        screen = app.screen
        if (
            not self._waiting
            or not isinstance(screen, ConsoleScreen)
            or screen.place != commands.FLEET
            or not screen.ready
        ):
            return
        now = app.clock.mono()
        self._until = self._until or now + RESTORE_S
        if now > self._until or screen.prompt.is_open:
            self.give_up()
            return
        if pins.reopen(app, asdict(app.settings)):
            self.give_up()

    def note(self, app: ConsoleApp) -> None:
        """Write the theme and the name of the screen that `app` shows into the app's settings, in
        memory only. While the screen of the last session is still to be opened again, the settings
        keep that screen.
        """
        left = app.settings
        left.theme = app.theme
        if self._waiting:
            # The last place is not restored yet. The place where the person waits must not
            # overwrite it.
            return
        shown: ConsoleScreen | None = None
        for screen in app.screen_stack:
            if not isinstance(screen, ConsoleScreen) or not screen.ready:
                continue
            # The topmost of the places, else the lowest screen.
            if shown is None or screen.place in _PLACES:
                shown = screen
        if shown is None:
            return
        place = pins.pin_of(shown, shown.subject())
        if place["pod"] or shown.place != commands.FLEET:
            for name in _KEPT:
                setattr(left, name, place.get(name, ""))

    def poll(self, app: ConsoleApp) -> None:
        """Save the settings of `app` to disk, in a thread, if they have changed since they were
        written last. `app` calls this about once a second. If an earlier write has failed, a
        message says so, but only the first time.
        """
        now = app.clock.mono()
        if self._save is None or self.busy or now < self._next:
            return
        if self._complaint and not self._said:
            self._said = True
            app.say(self._complaint, severity="warning", lasting=True)
        # A screen that is being built or taken down is noted the next time.
        with contextlib.suppress(NoMatches):
            self.note(app)
        if app.settings != self._saved:
            self.busy, self._next = True, now + SAVE_S
            left = deepcopy(app.settings)
            app.run_worker(lambda: self._write(left), name="kept", thread=True, exit_on_error=False)

    def _write(self, settings: Settings) -> None:
        """Save the settings in a thread, because a slow disk must not block the screen."""
        try:
            self._complaint = self.close(settings)
        finally:
            self.busy = False

    def close(self, settings: Settings) -> str:
        """Write `settings` to disk before returning. Return an error message, or "" if they were
        written, or if this console writes none (for practice pods, which are simulated).
        """
        if self._save is None:
            return ""
        now = deepcopy(settings)
        complaint = self._save(now, self._saved)
        if not complaint:
            self._saved = now
        return complaint
