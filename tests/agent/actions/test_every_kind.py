"""Each kind of action that is carried out by steps has a test for each of five mishaps: this is the
table, and it has no holes.
"""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from tests.agent.actions import test_executor
from tests.agent.actions.toy import life

CRASH, CHANGED, CANCEL, TWO, UPGRADE = MISHAPS = (
    "a crash between any two steps",
    "a plan that would do something else by now",
    "an end before each step",
    "two people at once",
    "an old plan after an upgrade",
)
#: These hold for all kinds of `test_executor.STEPS`.
FOR_ALL = {
    CRASH: "test_a_crash_between_any_two_steps_is_finished_by_the_next_agent",
    CHANGED: "test_a_plan_that_would_do_something_else_by_now_starts_nothing",
    CANCEL: "test_an_action_that_is_cancelled_ends_before_its_next_step",
    TWO: "test_of_two_people_one_is_told_who_was_first",
    UPGRADE: "test_an_action_whose_plan_cannot_be_read_after_an_upgrade_ends_with_a_sentence",
}
RECORDS = "test_a_crash_before_and_after_each_record_is_finished_by_the_next_agent"
#: The other kinds, each with the module and the test of each mishap.
OF_THEIR_OWN = {
    "launch": {
        CRASH: ("agent.launch.test_action", RECORDS),
        CHANGED: ("agent.launch.test_action", FOR_ALL[CHANGED]),
        CANCEL: (
            "agent.launch.test_action",
            "test_a_launch_that_is_cancelled_ends_before_its_next_step",
        ),
        TWO: ("agent.launch.test_action", FOR_ALL[TWO]),
        UPGRADE: (
            "agent.launch.test_action",
            "test_a_launch_of_the_version_before_is_gone_on_with",
        ),
    },
    "stop": {
        CRASH: ("agent.actions.test_stop_action", RECORDS),
        CHANGED: ("hostile.test_plans", "test_a_stop_names_the_attempt_and_the_home"),
        # Only a stop ends another action, and only one stop is accepted.
        CANCEL: ("agent.actions.test_stop_action", "test_only_a_second_stop_is_busy"),
        TWO: ("agent.actions.test_stop_action", "test_only_a_second_stop_is_busy"),
        UPGRADE: (
            "agent.actions.test_stop_action",
            "test_a_stop_of_the_version_before_is_gone_on_with",
        ),
    },
    "rotate": {
        CRASH: ("agent.checkpoints.test_rotation", RECORDS),
        CHANGED: (
            "agent.checkpoints.test_retention",
            "test_what_happens_between_the_look_and_the_rename",
        ),
        CANCEL: (
            "agent.checkpoints.test_rotation",
            "test_one_that_is_cancelled_before_it_moves_anything_ends",
        ),
        TWO: (
            "agent.checkpoints.test_retention",
            "test_while_somebody_acts_on_the_run_the_guard_waits",
        ),
        UPGRADE: (
            "agent.checkpoints.test_rotation",
            "test_one_of_the_version_before_is_gone_on_with_although_others_act_by_now",
        ),
    },
}


def test_every_kind_that_is_resumed_has_its_tests(tmp_path: Path) -> None:
    with life(tmp_path) as agent:
        resumed = set(agent.actions._resumes)
    shared = {case.kind for case in test_executor.STEPS}
    assert shared | set(OF_THEIR_OWN) == resumed
    assert not shared & set(OF_THEIR_OWN)


@pytest.mark.parametrize("mishap", MISHAPS)
def test_each_test_of_the_table_is_there(mishap: str) -> None:
    assert callable(getattr(test_executor, FOR_ALL[mishap]))
    for tests in OF_THEIR_OWN.values():
        module, name = tests[mishap]
        assert callable(getattr(importlib.import_module(f"tests.{module}"), name))


def test_what_is_not_resumed_ends_and_says_so(tmp_path: Path) -> None:
    """Orders, notes, plans and the like are done at once, and asked for again after a crash."""
    with life(tmp_path) as agent:
        once = sorted(set(agent.actions._kinds) - set(agent.actions._resumes))
        for kind in once:
            body = {"kind": kind}
            agent.book("action", action=kind, kind=kind, run="", event="accepted", body=body)
    assert {"plan", "mode", "keep", "sync", "note", "adopt", "setup-stop", "handover"} <= set(once)
    with life(tmp_path) as agent:
        agent.actions.resume()
        for kind in once:
            action = agent.action(kind)
            assert (action.state, action.detail) == (
                "interrupted",
                "the agent was restarted; ask again",
            )
