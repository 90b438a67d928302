"""The rows of all pods, kept: a row is made anew when its pod has changed or its ages have, not for every repaint.

1,024 rows (256 pods with four runs) cost 38 ms to make, and with so many pods something changes in every tenth of a second. So above MANY
pods each is looked at once a second at most, and not all in the same tick.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from bs4_console.tui.views import fleet as view

if TYPE_CHECKING:
    from bs4_console.core.state import PodState
    from bs4_console.tui.clock import Clock

#: Up to this many pods every change is shown at the next tick.
MANY = 32


class Overview:
    def __init__(self) -> None:
        self._versions: dict[str, int] = {}
        self._kept: dict[str, tuple[tuple[int, int], list[view.Row]]] = {}
        self.made = 0
        """Pods whose rows were made, for tests and measurements."""

    def changed(self, pod: PodState) -> None:
        self._versions[pod.name] = self._versions.get(pod.name, 0) + 1

    def rows(self, pods: Sequence[PodState], clock: Clock) -> list[view.Row]:
        """In the order of the pods; a row that is as it was is the same object."""
        many = len(pods) > MANY
        now = clock.mono()
        found: list[view.Row] = []
        for number, pod in enumerate(pods):
            slot = int(now + number / len(pods)) if many else int(now)
            token = (0 if many else self._versions.get(pod.name, 0), slot)
            kept = self._kept.get(pod.name)
            if kept is None or kept[0] != token:
                kept = self._kept[pod.name] = (token, self._made(pod, kept[1] if kept else [], clock))
            found += kept[1]
        return found

    def _made(self, pod: PodState, before: Sequence[view.Row], clock: Clock) -> list[view.Row]:
        self.made += 1
        known = {row.key: row for row in before}
        return [known[row.key] if known.get(row.key) == row else row for row in view.readable_rows(pod, clock)]
