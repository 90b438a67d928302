"""A detector that fails on what is strange keeps no other one from running, and is named: in the
agent's journal and log, with each verdict, and by `diagnose`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bs4_agent.observe.watcher import Watcher
from bs4_common.failures import engine as engines
from bs4_common.failures.compiled import Library, Parameters
from bs4_common.failures.engine import Engine, Transition
from bs4_common.failures.facts import Facts, Finding, RunFacts
from bs4_console.checks.diagnose import diagnose
from tests.agent.facts import NOW, facts, healthy


class Switch:
    """A detector that finds its failure on every run, or fails on `odd` as long as that is set."""

    def __init__(self, failure: str) -> None:
        self.failure = failure
        self.odd: str | None = None

    def __call__(self, facts: Facts, run: RunFacts, given: Parameters) -> Sequence[Finding]:
        if run.name == self.odd:
            raise KeyError("\x1b[31mé\n")
        return [
            Finding(
                failure=self.failure,
                run=run.name,
                attempt=run.attempt,
                summary="seen",
                evidence=[],
                anchor="a",
            )
        ]


@pytest.fixture(autouse=True)
def loud_detectors() -> None:
    """Leave the product as it is: here, detectors fail as a test wants."""


@pytest.fixture
def first(monkeypatch: pytest.MonkeyPatch) -> Switch:
    """Return the detector of the failure `first`. That of `second` always works."""
    known = {"one": Switch("first"), "two": Switch("second")}
    monkeypatch.setattr(engines, "DETECTORS", known)
    return known["one"]


def engine(keep_s: float = 0.0, hold_s: float = 0.0) -> Engine:
    entries = []
    for failure, detector in (("first", "one"), ("second", "two")):
        detect = {"detector": detector, "for": hold_s, "keep_firing_for": keep_s}
        base = {"title": "X", "family": "f", "role": "root", "severity": "critical"}
        more = {"danger": "none", "where": "pod", "applies": ["any"], "detect": detect}
        entries.append({"id": failure, **base, **more})
    return Engine(list(Library(json.dumps({"playbooks": entries}).encode())))


def told(transitions: Sequence[Transition]) -> list[tuple[str, str, str]]:
    return sorted((t.event, t.finding.failure, t.finding.run) for t in transitions)


def test_the_other_detectors_and_the_other_runs_are_looked_at(first: Switch) -> None:
    watch, first.odd = engine(), "r1"
    both = facts(healthy(name="r1"), healthy(name="r2"), now=NOW)
    assert told(watch.evaluate(both)) == [
        ("opened", "first", "r2"),
        ("opened", "second", "r1"),
        ("opened", "second", "r2"),
    ]
    (fault,) = watch.faults
    assert fault.phrase == "first (its detector one failed on r1: KeyError: '\\x1b[31m\\xe9\\n')"
    watch.evaluate(both)
    assert "failed 2 times by now on r1: KeyError" in watch.faults[0].phrase
    first.odd = None
    assert told(watch.evaluate(both)) == [("opened", "first", "r1")]
    assert watch.faults == []


def test_an_open_incident_stays_as_long_as_nobody_can_look(first: Switch) -> None:
    watch = engine(keep_s=5.0)
    watch.evaluate(facts(healthy(name="r1"), now=NOW))
    first.odd = "r1"
    for at in range(1, 100, 10):
        assert watch.evaluate(facts(healthy(name="r1"), now=NOW + at)) == []
    assert len(watch.faults) == 1


def test_no_time_in_which_nobody_could_look_counts_as_held(first: Switch) -> None:
    watch = engine(hold_s=10.0)
    watch.evaluate(facts(healthy(name="r1"), now=NOW))
    first.odd = "r1"
    watch.evaluate(facts(healthy(name="r1"), now=NOW + 5))
    assert watch.due() == NOW + 10  # that of the other one
    first.odd = None
    opened = told(watch.evaluate(facts(healthy(name="r1"), now=NOW + 11)))
    assert opened == [("opened", "second", "r1")]
    assert watch.evaluate(facts(healthy(name="r1"), now=NOW + 20)) == []
    # Ten seconds between scans that both saw it, though none of them in a row.
    opened = told(watch.evaluate(facts(healthy(name="r1"), now=NOW + 21)))
    assert opened == [("opened", "first", "r1")]


def test_a_detector_that_fails_now_and_then_still_opens_its_incident(first: Switch) -> None:
    watch = engine(hold_s=10.0)
    opened = []
    for at in range(41):
        first.odd = "r1" if at % 4 == 3 else None
        opened += told(watch.evaluate(facts(healthy(name="r1"), now=NOW + at)))
    assert ("opened", "first", "r1") in opened


def test_the_agent_journals_it_once_and_says_so_with_each_incident(
    first: Switch, capsys: pytest.CaptureFixture[str]
) -> None:
    first.odd = "r1"
    journal: list[dict[str, Any]] = []
    faults: list[str] = []
    pod: Any = SimpleNamespace(
        on_resolved=lambda forget: None,
        collect_facts=lambda: facts(healthy(name="r1"), now=NOW),
        fault=faults.append,
    )
    book: Any = SimpleNamespace(
        append=lambda type_, **fields: journal.append(fields),
        ledger=SimpleNamespace(open_incidents=lambda: ()),
    )
    recoveries = SimpleNamespace(opened=lambda incident, run, playbook: None)
    actions: Any = SimpleNamespace(recoveries=recoveries)
    watcher = Watcher(pod, engine(), book, actions)
    for _ in range(3):
        watcher.poll()
    assert len(faults) == 1
    assert faults[0].startswith("Not looked for: first (its detector one failed on r1: KeyError")
    (opened,) = journal
    assert opened["failure"] == "second"
    assert faults[0].removeprefix("Not looked for: ") in opened["coverage"]
    printed = capsys.readouterr().err
    assert printed.count("Traceback") == 1
    assert "in __call__" in printed


def test_diagnose_says_what_was_not_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "trainer.log"
    log.write_text("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n")

    def fails(facts: Facts, run: RunFacts, given: Parameters) -> Sequence[Finding]:
        raise ZeroDivisionError("odd")

    known = diagnose([log], "trainer", "prime-rl-2026-01")
    assert known["findings"]
    monkeypatch.setattr(engines, "DETECTORS", {**engines.DETECTORS, "step-desync": fails})
    found = diagnose([log], "trainer", "prime-rl-2026-01")
    assert found["findings"] == known["findings"]
    (phrase,) = set(found["coverage"]) - set(known["coverage"])
    assert phrase == (
        "step-desync (its detector step-desync failed on the logs: ZeroDivisionError: odd)"
    )
