"""A run crashes, its pod is destroyed, and everything that was known around the crash is still
there.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bs4_console.checks.diagnose import diagnose
from bs4_console.pods import reports
from bs4_console.pods.recorded import RecordedSession
from bs4_practice import faults
from bs4_practice.scenario import BOTH, train
from bs4_practice.stage import Stage, staged

pytestmark = [pytest.mark.long, pytest.mark.beside]


async def fetched(stage: Stage, file: Path) -> None:
    """The report once it knows the incident that names the crash."""
    await stage.incident("orchestrator-fatal", 180)
    opened = max(i.opened_t for i in stage.ledger.open_incidents())

    await stage.until(
        lambda: any(r["t"] > opened for r in stage.ledger.reports.values()),
        180,
        "a report that knows the incident",
    )
    await stage.session.streams()
    newest = next(one for one in reports.listed(stage.session) if one.t > opened)
    await reports.fetch(stage.session, newest, file)


@pytest.mark.parametrize("trainer", BOTH)
async def test_a_crash_is_looked_into_without_its_pod(trainer: str, tmp_path: Path) -> None:
    file = tmp_path / f"demo.1{reports.SUFFIX}"
    async with staged(trainer) as stage:
        await train(stage)
        faults.kill(faults.find(stage.pod, "orchestrator")[0])
        await fetched(stage, file)
        await stage.session.synced(60.0)  # steps come by another stream than reports
        step = stage.session.state.runs["demo"].step
        assert (stage.pod.home / ".bs4" / "reports").stat().st_mode & 0o077 == 0

    report = reports.load(file)
    assert (report.head["run"], report.head["attempt"], report.head["trainer"]) == (
        "demo",
        1,
        trainer,
    )
    assert "orchestrator-fatal" in [incident["failure"] for incident in report.head["incidents"]]
    assert json.loads(report.beside["attempt/spec.json"])["run"] == "demo"
    assert b"[" in report.beside["config/rl.toml"]
    assert {source for source, *_ in report.logs} >= {
        "trainer",
        "orchestrator",
        "inference",
        "launcher",
    }
    assert "orchestrator-fatal" in [finding["id"] for finding in diagnose([file])["findings"]]

    reports.unpack(report, tmp_path / "root")
    session = RecordedSession("gone", tmp_path / "root", "the pod is gone")
    await session.synced()
    run = session.state.runs["demo"]
    assert (run.word, run.step) == ("failed", step)
    assert len(session.state.telemetry) > 5
    incident = next(
        i for i in session.state.ledger.open_incidents() if i.failure == "orchestrator-fatal"
    )
    assert incident.title
    for stream in await session.streams():
        assert (await session.read_log(stream, "start")).data or stream.startswith("log/"), stream
