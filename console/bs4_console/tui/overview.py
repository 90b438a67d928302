"""The rows of all pods, kept: a row is made anew when its pod has changed or its ages have, not for
every repaint.

1,024 rows (256 pods with four runs) cost 38 ms to make, and with so many pods something changes in
every tenth of a second. So above MANY pods each is looked at once a second at most, and not all in
the same tick.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Generic, TypeVar

from bs4_console.tui.views import fleet as view

if TYPE_CHECKING:
    from bs4_console.pods.state import PodState
    from bs4_console.tui.clock import Clock

#: Up to this many pods every change is shown at the next tick.
MANY = 32


R = TypeVar("R")


class PodRows(Generic[R]):
    """What is shown of each pod, made anew when its token is another one."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[object, list[R]]] = {}

    def of(self, pod: PodState, token: object, make: Callable[[], list[R]]) -> list[R]:
        kept = self._kept.get(pod.name)
        if kept is None or kept[0] != token:
            kept = self._kept[pod.name] = (token, make())
        return kept[1]


class Overview:
    def __init__(self) -> None:
        self._versions: dict[str, int] = {}
        self._rows: PodRows[view.Row] = PodRows()
        self._known: dict[str, list[view.Row]] = {}
        self.made = 0
        """Pods whose rows were made, for tests and measurements."""

    def changed(self, pod: PodState) -> None:
        self._versions[pod.name] = self._versions.get(pod.name, 0) + 1

    def tokens(
        self, pods: Sequence[PodState], clock: Clock
    ) -> list[tuple[PodState, tuple[int, int]]]:
        """Each pod with what is another as soon as the pod has to be looked at again."""
        many, now = len(pods) > MANY, clock.mono()
        return [
            (
                pod,
                (
                    0 if many else self._versions.get(pod.name, 0),
                    int(now + number / len(pods)) if many else int(now),
                ),
            )
            for number, pod in enumerate(pods)
        ]

    def rows(self, pods: Sequence[PodState], clock: Clock) -> list[view.Row]:
        """In the order of the pods; a row that is as it was is the same object."""
        found = []
        for pod, token in self.tokens(pods, clock):
            for row in self._rows.of(pod, token, partial(self._made, pod, clock)):
                found.append(row)
        return found

    def _made(self, pod: PodState, clock: Clock) -> list[view.Row]:
        self.made += 1
        known = {}
        for row in self._known.get(pod.name, []):
            known[row.key] = row
        rows = self._known[pod.name] = [
            known[row.key] if known.get(row.key) == row else row
            for row in view.readable_rows(pod, clock)
        ]
        return rows
