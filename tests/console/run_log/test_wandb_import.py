"""Offline W&B runs: found by their files, uploaded by a real program that stands in for wandb."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any, cast

import pytest

from bs4_agent.paths import Home
from bs4_agent.streams.listing import Listing
from bs4_common.ledger import RunView
from bs4_console.cli.main import main
from bs4_console.errors import NotApplicableError
from bs4_console.pods.session import PodSession
from bs4_console.run_log import wandb_import


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name, synced in (("20260105_101500-bbb", False), ("20260104_101500-aaa", True)):
        directory = tmp_path / "run" / "wandb" / f"offline-run-{name}"
        directory.mkdir(parents=True)
        record = directory / f"run-{name[-3:]}.wandb"
        record.write_bytes(b":W&B\0\0\0")
        if synced:
            record.with_name(record.name + ".synced").touch()
    (tmp_path / "run" / "wandb" / "offline-run-20260106_101500-ccc").mkdir()  # nothing was recorded
    (tmp_path / "run" / "wandb" / "run-20260106_101500-ddd").mkdir()  # online
    return tmp_path


def _wandb(directory: Path, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    program = directory / "bin" / "wandb"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\necho "$@" >> {directory}/told\nexit {code}\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")


def test_found(root: Path) -> None:
    one, two = wandb_import.find(root)
    assert [(r.id, r.bytes, r.synced) for r in (one, two)] == [("aaa", 7, True), ("bbb", 7, False)]
    assert two.argv == ["wandb", "sync", str(root / "run/wandb/offline-run-20260105_101500-bbb")]


def test_only_what_is_not_synced_is_uploaded(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _wandb(root, monkeypatch, 0)
    assert main(["runs", "wandb", str(root)]) == 1
    assert "wandb sync " in capsys.readouterr().out
    assert not (root / "told").exists()
    assert main(["runs", "wandb", str(root), "--sync"]) == 0
    assert (root / "told").read_text() == f"sync {root}/run/wandb/offline-run-20260105_101500-bbb\n"


def test_an_upload_that_failed_is_said(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _wandb(root, monkeypatch, 5)
    assert main(["runs", "wandb", str(root), "--sync"]) == 1


def test_without_wandb(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(root))
    with pytest.raises(NotApplicableError, match="pip install"):
        wandb_import.sync(wandb_import.find(root)[1])


class _Asked:
    """A session whose pod is this machine: the agent's own code lists the directories."""

    def __init__(self, home: Path) -> None:
        self._listing = Listing(Home(home))

    async def query(self, stream: str, op: str, **parameters: Any) -> dict[str, Any]:
        return self._listing.ask(op, parameters)


async def test_those_of_a_pod_with_the_command_that_uploads_each_from_there(root: Path) -> None:
    program = root / "run" / ".venv" / "bin" / "wandb"
    program.parent.mkdir(parents=True)
    program.touch()
    output = root / "run" / "out puts"
    orchestrator = output / "run_default" / "wandb" / "offline-run-20260103_101500-ooo"
    orchestrator.mkdir(parents=True)
    (orchestrator / "run-ooo.wandb").touch()
    view = RunView(name="r", cwd=str(root / "run"), output_dir=str(output))
    live = cast(PodSession, _Asked(root / "home"))
    found = await wandb_import.of_pod(live, view, ("ssh", "-t", "--", "pod"))
    assert [(one.id, one.synced) for one in found] == [
        ("ooo", False),
        ("aaa", True),
        ("bbb", False),
    ]
    *ssh, words = found[0].argv
    assert ssh == ["ssh", "-t", "--", "pod"]
    assert shlex.split(words) == [str(program), "sync", str(orchestrator)]
    program.unlink()
    (one, *_) = await wandb_import.of_pod(live, view, ())
    assert one.argv == ["wandb", "sync", str(orchestrator)]


@pytest.mark.parametrize("words", [[], [".", "--pod", "p"], ["--pod", "p", "--sync"]])
def test_one_place_and_no_upload_from_here_of_what_is_elsewhere(words: list[str]) -> None:
    assert main(["runs", "wandb", *words]) == 2
