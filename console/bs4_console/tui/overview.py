"""The cached rows of the fleet. A row is made again when its pod or its ages have changed, not for
every repaint.

1,024 rows (256 pods with four runs each) take 38 ms to make, and with so many pods something
changes in every tenth of a second. Above MANY pods each pod is therefore made again at most once a
second, and not all in the same tick. So is a pod with more than MANY_RUNS runs, because a pod that
sends much would otherwise have a screen full of rows made and painted at each tick.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Generic, TypeVar

from bs4_console.tui.views import fleet as view

if TYPE_CHECKING:
    from bs4_console.pods.state import PodState
    from bs4_console.tui.clock import Clock

#: With up to this many pods every change is shown at the next tick.
MANY = 32
#: The same for the runs of one pod.
MANY_RUNS = 16

R = TypeVar("R")


class PodRows(Generic[R]):
    """A cache of table rows for each pod, for a table that shows several pods. The caller gives a
    token with each request, any value that changes when the pod's rows would. The rows are made
    again only if the token differs from the last one.
    """

    def __init__(self) -> None:
        self._kept: dict[str, tuple[object, list[R]]] = {}

    def of(self, pod: PodState, token: object, make: Callable[[], list[R]]) -> list[R]:
        """Return the rows of the pod. If `token` equals the token of the last call for this pod,
        these are the rows of the last call. Otherwise they are made by calling `make`.
        """
        kept = self._kept.get(pod.name)
        if kept is None or kept[0] != token:
            kept = self._kept[pod.name] = (token, make())
        return kept[1]


class Overview:
    """Makes the rows of the fleet's table, one for each pod and run, and caches them for the fleet
    screen, the top bar and the alerts.
    """

    def __init__(self) -> None:
        self._versions: dict[str, int] = {}
        self._rows: PodRows[view.Row] = PodRows()
        self._known: dict[str, list[view.Row]] = {}
        self.made = 0
        """How often a pod's rows were made. For tests and measurements."""

    def changed(self, pod: PodState) -> None:
        """Note that something about the pod has changed, so that `rows` makes the pod's rows again:
        at its next call, or within a second if there are more than MANY (32) pods or the pod has
        more than MANY_RUNS (16) runs.
        """
        self._versions[pod.name] = self._versions.get(pod.name, 0) + 1

    def tokens(
        self, pods: Sequence[PodState], clock: Clock
    ) -> list[tuple[PodState, tuple[int, int]]]:
        """Return (pod, token) for each of `pods`. A token is a value by which a cache sees that a
        pod's rows have to be made again, because it differs from the last one. It changes with each
        change of the pod, and once a second. If there are more than MANY (32) pods, or the pod has
        more than MANY_RUNS (16) runs, it changes only once a second, which saves work.
        """
        now, many = clock.mono(), len(pods) > MANY
        found = []
        for i, pod in enumerate(pods):
            version = 0 if many or len(pod.runs) > MANY_RUNS else self._versions.get(pod.name, 0)
            found.append((pod, (version, int(now + i / len(pods) * many))))
        return found

    def rows(self, pods: Sequence[PodState], clock: Clock) -> list[view.Row]:
        """Return the rows of `pods` and their runs, in the order of the pods. A row whose content
        is the same as in the last call is also the same object.
        """
        found: list[view.Row] = []
        for pod, token in self.tokens(pods, clock):
            found += self._rows.of(pod, token, partial(self._made, pod, clock))
        return found

    def _made(self, pod: PodState, clock: Clock) -> list[view.Row]:
        self.made += 1
        known = {row.key: row for row in self._known.get(pod.name, ())}
        rows = self._known[pod.name] = view.readable_rows(pod, clock)
        for i, row in enumerate(rows):
            if known.get(row.key) == row:
                rows[i] = known[row.key]
        return rows
