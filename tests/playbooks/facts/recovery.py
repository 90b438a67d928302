"""A run that is gone with its pod, and runs that are gone for other reasons."""

from __future__ import annotations

from bs4_common.failures.facts import Facts
from tests.playbooks.facts.case import negative, positive
from tests.playbooks.facts.made import NEW, WALL, facts, run

LEAVING = {
    "t": WALL - 90,
    "signal": "SIGTERM",
    "local_step": 5,
    "local_known": True,
    "remote_step": 5,
}


@positive("resume-after-restart")
def the_pod_was_rebooted_under_it() -> Facts:
    return facts(run(state="lost", members=(), with_pod=True))


@positive("resume-after-restart")
def nothing_is_left_on_its_disk() -> Facts:
    return facts(run(NEW, state="lost", members=(), with_pod=True, checkpoints=[], leaving=LEAVING))


@negative("resume-after-restart")
def the_shim_was_killed_while_the_pod_went_on() -> Facts:
    return facts(run(state="lost", members=()))


@negative("resume-after-restart")
def it_was_stopped_by_us_before_the_reboot() -> Facts:
    return facts(run(state="lost", members=(), with_pod=True, stop_requested=True))


@negative("resume-after-restart")
def it_had_come_to_its_good_end() -> Facts:
    return facts(run(state="ended", members=(), with_pod=True, good_end=True))


@negative("resume-after-restart")
def it_lives() -> Facts:
    """The agent was told to leave and the run went on without it."""
    return facts(run(leaving=LEAVING))
