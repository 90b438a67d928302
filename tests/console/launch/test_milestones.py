"""The evaluations of a run's checkpoints at certain steps: which is due, how it is made, and the
server that it never touches.
"""

from __future__ import annotations

import pytest

from bs4_console.errors import NotApplicableError, RefusedError, UsageError
from bs4_console.launch import milestones
from bs4_console.launch.milestones import Milestone
from bs4_console.pods.state import PodState
from bs4_console.preflight.examine import Preflight
from tests.console.tui import fixtures

WANTED: dict[int, int | None] = {1000: None, 100: 50, 500: None}
SERVER = "http://localhost:8001/v1"


def pod(trainer: str = "prime-rl-2026-01", last: int = 520) -> PodState:
    """Return a pod whose run demo has done the step `last`."""
    state = PodState(name="gamma")
    fixtures.start_run(state, "demo", trainer, 1000, 9000)
    fixtures.steps(state, "demo", last - 3, last, 5.0, last_ago=10)
    state.runs["demo"].alive = True
    return state


def evaluated(state: PodState, step: int, *, ended: bool | None = True) -> None:
    """Let the evaluation at `step` have begun. `ended` says if it ended well, None: it goes on."""
    name = milestones.name_of("demo", step)
    fixtures.start_run(state, name, "prime-rl-2026-01", 1, 300)
    attempt = state.runs[name].view.attempt
    assert attempt is not None
    if ended is not None:
        attempt.ended_t, attempt.good = 1.0, ended


def states(state: PodState, saved: set[int]) -> dict[int, str]:
    found = milestones.look(state, state.runs["demo"], WANTED, saved)
    return {one.step: one.state for one in found}


def test_which_are_due_and_which_are_not() -> None:
    state = pod()
    assert list(states(state, {100, 500})) == [100, 500, 1000]
    assert states(state, {100, 500}) == {100: "due", 500: "due", 1000: "to-come"}
    assert states(state, {500}) == {100: "no-weights", 500: "due", 1000: "to-come"}
    # The step is done and its weights are being written.
    assert states(pod(last=500), set())[500] == "to-come"
    evaluated(state, 100)
    evaluated(state, 500, ended=False)
    assert states(state, {100, 500}) == {100: "evaluated", 500: "failed", 1000: "to-come"}


def test_one_at_a_time_and_the_lowest_first() -> None:
    state = pod()
    run = state.runs["demo"]

    def next_one() -> Milestone | None:
        return milestones.due(milestones.look(state, run, WANTED, {100, 500}))

    assert (one := next_one()) is not None
    assert (one.step, one.run) == (100, "demo-at-100")
    evaluated(state, 100, ended=None)
    assert next_one() is None
    attempt = state.runs["demo-at-100"].view.attempt
    assert attempt is not None
    attempt.ended_t, attempt.good = 1.0, False
    assert (one := next_one()) is not None
    assert one.step == 500  # what has failed is not begun again by itself


def test_it_is_over_when_nothing_can_come_any_more() -> None:
    state = pod()
    run = state.runs["demo"]
    evaluated(state, 100)
    evaluated(state, 500)
    found = milestones.look(state, run, WANTED, set())
    assert not milestones.is_over(found, run)
    run.alive = False
    assert milestones.is_over(found, run)
    assert not milestones.is_over(milestones.look(state, run, WANTED, {1000}), run)


def test_an_evaluation_is_the_trainers_own_program_in_a_directory_of_its_own() -> None:
    state = pod()
    one = milestones.look(state, state.runs["demo"], WANTED, {100})[0]
    asked = milestones.request(state.runs["demo"], one, config="eval.toml", server=SERVER)
    assert (asked.run, asked.component, asked.config) == ("demo-at-100", "eval", "eval.toml")
    assert (asked.cwd, asked.output_dir) == ("/root/prime-rl", "/data/demo-at-100")
    told = "--weights-dir /data/demo/weights --steps 100 --no-eval-base"
    assert " ".join(asked.overrides) == f"{told} --client.base-url {SERVER} --num-examples 50"
    with pytest.raises(UsageError):
        milestones.request(state.runs["demo"], one, config="eval.toml", server="localhost:8001")


@pytest.mark.parametrize(
    ("trainer", "instead"), [("prime-rl", "[orchestrator.eval]"), ("verl", "trainer.test_freq")]
)
def test_a_trainer_that_evaluates_while_it_trains_says_how(trainer: str, instead: str) -> None:
    state = pod(trainer)
    one = milestones.look(state, state.runs["demo"], WANTED, {100})[0]
    with pytest.raises(NotApplicableError) as told:
        milestones.request(state.runs["demo"], one, config="eval.toml", server=SERVER)
    assert instead in told.value.next_step


@pytest.mark.parametrize(
    "server",
    [
        "http://localhost:99999/v1",
        "http://localhost:0/v1",
        "http://localhost:x/v1",
        "http://[::1/v1",
        "http:///v1",
        "httpx://localhost:8001/v1",
        "http://me:word@localhost:8001/v1",
        "http://ｌocalhost:8001/v1",
        "http://127.0.0.1%20:8001/v1",
    ],
)
def test_what_is_no_address_of_a_server_is_told_in_one_sentence(server: str) -> None:
    state = pod()
    one = milestones.look(state, state.runs["demo"], WANTED, {100})[0]
    with pytest.raises(UsageError, match="is no address of a server"):
        milestones.request(state.runs["demo"], one, config="eval.toml", server=server)


def test_a_server_that_a_run_uses_is_left_alone() -> None:
    milestones.refuse_training_server(Preflight((), {"server": {"used_by": []}}), SERVER)
    with pytest.raises(RefusedError, match="is the inference server of demo, other, and"):
        milestones.refuse_training_server(
            Preflight((), {"server": {"used_by": ["demo", "other"]}}), SERVER
        )


def test_so_is_one_of_which_nothing_is_known() -> None:
    with pytest.raises(RefusedError, match="the pod's agent does not say it"):
        milestones.refuse_training_server(Preflight(()), SERVER)
    with pytest.raises(RefusedError, match="cannot look up x"):
        milestones.refuse_training_server(
            Preflight((), {"server": {"unknown": "the pod cannot look up x"}}), SERVER
        )
