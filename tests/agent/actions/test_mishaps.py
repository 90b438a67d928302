"""What must hold for every action whatever goes wrong around it: a full disk at any record, a
journal that ends within a line, no room for a thread. It ends once, in the journal, and holds
nothing afterwards.
"""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bs4_agent.actions import executor as module
from bs4_agent.actions.departure import Departure
from bs4_agent.actions.submission import Submission
from bs4_common.errors import AgentError, BadRequest, Busy, SpoolFull, StepFailed
from bs4_common.ids import ulid
from bs4_common.streams.segments import segments
from tests.agent.actions.toy import FILES, KIND, ToyAgent, life
from tests.agent.runs.practice import until

#: The records of the whole action: accepted, for each step an intent, two of progress and its end,
#: one of the verification, and done.
RECORDS = 11


@pytest.fixture(autouse=True)
def retries_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "END_RETRY_S", 0.01)


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[ToyAgent]:
    with life(tmp_path) as made:
        yield made


def ends(agent: ToyAgent, key: str) -> list[str]:
    """Return the events with which the action ended."""
    events = ("done", "failed", "interrupted", "plan-changed", "refused", "busy")
    told = [r for r in agent.book.records() if r["type"] == "action" and r["action"] == key]
    return [record["event"] for record in told if record["event"] in events]


def nothing_is_left(agent: ToyAgent) -> None:
    """Check that no action holds anything and that the journal is whole."""
    agent.executor.join(30.0)
    assert not agent.executor.locks.held("demo")
    assert agent.toy.kept == set()
    assert agent.journal.verify() == []
    assert agent.executor.safe_points.hold(0.0)
    agent.executor.safe_points.release()


@pytest.mark.parametrize("most", [1, 5])
@pytest.mark.parametrize("first", range(RECORDS))
def test_a_disk_that_is_full_at_any_record_leaves_an_action_that_ended(
    agent: ToyAgent, first: int, most: int
) -> None:
    """From the record `first` on, `most` attempts to write find the disk full."""
    plan_hash = agent.plan()
    before = agent.tried
    agent.full = lambda number: first <= number - before < first + most
    if first == 0:
        with pytest.raises(SpoolFull):
            agent.confirm(plan_hash)
        assert [action.kind for action in agent.book.ledger.actions.values()] == ["plan"]
    else:
        key = agent.confirm(plan_hash)
        action = agent.ended(key)
        assert len(ends(agent, key)) == 1
        whole = all((agent.root / name).exists() for name in FILES)
        if action.state == "done":
            assert whole
        else:
            assert action.detail == "The disk is full."
    nothing_is_left(agent)
    agent.full = lambda number: False
    assert agent.ended(agent.confirm(agent.plan())).state == "done"


def test_progress_that_cannot_be_written_ends_no_step(agent: ToyAgent) -> None:
    """Records 2 and 3 are progress of the first step, and 9 is that of the verification."""
    plan_hash = agent.plan()
    before = agent.tried
    agent.full = lambda number: number - before in (2, 3, 9)
    assert agent.ended(agent.confirm(plan_hash)).state == "done"


def test_what_the_next_agent_must_know_is_on_the_disk_before_anything_follows(
    agent: ToyAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan_hash, written, synced = agent.plan(), agent.stream.append_line, []

    def append_line(line: bytes, *, sync: bool = False) -> str:
        cursor = written(line, sync=sync)
        if sync:
            record = json.loads(line)
            synced.append((record["event"], record.get("step"), list(agent.toy.wrote)))
        return cursor

    monkeypatch.setattr(agent.stream, "append_line", append_line)
    agent.ended(agent.confirm(plan_hash))
    assert synced == [
        ("accepted", None, []),
        ("intent", 0, []),
        ("step-done", 0, ["first"]),
        ("intent", 1, ["first"]),
        ("step-done", 1, ["first", "second"]),
        ("done", None, ["first", "second"]),
    ]


def fill(agent: ToyAgent) -> None:
    agent.full = lambda number: True


def fail(agent: ToyAgent) -> None:
    fill(agent)
    raise StepFailed("It went wrong.")


def break_down(agent: ToyAgent) -> None:
    fill(agent)
    raise ValueError("a defect")


@pytest.mark.parametrize(
    ("happens", "state"), [(fill, "done"), (fail, "failed"), (break_down, "failed")]
)
def test_an_end_waits_for_room_in_the_journal_and_a_newer_agent_may_take_over_meanwhile(
    agent: ToyAgent, happens: Callable[[ToyAgent], None], state: str
) -> None:
    plan_hash = agent.plan()
    agent.toy.on_verify = lambda: happens(agent)
    key = agent.confirm(plan_hash)
    until(lambda: agent.tried > 20)
    assert not agent.action(key).ended
    assert agent.executor.locks.held("demo")
    assert agent.executor.safe_points.hold(30.0)
    agent.executor.safe_points.release()
    agent.full = lambda number: False
    assert agent.ended(key).state == state
    assert ends(agent, key) == [state]
    nothing_is_left(agent)


def test_what_follows_from_the_goal_and_fails_does_not_take_the_end_back(agent: ToyAgent) -> None:
    def full() -> None:
        raise SpoolFull("The disk is full.")

    agent.toy.on_reached = full
    key = agent.confirm(agent.plan())
    assert agent.ended(key).state == "done"
    assert ends(agent, key) == ["done"]


def cuts(home: Path) -> list[int]:
    """Return where a journal may be cut: behind each of its lines, and in the middle of it."""
    ((_, segment),) = segments(home / "state" / "journal")
    found, end = [], 0
    for line in segment.read_bytes().splitlines(keepends=True):
        found += [end + len(line) // 2, end + len(line)]
        end += len(line)
    return found


def test_a_journal_that_is_cut_anywhere_is_gone_on_with_and_nothing_is_done_twice(
    tmp_path: Path,
) -> None:
    """What was written on the pod stays as it was at the moment of the cut."""
    whole = tmp_path / "whole"
    whole.mkdir()
    with life(whole) as agent:
        key = agent.confirm(agent.plan())
        assert agent.ended(key).state == "done"
    for number, cut in enumerate(cuts(whole / "home")):
        again = tmp_path / str(number)
        shutil.copytree(whole / "home", again / "home")
        ((_, segment),) = segments(again / "home" / "state" / "journal")
        segment.write_bytes(segment.read_bytes()[:cut])
        told = segment.read_bytes().count(b'"step-done"')
        for name in FILES[:told]:
            (again / name).write_text("")
        with life(again) as agent:
            known = key in agent.book.ledger.actions
            finished = known and agent.action(key).ended
            agent.actions.resume()
            if known:
                assert agent.ended(key).state == "done"
                assert ends(agent, key) == ["done"]
                assert agent.toy.wrote == ([] if finished else list(FILES[told:]))
            assert all(action.ended for action in agent.book.ledger.actions.values())
            nothing_is_left(agent)


def left_by_an_earlier_life(root: Path, *keys: str) -> None:
    """Journal these actions as accepted, without an end."""
    with life(root) as agent:
        plan = agent.book.ledger.plans[agent.plan()].plan
        for key in keys:
            body = {"key": key, "kind": KIND, "run": "demo"}
            agent.executor.accept(Submission(key, {**body, "plan": plan}, "bob"), "demo")


def test_an_end_that_comes_twice_in_the_last_step_is_told_once_and_undoes_nothing(
    agent: ToyAgent,
) -> None:
    plan_hash, key = agent.plan(), ulid()

    def cancel() -> None:
        if agent.toy.wrote == list(FILES):
            for who in ("carol", "dave"):
                agent.executor.cancel(key, ulid(), who)

    agent.toy.on_act = cancel
    agent.confirm(plan_hash, key=key)
    assert agent.ended(key).state == "done"
    assert agent.action(key).cancelled_by == "carol"
    agent.executor.cancel(key, ulid(), "erin")
    told = [r["event"] for r in agent.book.records() if r.get("action") == key]
    assert told.count("cancel") == 1
    assert told[-1] == "done"
    nothing_is_left(agent)


def accepted(agent: ToyAgent, kind: str, **body: Any) -> str:
    """Journal an action of this kind as an earlier life has left it."""
    key = ulid()
    agent.executor.accept(Submission(key, {"key": key, "kind": kind, **body}, "bob"), "demo")
    return key


def unreadable_plan(agent: ToyAgent) -> list[str]:
    return [accepted(agent, KIND, plan={"title": "of another version"})]


def unknown_kind(agent: ToyAgent) -> list[str]:
    return [accepted(agent, "of a later version")]


def two_on_one_run(agent: ToyAgent) -> list[str]:
    plan = agent.book.ledger.plans[agent.plan()].plan
    return [accepted(agent, KIND, plan=plan) for _ in range(2)][:1]


def being_stopped(agent: ToyAgent) -> list[str]:
    stopped = accepted(agent, "launch")
    agent.book("action", action=stopped, run="demo", event="cancel", who="bob", stop=ulid())
    return [stopped]


def told_to_stop(agent: ToyAgent) -> list[str]:
    stopped = accepted(agent, "restore")
    accepted(agent, "stop", run="demo")
    return [stopped]


@pytest.mark.parametrize(
    "leave", [unreadable_plan, unknown_kind, two_on_one_run, being_stopped, told_to_stop]
)
def test_an_agent_that_begins_on_a_full_disk_ends_what_it_cannot_go_on_with_later(
    tmp_path: Path, leave: Callable[[ToyAgent], list[str]]
) -> None:
    with life(tmp_path) as agent:
        keys = leave(agent)
    with life(tmp_path) as agent:
        pod: Any = SimpleNamespace(stop=lambda run, say: "stopped")
        agent.actions.stops._pod = pod
        fill(agent)
        agent.actions.resume()
        assert not any(agent.action(key).ended for key in keys)
        agent.full = lambda number: False
        for key in keys:
            assert agent.ended(key).state == "interrupted"
            assert ends(agent, key) == ["interrupted"]
        nothing_is_left(agent)


@pytest.mark.parametrize("body", [{"kind": "keep", "last": 2}, {"kind": "note", "text": "well"}])
def test_an_order_that_holds_is_not_called_failed_because_its_end_found_no_room(
    agent: ToyAgent, monkeypatch: pytest.MonkeyPatch, body: dict[str, Any]
) -> None:
    monkeypatch.setattr(agent.actions.orders, "_run", lambda asked: "demo")
    agent.full = lambda number: number == 2
    agent.actions.submit({"key": (key := ulid()), **body}, "bob")
    assert agent.ended(key).state == "done"
    assert ends(agent, key) == ["done"]


def test_a_step_that_acted_and_could_not_say_so_does_not_act_again(tmp_path: Path) -> None:
    key = ulid()
    left_by_an_earlier_life(tmp_path, key)
    (tmp_path / FILES[0]).write_text("")
    with life(tmp_path) as agent:
        agent.actions.resume()
        action = agent.ended(key)
        assert (action.state, agent.toy.wrote) == ("done", [FILES[1]])
        assert [step.state for step in action.steps] == ["skipped", "done"]


def test_actions_are_gone_on_with_once_however_often_that_is_asked_for(tmp_path: Path) -> None:
    key, may_end = ulid(), threading.Event()
    left_by_an_earlier_life(tmp_path, key)
    with life(tmp_path) as agent:
        agent.toy.on_act = lambda: may_end.wait(30.0)
        agent.actions.resume()
        until(lambda: agent.toy.wrote == ["first"])
        agent.actions.resume()
        may_end.set()
        assert agent.ended(key).state == "done"
        assert agent.toy.wrote == list(FILES)


def test_what_this_agent_accepted_itself_is_not_resumed(agent: ToyAgent) -> None:
    may_end = threading.Event()
    plan_hash = agent.plan()
    agent.toy.on_act = agent.toy.on_plan = lambda: may_end.wait(30.0)
    agent.actions.submit({"key": (planning := ulid()), "kind": "plan", KIND: {}}, "alice")
    agent.toy.on_plan = lambda: None
    key = agent.confirm(plan_hash)
    agent.actions.resume()
    may_end.set()
    assert agent.ended(key).state == "done"
    assert agent.ended(planning).state == "done"
    assert agent.toy.wrote == list(FILES)


def test_of_two_actions_without_an_end_on_one_run_the_later_one_is_gone_on_with(
    tmp_path: Path,
) -> None:
    earlier, later = ulid(), ulid()
    left_by_an_earlier_life(tmp_path, earlier, later)
    with life(tmp_path) as agent:
        agent.actions.resume()
        assert agent.ended(later).state == "done"
        action = agent.action(earlier)
        assert (action.state, action.detail) == (
            "interrupted",
            "a later action was accepted, so this one had ended; how is not known",
        )
        nothing_is_left(agent)


def no_thread(thread: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")


def test_an_action_for_which_there_is_no_thread_fails_and_lets_go(
    agent: ToyAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan_hash = agent.plan()
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", no_thread)
        key = agent.confirm(plan_hash)
        action = agent.action(key)
        assert (action.state, action.detail) == (
            "failed",
            "This pod allows the agent no further thread (can't start new thread); end processes "
            "there, then ask again.",
        )
    nothing_is_left(agent)
    assert agent.toy.wrote == []
    assert agent.ended(agent.confirm(agent.plan())).state == "done"


def test_an_action_that_the_journal_cannot_express_keeps_no_secret(
    agent: ToyAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan_hash = agent.plan()
    with pytest.raises(BadRequest, match="JSON"):
        agent.confirm(plan_hash, more=float("nan"))
    nothing_is_left(agent)

    def inexpressible(line: bytes, *, sync: bool = False) -> str:
        raise ValueError("a defect")

    with monkeypatch.context() as patch:
        patch.setattr(agent.stream, "append_line", inexpressible)
        with pytest.raises(ValueError, match="a defect"):
            agent.confirm(plan_hash)
    nothing_is_left(agent)


def unreadable() -> None:
    raise PermissionError(13, "Permission denied", "/data/x")


UNREADABLE = "/data/x cannot be used: Permission denied; put that right, then repeat."


def test_a_plan_that_needs_a_file_which_cannot_be_read_says_so(agent: ToyAgent) -> None:
    agent.toy.on_plan = unreadable
    agent.actions.submit({"key": (key := ulid()), "kind": "plan", KIND: {}}, "alice")
    assert (agent.ended(key).state, agent.action(key).detail) == ("failed", UNREADABLE)
    assert [view.refused for view in agent.book.ledger.plans.values()] == [UNREADABLE]


def test_a_confirmation_that_needs_a_file_which_cannot_be_read_is_answered(
    agent: ToyAgent,
) -> None:
    plan_hash = agent.plan()
    agent.toy.on_plan = unreadable
    with pytest.raises(AgentError) as raised:
        agent.confirm(plan_hash)
    assert raised.value.message == UNREADABLE
    nothing_is_left(agent)


def test_an_order_that_was_accepted_and_found_no_room_fails_in_the_journal(
    agent: ToyAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    def note(asked: Submission) -> None:
        agent.executor.accept(asked, "")
        raise SpoolFull("The disk is full.")

    monkeypatch.setattr(agent.actions, "_kinds", {"note": note})
    body = {"key": (key := ulid()), "kind": "note"}
    for _ in range(2):
        assert agent.actions.submit(body, "bob") == {"action": key, "state": "accepted"}
        assert (agent.ended(key).state, agent.action(key).detail) == ("failed", "The disk is full.")
    assert ends(agent, key) == ["failed"]


@pytest.mark.parametrize("error", [OSError(5, "Input/output error"), RuntimeError("no thread")])
def test_an_agent_that_cannot_leave_goes_on(agent: ToyAgent, error: Exception) -> None:
    def hand_over() -> None:
        raise error

    departure = Departure(agent.executor, hand_over)
    for _ in range(2):
        with pytest.raises(type(error)):
            departure.accept(Submission(ulid(), {"kind": "handover"}, "bob"))
    assert agent.ended(agent.confirm(agent.plan())).state == "done"


def test_of_two_who_confirm_at_the_same_moment_one_acts(agent: ToyAgent) -> None:
    plan_hash, together = agent.plan(), threading.Barrier(2)
    may_end, told = threading.Event(), []
    agent.toy.on_act = lambda: may_end.wait(30.0)

    def confirm() -> None:
        together.wait(30.0)
        try:
            told.append(agent.confirm(plan_hash))
        except Busy:
            told.append("busy")

    people = [threading.Thread(target=confirm) for _ in range(2)]
    for person in people:
        person.start()
    for person in people:
        person.join(30.0)
    may_end.set()
    (key,) = set(told) - {"busy"}
    assert len(told) == 2
    assert agent.ended(key).state == "done"
    assert agent.toy.wrote == list(FILES)
