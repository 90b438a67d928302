"""Every playbook fires on its own cases, is silent on its near misses, and has both."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from bs4_common.failures.compiled import Playbook
from tests.playbooks.facts.case import FactsCase
from tests.playbooks.library import (
    LogCase,
    all_log_cases,
    facts_cases,
    found_in_facts,
    found_in_log,
    library,
    playbook_files,
    problems_of,
)

LOG_CASES, BROKEN = all_log_cases()
FACTS_CASES = facts_cases()
FILES = {path.stem: path for path in playbook_files()}


@pytest.mark.parametrize("path", playbook_files(), ids=lambda path: path.stem)
def test_playbook_is_valid(path: Path) -> None:
    assert not problems_of(path)


@pytest.mark.parametrize("case", LOG_CASES, ids=str)
def test_log(case: LogCase) -> None:
    found = found_in_log(case)
    assert (case.failure in found) is case.expected, (
        f"the engine found {found or 'nothing'} in this log of {case.source}"
    )


@pytest.mark.parametrize("case", FACTS_CASES, ids=str)
def test_facts(case: FactsCase, tmp_path: Path) -> None:
    found = found_in_facts(case, tmp_path)
    assert (case.failure in found) is case.expected, (
        f"the engine found {found or 'nothing'} in these facts"
    )


@pytest.mark.parametrize("playbook", list(library()), ids=lambda playbook: playbook.id)
def test_playbook_has_a_positive_and_a_negative_case(playbook: Playbook) -> None:
    """Maintenance is chosen by a person and detects nothing."""
    if not playbook.detect:
        assert playbook.role == "maintenance"
        return
    kinds = {case.expected for case in (*LOG_CASES, *FACTS_CASES) if case.failure == playbook.id}
    place = (
        f"`cases` of playbooks/{playbook.family}/{playbook.id}.yaml or "
        f"tests/playbooks/facts/{playbook.family.replace('-', '_')}.py"
    )
    assert kinds == {True, False}, f"write one that fires and one that nearly does, in {place}"


def test_every_signature_has_a_case_of_its_source() -> None:
    """A signature in a source that no positive case has was never seen to fire."""
    covered = {(case.failure, case.source.partition("-")[0]) for case in LOG_CASES if case.expected}
    missing = []
    for playbook in library():
        for signature in playbook.signatures:
            sources = (
                [signature["source"]]
                if isinstance(signature["source"], str)
                else signature["source"]
            )
            if not any((playbook.id, source) in covered for source in sources):
                missing.append(f"{playbook.id}: {'/'.join(sources)}: {signature['pattern'][:60]}")
    assert not missing, "\n".join(missing)


def test_every_case_file_can_be_read() -> None:
    assert not BROKEN, "\n".join(BROKEN)


def test_no_two_cases_of_a_playbook_have_one_name() -> None:
    names = Counter((case.failure, case.name) for case in LOG_CASES)
    assert [name for name, count in names.items() if count > 1] == []


@pytest.mark.parametrize("case", FACTS_CASES, ids=str)
def test_facts_cases_belong_to_a_playbook(case: FactsCase) -> None:
    assert case.failure in FILES
