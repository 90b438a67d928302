"""The provider's list and our own record: two independent signs before anything is said."""

from __future__ import annotations

from typing import Any

from bs4_common.failures.facts import Facts
from tests.playbooks.facts.case import negative, positive
from tests.playbooks.facts.made import WALL, console


def pod(**row: Any) -> dict[str, Any]:
    return {
        "run": "demo",
        "pod": "alpha",
        "instance": 7,
        "state": "running",
        "samples": 3,
        "reachable": True,
        "steps": 4,
        **row,
    }


@positive("spot-reclaimed")
def outbid_and_out_of_reach() -> Facts:
    return console(pods=[pod(state="outbid", reachable=False)])


@negative("spot-reclaimed")
def only_the_link_is_down() -> Facts:
    return console(pods=[pod(reachable=False)])


@negative("spot-reclaimed")
def the_provider_does_not_answer() -> Facts:
    return console(pods=[pod(state="unknown", reachable=False)])


@negative("spot-reclaimed")
def one_look_that_said_so() -> Facts:
    return console(pods=[pod(state="stopped", reachable=False, samples=1)])


@negative("spot-reclaimed")
def listed_as_stopped_and_answering() -> Facts:
    return console(pods=[pod(state="stopped")])


@positive("needless-backup-pod")
def a_second_one_beside_a_working_one() -> Facts:
    return console(pods=[pod(), pod(pod="beta", instance=8, steps=0)])


@negative("needless-backup-pod")
def the_first_one_is_dead() -> Facts:
    return console(pods=[pod(steps=0), pod(pod="beta", instance=8, steps=0)])


@negative("needless-backup-pod")
def the_second_one_is_stopped() -> Facts:
    return console(pods=[pod(), pod(pod="beta", instance=8, state="stopped")])


def searches(*offers: int | None) -> Facts:
    return console(
        searches=[
            {"run": "demo", "t": WALL - 60 * i, "cap": 5.0, "offers": found}
            for i, found in enumerate(offers)
        ]
    )


@positive("no-offers")
def twice_nothing() -> Facts:
    return searches(0, 0)


@negative("no-offers")
def once_nothing() -> Facts:
    return searches(3, 0)


@negative("no-offers")
def a_search_that_failed() -> Facts:
    return searches(0, None)


def recoveries(*after: int) -> Facts:
    return console(
        recoveries=[
            {"run": "demo", "t": WALL - 900 + i, "step_before": 40, "step_after": step}
            for i, step in enumerate(after)
        ]
    )


@positive("recovery-never-ends")
def three_without_a_step() -> Facts:
    return recoveries(40, 40, 40)


@negative("recovery-never-ends")
def the_last_one_helped() -> Facts:
    return recoveries(40, 40, 47)


@negative("recovery-never-ends")
def only_two() -> Facts:
    return recoveries(40, 40)


def chosen(label: str) -> Facts:
    return console(
        actions=[
            {
                "run": "demo",
                "t": WALL,
                "kind": "terminate",
                "label": "bs4-a",
                "instance": 7,
                "instance_label": label,
            }
        ]
    )


@positive("label-prefix-match")
def another_runs_pod() -> Facts:
    return chosen("bs4-a-v2")


@negative("label-prefix-match")
def exactly_this_label() -> Facts:
    return chosen("bs4-a")


def created(error: str, *labels: str) -> Facts:
    listing = [
        {"id": 90 + i, "label": label, "state": "loading", "price": 1.2}
        for i, label in enumerate(labels)
    ]
    return console(
        creations=[{"run": "demo", "t": WALL, "label": "bs4-a", "error": error}],
        instances=listing,
        pods=[pod()],
    )


@positive("create-left-instance")
def it_exists_all_the_same() -> Facts:
    return created("timeout", "bs4-a")


@negative("create-left-instance")
def another_runs_instance() -> Facts:
    return created("timeout", "bs4-a-v2")


@negative("create-left-instance")
def it_was_created() -> Facts:
    return created("", "bs4-a")


def started(log: str, **row: Any) -> Facts:
    return console(
        pods=[pod(steps=0, launcher=False, running_s=900, gpu_util=0, start_log=log, **row)]
    )


@positive("pod-bootstrap-failed")
def tools_are_missing() -> Facts:
    return started("[10:00] start\nERROR: Missing required tools: b2 jq uv\n")


@positive("pod-bootstrap-failed")
def names_are_missing() -> Facts:
    return started("", missing_names=["RUN_ID"])


@negative("pod-bootstrap-failed")
def five_minutes_old() -> Facts:
    return console(
        pods=[pod(launcher=False, running_s=300, start_log="ERROR: Missing required tools: b2")]
    )


@negative("pod-bootstrap-failed")
def idle_because_nothing_was_launched() -> Facts:
    return started("[10:00] start\n[10:02] ready\n")
