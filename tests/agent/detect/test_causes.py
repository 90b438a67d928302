"""The cause is named and what follows from it is not: across sources, in both orders, around
circles, and never across attempts.
"""

from __future__ import annotations

import dataclasses

import pytest

from bs4_common.failures.causes import Cause, causes
from bs4_common.failures.facts import Facts, Finding
from bs4_common.identity import Identity
from bs4_common.runs.model import Exit
from tests.agent.detect.compiled import library, playbook
from tests.agent.facts import facts, healthy


def cause(
    name, *, explains=(), t=None, role="root", source="trainer", attempt=1, line=1, file="a.log"
):
    (known,) = library(playbook(name, role=role, explains=list(explains), detect={"detector": "x"}))
    place = {
        "source": source,
        "stream": "",
        "cursor": "",
        "file": file,
        "offset": 0,
        "line": line,
        "text": name,
    }
    return Cause(
        Finding(
            failure=name,
            run="demo",
            attempt=attempt,
            summary=name,
            evidence=[place],
            anchor=name,
            severity=known.severity,
            role=role,
        ),
        known,
        t,
    )


def names(*found, around: Facts | None = None):
    kept = causes(
        {c.finding.failure + str(c.finding.attempt): c for c in found}, around or facts(healthy())
    )
    return [c.finding.failure for c in kept.values()]


def test_what_follows_is_dropped_and_the_chain_leaves_its_head():
    kernel, engine, client = (
        cause("oom", explains=["engine"]),
        cause("engine", explains=["client"]),
        cause("client", role="symptom"),
    )
    assert names(client, engine, kernel) == ["oom"]


def test_a_consequence_may_be_printed_before_its_cause_but_not_long_before():
    """Torch prints the broken connection when it happens and the exit code of the killed rank when
    it has ended the others.
    """
    early = cause("peer-closed", role="cascade", t=1e9)
    assert names(early, cause("sigkill", explains=["peer-closed"], t=1e9 + 30)) == ["sigkill"]
    assert names(early, cause("sigkill", explains=["peer-closed"], t=1e9 + 3600)) == [
        "sigkill",
        "peer-closed",
    ]


def test_without_times_the_lines_of_one_file_tell():
    late = cause("root", explains=["early"], line=5000)
    assert names(cause("early", line=10), late) == ["early", "root"]
    assert names(cause("early", line=4900), late) == ["root"]
    assert names(cause("early", line=10, file="b.log"), late) == ["root"], (
        "lines of two files say nothing about time"
    )


def test_a_kernel_clock_is_not_compared_with_a_date():
    assert names(cause("after", t=1.7e9), cause("oom", explains=["after"], t=5000.0)) == ["oom"]


def test_another_attempt_is_another_story():
    assert names(cause("a", explains=["b"], attempt=2), cause("b", attempt=1)) == ["a", "b"]


def test_a_circle_never_hides_everything():
    first, second, third = (
        cause("a", explains=["b"], t=1e9),
        cause("b", explains=["c"], t=1e9 + 1),
        cause("c", explains=["a"], t=1e9 + 2),
    )
    assert names(first, second) == ["a"]
    assert names(first, second, third) == ["a"]
    assert names(cause("x", explains=["y"], t=1e9 + 5), cause("y", explains=["x"], t=1e9)) == ["y"]


def test_roots_come_first_then_time():
    found = (
        cause("late", t=1e9 + 9),
        cause("symptom", role="symptom", t=1e9),
        cause("early", t=1e9 + 1),
        cause("warning", role="warning", t=1e9),
    )
    assert names(*found) == ["early", "late", "symptom", "warning"]


def test_a_cascade_alone_is_reported():
    assert names(cause("cascade", role="cascade")) == ["cascade"]


@pytest.mark.parametrize("first", ["trainer", "inference"])
def test_the_process_that_ended_first_names_the_cause(first):
    """Not the line that comes first: buffers are written late."""

    def ended(component, t):
        return Exit(Identity(1, 1, "b", "n"), component, None, 9, t, t)

    exits = [ended("rank", 100.0 if first == "trainer" else 200.0), ended("engine", 150.0)]
    run = dataclasses.replace(healthy(), exits=exits)
    found = (
        cause("in-trainer", source="trainer", t=1e9 + 7),
        cause("in-inference", source="inference", t=1e9),
    )
    expected = ["in-trainer", "in-inference"]
    assert names(*found, around=facts(run)) == (expected if first == "trainer" else expected[::-1])
