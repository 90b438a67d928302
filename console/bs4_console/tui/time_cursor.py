"""The time cursor that all screens share, and the telemetry of its moment: from memory, otherwise
from files on this machine.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bs4_console.pods.state import STALE_S
from bs4_console.tui.screens.base import ConsoleScreen

if TYPE_CHECKING:
    from bs4_console.pods.history import History
    from bs4_console.pods.samples import Telemetry
    from bs4_console.pods.state import PodState
    from bs4_console.tui.app import ConsoleApp

#: Most samples of a stretch of telemetry. The widest curve has fewer columns of dots.
STRETCH_SAMPLES = 800
#: How many moments are cached, and the seconds after which a moment without a sample is read again,
#: because older telemetry may still be arriving.
HELD, AGAIN_S = 512, 10.0
#: A stretch is read again when its end has moved by this many seconds. The last minutes are in
#: memory anyway.
_GRAIN_S = 300


class TimeCursor:
    """The time cursor: the past moment that all screens show instead of the present, and each pod's
    telemetry of that moment. Telemetry that is not in memory is read from the console's own files
    on this machine, in a thread and for one pod after the other. When something was read, `app`
    draws its screen again.
    """

    def __init__(self, app: ConsoleApp) -> None:
        self._at: float | None = None
        self._offsets: dict[str, float] = {}
        self._app = app
        self._histories: dict[Path, History] = {}
        self._moments: dict[tuple[str, int], tuple[float, Telemetry | None]] = {}
        self._stretches: dict[str, tuple[tuple[int, int], list[Telemetry]]] = {}
        self._wanted: dict[str, float] = {}
        self._wanted_stretches: dict[str, tuple[int, int]] = {}
        self.reading = False
        """True while files are being read."""

    @property
    def at(self) -> float | None:
        """Return the moment that the screens show, in seconds since the epoch by this machine's
        clock, or None if they show now.
        """
        return self._at

    @at.setter
    def at(self, at: float | None) -> None:
        """Set the moment that the screens show, as a Unix time in seconds by this machine's clock,
        or None for now.
        """
        self._at = at
        self._offsets.clear()

    def offset(self, pod: PodState) -> float:
        """Return by how many seconds the pod's clock is ahead of this machine's; negative if it is
        behind. The value is kept until the cursor is set again, because a better measurement of the
        clocks must not move the cursor away from the training step on which it was put.
        """
        return self._offsets.setdefault(pod.name, pod.link.clock_offset or 0.0)

    def of(self, pod: PodState) -> float | None:
        """Return the moment of the cursor as a Unix time in seconds by the pod's own clock, or None
        if the screens show now.
        """
        if self._at is None:
            return None
        return self._at + self.offset(pod)

    def sample(self, pod: PodState) -> Telemetry | None:
        """Return the pod's telemetry record nearest to the moment of the cursor, or the newest one
        if the screens show the present. Return None if the pod has no record within STALE_S (5)
        seconds of the moment. Return None too while the record is being read from a file: `waits`
        is True meanwhile, and the screen is drawn again afterwards.
        """
        t = self.of(pod)
        if t is None:
            return pod.latest or None
        if (nearest := pod.telemetry.near(t, STALE_S)) is not None:
            return nearest
        held = self._moments.get((pod.name, round(t)))
        if held is None or (held[1] is None and self._app.clock.mono() - held[0] > AGAIN_S):
            self._wanted[pod.name] = t
            self._read()
        return held[1] if held else None

    def waits(self, pod: PodState) -> bool:
        """Return True if the record that `sample` should return for this pod is still being read
        from a file.
        """
        return pod.name in self._wanted

    def stretch(self, pod: PodState, begin: float, end: float) -> Sequence[Telemetry]:
        """Return the pod's telemetry records from `begin` to `end`, both as Unix times in seconds
        by the pod's clock. Records that are too old to be in memory come from files, and only some
        of them, evenly spread. Records that were not read from the files yet are missing in the
        result, and this call begins to read them; `fetches` is True until they are read.
        """
        oldest = pod.telemetry.begin
        recent = pod.telemetry.between(begin, end)
        until = end if oldest is None else min(end, oldest)
        if begin >= until - 1.0:
            return recent
        key = (int(begin), min(math.ceil(until / _GRAIN_S) * _GRAIN_S, int(end) + 1))
        known, records = self._stretches.get(pod.name, (None, []))
        if known != key:
            self._wanted_stretches[pod.name] = key
            self._read()
        older = [record for record in records if begin <= record["t"] < until]
        return [*older, *recent]

    def fetches(self, pod: PodState) -> bool:
        """Return True if records that `stretch` should return for this pod are still being read
        from files.
        """
        return pod.name in self._wanted_stretches

    def forget_wishes(self) -> None:
        """Drop the requests for records that were not read from their files yet. Call this when the
        cursor has moved, because the screens then need other records.
        """
        self._wanted.clear()
        self._wanted_stretches.clear()

    # -- reading

    def _read(self) -> None:
        if not self.reading:
            self.reading = True
            self._app.spawn("telemetry of then", self._work(), self._ended)

    def _ended(self) -> None:
        self.reading = False
        self.forget_wishes()

    async def _work(self) -> None:
        """Read the newest request of each pod. A cursor that has moved meanwhile is not followed
        through every place that it passed.
        """
        try:
            while self._wanted or self._wanted_stretches:
                if self._wanted:
                    name, t = next(iter(self._wanted.items()))
                    history = self._history(name)
                    found = await asyncio.to_thread(history.near, t) if history else None
                    self._keep(name, t, found)
                    if self._wanted.get(name) == t:
                        del self._wanted[name]
                else:
                    name, key = next(iter(self._wanted_stretches.items()))
                    history = self._history(name)
                    records = []
                    if history:
                        records = await asyncio.to_thread(history.between, *key, STRETCH_SAMPLES)
                    self._stretches[name] = (key, records)
                    if self._wanted_stretches.get(name) == key:
                        del self._wanted_stretches[name]
                if not self._wanted and isinstance(screen := self._app.screen, ConsoleScreen):
                    screen.redraw()
        finally:
            self.reading = False

    def _keep(self, name: str, t: float, found: Telemetry | None) -> None:
        self._moments[name, round(t)] = (self._app.clock.mono(), found)
        while len(self._moments) > HELD:
            del self._moments[next(iter(self._moments))]

    def _history(self, name: str) -> History | None:
        session = self._app.fleet.sessions.get(name)
        directory = session.mirror.directory("telemetry") if session else None
        if directory is None:
            return None
        if directory not in self._histories:
            # Imported here, so that the first paint does not wait for the agent's streams.
            from bs4_console.pods.history import History

            self._histories[directory] = History(directory)
        return self._histories[directory]
