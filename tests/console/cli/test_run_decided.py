"""What a person decided of a run stands beside what its pod recorded."""

from __future__ import annotations

import contextlib
import json
import shutil
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from bs4_console.cli import runs
from bs4_console.pods.inventory import Inventory, Pod
from bs4_console.run_log import record_fold
from tests.console.cli.test_run_log import Console

GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "data" / "prime-rl-2026-01" / "mirror"
POD = "podA"


@pytest.fixture
def console(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Console:
    """A console with a mirror of a pod of its inventory, on which nobody answers by now. Its run
    demo was read when its second attempt had not ended.
    """
    for name in ("CONFIG", "DATA", "STATE"):
        monkeypatch.setenv(f"BS4_{name}_DIR", str(tmp_path / name.lower()))
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    Inventory().add(Pod(name=POD, host="127.0.0.1", port=port))
    pod = tmp_path / "data" / "pods" / POD
    shutil.copytree(GOLDEN, pod)
    (journal,) = pod.glob("*/journal/1.data")
    kept = []
    for line in journal.read_text().splitlines(keepends=True):
        record = json.loads(line.lstrip("\0"))
        is_second = record.get("type") == "run" and record.get("attempt") == 2
        if not is_second or record["event"] not in ("attempt-ended", "process-gone"):
            kept.append(line)
    journal.write_text("".join(kept))
    return Console(tmp_path, capsys)


def test_a_run_that_was_abandoned_and_trains_on_says_so(console: Console) -> None:
    note = ("runs", "note", "demo", "lr too high", "--price", "3.5")
    console(*note)
    assert "still" not in console("runs", "show", "demo")
    told = console(*note, "--status", "abandoned")
    assert "It is still running on podA at $3.50 an hour" in told
    assert "`bs4-console stop --pod podA --run demo`" in told
    assert console.json(*note, "--status", "abandoned")["still_on"] == POD
    still = "still running on podA at $3.50 an hour"
    assert f"demo: abandoned (lr too high), {still}\n" in console("runs", "show", "demo")
    assert "podA could not be asked" in console.err, "it may have ended since"
    assert f"Healthy (noted as abandoned, {still})" in console("runs", "status", "demo")

    Inventory().remove(POD)
    assert "demo: abandoned (lr too high)\n" in console("runs", "show", "demo"), "nobody can say"
    assert "**Health**: Down\n" in console("runs", "status", "demo")


def test_the_list_has_what_a_person_decided_beside_the_state(
    console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextlib.asynccontextmanager
    async def linked(pod: Pod, *, deploy: bool) -> AsyncIterator[SimpleNamespace]:
        (state,) = record_fold.mirrored()
        yield SimpleNamespace(state=state)

    def row(code: int = 0) -> str:
        (found,) = [line for line in console("runs", "list", code=code).splitlines() if POD in line]
        return " ".join(found.split())

    with monkeypatch.context() as patch:
        patch.setattr(runs, "linked", linked)
        assert "running 20" in row()
        (run,) = console.json("runs", "list")["runs"]
        assert (run["state"], run["status"], run["status_note"]) == ("running", "RUNNING", "")
        console("runs", "note", "demo", "lr too high", "--status", "abandoned")
        assert "running, noted abandoned 20" in row()
        (run,) = console.json("runs", "list", "--pod", POD)["runs"]
        assert (run["state"], run["status"], run["status_note"]) == (
            "running",
            "ABANDONED",
            "lr too high",
        )
    assert "was running, noted abandoned 20" in row(code=3), "no answer"
