"""Who must be told: what became worse since the last look. Bell, a notification of the terminal
(OSC 9) and a toast, all at once.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bs4_console.printable import blanked
from bs4_console.tui.ink import text_of

if TYPE_CHECKING:
    from bs4_console.tui.views.fleet import Row
    from bs4_console.ui_state import Settings

#: From this rank on (2 warning, 3 unknown, 4 critical) a person is told.
TOLD_RANK = 2
UNKNOWN = 3
#: Seconds after its first row in which a pod's journal is read: what comes then is what was.
GRACE_S = 10.0
#: A link that is down is told after this many seconds: most come back at once.
UNKNOWN_S = 30.0
#: Not more than one sound in so many seconds; a toast comes every time.
SOUND_S = 10.0
#: Cells of a notification; terminals cut longer ones.
LONGEST = 160


@dataclass(frozen=True)
class Alert:
    """`key`: (pod, run or "")."""

    key: tuple[str, str]
    rank: int
    text: str


class Alerts:
    """Pure: `look` is given the rows and says what is new. What a pod brings along when first seen,
    the screen tells.
    """

    def __init__(self) -> None:
        self._told: dict[tuple[str, str], tuple[int, str]] = {}
        self._unknown_since: dict[tuple[str, str], float] = {}
        self._met: dict[str, float] = {}
        self._sounded = float("-inf")

    def look(self, rows: Iterable[Row], now: float) -> list[Alert]:
        """What became worse, or became something else that is as bad; worst first. `now`: monotonic
        seconds.
        """
        found: list[Alert] = []
        before, self._told = self._told, {}
        for row in rows:
            rank, what = before.get(row.key, (0, ""))
            fresh = now - self._met.setdefault(row.key[0], now) < GRACE_S
            if row.rank != UNKNOWN:
                self._unknown_since.pop(row.key, None)
            elif now - self._unknown_since.setdefault(row.key, now) < UNKNOWN_S and not fresh:
                self._told[row.key] = (rank, what)
                continue
            self._told[row.key] = (row.rank, row.trouble)
            worse = row.rank > rank or (row.rank == rank and row.trouble != what)
            if worse and row.rank >= TOLD_RANK and not fresh:
                found.append(Alert(row.key, row.rank, alert_text(row)))
        return sorted(found, key=lambda alert: (-alert.rank, alert.key))

    def may_sound(self, now: float) -> bool:
        if now - self._sounded < SOUND_S:
            return False
        self._sounded = now
        return True


def alert_text(row: Row) -> str:
    """✖ critical h100-a/math-7b: Inference is gone."""
    pod, run = row.key
    return (
        f"{text_of(row.cells['state'])} {pod}{'/' + run if run else ''}: "
        f"{row.trouble or text_of(row.cells['wrong'])}"
    )


def silent(key: tuple[str, str], silenced: Sequence[str]) -> bool:
    """Whether the run, or its whole pod, was silenced."""
    return key[0] in silenced or f"{key[0]}/{key[1]}" in silenced


def silence(settings: Settings, pod: str, run: str, what: str) -> tuple[str, str]:
    """Turn the alerts of `what` off or on again: the run ("" where there is one), its pod or all.
    (What to say of it, severity.)
    """
    if what not in ("", "run", "pod", "all"):
        return f"{what!r} cannot be silenced; say run, pod or all.", "warning"
    if what == "all":
        settings.quiet = not settings.quiet
        return (
            "No alerts any more, until you give :silence all again."
            if settings.quiet
            else "Alerts are told again.",
            "information",
        )
    if not pod or (what == "run" and not run):
        return f"Select a {what or 'pod'} first.", "warning"
    if what == "pod" or not run:
        name = pod
    else:
        name = f"{pod}/{run}"
    if name in settings.silenced:
        settings.silenced.remove(name)
        return f"Alerts of {name} are told again.", "information"
    settings.silenced.append(name)
    return f"Alerts of {name} are silenced.", "information"


def sound(alerts: Sequence[Alert]) -> str:
    """The bytes for the terminal: BEL, and OSC 9 with the first one's text (past tmux, which keeps
    it to itself unless it is told).
    """
    text = blanked(alerts[0].text)[:LONGEST] + (f" (+{len(alerts) - 1})" if len(alerts) > 1 else "")
    sequence = f"\x1b]9;{text.replace(';', ',')}\x07"
    if "TMUX" in os.environ:
        sequence = "\x1bPtmux;" + sequence.replace("\x1b", "\x1b\x1b") + "\x1b\\"
    return "\x07" + sequence
