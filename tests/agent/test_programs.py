"""Finding programs as shutil does."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

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


def test_a_directory_that_may_not_be_searched_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = tmp_path / "tool"
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    real = os.stat

    def stat(path: Any, *words: Any, **named: Any) -> os.stat_result:
        if str(path).startswith("/closed/"):
            raise PermissionError(13, "Permission denied", path)
        return real(path, *words, **named)

    monkeypatch.setattr(os, "stat", stat)
    assert which("tool", f"/closed{os.pathsep}{tmp_path}") == str(tool)
