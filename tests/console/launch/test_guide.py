"""What a person is told of a launch plan: the estimate is of the config that is to be launched."""

from __future__ import annotations

from typing import Any

from bs4_common.ledger import PlanView
from bs4_console.launch import guide
from bs4_console.pods.state import PodState
from tests.console.tui import fixtures


def estimate(config: dict[str, Any]) -> list[str]:
    """The last lines of a plan for a run whose attempts so far had 10,000 steps to do, at 5 s a
    step, and that resumes from step 60.
    """
    pod = PodState(name="gamma")
    fixtures.start_run(pod, "g", "prime-rl", 10_000, 600)
    fixtures.steps(pod, "g", 1, 60, 5.0, last_ago=10)
    plan = {"playbook": "launch", "run": "g", "resume": 60, "steps": [], "config": config}
    view = PlanView(
        action="K",
        playbook="launch",
        run="g",
        attempt=1,
        plan_hash="h",
        expires_m=0.0,
        expires_t=0.0,
        boot="b",
        t=0.0,
        plan=plan,
    )
    return guide.plan_lines(view, pod, 2.0)


def test_the_estimate_ends_where_the_config_to_be_launched_ends() -> None:
    (line,) = estimate({"max_steps": 420})
    assert line.startswith("estimate: 0.5 h to step 420 at 5.0 s a step, as before, about $1.00")


def test_nothing_is_estimated_of_a_config_without_an_end_or_of_an_older_agents_plan() -> None:
    assert estimate({"max_steps": None}) == ["cost: $2.00 an hour"]
    assert estimate({}) == ["cost: $2.00 an hour"]
