"""What is believed of prime-rl and verl, held against their source, where a checkout is at hand."""

from __future__ import annotations

import dataclasses
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from bs4_console.trainers.belief import Believed
from bs4_console.trainers.checking import check
from bs4_console.trainers.checkout import Checkout
from bs4_console.trainers.known import BELIEVED
from tests.console.trainers.mutation import changed

pytestmark = [pytest.mark.long, pytest.mark.beside]

CHECKOUTS = {
    "prime-rl-2026-01": "BS4_PRIME_RL_2026_01",
    "prime-rl": "BS4_PRIME_RL",
    "verl": "BS4_VERL",
}


def checkout(trainer: str) -> Path:
    """Return the checkout of a trainer, or skip the test."""
    variable = CHECKOUTS[trainer]
    path = Path(os.environ.get(variable) or "/nonexistent")
    if not path.is_dir():
        commit = next(known.commit for known in BELIEVED[trainer].known if known.read)
        pytest.skip(f"{variable} names no checkout of {trainer} at {commit}")
    return path


def files() -> Iterator[tuple[str, str]]:
    """Yield each trainer with each file that beliefs about it name."""
    for trainer in CHECKOUTS:
        names = {belief.place.file for belief in BELIEVED[trainer].beliefs}
        for name in sorted(names):
            yield trainer, name


@pytest.mark.parametrize("trainer", CHECKOUTS)
def test_everything_holds_in_the_source_that_it_was_read_from(trainer: str) -> None:
    verdicts = check(Checkout(checkout(trainer)), BELIEVED[trainer])
    assert [f"{v.belief.id}: {v.note}" for v in verdicts if v.state != "holds"] == []


@pytest.mark.parametrize(("trainer", "file"), list(files()))
def test_what_is_changed_in_a_copy_has_moved_and_nothing_else(
    tmp_path: Path, trainer: str, file: str
) -> None:
    source = checkout(trainer)
    copy = tmp_path / file
    copy.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(source / file, copy)
    text = copy.read_text()
    # What is in other files cannot change with this one, so only the beliefs about it are held.
    beliefs = tuple(b for b in BELIEVED[trainer].beliefs if b.place.file == file)
    believed = dataclasses.replace(BELIEVED[trainer], beliefs=beliefs)
    for verdict in check(Checkout(tmp_path), believed):
        assert verdict.state == "holds"
        copy.write_text(changed(text, verdict))
        assert moved(tmp_path, believed) == {verdict.belief.id: "moved"}


def moved(root: Path, believed: Believed) -> dict[str, str]:
    """Return the state of each belief that does not hold."""
    found = {}
    for verdict in check(Checkout(root), believed):
        if verdict.state != "holds":
            assert verdict.weaker, "a change in its place weakens a feature"
            found[verdict.belief.id] = verdict.state
    return found
