"""A terminal that is the same everywhere: UTC, colours, no SSH, no clipboard."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from pytest_textual_snapshot import SVGImageExtension  # type: ignore[import-untyped]

from tests.console.tui.driving import quiet

# syrupy 4.9 renamed the attribute that the plugin (1.0.0) sets; without this the pictures are
# called .raw and nothing shows them.
SVGImageExtension.file_extension = "svg"

_LEAKS = (
    "NO_COLOR",
    "SSH_CONNECTION",
    "TMUX",
    "DISPLAY",
    "WAYLAND_DISPLAY",
    "COLORTERM",
    "TEXTUAL_THEME",
)


@pytest.fixture(autouse=True)
def same_terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in _LEAKS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    # Whatever TERM says; the colours of a poorer terminal have their own tests.
    monkeypatch.setattr("textual.constants.COLOR_SYSTEM", "truecolor")
    # A toast goes when the app takes it away, and not because the machine is slow.
    monkeypatch.setattr("bs4_console.tui.app.ConsoleApp.NOTIFICATION_TIMEOUT", 3600)
    # Tests tick by hand, faster than anybody looks.
    monkeypatch.setattr("bs4_console.tui.app.DRAW_REST", 0.0)
    for module in ("textual.app", "textual.pilot"):
        monkeypatch.setattr(f"{module}.wait_for_idle", quiet)
    yield
    monkeypatch.undo()
    time.tzset()
