"""What lies in a staging directory, compared with what was verified there."""

from __future__ import annotations

from pathlib import Path

import pytest

from bs4_agent.checkpoints.restoring.fetch import Target, receipt, unchanged
from bs4_common.checkpoints.remote.source import RemoteFile


@pytest.fixture
def target(tmp_path: Path) -> Target:
    staged, present = tmp_path / "staging" / "a" / "part", tmp_path / "final" / "a" / "part"
    for path in (staged, present):
        path.parent.mkdir(parents=True)
    staged.write_bytes(b"12345")
    return Target(RemoteFile("a/part", "x/a/part", 5, None), staged, present)


def test_a_file_that_has_vanished_is_a_change_unless_it_is_in_its_place(
    target: Target, tmp_path: Path
) -> None:
    staging, present = tmp_path / "staging", target.present
    assert present is not None
    record = {"files": receipt([target], staging)}
    assert unchanged(staging, record["files"], [target]) == ""
    target.staged.rename(present)
    assert unchanged(staging, record["files"], [target]) == "", (
        "an interrupted restore has placed it"
    )
    present.write_bytes(b"1234")
    assert "has vanished since it was verified" in unchanged(staging, record["files"], [target])
    present.unlink()
    assert "has vanished since it was verified" in unchanged(staging, record["files"], [target])
    assert unchanged(staging, record["files"], []) == "", "a file that is not wanted any more"


def test_a_file_that_was_written_to_is_a_change(target: Target, tmp_path: Path) -> None:
    record = {"files": receipt([target], tmp_path / "staging")}
    target.staged.write_bytes(b"123456")
    assert "has changed" in unchanged(tmp_path / "staging", record["files"], [target])
    assert "no receipt" in unchanged(tmp_path / "staging", None, [target])
