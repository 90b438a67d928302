"""The executor, for each kind of action that it carries out by its steps: a crash between any two
steps, a plan that has changed, an end before each step, two people at once, and plans of another
version.
"""

from __future__ import annotations

import os
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from bs4_agent.actions import executor
from bs4_agent.playbooks import verify
from bs4_common.errors import Busy, PlanChanged, Refused
from bs4_common.ids import ulid
from bs4_common.ledger import ActionView
from tests.agent.actions.cases import (
    BackupCase,
    Case,
    MergeCase,
    PlaybookCase,
    RestoreCase,
    SetupCase,
    begin_attempt,
)
from tests.agent.actions.stopping import RELAUNCHES
from tests.agent.actions.toy import on_record
from tests.agent.runs.practice import until

pytestmark = [pytest.mark.long, pytest.mark.beside]

#: The kinds, and which steps of their plans have something to do here. The others are skipped.
STEPS: dict[type[Case], tuple[int, ...]] = {
    SetupCase: (3, 4, 5),
    MergeCase: (0, 1),
    BackupCase: (0, 1),
    RestoreCase: (0, 1),
    PlaybookCase: (1, 3),
}
#: A step that is not asked whether it is done: archiving the logs again adds what is new.
REPEATED = (PlaybookCase, 1)
#: The key of a stop that ends an action early.
STOP = "01J00000000000000000000005"


@pytest.fixture
def make(
    no_process_left: None, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[type[Case]], Case]]:
    """Return a function that makes a pod for one kind of action. Its run never trains, so the
    verification of a playbook says at once that it does.
    """
    trains = verify.Verdict(recovered=True, detail="it trains", step=7)
    monkeypatch.setitem(verify.VERIFIERS, "steps_advance", lambda *_: trains)
    with ExitStack() as stack:
        # The paths of sockets have room for 100 bytes.
        short = stack.enter_context(tempfile.TemporaryDirectory(prefix="bs4-"))

        def made(kind: type[Case]) -> Case:
            case = kind(Path(short).resolve(), monkeypatch, stack)
            stack.callback(case.close)
            return case

        yield made


@pytest.fixture(params=STEPS, ids=[kind.kind for kind in STEPS])
def case(request: pytest.FixtureRequest, make: Callable[[type[Case]], Case]) -> Case:
    return make(request.param)


def confirm(case: Case, key: str, plan_hash: str) -> None:
    body = {"key": key, "kind": case.kind, "run": case.run, "plan_hash": plan_hash}
    if case.kind == "playbook":
        body["playbook"] = RELAUNCHES
    case.actions.submit(body, "bob")


def ended(case: Case, key: str) -> ActionView:
    until(lambda: key in case.book.ledger.actions and case.book.ledger.actions[key].ended)
    case.actions.executor.join(30.0)
    return case.book.ledger.actions[key]


def events(case: Case, key: str) -> list[tuple[str, int | None]]:
    """Return the events of the action with their steps, without reports of progress."""
    return [
        (record["event"], record.get("step"))
        for record in case.book.records()
        if record["type"] == "action"
        and record["action"] == key
        and (record["event"] != "intent" or "title" in record)
    ]


def carried_out_again(case: Case) -> None:
    """Check that nothing is held any more: a new plan is made, confirmed and carried out, or there
    is nothing left to do.
    """
    key = ulid()
    confirm(case, key, case.plan().plan_hash)
    assert ended(case, key).state == "done"


def killed(
    case: Case, patch: pytest.MonkeyPatch, key: str, plan_hash: str, event: str, step: int | None
) -> None:
    """Confirm the plan in an agent that is killed before it writes this record."""
    child = os.fork()
    if child == 0:
        try:
            on_record(
                patch, key, event, step, lambda: os.kill(os.getpid(), signal.SIGKILL), before=True
            )
            confirm(case, key, plan_hash)
            case.actions.executor.join(60.0)
        finally:
            os._exit(1)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL


CRASHES: list[tuple[type[Case], str, int | None]] = [
    (kind, event, step)
    for kind, steps in STEPS.items()
    for step in steps
    for event in ("intent", "step-done")
]
CRASHES += [(kind, "done", None) for kind in STEPS]


@pytest.mark.parametrize(("kind", "event", "step"), CRASHES)
def test_a_crash_between_any_two_steps_is_finished_by_the_next_agent(
    kind: type[Case],
    event: str,
    step: int | None,
    make: Callable[[type[Case]], Case],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The agent is killed before it writes down that it begins a step, that the step has acted, or
    that the action has ended.
    """
    case, key = make(kind), ulid()
    plan = case.plan()
    killed(case, monkeypatch, key, plan.plan_hash, event, step)
    case.reload()
    if kind is not RestoreCase:  # its reload resumes
        case.actions.resume()
    action = ended(case, key)
    assert action.state == "done", action.detail
    told = events(case, key)
    assert told[0] == ("accepted", None)
    assert told[-1] == ("done", None)
    for number in range(len(plan.plan["steps"])):
        ends = [one for one, of in told if of == number and one != "intent"]
        acts = number in STEPS[kind] and (
            (event, step) != ("step-done", number) or (kind, number) == REPEATED
        )
        assert ends == ["step-done" if acts else "step-skipped"], told


def test_a_crash_before_the_acceptance_leaves_nothing(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, key = case.plan(), ulid()
    killed(case, monkeypatch, key, plan.plan_hash, "accepted", None)
    case.reload()
    assert key not in case.book.ledger.actions
    carried_out_again(case)


@pytest.mark.parametrize(
    ("kind", "step"), [(kind, step) for kind, steps in STEPS.items() for step in steps]
)
def test_an_action_that_is_cancelled_ends_before_its_next_step(
    kind: type[Case],
    step: int,
    make: Callable[[type[Case]], Case],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    case, key = make(kind), ulid()
    plan, executor = case.plan(), case.actions.executor
    earlier = [one for one in STEPS[kind] if one < step]
    last: tuple[str, int | None] = ("step-done", earlier[-1]) if earlier else ("accepted", None)
    with monkeypatch.context() as patch:
        on_record(patch, key, *last, lambda: executor.cancel(key, STOP, "carol"), before=False)
        confirm(case, key, plan.plan_hash)
        action = ended(case, key)
    assert (action.state, action.detail) == ("interrupted", "cancelled by carol's stop")
    assert action.result["error"] == "cancelled"
    assert [of for event, of in events(case, key) if event == "step-done"] == earlier
    assert action.steps[step].state == "waiting"
    carried_out_again(case)


def test_of_two_people_one_is_told_who_was_first(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, first, second = case.plan(), ulid(), ulid()
    begun, may_go_on = threading.Event(), threading.Event()

    def wait() -> None:
        begun.set()
        assert may_go_on.wait(60.0)

    with monkeypatch.context() as patch:
        on_record(patch, first, "intent", STEPS[type(case)][0], wait, before=True)
        confirm(case, first, plan.plan_hash)
        assert begun.wait(60.0)
        with pytest.raises(Busy, match=rf" is busy: {case.kind}( {RELAUNCHES})? by bob since "):
            confirm(case, second, plan.plan_hash)
        confirm(case, first, plan.plan_hash)  # the same submission once more is the same action
        assert second not in case.book.ledger.actions
        may_go_on.set()
        assert ended(case, first).state == "done"
    assert case.accepted() == 1


def changed(case: Case) -> None:
    """Change the pod so that the confirmed plan would do something else."""
    if isinstance(case, MergeCase):
        shard = case.pod.checkpoints / "global_step_5" / "actor" / "model_world_size_2_rank_0.pt"
        os.utime(shard, (1.0, 1.0))
    elif isinstance(case, PlaybookCase):
        begin_attempt(case.runs, case.spec)
    elif isinstance(case, RestoreCase):
        (case.pod.out / "checkpoints" / "step_10").mkdir(parents=True)
    else:
        (case.root / ".bashrc").write_text("")  # a start-up file that was not there


def test_a_plan_that_would_do_something_else_by_now_starts_nothing(case: Case) -> None:
    plan = case.plan()
    changed(case)
    with pytest.raises(PlanChanged, match="look at the new plan"):
        confirm(case, ulid(), plan.plan_hash)
    assert case.accepted() == 0
    key = ulid()
    confirm(case, key, case.newest().plan_hash)
    assert ended(case, key).state == "done"


def test_a_pod_that_does_not_answer_the_new_look_keeps_no_stop_waiting(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mount that hangs never answers, and until the plan is there no other action is accepted."""
    plan, answers = case.plan(), threading.Event()
    kind = type(case.actions.kinds.get(case.kind))
    again = kind.again

    def hangs(*asked: Any) -> Any:
        answers.wait(60.0)
        return again(*asked)

    with monkeypatch.context() as patch:
        patch.setattr(executor, "REPLAN_S", 0.2)
        patch.setattr(kind, "again", hangs)
        try:
            with pytest.raises(Refused, match=r"within 0\.2 s, so nothing was done"):
                confirm(case, ulid(), plan.plan_hash)
            assert case.actions.executor.lock.acquire(timeout=0)
            case.actions.executor.lock.release()
        finally:
            answers.set()
    assert case.accepted() == 0
    carried_out_again(case)


def test_a_plan_that_cannot_be_read_any_more_is_refused(case: Case) -> None:
    plan = case.plan()
    case.journal_again(plan, plan={"title": "of another version"})
    told = len(list(case.book.records()))
    with pytest.raises(Refused, match=r"^That plan cannot be read any more .* make one with `"):
        confirm(case, ulid(), plan.plan_hash)
    assert len(list(case.book.records())) == told
    carried_out_again(case)


def test_a_plan_of_a_version_that_knew_more_is_carried_out(case: Case) -> None:
    plan = case.plan()
    case.journal_again(plan, plan={**plan.plan, "a field of later": 1})
    key = ulid()
    confirm(case, key, plan.plan_hash)
    assert ended(case, key).state == "done"


#: The steps of a merge or backup are made from what it merges, and are not read.
LOST: list[tuple[type[Case], str]] = [(kind, "the plan") for kind in STEPS]
LOST += [(kind, "a kind of step") for kind in STEPS if not issubclass(kind, MergeCase)]


@pytest.mark.parametrize(("kind", "lost"), LOST)
def test_an_action_whose_plan_cannot_be_read_after_an_upgrade_ends_with_a_sentence(
    kind: type[Case], lost: str, make: Callable[[type[Case]], Case]
) -> None:
    case, key = make(kind), ulid()
    plan = case.plan()
    kept: dict[str, Any] = {"title": "of another version"}
    if lost == "a kind of step":
        kept = {**plan.plan, "steps": [{**step, "kind": "gone"} for step in plan.plan["steps"]]}
    case.book(
        "action",
        action=key,
        kind=case.kind,
        who="bob",
        run=case.run,
        event="accepted",
        body={"kind": case.kind, "plan_hash": plan.plan_hash, "plan": kept},
        steps=[],
    )
    case.reload()
    if not isinstance(case, RestoreCase):
        case.actions.resume()
    action = ended(case, key)
    assert action.state == "interrupted"
    assert action.detail.startswith("its plan cannot be read any more (")
    assert action.detail.endswith("); make a new one")
    carried_out_again(case)
