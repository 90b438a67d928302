"""The inputs that a fuzzer once found are tried again, and so are the healthy ones. The long suite
has a short round of each target.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz import targets
from tests.fuzz.mutation import mutate
from tests.fuzz.trial import LONGEST, tried
from tools import fuzz

CORPUS = Path(__file__).parent / "corpus"
FOUND = sorted(path for path in CORPUS.glob("*/*") if path.is_file())
#: Changed copies of each healthy input: enough to see that a target works at all.
CHANGES = 3
#: Inputs of a short round.
ROUND = 1_000


@pytest.mark.parametrize("path", FOUND, ids=[f"{path.parent.name}-{path.name}" for path in FOUND])
def test_what_was_once_found_breaks_nothing(path: Path) -> None:
    tried(targets.load(path.parent.name))(path.read_bytes())


@pytest.mark.parametrize("name", targets.NAMES)
def test_healthy_inputs_and_some_changed_ones_break_nothing(name: str) -> None:
    target = targets.load(name)
    assert target.SEEDS
    one = tried(target)
    for data in target.SEEDS:
        one(data)
        for number in range(CHANGES):
            one(mutate(data, LONGEST, number))


def test_every_corpus_is_of_a_target() -> None:
    assert {path.parent.name for path in FOUND} <= set(targets.NAMES)


@pytest.mark.long
@pytest.mark.beside
@pytest.mark.parametrize("name", targets.NAMES)
def test_a_short_round_finds_nothing(name: str, tmp_path: Path) -> None:
    """The seed and the number of inputs are fixed, so that every machine tries the same inputs.
    Rounds that go on are `make fuzz`.
    """
    outcome = fuzz.fuzz(name, 120.0, tmp_path, seed=1, inputs=ROUND)
    assert outcome.inputs >= ROUND or outcome.found
    assert not outcome.found, outcome.message
