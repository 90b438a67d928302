"""Words that a state is compared with: a misspelled one is found wherever it stands."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import state_words

HEAD = 'from typing import Literal\nState = Literal["ended", "lost"]\n'


def words(tmp_path: Path, source: str) -> list[str]:
    path = tmp_path / "one.py"
    path.write_text(HEAD + source)
    return [unknown.word for unknown in state_words.check([path])]


@pytest.mark.parametrize(
    "source",
    [
        'over = run.state == "losst"',
        'over = run.state in ("ended", "losst")',
        'over = state not in {"losst"}',
        'over = record["state"] != "losst"',
        'over = record.get("state") == "losst"',
        'if run.state == "ended" or run.state == "losst":\n    pass',
    ],
)
def test_a_misspelled_word_is_found(tmp_path: Path, source: str) -> None:
    assert words(tmp_path, source) == ["losst"]


@pytest.mark.parametrize(
    "source",
    [
        'over = run.state in ("ended", "lost")',
        'over = run.name == "losst"',
        'over = run.state == ""',
    ],
)
def test_known_words_and_other_names_pass(tmp_path: Path, source: str) -> None:
    assert words(tmp_path, source) == []


def test_the_code_has_none() -> None:
    assert state_words.check(list(state_words.source_files(state_words.ROOT))) == []


def test_one_changed_word_of_a_detector_is_found(tmp_path: Path) -> None:
    known = state_words.ROOT / "agents/bs4_common/states.py"
    detector = state_words.ROOT / "agents/bs4_common/failures/detectors/desync.py"
    changed = tmp_path / "desync.py"
    changed.write_text(detector.read_text().replace('"lost"', '"losst"'))
    assert [unknown.word for unknown in state_words.check([known, changed])] == ["losst"]
