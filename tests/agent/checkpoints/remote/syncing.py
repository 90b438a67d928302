"""What of the agent a sync needs, over a bench: a journal, actions, runs, and the thread that looks
after orders.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from bs4_agent.actions.submit import Actions
from bs4_agent.book import Book
from bs4_agent.checkpoints.sync import Syncs
from bs4_agent.runs.registry import Runs
from bs4_agent.scope import Scope
from bs4_agent.telemetry.processes import ProcessTable
from bs4_common.checkpoints.sync_view import SyncView
from bs4_common.failures.compiled import Library
from bs4_common.ids import ulid
from bs4_common.journal import Journal
from bs4_common.runs.model import Attempt
from bs4_common.streams.segments import SegmentStream
from tests.agent.checkpoints.remote.bench import Bench


class Agent:
    """A life of it; `restart` is the next one."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.load()

    def load(self) -> None:
        self.stream = SegmentStream(self.bench.home.state / "journal", 1 << 22)
        self.book = Book(Journal(self.stream))
        scope = Scope.from_environment()
        self.runs = Runs(self.bench.home, scope, self.book, ProcessTable(scope))
        self.runs.register(self.bench.spec)
        self.pod: Any = SimpleNamespace(runs=self.runs, book=self.book)
        self.actions = Actions(
            self.pod, Library(b'{"playbooks": []}'), self.book, self.stream, lambda body: None
        )
        self.syncs = Syncs(self.pod, self.book)
        self.looks, look = 0, self.syncs.round

        def counted() -> None:
            look()
            self.looks += 1

        self.syncs.round = counted  # type: ignore[method-assign]
        self.actions.orders.on_sync = self.syncs.wake
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self.syncs.run, args=(self.stop,), daemon=True)

    def start(self) -> None:
        self.thread.start()

    def end(self) -> None:
        self.stop.set()
        self.syncs.wake()
        if self.thread.ident is not None:
            self.thread.join(30)
        self.until(lambda: not self.syncs._jobs)

    def restart(self) -> None:
        self.end()
        self.stream.close()
        self.load()
        self.start()

    def looks_around(self) -> None:
        """Return when the thread has looked at all runs once more, and has ended what it began."""
        for _ in range(2):  # a look that was under way counts for nothing
            before = self.looks
            self.syncs.wake()
            self.until(lambda before=before: self.looks > before)
        self.until(lambda: not self.syncs._jobs)

    def order(self, **body: Any) -> None:
        self.actions.submit(
            {"key": ulid(), "kind": "sync", "run": "demo", "to": self.bench.place, **body}, "alice"
        )

    def train(self, resumed: int | None = None) -> None:
        self.runs.get("demo").attempts = [
            Attempt(
                number=1,
                state="running",
                shim=None,
                launcher=None,
                started_t=time.time(),
                started_m=time.monotonic(),
                resume=resumed,
                argv=(),
            )
        ]

    def until(self, condition: Callable[[], object], seconds: float = 60.0) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, [
                record for record in self.book.records() if record["type"] == "sync"
            ]
            time.sleep(0.02)

    @property
    def view(self) -> SyncView:
        return self.book.ledger.syncs["demo"]

    def events(self) -> list[str]:
        return [record["event"] for record in self.book.records() if record["type"] == "sync"]

    def worker(self) -> int:
        """The pid of the living worker."""
        self.until(lambda: self.syncs._jobs)
        return self.syncs._jobs["demo"].process.pid
