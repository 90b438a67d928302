"""`make score`: counted per class, with the misses named; and the real corpus, where it lies, meets
the targets.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.agent.detect.compiled import library, playbook
from tools import score

HEAD = "file\texpected\talso_acceptable\tsource\tclass\tnote\n"
LIBRARY = library(
    playbook("a", {"pattern": "alpha failed"}),
    playbook("b", {"pattern": "beta failed"}, role="symptom"),
    playbook("slow", {"pattern": "waiting for", "last": True}, detect={"for": "60s"}),
)


def corpus(root: Path, *rows: tuple[str, str, str, str]) -> Path:
    lines = []
    for number, (text, expected, acceptable, note) in enumerate(rows):
        (root / f"{number}.log").write_text(text)
        lines.append(f"{number}.log\t{expected}\t{acceptable}\ttrainer\treal\t{note}\n")
    (root / "labels.tsv").write_text(HEAD + "".join(lines))
    return root


def test_hits_misses_and_false_findings(tmp_path):
    rows = (
        ("alpha failed\nbeta failed\n", "a", "b", ""),
        ("alpha failed\nbeta failed\n", "a", "", "the symptom is too much"),
        ("beta failed\n", "a|b", "", ""),
        ("beta failed\n", "a", "b", "an acceptable id alone is a miss"),
        ("all is well\n", "-", "", ""),
        ("alpha failed\n", "-", "", ""),
    )
    tally = score.score(corpus(tmp_path, *rows), LIBRARY)["real"]
    assert (tally.total, tally.hits) == (6, 4)
    assert [line.split(" ")[0] for line in tally.misses] == ["3.log", "5.log"]
    assert tally.false == ["1.log: b", "5.log: a"]


def test_rules_that_need_time_are_asked_twice(tmp_path):
    good = score.score(
        corpus(tmp_path, ("12:00:00 INFO waiting for\n", "slow", "", "needs time: 60 s")), LIBRARY
    )["real"]
    assert (good.hits, good.misses) == (1, [])
    hasty = library(playbook("slow", {"pattern": "waiting for", "last": True}))
    assert "fires just after the last line" in score.score(tmp_path, hasty)["real"].misses[0]


def test_without_a_corpus_it_says_so(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", ["score.py", str(tmp_path)])
    assert score.main() == 0
    assert "skipped: there is no labelled corpus" in capsys.readouterr().out


@pytest.mark.long
@pytest.mark.skipif(not score.DEFAULT.is_dir(), reason="needs the shared corpus")
def test_the_targets_are_met(capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", ["score.py"])
    code = score.main()
    assert code == 0, capsys.readouterr().out
