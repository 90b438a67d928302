"""A kind of action that writes files, and lives of an agent that know only this kind, so that what
the executor itself does is tested quickly.
"""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

import pytest

from bs4_agent.actions import kinds
from bs4_agent.actions.kind import Outcome, PlannedKind, Underway
from bs4_agent.actions.submission import Submission
from bs4_agent.actions.submit import Actions
from bs4_agent.book import Book
from bs4_agent.credentials.held import HeldSecrets
from bs4_agent.paths import Home
from bs4_agent.playbooks.pod_actions import Planned, steps_as_dicts, steps_from_dicts
from bs4_common.errors import SpoolFull, UnknownRun
from bs4_common.failures.compiled import Library, digest
from bs4_common.ids import ulid
from bs4_common.journal import Journal
from bs4_common.ledger import ActionView
from bs4_common.streams.segments import SegmentStream
from bs4_common.withheld import Withheld
from tests.agent.runs.practice import until

#: The toy takes the place of merges, which hold a name of their own.
KIND = "merge"
FILES = ("first", "second")


@dataclasses.dataclass(frozen=True)
class ToyPlan:
    """Write these files, one in each step."""

    steps: Sequence[Planned]
    expires_m: float

    @property
    def hash(self) -> str:
        return digest({"files": [step.title for step in self.steps]})

    def as_dict(self) -> dict[str, Any]:
        return {"title": "Write", "steps": steps_as_dicts(self.steps)}


class Write:
    """The step that writes a file and counts how often."""

    def done(self, context: Toy, planned: Planned) -> bool:
        return (context.root / planned.title).exists()

    def check(self, context: Toy, planned: Planned) -> Sequence[Mapping[str, Any]]:
        return [{"path": planned.title}]

    def act(
        self, context: Toy, planned: Planned, targets: object, say: Callable[[str], None]
    ) -> str:
        say("it begins")
        context.wrote.append(planned.title)
        context.on_act()
        say("it is about to end")
        (context.root / planned.title).write_text("")
        return "written"


class Toy(PlannedKind[ToyPlan]):
    name, planner, steps = KIND, "toy --plan", {"write": Write()}

    def __init__(self, root: Path) -> None:
        self.root = root
        self.wrote: list[str] = []
        self.on_plan: Callable[[], object] = lambda: None
        self.on_act: Callable[[], object] = lambda: None
        self.on_verify: Callable[[], object] = lambda: None
        self.on_reached: Callable[[], object] = lambda: None
        self.kept: set[str] = set()

    def plan_name(self, asked: Submission) -> str:
        return self.name

    def make(self) -> ToyPlan:
        self.on_plan()
        planned = [Planned("write", name, f"touch {name}", {}, [], {}) for name in FILES]
        return ToyPlan(planned, time.monotonic() + 60.0)

    def asked(self, asked: Submission) -> tuple[str, Callable[[str], ToyPlan]]:
        return "demo", lambda key: self.make()

    def read(self, data: Mapping[str, Any]) -> ToyPlan:
        return ToyPlan(steps_from_dicts(data["steps"]), 0.0)

    def again(self, key: str, confirmed: ToyPlan) -> ToyPlan:
        return self.make()

    def keep(self, key: str, plan: ToyPlan, payload: bytes) -> None:
        self.kept.add(key)

    def forget(self, key: str) -> None:
        self.kept.discard(key)

    def context(self, action: Underway[ToyPlan]) -> Toy:
        return self

    def verify(self, action: Underway[ToyPlan], context: Toy) -> Outcome:
        action.verifying("that all is there")
        self.on_verify()
        whole = all((self.root / name).exists() for name in FILES)
        return Outcome(whole, "all is written", {"whole": whole})

    def reached(self, plan: ToyPlan) -> None:
        self.on_reached()


class ToyAgent:
    """One life of an agent on the home in `root` that knows only one kind of action. `full(number)`
    says of each record that is to be written, counted from 0, whether the disk has no room for it.
    """

    kind = KIND

    def __init__(self, root: Path, patch: pytest.MonkeyPatch) -> None:
        self.root = root
        home = Home(root / "home")
        home.create()
        patch.setattr(kinds.Kinds, "get", lambda _, name: self.only)
        self.full: Callable[[int], bool] = lambda number: False
        self.tried = 0
        self.stream = SegmentStream(home.state / "journal", 1 << 22)
        written = self.stream.append_line

        def append_line(line: bytes, *, sync: bool = False) -> str:
            number, self.tried = self.tried, self.tried + 1
            if self.full(number):
                raise SpoolFull("The disk is full.")
            return written(line, sync=sync)

        patch.setattr(self.stream, "append_line", append_line)
        self.journal = Journal(
            self.stream, Withheld(home.withheld, HeldSecrets(home).redacted_values)
        )
        self.book = Book(self.journal)
        runs: Any = SimpleNamespace(home=home, agent_restart=None, get=self._unknown)
        pod: Any = SimpleNamespace(runs=runs, book=self.book)
        self.only = self.make()
        self.left: list[object] = []
        self.actions = Actions(
            pod, Library(b'{"playbooks": []}'), self.book, self.stream, self.left.append
        )
        self.executor = self.actions.executor

    def make(self) -> PlannedKind[Any]:
        """Return the one kind of action."""
        self.toy = Toy(self.root)
        return self.toy

    def request(self) -> dict[str, Any]:
        """Return what a plan is asked for with."""
        return {}

    @staticmethod
    def _unknown(run: str) -> Any:
        raise UnknownRun(f"There is no run {run}.")

    def plan(self) -> str:
        """Return the hash of a new plan."""
        key = ulid()
        self.actions.submit({"key": key, "kind": "plan", self.kind: self.request()}, "alice")
        assert self.ended(key).state == "done"
        return str(self.action(key).result["plan_hash"])

    def confirm(self, plan_hash: str, *, key: str = "", **more: Any) -> str:
        key = key or ulid()
        self.actions.submit({"key": key, "kind": self.kind, "plan_hash": plan_hash, **more}, "bob")
        return key

    def action(self, key: str) -> ActionView:
        return self.book.ledger.actions[key]

    def ended(self, key: str) -> ActionView:
        until(lambda: self.action(key).ended)
        self.executor.join(30.0)
        return self.action(key)

    def close(self) -> None:
        self.full = lambda number: False
        self.executor.join(30.0)
        self.stream.close()


Agent = TypeVar("Agent", bound=ToyAgent)


def life(root: Path) -> contextlib.AbstractContextManager[ToyAgent]:
    """One life of an agent, whose actions have ended at its end."""
    return life_of(ToyAgent, root)


@contextlib.contextmanager
def life_of(kind: type[Agent], root: Path) -> Iterator[Agent]:
    """One life of an agent of this kind, whose actions have ended at its end."""
    with pytest.MonkeyPatch.context() as patch:
        agent = kind(root, patch)
        try:
            yield agent
        finally:
            agent.close()


def on_record(
    patch: pytest.MonkeyPatch,
    key: str,
    event: str,
    step: int | None,
    do: Callable[[], object],
    *,
    before: bool,
) -> None:
    """Call `do` before or after the first record of this event and step of the action `key` is
    written. Reports of progress inside a step are not meant.
    """
    written, once = Book.append, iter([do])

    def append(book: Book, type_: str, /, **fields: Any) -> dict[str, Any]:
        progress = fields.get("event") == "intent" and "title" not in fields
        record = (fields.get("action"), fields.get("event"), fields.get("step"))
        here = type_ == "action" and record == (key, event, step) and not progress
        if here and before:
            next(once, int)()
        told = written(book, type_, **fields)
        if here and not before:
            next(once, int)()
        return told

    patch.setattr(Book, "append", append)
    patch.setattr(Book, "__call__", append)
