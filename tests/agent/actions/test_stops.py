"""A stop goes first: whatever is being done to the run ends early, and nothing starts the run
again.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from bs4_agent.actions import stops as module
from bs4_common.errors import Busy
from bs4_common.ids import ulid
from bs4_common.streams.segments import parse
from bs4_common.trainers.base import LaunchSpec
from tests.agent.actions.stopping import RELAUNCHES, RUN, StoppingAgent
from tests.agent.runs.practice import until

IGNORES_SIGINT = "trap '' INT; while [ ! -e enough ]; do sleep 0.05; done"


@pytest.fixture
def agent(tmp_path: Path, no_process_left: None) -> Iterator[StoppingAgent]:
    made = StoppingAgent(tmp_path)
    yield made
    made.close()


def test_a_stop_ends_a_launch_that_waits_for_its_first_step(agent: StoppingAgent) -> None:
    launch = agent.launch()
    agent.waiting(launch)
    stop = agent.stop()
    stopped = agent.ended(stop)
    launched = agent.action(launch)
    assert stopped.state == "done", stopped.detail
    assert (launched.state, launched.detail) == ("interrupted", "cancelled by bob's stop")
    assert launched.result["error"] == "cancelled"
    assert agent.alive() == []
    told = agent.told()
    order = [
        (stop, "accepted"),
        (launch, "cancel"),
        (launch, "interrupted"),
        (stop, "step-done"),
        (stop, "done"),
    ]
    assert [one for one in told if one in order] == order


def test_after_the_stop_the_run_can_be_started_again(agent: StoppingAgent) -> None:
    agent.waiting(agent.launch())
    agent.ended(agent.stop())
    again = agent.launch()
    agent.waiting(again)
    assert agent.ended(agent.stop()).state == "done"
    assert agent.action(again).state == "interrupted"


@pytest.mark.parametrize("kind", ["launch", "stop"])
def test_who_has_just_read_of_the_end_of_a_stop_is_not_refused_because_of_it(
    agent: StoppingAgent, kind: str
) -> None:
    """A console reads the record of the end a moment before the agent's own fold has it."""
    agent.waiting(agent.launch())
    stop = ulid()
    refused: list[Busy] = []

    def submit() -> None:
        try:
            agent.launch() if kind == "launch" else agent.stop()
        except Busy as error:
            refused.append(error)

    console = threading.Thread(target=submit)

    def read() -> None:
        last = parse(agent.stream.last_line() or b"{}") or {}
        if (last.get("action"), last.get("event")) == (stop, "done"):
            agent.stream.on_append = None
            console.start()
            console.join(0.5)  # its answer comes at once if it does not wait for the fold

    agent.stream.on_append = read
    agent.actions.submit({"key": stop, "kind": "stop", "run": RUN}, "bob")
    assert agent.ended(stop).state == "done"
    console.join(60.0)
    assert refused == []
    if kind == "launch":
        agent.ended(agent.stop())


def test_a_second_stop_is_busy_and_names_the_first(tmp_path: Path, no_process_left: None) -> None:
    agent = StoppingAgent(tmp_path, IGNORES_SIGINT, (("SIGINT", 60.0), ("SIGKILL", 5.0)))
    agent.waiting(agent.launch())
    first = agent.stop()
    with pytest.raises(
        Busy, match=r"^demo is busy: stop by bob since \d\d:\d\d:\d\d\. Wait for it to end\.$"
    ):
        agent.stop("carol")
    (tmp_path / "work" / "enough").touch()
    assert agent.ended(first).state == "done"
    agent.close()


def test_another_action_is_told_that_a_stop_is_accepted(agent: StoppingAgent) -> None:
    agent.waiting(agent.launch())
    with pytest.raises(
        Busy,
        match=r"demo is busy: launch by alice since .*, or end it with the run: `bs4-console stop` "
        r"is accepted",
    ):
        agent.launch()
    agent.ended(agent.stop())


def test_a_step_that_does_not_end_is_named_and_nothing_follows_it(
    agent: StoppingAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "STEP_S", 0.2)
    begun, may_end, launch_really = threading.Event(), threading.Event(), agent.pod.launch

    def slow(spec: LaunchSpec, key: str) -> int:
        begun.set()
        assert may_end.wait(60)
        return launch_really(spec, key)

    agent.runs.register(agent.spec())
    monkeypatch.setattr(agent.pod, "launch", slow)
    launch = agent.launch()
    assert begun.wait(60)
    refused = agent.ended(agent.stop())
    assert refused.state == "refused"
    assert refused.detail.startswith(
        "step 1 (Start demo) of the launch by alice has not ended within 0 s."
    )
    assert agent.action(launch).cancelled_by == "bob"
    with pytest.raises(Busy):  # the step is still under way
        agent.launch()
    may_end.set()
    assert agent.ended(launch).state == "interrupted"
    assert [step.state for step in agent.action(launch).steps][:1] == ["done"]
    assert agent.alive(), "the step that was under way has started it"
    assert agent.ended(agent.stop()).state == "done"
    assert agent.alive() == []


@pytest.mark.parametrize("cancelled", [False, True], ids=["before the cancel", "after the cancel"])
def test_an_agent_that_dies_in_between_stops_and_does_not_go_on_with_the_launch(
    cancelled: bool, tmp_path: Path, no_process_left: None
) -> None:
    """The journal is as a life of the agent has left it that ended right after `accepted`, or right
    after `cancel`. The run lives on.
    """
    before = StoppingAgent(tmp_path)
    launch, stop = ulid(), ulid()
    body = before.launch_body()
    steps = [{"title": f"Start {RUN}"}, {"title": "Wait for the first step"}]
    before.book(
        "action",
        action=launch,
        kind="launch",
        who="alice",
        run=RUN,
        event="accepted",
        body=body,
        steps=steps,
    )
    before.pod.launch(before.spec(), launch)
    before.book("action", action=launch, run=RUN, event="step-done", step=0)
    before.book("action", action=launch, run=RUN, event="intent", step=1)
    before.book(
        "action",
        action=stop,
        kind="stop",
        who="bob",
        run=RUN,
        event="accepted",
        body={"kind": "stop", "run": RUN},
    )
    if cancelled:
        before.book("action", action=launch, run=RUN, event="cancel", who="bob", stop=stop)
    assert before.alive()
    before.close()

    heir = StoppingAgent(tmp_path)
    heir.actions.resume()
    assert heir.ended(stop).state == "done"
    assert (heir.action(launch).state, heir.action(launch).detail) == (
        "interrupted",
        "cancelled by bob's stop",
    )
    assert heir.alive() == []
    assert [event for action, event in heir.told() if action == launch].count("cancel") == 1
    heir.close()


def test_a_recovery_that_waits_ends_and_does_not_count_as_one_that_failed(
    agent: StoppingAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Steps do not advance, so its verification would wait for half an hour."""
    agent.waiting(agent.launch())
    agent.ended(agent.stop())
    playbook = agent.recovery()
    until(lambda: agent.action(playbook).state == "verifying")
    assert agent.ended(agent.stop()).state == "done"
    action = agent.action(playbook)
    assert (action.state, action.detail) == ("interrupted", "cancelled by bob's stop")
    assert agent.alive() == []
    assert agent.pod.runs.get(RUN).attempts[-1].number == 2


def test_mode_auto_starts_nothing_again_that_was_stopped(agent: StoppingAgent) -> None:
    agent.waiting(agent.launch())
    agent.ended(agent.stop())
    agent.submit({"kind": "mode", "run": RUN, "playbook": RELAUNCHES, "mode": "auto"}, "alice")
    agent.actions.recoveries.opened("an incident", RUN, RELAUNCHES)
    notes = [record["text"] for record in agent.book.records() if record["type"] == "note"]
    assert notes == [
        (
            f"{RELAUNCHES} was not carried out: bob has stopped demo. Start it again with "
            "`bs4-console launch` when it is to go on."
        )
    ]
    assert not [
        action for action in agent.book.ledger.actions.values() if action.kind == "playbook"
    ]


def test_mode_auto_while_something_holds_the_run_leaves_a_note(agent: StoppingAgent) -> None:
    agent.waiting(agent.launch())
    agent.submit({"kind": "mode", "run": RUN, "playbook": RELAUNCHES, "mode": "auto"}, "alice")
    agent.actions.recoveries.opened("an incident", RUN, RELAUNCHES)
    notes = [record["text"] for record in agent.book.records() if record["type"] == "note"]
    assert len(notes) == 1
    assert f"{RELAUNCHES} was not carried out: demo is busy: launch by alice" in notes[0]
    agent.ended(agent.stop())
