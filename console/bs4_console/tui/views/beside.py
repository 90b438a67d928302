"""What a screen shows in the room that its rows leave: the curves of a run, and what was done last.
Both are kept until they change, because a screen draws them every second.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from bs4_console.tui.styled_text import Line, cut
from bs4_console.tui.views import journal

if TYPE_CHECKING:
    from bs4_console.pods.state import PodState, RunState
    from bs4_console.tui.clock import Clock

#: Rows of the curves, and actions below them.
CURVE_ROWS, RECENT = 7, 4
#: The most of both on a large terminal, and the free rows from which on there are more.
CURVE_ROWS_MOST, RECENT_MOST, LARGE = 20, 12, 30


def share(room: int) -> tuple[int, int]:
    """Return two numbers for a screen that has `room` free rows: how many rows the curves take, and
    the most actions that are listed below them. These are 7 and 4 for fewer than LARGE (30) rows.
    Otherwise the curves take half of the rows, at most CURVE_ROWS_MOST (20), and there are at most
    12 actions.
    """
    if room < LARGE:
        return CURVE_ROWS, RECENT
    return min(CURVE_ROWS_MOST, room // 2), RECENT_MOST


class RunCurves:
    """The four main curves of a run: reward, entropy, mismatch KL and gradient norm. The lines that
    were drawn last are kept. They are drawn again only if the run has new steps, or if another run
    or another size is asked for.
    """

    def __init__(self) -> None:
        self._key: object = None
        self._lines: list[Line] = []

    def lines(self, run: RunState, width: int, rows: int) -> list[Line]:
        """Return the curves of `run` in `rows` lines of at most `width` cells."""
        done = len(run.trainer_steps), len(run.orchestrator_steps), run.step_seen
        key = (id(run), *done, width, rows)
        if key != self._key:
            from bs4_console.tui.widgets.curves import charts  # the first paint has no curves

            self._key, self._lines = key, charts(run, width, rows)
        return self._lines


class NewestActions:
    """The newest actions of some pods. Their lines are made again only if a journal has grown."""

    def __init__(self) -> None:
        self._key: object = None
        self._lines: list[Line] = []

    def lines(
        self,
        pods: Sequence[PodState],
        clock: Clock,
        keys: Mapping[str, str],
        width: int,
        most: int = RECENT,
    ) -> list[Line]:
        """Return the newest actions of `pods`, the newest first, under a heading: at most `most`,
        in a line of at most `width` cells each. `keys` maps command ids to keys. Return [] if there
        are no actions.
        """
        key = (width, most, *((pod.name, pod.ledger.last_seq) for pod in pods))
        if key != self._key:
            self._key, self._lines = key, _newest(pods, clock, keys, width, most)
        return self._lines


def _newest(
    pods: Sequence[PodState], clock: Clock, keys: Mapping[str, str], width: int, most: int
) -> list[Line]:
    found = []
    for pod in pods:
        for action in pod.ledger.actions.values():
            found.append((action.accepted_t, pod, action))
    newest = heapq.nlargest(most, found, key=lambda one: one[0])
    if not newest:
        return []
    head: Line = [(" RECENT  ", "head"), (keys["journal"], "key @journal")]
    lines: list[Line] = [[*head, (" shows all", "@journal")]]
    for _, pod, action in newest:
        lines.append(cut(journal.short(pod, action, clock), width))
    return lines
