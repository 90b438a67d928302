"""verl's driver ends, and nothing in its log is known: code, signal, the final line, and who may
have wanted it.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from bs4_common.failures.facts import Facts, RunFacts
from bs4_common.runs.model import Exit
from tests.agent.facts import event, identity
from tests.playbooks.facts.case import negative, positive
from tests.playbooks.facts.made import NOW, OLD, VERL, look, run


def ended(
    code: int | None,
    signal: int | None = None,
    *,
    age: float = 30.0,
    trainer: str = VERL,
    **changes: Any,
) -> Facts:
    end = Exit(identity(20), changes.pop("component", "launcher"), code, signal, 0.0, NOW - age)
    return look(run(trainer, **{"state": "ended", "members": [], "exits": [end], **changes}))


def in_a_container() -> RunFacts:
    one = run(VERL)
    return dataclasses.replace(one, spec=dataclasses.replace(one.spec, container="trainer"))


@positive("trainer-exited")
def an_exception_that_nobody_knows() -> Facts:
    return ended(1)


@positive("trainer-exited")
def the_driver_was_killed() -> Facts:
    return ended(None, 9)


@positive("trainer-exited")
def code_0_without_the_final_line() -> Facts:
    return ended(0)


@positive("trainer-exited")
def dockers_client_passes_the_code_on() -> Facts:
    return ended(137, component=None, spec=in_a_container().spec)


@positive("trainer-exited")
def an_adopted_run_whose_log_ends_in_the_middle() -> Facts:
    words = [event("step", "trainer", "step:5", 5)]
    return look(
        run(
            VERL,
            state="ended",
            members=[],
            events=words,
            layout=printing(),
            last_activity_m=NOW - 60,
        )
    )


def printing() -> Any:
    return dataclasses.replace(run(VERL).layout, own_log="trainer")


@negative("trainer-exited")
def its_final_line() -> Facts:
    return ended(0, good_end=True)


@negative("trainer-exited")
def its_final_line_in_an_adopted_runs_log() -> Facts:
    words = [
        event("step", "trainer", "step:5", 5),
        event("finished", "trainer", "Final validation metrics: None"),
    ]
    return look(
        run(
            VERL,
            state="ended",
            members=[],
            events=words,
            layout=printing(),
            last_activity_m=NOW - 60,
        )
    )


@negative("trainer-exited")
def an_adopted_run_whose_log_cannot_be_read() -> Facts:
    return look(
        run(VERL, state="ended", members=[], events=[], layout=printing(), last_activity_m=NOW - 60)
    )


@negative("trainer-exited")
def we_have_stopped_it() -> Facts:
    return ended(143, stop_requested=True)


@negative("trainer-exited")
def lines_that_ray_holds_back_may_still_come() -> Facts:
    return ended(1, age=2.0)


@negative("trainer-exited")
def it_went_with_its_pod() -> Facts:
    return ended(None, 9, with_pod=True)


@negative("trainer-exited")
def only_somebody_elses_process_has_ended() -> Facts:
    return ended(
        1,
        component="env-server",
        layout=printing(),
        last_activity_m=NOW - 60,
        events=[event("step", "trainer", "step:5", 5)],
    )


@negative("trainer-exited")
def prime_rl_says_it_in_its_log() -> Facts:
    return ended(1, trainer=OLD)
