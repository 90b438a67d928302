"""Mode auto starts no run again that was over by itself before its plan could be accepted; a person
still may.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bs4_agent.actions import recoveries
from bs4_agent.actions.submission import Submission
from tests.agent.actions.stopping import RELAUNCHES, RUN, StoppingAgent
from tests.agent.runs.practice import until

#: Runs until a file appears, and then ends by itself with 1.
ENDS_WHEN_TOLD = "while [ ! -e collapse ]; do sleep 0.05; done; exit 1"


@pytest.fixture
def agent(tmp_path: Path, no_process_left: None) -> Iterator[StoppingAgent]:
    made = StoppingAgent(tmp_path, ENDS_WHEN_TOLD)
    yield made
    made.close()


def started(agent: StoppingAgent) -> None:
    agent.pod.launch(agent.spec(), "a launch")
    agent.submit({"kind": "mode", "run": RUN, "playbook": RELAUNCHES, "mode": "auto"}, "alice")


def collapse(agent: StoppingAgent) -> None:
    (agent.root / "work" / "collapse").touch()

    def over() -> bool:
        agent.runs.poll()
        return agent.runs.get(RUN).attempts[-1].state == "ended"

    until(over)


def open_incident(agent: StoppingAgent) -> str:
    fields: dict[str, Any] = {
        "failure": RELAUNCHES,
        "run": RUN,
        "attempt": 1,
        "playbook": RELAUNCHES,
    }
    agent.book(
        "incident",
        event="opened",
        incident="i1",
        role="root",
        severity="critical",
        summary="",
        **fields,
    )
    return "i1"


def notes(agent: StoppingAgent) -> list[str]:
    return [record["text"] for record in agent.book.records() if record["type"] == "note"]


def recovered(agent: StoppingAgent) -> list[str]:
    return [
        action.who for action in agent.book.ledger.actions.values() if action.kind == "playbook"
    ]


def test_a_run_that_collapses_between_detection_and_acceptance_is_left_to_a_person(
    agent: StoppingAgent,
) -> None:
    started(agent)
    incident = open_incident(agent)
    collapse(agent)
    agent.actions.recoveries.opened(incident, RUN, RELAUNCHES)
    assert recovered(agent) == []
    assert len(notes(agent)) == 1
    assert "demo has ended by itself" in notes(agent)[0]
    assert agent.runs.get(RUN).attempts[-1].number == 1


def test_a_run_that_was_over_for_long_is_left_to_a_person(
    agent: StoppingAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Negative: the end and the incident may fall into one tick of the clock.
    monkeypatch.setattr(recoveries, "END_S", -1.0)
    started(agent)
    collapse(agent)
    agent.actions.recoveries.opened(open_incident(agent), RUN, RELAUNCHES)
    assert recovered(agent) == []
    assert "demo has ended by itself" in notes(agent)[0]


def test_an_incident_that_opens_with_the_end_is_mended(agent: StoppingAgent) -> None:
    started(agent)
    collapse(agent)
    agent.actions.recoveries.opened(open_incident(agent), RUN, RELAUNCHES)
    assert recovered(agent) == ["mode auto"]
    assert notes(agent) == []
    agent.ended(agent.stop())


def test_a_mode_that_is_taken_back_while_the_plan_is_made_starts_nothing(
    agent: StoppingAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    started(agent)
    collapse(agent)
    executor = agent.actions.executor
    planned = executor.plan_now

    def plan_now(kind: Any, asked: Submission) -> Any:
        made = planned(kind, asked)
        agent.submit(
            {"kind": "mode", "run": RUN, "playbook": RELAUNCHES, "mode": "observe"}, "alice"
        )
        return made

    monkeypatch.setattr(executor, "plan_now", plan_now)
    agent.actions.recoveries.opened(open_incident(agent), RUN, RELAUNCHES)
    assert recovered(agent) == []
    assert notes(agent) == [
        f"{RELAUNCHES} was not carried out: its mode for demo is observe by now."
    ]


def test_a_person_may_start_it_again(agent: StoppingAgent) -> None:
    started(agent)
    open_incident(agent)
    collapse(agent)
    key = agent.recovery()
    until(lambda: agent.runs.get(RUN).attempts[-1].number == 2)
    assert recovered(agent) == ["alice"]
    agent.ended(agent.stop())
    assert agent.action(key).ended
