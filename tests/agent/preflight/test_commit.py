"""The commit of a checkout is the one that git names, in every form in which git keeps it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from bs4_agent.preflight.commit import checked_out


def git(directory: Path, *words: str) -> str:
    identity = ("-c", "user.name=tester", "-c", "user.email=tester@example.org")
    argv = ["git", "-C", str(directory), *identity, *words]
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    place = tmp_path / "code"
    place.mkdir()
    git(place, "init", "--quiet")
    (place / "a").write_text("one")
    git(place, "add", "a")
    git(place, "commit", "--quiet", "--message", "one")
    return place


def test_a_branch_a_detached_head_and_packed_references(checkout: Path) -> None:
    commit = git(checkout, "rev-parse", "HEAD")
    (checkout / "below").mkdir()
    assert checked_out(checkout) == commit
    assert checked_out(checkout / "below") == commit
    git(checkout, "pack-refs", "--all")
    assert checked_out(checkout) == commit
    git(checkout, "checkout", "--quiet", "--detach")
    assert checked_out(checkout) == commit


def test_a_worktree(checkout: Path, tmp_path: Path) -> None:
    git(checkout, "worktree", "add", "--quiet", "-b", "other", str(tmp_path / "tree"))
    (tmp_path / "tree" / "a").write_text("two")
    git(tmp_path / "tree", "commit", "--quiet", "--all", "--message", "two")
    assert checked_out(tmp_path / "tree") == git(tmp_path / "tree", "rev-parse", "HEAD")
    assert checked_out(checkout) != checked_out(tmp_path / "tree")


def test_what_tells_nothing_is_unknown(tmp_path: Path) -> None:
    assert checked_out(tmp_path) is None
    (tmp_path / ".git").write_text("nonsense")
    assert checked_out(tmp_path) is None
    (tmp_path / ".git").write_text("gitdir: nowhere")
    assert checked_out(tmp_path) is None
    (tmp_path / "nowhere").mkdir()
    (tmp_path / "nowhere" / "HEAD").write_text("ref: ../../etc/passwd\n")
    assert checked_out(tmp_path) is None
    (tmp_path / "nowhere" / "HEAD").write_text("ref: refs/heads/empty\n")
    assert checked_out(tmp_path) is None
    (tmp_path / "nowhere" / "HEAD").unlink()
    os.mkfifo(tmp_path / "nowhere" / "HEAD")
    assert checked_out(tmp_path) is None
