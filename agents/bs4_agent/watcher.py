"""The watch: look, detect, journal what changed, and let the modes do what they were set to."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Any

from bs4_agent.actions import Actions
from bs4_agent.book import Book
from bs4_agent.detect.engine import Engine, transition_fields
from bs4_agent.detect.facts import Finding
from bs4_agent.pod import Pod
from bs4_agent.trainers.base import LogLine

#: Seconds between two looks. A look costs a few milliseconds; the shortest hold time of a detector is 5 s.
LOOK_S = 2.0
#: Seconds between two searches for runs that were started by hand. One that fails at its start lives for about 10 s (26 s on the real
#: current launcher): it must be seen before.
ADOPT_S = 3.0


class Watcher:
    """`run` until stopped; `feed` is called by the followers for every log line."""

    def __init__(self, pod: Pod, engine: Engine, book: Book, actions: Actions) -> None:
        self._pod, self._engine, self._book, self._actions = pod, engine, book, actions
        self._lock = threading.Lock()
        for view in book.ledger.open_incidents():
            known = Finding(view.failure, view.run, view.attempt, view.summary, view.evidence, "", view.severity, view.role)
            engine.adopt(view.id, known, time.monotonic())
        pod.on_resolved(self._forget)

    def feed(self, run: str, attempt: int, trainer: str, source: str, line: LogLine, place: Mapping[str, Any]) -> None:
        with self._lock:
            self._engine.feed(run, attempt, trainer, source, line, place)

    def _forget(self, incident: str) -> None:
        with self._lock:
            self._engine.forget(incident)

    def run(self, stop: threading.Event) -> None:
        adopted_m = 0.0
        while not stop.wait(LOOK_S):
            self._pod.runs.poll()
            if time.monotonic() - adopted_m >= ADOPT_S:
                adopted_m = time.monotonic()
                self._pod.adopt()
            self.look()

    def look(self) -> None:
        """One look and its consequences."""
        facts = self._pod.look()
        with self._lock:
            transitions = self._engine.evaluate(facts)
        for transition in transitions:
            fields = transition_fields(transition, facts.coverage)
            self._book.append("incident", sync=True, **fields)
            if transition.event == "opened":
                self._actions.opened(fields["incident"], fields["run"], fields["playbook"])
