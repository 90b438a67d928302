"""Finding programs as shutil does."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from bs4_common.programs import which


def test_a_program_is_found_where_a_shell_finds_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second, here = tmp_path / "a", tmp_path / "b", tmp_path / "here"
    for place in (first, second, here):
        place.mkdir()
    (first / "tool").mkdir()
    (first / "plain").write_text("no program")
    for made in (second / "tool", second / "plain", here / "own"):
        made.write_text("#!/bin/sh\n")
        made.chmod(0o755)
    monkeypatch.chdir(here)
    path = os.pathsep.join([str(first), str(tmp_path / "missing"), str(second), str(second)])
    for program in ("tool", "plain", "missing", "own"):
        assert which(program, path) == shutil.which(program, path=path)
    assert which("tool", path) == str(second / "tool")
    assert which("own", f"{path}{os.pathsep}") == "own"
