"""Limits of the run's processes."""

from __future__ import annotations

from typing import Any

from bs4_common.failures.environment import ProcessFacts
from bs4_common.failures.facts import Facts
from tests.agent.facts import NOW, identity, member
from tests.playbooks.facts.case import negative, positive
from tests.playbooks.facts.made import around, look, run


def limits(nofile: int | None, used: int | None) -> Facts:
    return look(
        run(
            environment=around(
                processes=[
                    ProcessFacts(
                        identity=identity(13),
                        component="orchestrator",
                        nofile=nofile,
                        open_files=used,
                    )
                ]
            )
        )
    )


@positive("fd-limit-low")
def below_what_anything_needs() -> Facts:
    return limits(256, 90)


@positive("fd-limit-low")
def more_than_half_is_used() -> Facts:
    return limits(1024, 600)


@negative("fd-limit-low")
def the_usual_limit_and_little_of_it_used() -> Facts:
    return limits(1024, 250)


@negative("fd-limit-low")
def as_it_should_be() -> Facts:
    return limits(65536, 40_000)


@negative("fd-limit-low")
def a_process_that_cannot_be_inspected() -> Facts:
    return limits(None, None)


def killed(when: float | None, *, alive: bool = False, **changes: Any) -> Facts:
    members = [member(10, "launcher"), member(14, "rank", alive=alive)]
    return look(
        run(members=members, **changes), oom_kills=None if when is None else 1, oom_kill_m=when
    )


@positive("host-oom-kill")
def the_containers_count_grew_and_a_rank_is_gone() -> Facts:
    return killed(NOW - 2)


@negative("host-oom-kill")
def the_kernel_killed_something_else() -> Facts:
    return killed(NOW - 2, alive=True)


@negative("host-oom-kill")
def it_killed_before_this_attempt() -> Facts:
    return killed(NOW - 500)


@negative("host-oom-kill")
def nobody_counts() -> Facts:
    return killed(None)


@negative("host-oom-kill")
def we_stopped_the_run() -> Facts:
    return killed(NOW - 2, stop_requested=True)
