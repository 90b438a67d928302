"""What every action shares: who holds which run, the thread it works on, and its records in the journal."""

from __future__ import annotations

import contextlib
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from bs4_agent.book import Book
from bs4_agent.boundaries import Boundaries
from bs4_agent.clock import boot_id
from bs4_agent.errors import AgentError, Busy, PlanExpired, Refused
from bs4_agent.ids import ulid
from bs4_agent.ledger import PlanView

#: Seconds that an action waits for a rotation to let its run go.
ROTATION_S = 5.0


class Plan(Protocol):
    """What plans have in common. `expires_m`: monotonic seconds."""

    @property
    def hash(self) -> str: ...
    @property
    def attempt(self) -> int: ...
    @property
    def expires_m(self) -> float: ...
    def as_dict(self) -> dict[str, Any]: ...


P = TypeVar("P", bound=Plan)


class Desk:
    """One a pod. `lock`: held while a submission is accepted."""

    def __init__(self, book: Book) -> None:
        self.book, self.ledger = book, book.ledger
        self.boundaries = Boundaries()
        self.lock = threading.Lock()
        self._holding: dict[str, str] = {}
        self._threads: list[threading.Thread] = []

    def accept(self, key: str, body: Mapping[str, Any], who: str, run: str, **fields: Any) -> None:
        self.book("action", sync=True, action=key, kind=body.get("kind"), who=who, run=run, event="accepted", body=dict(body), **fields)

    def event(self, key: str, run: str, event: str, *, sync: bool = False, **fields: Any) -> None:
        self.book("action", sync=sync, action=key, run=run, event=event, **fields)

    def unreadable(self, key: str, run: str, error: Exception) -> None:
        """An earlier life's plan, from another version: that action cannot be gone on with."""
        self.event(key, run, "interrupted", detail=f"its plan cannot be read any more ({error}); make a new one")

    # Plans

    def journal_plan(self, key: str, playbook: str, run: str, make: Callable[[], P]) -> P | None:
        """The plan that `make` makes, journalled; or None, and why there is none is journalled."""
        try:
            plan = make()
        except AgentError as error:
            self.book("plan", action=key, playbook=playbook, run=run, plan_hash="", refused=error.message)
            self.event(key, run, "failed", detail=error.message, result={"error": error.type})
            return None
        expires_t = time.time() + plan.expires_m - time.monotonic()
        self.book(
            "plan", action=key, playbook=playbook, run=run, attempt=plan.attempt, plan_hash=plan.hash, expires_m=plan.expires_m,
            expires_t=expires_t, plan=plan.as_dict(),
        )  # fmt: skip
        self.event(key, run, "done", result={"plan_hash": plan.hash})
        return plan

    def kept_plan(self, plan_hash: object, command: str) -> PlanView:
        """The journalled plan that somebody confirms. Refused when there is none; `command` makes one."""
        view = self.ledger.plans.get(str(plan_hash))
        if view is None or view.refused:
            raise Refused(f"No plan has the hash {str(plan_hash)[:16]!r}; make one with `{command}` and confirm that.")
        return view

    def must_live(self, view: PlanView) -> None:
        """PlanExpired for one that is too old to be confirmed."""
        if view.boot != boot_id() or time.monotonic() > view.expires_m:
            raise PlanExpired("The plan is older than 15 minutes (or the pod was rebooted since); make a new plan.")

    # Who holds what

    def hold(self, run: str, key: str) -> None:
        """From now on only this action works on `run`. Busy says who does."""
        self._let_rotation_pass(run)
        holder = self._holding.get(run)
        if holder is not None and holder != key:
            action = self.ledger.actions[holder]
            since = time.strftime("%H:%M:%S", time.localtime(action.accepted_t))
            raise Busy(f"{run} is busy: {action.kind} {action.playbook} by {action.who} since {since}. Wait for it to end.")
        self._holding[run] = key

    def let_go(self, run: str) -> None:
        self._holding.pop(run, None)

    @contextlib.contextmanager
    def holding(self, run: str, key: str) -> Iterator[None]:
        """`hold`, until the work that is started in the block ends; an error in the block lets go."""
        self.hold(run, key)
        try:
            yield
        except BaseException:
            self.let_go(run)
            raise

    def held(self, run: str) -> bool:
        return run in self._holding

    def _let_rotation_pass(self, run: str) -> None:
        """The disk guard holds a run for the renames of a rotation, some milliseconds: nobody is refused for that."""
        deadline = time.monotonic() + ROTATION_S
        while (holder := self._holding.get(run)) is not None and time.monotonic() < deadline:
            action = self.ledger.actions.get(holder)
            if action is None or action.kind != "rotate":
                return
            time.sleep(0.01)

    # Work

    def start(self, run: str, key: str, work: Callable[[], object]) -> None:
        """`work` on a thread of its own; at its end the run is let go. `run` "": nothing is held."""
        thread = threading.Thread(target=self._guarded, args=(run, key, work), name=f"action {key}", daemon=True)
        self._threads = [t for t in self._threads if t.is_alive()] + [thread]
        thread.start()

    def own(self, run: str, who: str, body: Mapping[str, Any], steps: Sequence[Mapping[str, str]], work: Callable[[str], None]) -> str:
        """An action that nobody submits: `work(key)` on the caller's thread, under the run's hold, journalled like any other. Its key, ""
        when it failed. Busy when the run is held: ask again later."""
        key = ulid()
        with self.lock, self.holding(run, key):
            self.accept(key, body, who, run, steps=list(steps))
        self._guarded(run, key, lambda: work(key))
        return "" if self.ledger.actions[key].ended else key

    def join(self, timeout: float) -> None:
        for thread in self._threads:
            thread.join(timeout)

    def _guarded(self, run: str, key: str, work: Callable[[], object]) -> None:
        try:
            with self.boundaries.step():
                work()
        except AgentError as error:
            self.event(key, run, "failed", detail=error.message, result={"error": error.type})
        except Exception as error:  # noqa: BLE001 (a defect of ours must end the action visibly, never leave it running for ever)
            traceback.print_exc()
            detail = f"the agent has a defect here ({type(error).__name__}: {error}); its traceback is in ~/.bs4/agent.log"
            self.event(key, run, "failed", detail=detail[:500], result={"error": "defect"})
        finally:
            self.let_go(run)
