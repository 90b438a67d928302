"""docs/failures.md says what the playbooks say."""

from __future__ import annotations

from pathlib import Path

from bs4_console.assets import find
from bs4_console.cli import failures

ROOT = Path(__file__).resolve().parents[3]

_ONE = """
id: made-up
title: Something is wrong
role: root
severity: warning
danger: none
where: pod
applies: [any]
looks_like: A line | with <brackets>.
explanation: Because.
detect:
  logs:
    - source: trainer
      levels: [ERROR, ""]
      pattern: "^(?P<n>[0-9]+) `bad`"
      where: {n: ">= 3"}
      near: {pattern: "^before", before: 30, absent: true}
      count: 3
      within: 10m
  for: 60s
advice: [Do this.]
prevent: Do not.
sources: [here]
"""


def test_the_page_is_the_one_that_the_playbooks_make() -> None:
    page = (ROOT / "docs" / "failures.md").read_text()
    assert page == failures.markdown(), (
        "write it anew: python -m bs4_console.cli.failures docs/failures.md"
    )


def test_every_playbook_has_its_section() -> None:
    page = failures.markdown()
    for path in find("playbooks").glob("*/*.yaml"):
        assert f"\n### {path.stem}\n" in page


def test_detection_is_told_in_words(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "made-up.yaml").write_text(_ONE)
    page = failures.markdown(tmp_path)
    assert (
        "- a line of the trainer log at ERROR, lines without a header of their own that matches "
        "`` ^(?P<n>[0-9]+) `bad` `` with n >= 3; no line within 30 lines before matches "
        "`^before`; 3 times within 10m, once it has held for 60s\n"
    ) in page
    assert "A line | with &lt;brackets>." in page
    assert "*What to do.*\n\n- Do this.\n" in page
