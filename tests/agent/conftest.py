"""Fixtures for tests of the agent."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def other_disk(tmp_path: Path) -> Iterator[Path]:
    """A small filesystem of its own; needs root."""
    where = tmp_path / "disk"
    where.mkdir()
    yield from _mounted(["-t", "tmpfs", "-o", "size=1m", "tmpfs"], where)


@pytest.fixture(params=["another disk", "the same disk"])
def other_mount(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """A directory to and from which no rename leads: a filesystem of its own, or one more mount of
    the disk of `tmp_path`, which has the same device number; needs root.
    """
    if request.param == "another disk":
        yield request.getfixturevalue("other_disk")
        return
    where = tmp_path / "again"
    where.mkdir()
    yield from _mounted(["--bind", str(where)], where)


def _mounted(what: list[str], where: Path) -> Iterator[Path]:
    """Mount `what` at `where`, and take it away when the test is over."""
    mount = ["mount", *what, str(where)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("mounting needs root")
    yield where
    subprocess.run(["umount", "-l", str(where)], check=True)
