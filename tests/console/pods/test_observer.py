"""What a link that is down is called: a known failure, never more than a warning, and never a word
about the run.
"""

from __future__ import annotations

import inspect

import pytest

from bs4_common.failures.compiled import Library
from bs4_console import errors
from bs4_console.checks.verdict import UNKNOWN, unreachable
from bs4_console.failures.playbooks import compile_all
from bs4_console.pods.observer import LINK_FAILURES, link_incidents

LINK_ERRORS = [
    kind
    for _, kind in inspect.getmembers(errors, inspect.isclass)
    if issubclass(kind, errors.LinkError)
]


def test_every_ssh_failure_that_the_console_meets_has_its_name():
    ssh = {playbook.id for playbook in Library(compile_all()) if playbook.family == "ssh"}
    assert set(LINK_FAILURES.values()) == ssh
    assert set(LINK_FAILURES) <= {kind.link_state for kind in LINK_ERRORS}


@pytest.mark.parametrize(
    ("kind", "failure"),
    [
        (errors.Unreachable, "ssh-unreachable"),
        (errors.ConnectionRefused, "ssh-unreachable"),
        (errors.ChannelLost, "ssh-connection-lost"),
        (errors.AuthFailed, "ssh-auth"),
        (errors.KeyUnusable, "ssh-auth"),
        (errors.HostKeyUnknown, "ssh-host-key-unknown"),
        (errors.HostKeyChanged, "ssh-host-key-changed"),
        (errors.SessionRefused, "ssh-session-limit"),
    ],
)
def test_what_went_wrong_is_named(kind, failure):
    (found,) = link_incidents("p", kind.link_state, "No answer.")
    assert (found["failure"], found["run"], found["severity"], found["summary"]) == (
        failure,
        "",
        "warning",
        "No answer.",
    )
    assert found["playbook"] is None, "nothing is ever done because of it"


@pytest.mark.parametrize(
    "kind", [errors.NoAgent, errors.NoPython, errors.DeployFailed, errors.ProtocolMismatch]
)
def test_what_is_no_failure_of_the_link_is_said_as_it_is(kind):
    assert link_incidents("p", kind.link_state, "x") == []


def test_a_link_that_is_watched_is_given_its_hold():
    assert link_incidents("p", "unreachable", "x", 59.0) == []
    assert link_incidents("p", "unreachable", "x", 60.0) != []
    assert link_incidents("p", "lost", "x", 0.0) != []


def test_the_pod_stays_unknown():
    verdict = unreachable(
        "p", "No answer. Check it.", link_incidents("p", "auth failed", "No answer.")
    )
    assert verdict.level == UNKNOWN
    assert [row["failure"] for row in verdict.as_dict()["incidents"]] == ["ssh-auth"]
