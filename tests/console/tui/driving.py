"""Presses keys like a person and waits for what they do: no sleeps, only until the app has nothing
left to do.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from textual._context import active_app

from bs4_console.tui.screens.base import Question
from tests.console.tui import fixtures

if TYPE_CHECKING:
    from textual.pilot import Pilot


async def quiet(min_sleep: float = 0.0, max_sleep: float = 1.0) -> None:
    """Instead of Textual's wait_for_idle, which looks at the process's CPU time in steps of 20 ms:
    too slow, and wrong on a busy machine. This waits until no widget has a message left, three
    times in a row.
    """
    app = active_app.get()
    rounds = 0
    for _ in range(1000):
        await asyncio.sleep(0.001)
        pumps: list[Any] = [
            app,
            *(app.screen.walk_children(with_self=True) if app.screen_stack else []),
        ]
        rounds = (
            0
            if any(pump.message_queue_size or pump._next_callbacks for pump in pumps)
            else rounds + 1
        )
        if rounds == 3:
            return


async def settle(pilot: Pilot[Any], sessions: Sequence[fixtures.RecordedSession] = ()) -> None:
    """Until the screen is built, its logs are loaded and sifted, and all of it is painted."""
    app: Any = pilot.app
    deadline = time.monotonic() + 60
    while True:
        await pilot.pause()
        if not app.screen_stack:
            return
        panes = list(app.screen.query("LogPane"))
        loading = [
            pane
            for pane in panes
            if pane._feed is None or not (pane._feed.loaded or pane._feed.waiting or pane._broken)
        ]
        if (
            getattr(app.screen, "ready", True)
            and not loading
            and not any(pane.view.lens.pending for pane in panes)
        ):
            break
        assert time.monotonic() < deadline, f"{app.screen} is not ready: {loading}"
    app.tick()
    if hasattr(app.screen, "redraw"):
        app.screen.redraw()
    await pilot.pause()


async def until(pilot: Pilot[Any], condition: Callable[[], bool]) -> None:
    """Until `condition` holds; fails after a minute."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if condition():
            return
        await pilot.pause(0.005)
    raise AssertionError("the condition never came true")


async def write(pilot: Pilot[Any], text: str) -> None:
    """Into the open prompt, at once."""
    screen: Any = pilot.app.screen
    screen.prompt.field.insert_text_at_cursor(text)
    await pilot.pause()


async def drive(
    pilot: Pilot[Any], sessions: Sequence[fixtures.RecordedSession], keys: Sequence[str]
) -> None:
    """Each key in turn. `:text` and `/text` open a prompt and type; without a trailing space they
    are entered. `!name` replaces what is known of the first pod by another fixture's (the next
    moment of the same story); `~log` waits until the log has followed the time cursor, `~there`
    until it is where one wanted to go; `~question` until a dialog is open, `~rollouts` until they
    are read.
    """
    app: Any = pilot.app
    await settle(pilot)
    for key in keys:
        if key[0] in ":/" and len(key) > 1:
            await pilot.press("colon" if key[0] == ":" else "slash")
            await pilot.pause()
            await write(pilot, key[1:])
            if not key.endswith(" "):
                await pilot.press("enter")
                await pilot.pause()
                if app.return_code is not None:
                    return
        elif key == "~there":
            # A jump loads the lines there before the view changes.
            await until(pilot, lambda: app.screen.pane.view.spot is not None)
        elif key == "~log":
            await until(
                pilot, lambda: app.screen.pane._moment is not None and app.screen.pane._feed.loaded
            )
        elif key == "~question":
            # A dialog that first asks the pod opens when the pod has answered.
            await until(pilot, lambda: isinstance(app.screen, Question))
        elif key == "~rollouts":
            await until(pilot, lambda: app.screen._found is not None or app.screen._trouble)
        elif key.startswith("!"):
            state, later = sessions[0].state, getattr(fixtures, key[1:])().state
            state.ledger, state.link, state.telemetry = later.ledger, later.link, later.telemetry
            state.changed()
        else:
            await pilot.press(key)
        await settle(pilot)
