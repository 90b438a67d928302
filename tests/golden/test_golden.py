"""What an earlier version wrote is understood by this one: the same runs, incidents, actions, logs
and findings.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from bs4_agent.paths import Home
from bs4_agent.runs.registry import Runs
from bs4_agent.scope import Scope
from bs4_agent.telemetry.processes import ProcessTable
from bs4_common.journal import Journal
from bs4_common.ledger import Ledger
from bs4_common.streams.segments import SegmentStream, parse
from bs4_console.checks.diagnose import diagnose
from bs4_console.pods.gate import records
from bs4_console.pods.inventory import Inventory
from bs4_console.pods.recorded import RecordedSession

DATA = Path(__file__).parent / "data"
TRAINERS = ["prime-rl-2026-01", "prime-rl", "verl"]
#: A log that each trainer writes.
LOGS = {"prime-rl-2026-01": "orchestrator", "prime-rl": "orchestrator", "verl": "trainer"}

pytestmark = pytest.mark.parametrize("trainer", TRAINERS)


def lines(directory: Path) -> list[dict[str, Any]]:
    """Return the records of one stream's segments, in order."""
    found = [
        parse(line)
        for file in sorted(directory.glob("*.ndjson"))
        for line in file.read_bytes().splitlines()
    ]
    return [record for record in found if record is not None]


def output(trainer: str, command: str) -> Any:
    """Return the last JSON object that a command printed then."""
    printed = json.loads((DATA / trainer / "outputs.json").read_text())[command]["out"]
    return json.loads(printed.splitlines()[-1])


def test_every_record_passes_the_check_of_today(trainer: str) -> None:
    state = DATA / trainer / "agent" / "state"
    streams = {
        "journal": state / "journal",
        "telemetry": state / "telemetry",
        "steps/demo": state / "steps" / "demo",
    }
    for stream, directory in streams.items():
        found = lines(directory)
        assert len(found) > 20, stream
        for record in found:
            assert records.check(stream, record) is record


def test_the_journal_folds_to_what_it_did(trainer: str) -> None:
    ledger = Ledger(lines(DATA / trainer / "agent" / "state" / "journal"))
    then = json.loads((DATA / trainer / "summary.json").read_text())
    attempts = {
        name: {
            str(number): [a.state, a.good, a.code, a.signal] for number, a in run.attempts.items()
        }
        for name, run in ledger.runs.items()
    }
    assert attempts == {name: run["attempts"] for name, run in then["runs"].items()}
    assert [run.trainer for run in ledger.runs.values()] == [
        run["trainer"] for run in then["runs"].values()
    ]
    incidents = sorted(
        [i.failure, i.state, i.role, i.severity, i.playbook, i.attempt]
        for i in ledger.incidents.values()
    )
    assert incidents == then["incidents"]
    actions = [
        [a.kind, a.state, [[step.title, step.state] for step in a.steps]]
        for a in ledger.actions.values()
    ]
    assert actions == then["actions"]
    assert (
        sorted([plan.playbook, plan.plan_hash] for plan in ledger.plans.values()) == then["plans"]
    )
    assert {run: order.get("last") for run, order in ledger.orders.items()} == then["orders"]


def test_an_agent_of_today_takes_over_the_home(trainer: str, tmp_path: Path) -> None:
    """Runs, attempts and ends as they were, and the journal goes on behind its last record."""
    shutil.copytree(DATA / trainer / "agent", tmp_path / "home")
    home = Home(tmp_path / "home")
    journal = Journal(SegmentStream(home.state / "journal", 64 << 20, keep_unreleased=True))
    known = list(journal.records())
    scope = Scope.from_environment()
    runs = Runs(home, scope, journal, ProcessTable(scope))
    (run,) = runs.all()
    assert (run.name, run.spec.trainer) == ("demo", trainer)
    assert [attempt.number for attempt in run.attempts] == [1, 2]
    assert all(attempt.end is not None for attempt in run.attempts)
    added = journal.append("note", run="demo", text="from a later version", who="tester")
    assert added["seq"] == known[-1]["seq"] + 1


async def test_a_mirror_opens_with_its_runs_and_logs(trainer: str, tmp_path: Path) -> None:
    shutil.copytree(DATA / trainer / "mirror", tmp_path / "mirror")
    session = RecordedSession("golden", tmp_path / "mirror", "It was kept by an earlier version.")
    await session.synced()
    state = session.state
    assert state.notes == {}
    then = json.loads((DATA / trainer / "summary.json").read_text())
    assert sorted(i.failure for i in state.ledger.incidents.values()) == sorted(
        row[0] for row in then["incidents"]
    )
    run = state.runs["demo"]
    assert run.step is not None
    assert len(run.trainer_steps) > 5
    log = await session.read_log(f"log/demo/{LOGS[trainer]}", "start")
    assert log.data


def test_the_inventory_is_read(trainer: str) -> None:
    (pod,) = Inventory(DATA / trainer / "console" / "config" / "pods.toml").list()
    assert (pod.name, pod.ssh_config) == ("golden", False)
    assert pod.port is not None


def test_the_run_directory_is_diagnosed_as_it_was(trainer: str) -> None:
    """More may be found than then; what was found is found."""
    then = {finding["id"] for finding in output(trainer, "diagnose")["findings"]}
    now = {finding["id"] for finding in diagnose([DATA / trainer / "output"])["findings"]}
    assert then <= now


def test_json_objects_have_the_fields_that_they_had(trainer: str) -> None:
    """Of what can be asked of files: fields are added and never taken away."""
    then = output(trainer, "diagnose")
    now = diagnose([DATA / trainer / "output"])
    assert then.keys() - {"schema"} <= now.keys()
    for before, after in zip(then["findings"], now["findings"], strict=False):
        assert before.keys() <= after.keys()
