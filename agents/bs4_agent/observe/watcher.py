"""The watch: scan the pod, detect failures, journal what changed, and act by the modes of the
playbooks.
"""

from __future__ import annotations

import threading
import time
import traceback
from collections import deque

from bs4_agent.actions.submit import Actions
from bs4_agent.book import Book
from bs4_agent.observe.alarm import Alarm
from bs4_agent.pod import Pod
from bs4_common.errors import SpoolFull
from bs4_common.failures.engine import Engine, Fault, transition_fields
from bs4_common.failures.evidence import Place, evidence_of
from bs4_common.failures.facts import Finding
from bs4_common.identity import Identity
from bs4_common.ledger import JournalRecord
from bs4_common.states import Transit
from bs4_common.trainers.base import LogLine

#: Seconds between two scans while nothing happens. A process that ends, a line that fires a
#: signature, and a hold time that ends each bring the next scan forward, so none of them waits for
#: this.
LOOK_S = 3.0
#: Seconds. No two scans follow closer than this: a run that falls apart line by line must not cost
#: a core.
LOOK_AGAIN_S = 0.4
#: Seconds. What happens within this time of a reason to scan is seen by the same scan.
_TOGETHER_S = 0.05
#: Lines of these levels are a reason to scan even if no signature knows them, because detectors use
#: their events.
_LOUD = ("ERROR", "CRITICAL")
#: Seconds between two searches for runs that were started by hand. A run that fails at its start
#: lives for about 10 s (26 s on the real current launcher) and must be seen before.
ADOPT_S = 3.0


class Watcher:
    """Scans the pod every few seconds for failures of its runs. It writes each change of an
    incident (a failure that was detected) into the journal, and acts on a new one as the mode
    (observe, ask or auto) of the playbook that repairs it says. There is one object per pod. The
    code that follows the runs' logs must call `feed` for every line.
    """

    def __init__(self, pod: Pod, engine: Engine, book: Book, actions: Actions) -> None:
        self._pod, self._engine, self._book, self._actions = pod, engine, book, actions
        self._lock = threading.Lock()
        self._alarm = Alarm()
        self._untold: deque[JournalRecord] = deque()
        """The changes of incidents that are not in the journal yet, oldest first."""
        self._told_faults: set[tuple[str, str, str, str]] = set()
        for view in book.ledger.open_incidents():
            known = Finding(
                failure=view.failure,
                run=view.run,
                attempt=view.attempt,
                summary=view.summary,
                evidence=[evidence_of(record) for record in view.evidence],
                anchor="",
                severity=view.severity,
                role=view.role,
            )
            engine.adopt(view.id, known, time.monotonic())
        pod.on_resolved(self._forget)

    def feed(
        self,
        run: str,
        attempt: int,
        trainer: str,
        source: str,
        line: LogLine,
        place: Place,
    ) -> None:
        """Match one line of the log `source` of an attempt against the log signatures (the patterns
        of known failures). `trainer` is the id of the run's trainer. `place` says where the line
        stands: the file, the byte offset and the number of the line. What matches is kept for the
        next scan, which comes at once and not after the usual seconds if a signature matches or the
        line has the level ERROR or CRITICAL. May be called from any thread.
        """
        with self._lock:
            fired = self._engine.feed(run, attempt, trainer, source, line, place)
        if fired or line.level in _LOUD:
            self._alarm.ring()

    def _forget(self, incident: str) -> None:
        """Forget an incident that an action has resolved."""
        with self._lock:
            self._engine.forget(incident)

    def run(self, stop: threading.Event) -> None:
        """Scan the pod every three seconds until `stop` is set, and earlier if a watched process
        ends, if `feed` has seen a line that may show a failure, or if a failure has lasted long
        enough to become an incident. Runs that were started by hand are searched for, too.
        """
        adopted_m = looked_m = 0.0
        while not stop.is_set():
            gone = self._wait(looked_m, stop)
            if stop.is_set():
                return
            looked_m = time.monotonic()
            if gone:
                self._pod.table.refresh()
            self._pod.runs.poll()
            self._pod.tell_gone(gone)
            if time.monotonic() - adopted_m >= ADOPT_S:
                adopted_m = time.monotonic()
                self._pod.adopt_new()
            self.poll()
            self._alarm.watch(self._pod.watched_processes())

    def _wait(self, looked_m: float, stop: threading.Event) -> list[Identity]:
        """Wait until the next scan is due or there is a reason for one. Return the watched
        processes that have ended meanwhile.
        """
        with self._lock:
            due = self._engine.due()
        now = time.monotonic()
        until, again = now + LOOK_S, looked_m + LOOK_AGAIN_S
        if due is not None:
            if due > looked_m:
                # A hold ends once, so this scan costs no more than one for each finding.
                again = min(again, max(due, looked_m + _TOGETHER_S))
            until = min(until, max(due, again))
        rung, gone = self._alarm.wait(until - now)
        if rung or gone:
            # What ends together (a process tree that is killed) or is written together belongs to
            # one scan.
            stop.wait(max(_TOGETHER_S, again - time.monotonic()))
            gone += self._alarm.wait(0.0)[1]
        return gone

    def poll(self) -> None:
        """Scan the pod once: collect the facts about its runs, find out which incidents are new,
        changed or over, and write each of these into the journal. Act on new ones as the mode
        (observe, ask or auto) of the playbook that repairs them says. What the journal has no room
        for is written by a later scan, and acted on then if it is not over.
        """
        facts = self._pod.collect_facts()
        with self._lock:
            transitions = self._engine.evaluate(facts)
            faults = self._engine.faults
        for fault in faults:
            self._tell(fault)
        coverage = [*facts.coverage, *(fault.phrase for fault in faults)]
        for transition in transitions:
            self._keep(transition_fields(transition, coverage))
        while self._untold:
            fields = self._untold.popleft()
            try:
                self._book.append("incident", sync=True, **fields)
            except SpoolFull:
                self._untold.appendleft(fields)
                return
            if fields["event"] == "opened" and not self._waits("cleared", fields["incident"]):
                self._actions.recoveries.opened(
                    fields["incident"], fields["run"], fields["playbook"]
                )

    def _tell(self, fault: Fault) -> None:
        """Journal that a detector fails on a run, and print where, once for each kind of error: the
        same comes with each scan.
        """
        kind = fault.detector, fault.failure, fault.run, type(fault.error).__name__
        if kind not in self._told_faults:
            self._told_faults.add(kind)
            traceback.print_exception(fault.error)
            self._pod.fault(f"Not looked for: {fault.phrase}")

    def _keep(self, fields: JournalRecord) -> None:
        """Keep a change of an incident until it is in the journal. Of several updates that wait for
        room only the newest is kept, so that a disk that is full for days takes no memory.
        """
        if fields["event"] == "updated":
            for earlier in self._waits("updated", fields["incident"]):
                self._untold.remove(earlier)
        self._untold.append(fields)

    def _waits(self, event: Transit, incident: str) -> list[JournalRecord]:
        """Return the changes of this kind of an incident that wait for room in the journal."""
        found = []
        for fields in self._untold:
            if (fields["event"], fields["incident"]) == (event, incident):
                found.append(fields)
        return found
