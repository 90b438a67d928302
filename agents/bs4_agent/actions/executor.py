"""The action executor: what all actions share. It makes and compares plans, runs each action on its
thread, and writes its records into the journal.
"""

from __future__ import annotations

import contextlib
import functools
import threading
import time
import traceback
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from bs4_agent.actions.kind import Kind, P, Plan, PlannedKind, S
from bs4_agent.actions.locks import RunLocks
from bs4_agent.actions.safe_points import SafePoints
from bs4_agent.actions.steps import StepRunner, told
from bs4_agent.actions.submission import Submission
from bs4_agent.book import Book
from bs4_common.clock import boot_id
from bs4_common.errors import (
    AgentError,
    Busy,
    Interrupted,
    PlanChanged,
    PlanExpired,
    Refused,
    SpoolFull,
    StepFailed,
    UnknownRun,
)
from bs4_common.failures.compiled import digest
from bs4_common.ids import ulid
from bs4_common.ledger import NOT_FOLDED, ActionView, PlanView

if TYPE_CHECKING:
    from bs4_agent.playbooks.pod_actions import Planned
    from bs4_agent.runs.registry import Runs

#: Seconds after which the end of an action that could not be journalled is tried again.
END_RETRY_S = 1.0
#: Seconds for which a confirmed plan may be made again. Its run is reserved meanwhile, and a disk
#: that hangs never answers.
REPLAN_S = 15.0
#: What reading a plan that another version of the agent has written may raise.
UNREADABLE = (*NOT_FOLDED, AgentError)

M = TypeVar("M", bound=Plan)


def _within(seconds: float, make: Callable[[], M]) -> M:
    """Return what `make` returns, or raise what it raises. Raises Refused if it takes longer; it is
    left to itself then, on a thread of its own, and what it returns is dropped.
    """
    made: list[M] = []
    failed: list[BaseException] = []

    def work() -> None:
        try:
            made.append(make())
        except BaseException as error:  # noqa: BLE001 (it is raised where the plan is waited for)
            failed.append(error)

    planning = threading.Thread(target=work, name="plan-again", daemon=True)
    try:
        planning.start()
    except RuntimeError:
        # The pod allows no further thread. The action will not get one either, and says so.
        return make()
    planning.join(seconds)
    if planning.is_alive():
        raise Refused(
            f"What the action would do now could not be found out within {seconds:g} s, so nothing "
            "was done: a disk of the pod does not answer. Look at its mounts, and confirm anew."
        )
    if failed:
        raise failed[0]
    return made[0]


class ActionExecutor:
    """Runs actions and writes into the journal (the agent's record on disk of what happens on the
    pod) what they do. Only one action works on a run at a time. There is one object per pod. Code
    that accepts a submitted action must hold the lock in the attribute `lock` while it does so;
    the method `confirm` takes it itself.
    """

    def __init__(self, book: Book, runs: Runs) -> None:
        self.book, self.ledger, self._runs = book, book.ledger, runs
        self.safe_points = SafePoints()
        self.lock = threading.Lock()
        self.locks = RunLocks(book.ledger, self.safe_points)
        self._threads: list[threading.Thread] = []

    def accept(self, asked: Submission, run: str, **fields: Any) -> None:
        """Write into the journal that the action `asked` on `run` ("" for none) is accepted, and
        return once the record is on disk. `fields` are added to the record. Raises SpoolFull if the
        journal has no room.
        """
        self.book(
            "action",
            sync=True,
            action=asked.key,
            kind=asked.body.get("kind"),
            who=asked.who,
            run=run,
            event="accepted",
            body=dict(asked.body),
            **fields,
        )

    def event(self, key: str, run: str, event: str, *, sync: bool = False, **fields: Any) -> None:
        """Write an event of the action `key` on `run` into the journal, for example "step-done".
        `fields` are further fields of the record. With `sync`, return only once the record is on
        the disk. Raises SpoolFull if the journal has no room.
        """
        self.book("action", sync=sync, action=key, run=run, event=event, **fields)

    def progress(self, key: str, run: str, event: str, **fields: Any) -> None:
        """Write into the journal the event `event` of the action `key` on `run`. Use this only for
        an event that may be lost, because it just tells how far the action has come: if the journal
        has no room, the event is dropped and nothing is raised. `fields` are further fields of the
        record.
        """
        with contextlib.suppress(SpoolFull):
            self.event(key, run, event, **fields)

    def insist(self, key: str, event: str, **fields: Any) -> None:
        """Write the event with which the action `key` ends, for example "done", into the journal,
        and return once the record is on the disk. Do nothing if the action has ended already. Call
        this only inside a `with` block of `SafePoints.step`.

        If the journal cannot be written, try again every second until it can. Otherwise the next
        agent would find no end of the action, and carry it out once more.
        """
        while True:
            try:
                self.book.append_unless_ended(key, event=event, **fields)
            except (SpoolFull, OSError):
                with self.safe_points.rest():
                    time.sleep(END_RETRY_S)
            else:
                return

    def end(self, key: str, event: str, **fields: Any) -> None:
        """Write the event with which the action `key` ends into the journal, for example
        "interrupted", and return once the record is on the disk. If the journal has no room, return
        at once and try again on a thread of its own. Do nothing if the action has ended already.
        """
        try:
            self.book.append_unless_ended(key, event=event, **fields)
        except (SpoolFull, OSError):
            self.start("", key, lambda: self.insist(key, event, **fields))

    # Planned actions

    def plan(self, kind: PlannedKind[S], asked: Submission) -> None:
        """Write into the journal that the action `asked` requests a plan. Then make the plan on a
        thread of its own, and write it into the journal too. `kind` makes the plan. Raises
        BadRequest if the request is malformed. If there is no plan for another reason, the journal
        says why.
        """
        self.start("", asked.key, self._planning(kind, asked))

    def plan_now(self, kind: PlannedKind[S], asked: Submission) -> S | None:
        """Make a plan and write it into the journal, as the method `plan` does, but on the caller's
        thread. Return the plan, or None if it could not be made; the journal then says why.
        """
        return self._planning(kind, asked)()

    def _planning(self, kind: PlannedKind[S], asked: Submission) -> Callable[[], S | None]:
        """Journal a plan action, and return a function that makes and journals its plan."""
        key, (run, make) = asked.key, kind.asked(asked)
        name = kind.plan_name(asked)
        self.accept(asked, run, playbook=name)
        return lambda: self.journal_plan(key, name, run, lambda: make(key))

    def begin(self, kind: Kind[P], asked: Submission) -> bool:
        """Accept the action `asked` if it says itself what to do and needs no plan that a person
        has confirmed, and carry it out on a thread of its own. Return True if that was so. Return
        False, and do nothing, if it has to name such a plan.

        Raises Busy if another action works on the same run; a stop is refused in this way only if
        the other action is a stop too. Raises the errors of `kind.direct` and `kind.keep`.
        """
        if (direct := kind.direct(asked)) is None:
            return False
        self.take(kind, asked, *direct)
        return True

    def take(self, kind: Kind[P], asked: Submission, run: str, plan: P) -> None:
        """Accept the action `asked`, which does `plan` to `run`, and carry it out on a thread of
        its own. No person has confirmed the plan. Raises Busy if another action works on the same
        run; a stop is refused in this way only if the other action is a stop too. Raises SpoolFull
        if the journal has no room, and the errors of `kind.keep`.
        """
        with self.locks.holding(kind.hold(run), asked.key, first=kind.goes_first):
            self._start(kind, asked, run, plan)

    def confirm(
        self, kind: PlannedKind[S], asked: Submission, allowed: Callable[[], object] = lambda: None
    ) -> None:
        """Carry out the action `asked` on a thread of its own, by the plan that a person has
        confirmed. The hash of that plan is `plan_hash` in `asked.body`. The run is reserved for the
        action, the plan is made again from the present state of the pod, and if it is still the
        same, the action is accepted. Call this without holding `lock`, so that other actions can be
        accepted or refused while the plan is made. `allowed` is called with `lock` held, right
        before the acceptance; what it raises is passed on.

        Raises Refused if no plan in the journal has this hash, kind and run, or if the plan cannot
        be read any more or not be made again within 15 seconds; PlanExpired if it is older than 15
        minutes or the pod was rebooted; PlanChanged if the action would do something else now; and
        Busy if another action has the run reserved or a stop of it came meanwhile. Raises the
        errors of `kind.refuse`, `kind.again` and `kind.keep`. Secrets that came with an action that
        is not accepted are not kept.
        """
        key = asked.key
        with self.lock:
            view = self.kept_plan(asked, kind.plan_name(asked), kind.planner)
            kind.refuse(asked, view)
            hold = kind.hold(view.run)
            self.locks.hold_to_plan(hold, _planned(kind, asked, view))
        try:
            plan = _within(REPLAN_S, lambda: kind.again(key, _read(kind, view)))
            with self.lock:
                allowed()
                self.refuse_unlike(view, asked.who, plan)
                self.locks.accept(hold, key)
                kept = view.plan if kind.keeps_confirmed else plan.as_dict()
                fields = kind.fields(plan, view.plan_hash)
                self._start(kind, asked.planned(kept), view.run, plan, **fields)
        except BaseException:
            self.locks.let_go(hold, key)
            raise

    def _start(self, kind: Kind[P], asked: Submission, run: str, plan: P, **fields: Any) -> None:
        """Accept an action that holds its run already, and carry out `plan` on a thread of its
        own.
        """
        key = asked.key
        try:
            kind.keep(key, plan, asked.payload)
            self.accept(asked, run, **fields, steps=step_fields(plan.steps))
        except BaseException:
            kind.forget(key)
            raise
        if not self.start(kind.hold(run), key, lambda: self._carry_out(kind, key, run, plan, None)):
            kind.forget(key)

    def resume(self, kind: Kind[P], action: ActionView) -> None:
        """Continue `action`, which is of the kind `kind` and was under way when the agent was
        restarted. It is not continued if its plan cannot be read any more, or if `kind.too_late`
        gives a reason why it is too late (a launch, for example, that was accepted long ago). The
        journal then gets a record that says that the action was interrupted, and why.
        """
        key, run = action.key, action.run
        try:
            plan = kind.left(action)
            for step in plan.steps:
                kind.steps[step.kind]  # KeyError if this version has no such step
        except UNREADABLE as error:
            kind.forget(key)
            detail = f"its plan cannot be read any more ({error}); make a new one"
            self.end(key, "interrupted", detail=detail)
            return
        if detail := kind.too_late(action):
            kind.forget(key)
            self.end(key, "interrupted", detail=detail)
            return
        if not self.go_on(
            action, kind.left_hold(action), lambda: self._carry_out(kind, key, run, plan, action)
        ):
            kind.forget(key)

    def _carry_out(
        self, kind: Kind[P], key: str, run: str, plan: P, before: ActionView | None
    ) -> None:
        """Carry out the steps of a plan, but not those that `before`, the action as an earlier
        agent has left it, has finished.
        """
        try:
            if not kind.await_turn(key, run):
                return
            turn = self.locks.turn(key)
            if StepRunner(self.book, self.insist, kind, key, run, plan, turn).run(before):
                kind.reached(plan)
        finally:
            kind.forget(key)

    # Plans

    @functools.cached_property
    def home(self) -> str:
        """Return the id of the agent's home directory, a random text. It differs between two agents
        that have different home directories.
        """
        return self._runs.home.id()

    def attempt(self, run: str) -> int:
        """Return the number of the newest attempt (one start) of the run with the name `run`.
        Return 0 if there was no attempt on this pod, or if the run is not known.
        """
        try:
            newest = self._runs.get(run).attempt
        except UnknownRun:
            return 0
        return newest.number if newest is not None else 0

    def hash_of(self, kind: str, run: str, plan: Plan) -> str:
        """Return the hash, in hexadecimal digits, by which a person confirms `plan`. It covers the
        id of the agent's home, the kind of the plan (a playbook's id, "launch", "setup", ...), the
        run, the number of its newest attempt, and everything that the plan would do. So it confirms
        nothing on another pod or run, and nothing after a new attempt began.
        """
        return digest(
            {
                "home": self.home,
                "kind": kind,
                "run": run,
                "attempt": self.attempt(run),
                "plan": plan.hash,
            }
        )

    def journal_plan(self, key: str, kind: str, run: str, make: Callable[[], M]) -> M | None:
        """Call `make`, write the plan that it returns into the journal, and return that plan. If
        `make` raises an AgentError or an OSError, write into the journal that there is no plan and
        why, and return None. In both cases the action `key`, which asked for the plan, has then
        ended: as "done" or as "failed". `kind` is the name of the plan's kind, and `run` is the run
        for which the plan is.
        """
        try:
            plan = make()
        except (AgentError, OSError) as raised:
            error = told(raised)
            self.book(
                "plan", action=key, playbook=kind, run=run, plan_hash="", refused=error.message
            )
            self.event(key, run, "failed", detail=error.message, result={"error": error.type})
            return None
        self._journal_made(key, kind, run, plan)
        return plan

    def _journal_made(self, key: str, kind: str, run: str, plan: Plan) -> str:
        """Journal a plan and the end of the action `key` that asked for it, and return the hash by
        which the plan is confirmed.
        """
        plan_hash = self.hash_of(kind, run, plan)
        self.book(
            "plan",
            action=key,
            playbook=kind,
            run=run,
            attempt=self.attempt(run),
            home=self.home,
            plan_hash=plan_hash,
            expires_m=plan.expires_m,
            expires_t=time.time() + plan.expires_m - time.monotonic(),
            plan=plan.as_dict(),
        )
        self.event(key, run, "done", result={"plan_hash": plan_hash})
        return plan_hash

    def kept_plan(self, asked: Submission, kind: str, command: str) -> PlanView:
        """Return the plan that the submission `asked` confirms, as the journal has it. The plan's
        hash is `plan_hash` in `asked.body`. Raises Refused if no plan of this `kind` has that hash,
        or if the plan is for another run than the `run` in `asked.body`. `command` is the console
        command that makes plans of this kind; error messages name it.
        """
        plan_hash = str(asked.body.get("plan_hash"))
        view = self.ledger.plans.get(plan_hash)
        if view is None or view.refused:
            raise Refused(
                f"No plan has the hash {plan_hash[:16]!r}; make one with `{command}` "
                "and confirm that."
            )
        if view.playbook != kind:
            raise Refused(
                f"That plan is of {view.playbook}, not of {kind}; make one with `{command}` "
                "and confirm that."
            )
        run = asked.body.get("run", view.run)
        if run != view.run:
            raise Refused(
                f"That plan is for {view.run or 'the pod'}, not for {str(run)[:100]}; make one "
                f"with `{command}` and confirm that."
            )
        return view

    def refuse_unlike(self, view: PlanView, who: str, plan: Plan) -> None:
        """Do nothing if the confirmed plan `view` has not expired and `plan`, the same plan made
        again from the present state of the pod, has the same hash. Otherwise write `plan` into the
        journal, as if `who` had asked for it, and raise PlanExpired or PlanChanged. The error's
        message names this new plan, which can be confirmed instead.
        """
        kind, run = view.playbook, view.run
        expired = view.boot != boot_id() or time.monotonic() > view.expires_m
        if not expired and self.hash_of(kind, run, plan) == view.plan_hash:
            return
        key = ulid()
        body = {"key": key, "kind": "plan", "again": view.plan_hash}
        self.accept(Submission(key, body, who), run, playbook=kind)
        look = f"look at the new plan {self._journal_made(key, kind, run, plan)[:16]}"
        if expired:
            raise PlanExpired(
                "The plan is older than 15 minutes (or the pod was rebooted since); "
                f"{look} and confirm that one."
            )
        raise PlanChanged(
            f"What `{kind}` would do to {run or 'the pod'} is not what was confirmed; {look} and "
            "confirm that one."
        )

    # Work

    def cancel(self, key: str, stop: str, who: str) -> None:
        """End the action `key` early, because the person `who` has submitted the action `stop`,
        which stops its run: write that into the journal, and tell the action to end at its next
        safe point. Do nothing if the action has ended already. Raises SpoolFull if the journal has
        no room.
        """
        if not self.ledger.actions[key].cancelled_by:
            self.book.append_unless_ended(
                key,
                event="cancel",
                who=who,
                stop=stop,
                detail=f"{who} stops this run; the action ends early",
            )
        self.locks.cancel(key, who)

    def go_on(self, action: ActionView, hold: str, work: Callable[[], object]) -> bool:
        """Do the `work` that is left of `action`, which was under way when the agent was restarted,
        on a thread of its own, and return True. No other action can work on `hold`, the name of its
        run, meanwhile; `hold` is "" if the work needs none. If another action works on it already,
        write into the journal that `action` is interrupted, and return False.
        """
        try:
            if hold:
                self.locks.hold(hold, action.key)
        except Busy:
            detail = "a later action was accepted, so this one had ended; how is not known"
            self.end(action.key, "interrupted", detail=detail)
            return False
        return self.start(hold, action.key, work)

    def start(self, run: str, key: str, work: Callable[[], object]) -> bool:
        """Call `work` on a thread of its own and return True. At the end of the thread, other
        actions may work on `run` again; `run` is "" for an action that has none. If `work` raises
        an error, write into the journal that the action `key` failed and why. If no thread can be
        started on the pod, write into the journal that the action failed, and return False.
        """
        thread = threading.Thread(
            target=self._guarded,
            args=(run, key, work, self.insist),
            name=f"action {key}",
            daemon=True,
        )
        try:
            thread.start()
        except RuntimeError as error:
            refused = StepFailed(
                f"This pod allows the agent no further thread ({error}); end processes there, then "
                "ask again."
            )
            self._guarded(run, key, lambda: raising(refused), self.book.append_unless_ended)
            return False
        self._threads = [t for t in self._threads if t.is_alive()] + [thread]
        return True

    def join(self, timeout: float) -> None:
        """Wait until the threads of all actions have ended, for at most `timeout` seconds each."""
        for thread in self._threads:
            thread.join(timeout)

    def _guarded(
        self, run: str, key: str, work: Callable[[], object], end: Callable[..., object]
    ) -> None:
        """Do the work, journal by `end` how it failed if it did, and let go of the run."""
        try:
            with self.safe_points.step():
                try:
                    work()
                except AgentError as error:
                    event = "interrupted" if isinstance(error, Interrupted) else "failed"
                    end(key, event=event, detail=error.message, result={"error": error.type})
                except Exception as error:  # noqa: BLE001
                    # A defect of ours must end the action visibly. Otherwise it would seem to run
                    # for ever.
                    traceback.print_exc()
                    detail = (
                        f"the agent has a defect here ({type(error).__name__}: {error}); its "
                        "traceback is in ~/.bs4/agent.log"
                    )
                    end(key, event="failed", detail=detail[:500], result={"error": "defect"})
        finally:
            self.locks.let_go(run, key)


def raising(error: AgentError) -> None:
    """Raise `error`. It is passed as the `work` of an action that failed before its own work could
    begin, so that the failure is recorded in the usual way.
    """
    raise error


def _read(kind: PlannedKind[S], view: PlanView) -> S:
    """Return the confirmed plan `view` as an object. Raises Refused if it cannot be read."""
    try:
        return kind.read(view.plan)
    except UNREADABLE as error:
        raise Refused(
            f"That plan cannot be read any more ({error}); make one with `{kind.planner}` and "
            "confirm that."
        ) from error


def _planned(kind: PlannedKind[Any], asked: Submission, view: PlanView) -> ActionView:
    """Return the action `asked`, which confirms the plan `view` and is not accepted yet, as others
    are told of it while its plan is made again.
    """
    now = time.time()
    return ActionView(
        key=asked.key,
        kind=kind.name,
        who=asked.who,
        run=view.run,
        state="accepted",
        accepted_t=now,
        updated_t=now,
        playbook=view.playbook,
    )


def step_fields(steps: Iterable[Planned]) -> list[dict[str, str]]:
    """Return the `title` and the `command` of each step of a plan as dictionaries, in the form in
    which the record of an accepted action has them.
    """
    found = []
    for step in steps:
        found.append({"title": step.title, "command": step.command})
    return found
