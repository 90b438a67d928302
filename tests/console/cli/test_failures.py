"""The page of known failures says what the playbooks say. `make check` compares docs/failures.md
with it, and `make format` writes it.
"""

from __future__ import annotations

from pathlib import Path

from bs4_console.assets import find
from bs4_console.cli import failures

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
