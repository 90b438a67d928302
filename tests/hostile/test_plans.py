"""A confirmation names what it acts on: a plan of another run, pod, attempt or version of the agent
starts nothing, for each kind of action, and is answered with a plan that can be confirmed.
"""

from __future__ import annotations

import dataclasses
import shlex
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from bs4_agent import pod
from bs4_agent.actions.executor import ActionExecutor
from bs4_agent.launch import plan as launch_plan
from bs4_agent.paths import Home
from bs4_common.errors import PlanChanged, PlanExpired, Refused
from bs4_common.ids import ulid
from tests.agent.actions.cases import CASES, Case, begin_attempt, stop_all
from tests.agent.actions.stopping import RUN, StoppingAgent
from tests.agent.runs.conftest import no_process_left
from tests.golden.test_golden import DATA, TRAINERS, lines

__all__ = ["no_process_left"]


@pytest.fixture(params=CASES, ids=[case.kind for case in CASES])
def case(
    request: pytest.FixtureRequest, no_process_left: None, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Case]:
    with ExitStack() as stack:
        # The paths of sockets have room for 100 bytes.
        short = stack.enter_context(tempfile.TemporaryDirectory(prefix="bs4-"))
        made = request.param(Path(short).resolve(), monkeypatch, stack)
        yield made
        made.close()


def confirmed_anew(case: Case, old: str, refused: type[PlanChanged] = PlanChanged) -> None:
    """Check that the hash `old` starts nothing and is answered with a new plan, which can be
    confirmed.
    """
    told = len(list(case.book.records()))
    with pytest.raises(refused, match=r"look at the new plan [0-9a-f]{16} and confirm") as answer:
        case.confirm(old, run=case.run)
    assert type(answer.value) is refused
    assert case.accepted() == 0
    plan = case.newest()
    assert plan.plan_hash[:16] in answer.value.message
    assert plan.home == case.home.id()
    assert plan.attempt == case.actions.executor.attempt(case.run)
    assert [
        (record["type"], record.get("event")) for record in list(case.book.records())[told:]
    ] == [
        ("action", "accepted"),
        ("plan", None),
        ("action", "done"),
    ]
    case.confirm(plan.plan_hash, run=case.run)
    assert case.accepted() == 1


def test_a_confirmation_that_names_another_run_is_refused(case: Case) -> None:
    plan = case.plan()
    told = len(list(case.book.records()))
    with pytest.raises(Refused, match=r"^That plan is for (demo|the pod), not for nope; make one"):
        case.confirm(plan.plan_hash, run="nope", confirm_run="nope")
    assert len(list(case.book.records())) == told
    case.confirm(plan.plan_hash, run=case.run)
    assert case.accepted() == 1


def test_a_confirmation_for_another_home_is_refused(case: Case) -> None:
    """The address of the pod leads to another machine, and the console confirms what it saw."""
    plan = case.plan()
    told = len(list(case.book.records()))
    for home in (ulid(), "", None, [plan.home]):
        with pytest.raises(Refused, match="confirmed for another pod"):
            case.confirm(plan.plan_hash, run=case.run, home=home)
    assert len(list(case.book.records())) == told
    case.confirm(plan.plan_hash, run=case.run, home=plan.home)
    assert case.accepted() == 1


def test_a_plan_in_a_copied_journal_starts_nothing_in_another_home(case: Case) -> None:
    plan = case.plan()
    (case.home.root / "id").write_text(ulid())
    case.reload()
    assert plan.home != case.home.id()
    confirmed_anew(case, plan.plan_hash)


def test_a_plan_starts_nothing_after_a_new_attempt_began(case: Case) -> None:
    if case.kind == "setup":
        pytest.skip("a set-up is of the pod and of no run")
    plan = case.plan()
    begin_attempt(case.runs, case.spec)
    confirmed_anew(case, plan.plan_hash)


def test_an_expired_plan_is_answered_with_a_new_one(case: Case) -> None:
    plan = case.plan()
    case.journal_again(plan, expires_m=time.monotonic() - 1.0)
    confirmed_anew(case, plan.plan_hash, PlanExpired)


def test_a_hash_of_the_version_before_is_answered_with_a_new_plan(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It covered what the plan would do, and not whose home that was."""
    with monkeypatch.context() as before:
        before.setattr(ActionExecutor, "hash_of", lambda self, kind, run, plan: plan.hash)
        plan = case.plan()
    confirmed_anew(case, plan.plan_hash)


def test_a_hash_of_another_kind_is_refused(case: Case) -> None:
    plan = case.plan()
    case.journal_again(plan, playbook="another")
    with pytest.raises(Refused, match=r"^That plan is of another, not of"):
        case.confirm(plan.plan_hash, run=case.run)
    assert case.accepted() == 0


@pytest.fixture
def agent(tmp_path: Path, no_process_left: None) -> Iterator[StoppingAgent]:
    made = StoppingAgent(tmp_path)
    yield made
    made.close()


def test_a_stop_names_the_attempt_and_the_home(agent: StoppingAgent) -> None:
    agent.waiting(agent.launch())
    home = agent.home.id()
    told = len(list(agent.book.records()))
    for attempt in (0, 2, "1", None):
        with pytest.raises(PlanChanged, match=r"^demo is in attempt 1 by now, .* stop it again\.$"):
            agent.submit({"kind": "stop", "run": RUN, "attempt": attempt, "home": home}, "bob")
    with pytest.raises(Refused, match="confirmed for another pod"):
        agent.submit({"kind": "stop", "run": RUN, "attempt": 1, "home": ulid()}, "bob")
    assert len(list(agent.book.records())) == told
    assert agent.alive()
    key = agent.submit({"kind": "stop", "run": RUN, "attempt": 1, "home": home}, "bob")
    assert agent.ended(key).state == "done"
    assert agent.alive() == []


def test_nothing_that_can_be_submitted_is_done_for_another_home(agent: StoppingAgent) -> None:
    agent.runs.register(agent.spec())
    told = len(list(agent.book.records()))
    kinds = dict(agent.actions._kinds)
    assert {"keep", "sync", "mode", "note", "adopt", "setup-stop", "handover"} < kinds.keys()
    for kind in kinds:
        with pytest.raises(Refused, match="confirmed for another pod"):
            agent.submit({"kind": kind, "run": RUN, "home": ulid()}, "bob")
    assert len(list(agent.book.records())) == told


def test_the_id_of_a_home_is_random_stays_and_is_never_empty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = Home(tmp_path / "a"), Home(tmp_path / "b")
    first.create()
    second.create()
    assert first.id() == Home(first.root).id()
    assert first.id() != second.id()
    third, write = Home(tmp_path / "c"), Path.write_text
    third.create()

    def full(self: Path, text: str) -> int:
        write(self, "")
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as disk:
        disk.setattr(Path, "write_text", full)
        with pytest.raises(OSError, match="No space"):
            third.id()
    assert len(third.id()) == 26


# What the version of the golden corpus has recorded


def golden(trainer: str, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """Return the first plan record of the corpus for which `wanted` is true."""
    return next(
        record
        for record in lines(DATA / trainer / "agent" / "state" / "journal")
        if record["type"] == "plan" and wanted(record)
    )


@pytest.mark.parametrize("trainer", TRAINERS)
def test_a_recorded_hash_is_the_one_that_is_compared_here(trainer: str) -> None:
    """The tests above take the hash of a plan without its home for that of the version before."""
    record = golden(trainer, lambda record: record["playbook"] == "launch")
    plan = record["plan"]
    start = next(step for step in plan["steps"] if step["kind"] == "start")
    made = launch_plan.LaunchPlan(
        asked=plan["asked"],
        record=plan["record"],
        spec=launch_plan.spec_in(plan),
        attempt=plan["attempt"],
        tries=0,
        argv=shlex.split(start["command"]),
        environment=start["shown"]["environment"],
        why=plan["why"],
        notes=plan["notes"],
        moves=[Path(path) for path in plan["moves"]],
        typed_name=plan["typed_name"],
        config=plan["config"],
        expires_m=0.0,
    )
    assert made.hash == record["plan_hash"]


@pytest.mark.parametrize("trainer", TRAINERS)
@pytest.mark.parametrize("kind", ["launch", "playbook"])
def test_a_recorded_plan_of_the_version_before_is_answered_with_a_new_one(
    kind: str, trainer: str, tmp_path: Path, no_process_left: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    record = golden(trainer, lambda record: (record["playbook"] == "launch") == (kind == "launch"))
    project = tmp_path / ("verl" if trainer == "verl" else "prime-rl")
    (project / "configs").mkdir(parents=True)
    (project / "configs" / "rl.toml").write_text("max_steps = 10\n")
    agent = StoppingAgent(tmp_path)
    try:
        if kind == "playbook":
            spec = launch_plan.spec_in(
                golden(trainer, lambda record: record["playbook"] == "launch")["plan"]
            )
            # The step that it was to be resumed from is still there.
            agent.runs.trainer(spec).complete = (record["plan"]["resume"],)
            monkeypatch.setattr(pod, "inventory", lambda trainer, spec: trainer.checkpoints(spec))
            begin_attempt(
                agent.runs,
                dataclasses.replace(spec, cwd=project, output_dir=project / "outputs"),
            )
        own = ("t", "m", "b", "seq", "prev", "type")
        fields = {name: value for name, value in record.items() if name not in own}
        agent.book("plan", **{**fields, "expires_m": time.monotonic() + 900.0})
        body = {"kind": kind, "run": RUN, "plan_hash": record["plan_hash"], "confirm_run": RUN}
        if kind == "playbook":
            body["playbook"] = record["playbook"]
        with pytest.raises(PlanChanged, match="look at the new plan") as answer:
            agent.submit(body, "alice")
        assert answer.value.type == "plan-changed"
        view = list(agent.book.ledger.plans.values())[-1]
        assert (view.home, view.run) == (agent.home.id(), RUN)
        key = agent.submit({**body, "plan_hash": view.plan_hash}, "alice")
        assert agent.action(key).plan_hash == view.plan_hash
        stop_all(agent)
    finally:
        agent.close()
