"""Alerts a person when a pod or run gets worse: by a bell, a notification of the terminal (OSC 9)
and a toast, all at once.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bs4_console.printable import blanked
from bs4_console.tui.clipboard import past_tmux
from bs4_console.tui.styled_text import text_of

if TYPE_CHECKING:
    from textual.notifications import SeverityLevel

    from bs4_console.tui.views.fleet import Row
    from bs4_console.ui_state import Settings

#: Least rank that alerts a person (2 warning, 3 unknown, 4 critical).
TOLD_RANK = 2
UNKNOWN = 3
#: Seconds after a pod's first row in which its journal is still being read. What becomes worse then
#: is old.
GRACE_S = 10.0
#: Seconds after which a link that is down alerts. Most links come back sooner.
UNKNOWN_S = 30.0
#: Least seconds between two sounds. Toasts are not limited.
SOUND_S = 10.0
#: Most characters of a terminal's notification. Terminals cut longer ones.
LONGEST = 160


@dataclass(frozen=True)
class Alert:
    """One alert: a pod or a run has become worse. `key` is (pod's name, run's name), with "" as the
    run for the pod itself. `rank` is how severe the problem is: 2 warning, 3 unknown, 4 critical.
    `text` is one line for the person.
    """

    key: tuple[str, str]
    rank: int
    text: str


class Alerts:
    """Finds out which rows of the fleet's table (pods and runs) have become worse. It only returns
    alerts; the caller shows them and rings. For the first GRACE_S (10) seconds after a pod was
    first seen, what the pod reports gives no alerts: it happened before, and the screen shows it
    anyway.
    """

    def __init__(self) -> None:
        self._told: dict[tuple[str, str], tuple[int, str]] = {}
        self._unknown_since: dict[tuple[str, str], float] = {}
        self._met: dict[str, float] = {}
        self._sounded = float("-inf")

    def update(self, rows: Iterable[Row], now: float) -> list[Alert]:
        """Return the new alerts, the most severe first. `rows` are the rows of the fleet's table,
        whose `rank` is a severity (2 warning, 3 unknown, 4 critical; lower is no alert). A row
        gives an alert if its severity is higher than at the last call, or if the severity is the
        same but the worst problem is another one.

        A row gives no alert if its pod was first seen less than GRACE_S (10) seconds ago. A row
        that has become unknown gives its alert only once it has been unknown for UNKNOWN_S (30)
        seconds. `now` is in monotonic seconds.
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
        """Return True if the bell may ring now, and remember that it rings now. Return False if it
        rang less than SOUND_S (10) seconds ago. `now` is in monotonic seconds.
        """
        if now - self._sounded < SOUND_S:
            return False
        self._sounded = now
        return True


def alert_text(row: Row) -> str:
    """Return the text of the alert for a row of the fleet's table: its state, the names of pod and
    run, and the worst problem, as in "✖ critical h100-a/math-7b: Inference is gone".
    """
    pod, run = row.key
    return (
        f"{text_of(row.cells['state'])} {pod}{'/' + run if run else ''}: "
        f"{row.trouble or text_of(row.cells['wrong'])}"
    )


def silent(key: tuple[str, str], silenced: Sequence[str]) -> bool:
    """Return True if a person has silenced the alerts of the row with this `key`, which is (pod,
    run). `silenced` has names "POD" and "POD/RUN"; the name of a pod silences all its runs.
    """
    return key[0] in silenced or f"{key[0]}/{key[1]}" in silenced


def silence(settings: Settings, pod: str, run: str, what: str) -> tuple[str, SeverityLevel]:
    """Switch alerts off in `settings`, or on again if they are off. `what` is "run", "pod", "all"
    (every pod), or "" for the run if there is one and the pod otherwise. `pod` and `run` are the
    names of the pod and run to silence, or "". Return a sentence for the person and its severity.
    The severity is "warning" if `what` is another word, or names a pod or run while that name is
    ""; nothing changes then.
    """
    if what not in ("", "run", "pod", "all"):
        return f"{what!r} cannot be silenced; say run, pod or all.", "warning"
    if what == "all":
        settings.quiet = not settings.quiet
        if settings.quiet:
            return "No alerts any more, until you give :silence all again.", "information"
        return "Alerts are told again.", "information"
    if not pod or (what == "run" and not run):
        return f"Select a {what or 'pod'} first.", "warning"
    name = pod if what == "pod" or not run else f"{pod}/{run}"
    if name in settings.silenced:
        settings.silenced.remove(name)
        return f"Alerts of {name} are told again.", "information"
    settings.silenced.append(name)
    return f"Alerts of {name} are silenced.", "information"


def sound(alerts: Sequence[Alert]) -> str:
    """Return the characters that make the terminal ring and show a notification: BEL, then an OSC 9
    sequence with the text of the first of `alerts` and the number of the other ones. `alerts` must
    not be empty. Inside tmux the OSC 9 sequence is wrapped, so that tmux passes it on to the
    terminal.
    """
    text = blanked(alerts[0].text)[:LONGEST] + (f" (+{len(alerts) - 1})" if len(alerts) > 1 else "")
    sequence = f"\x1b]9;{text.replace(';', ',')}\x07"
    return "\x07" + (past_tmux(sequence) if "TMUX" in os.environ else sequence)
