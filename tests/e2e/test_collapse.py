"""The engine dies, the run falls apart by itself, and whoever looks later still reads why, wherever
they look, and can mend it.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from bs4_console.checks.diagnose import diagnose
from bs4_console.fleet.watched import Fleet
from bs4_console.pods import reports
from bs4_console.tui.app import ConsoleApp
from bs4_practice import faults
from bs4_practice.scenario import train
from bs4_practice.stage import Stage, connect, staged
from tests.console.cli.conftest import Console
from tests.console.tui.driving import drive
from tests.practice.running import SLOW_INFERENCE, half_a_batch

pytestmark = pytest.mark.beside

CAUSE = "vllm-silent-death"
TITLE = "Inference has died and the launcher did not notice"
#: A run outlives its engine by 57 s here (2026-01) or 38 s; see the miniature's pace.
OUTLIVES_S = 120.0


async def collapse(stage: Stage) -> None:
    """Kill the engine in the middle of a generation and wait until the run has ended by itself."""
    await train(stage)
    engine = faults.find(stage.pod, "engine")[0]  # looking for it takes long on a busy machine
    if stage.trainer == "prime-rl-2026-01":
        await half_a_batch(stage.pod, engine)
    else:
        await faults.wait_generating(stage.pod)
    assert faults.kill(engine)
    incident = await stage.incident(CAUSE, 60)
    run = stage.session.state.runs["demo"]
    assert run.word == "running", "the incident must open before the collapse"
    await stage.until(lambda: run.word == "failed", OUTLIVES_S, "the end of the run by itself")
    assert run.view.attempt is not None
    assert not run.view.attempt.good
    assert incident.state == "open"


async def still_named(stage: Stage, seconds: float) -> None:
    """For `seconds` after the end the cause is the only open incident once what the collapse said
    has been sorted.
    """
    ended = time.monotonic()
    while time.monotonic() - ended < seconds:
        first = stage.ledger.open_incidents()[0]
        assert (first.failure, first.role) == (CAUSE, "root"), (
            f"{time.monotonic() - ended:.0f} s after the end"
        )
        await asyncio.sleep(1)
    assert [i.failure for i in stage.ledger.open_incidents()] == [CAUSE]


async def screens(stage: Stage, tmp_path: Path) -> list[str]:
    """The text of the Fleet and of the Incident screen of a console that connects only now."""
    session = connect(stage.pod, tmp_path / "known_hosts_of_the_screen", tmp_path / "mirror")
    app = ConsoleApp(Fleet([session]))
    shots = []
    async with app.run_test(size=(160, 50)) as pilot:
        async with asyncio.timeout(120):
            await session.synced(120)
        for keys in ([], ["i"]):
            await drive(pilot, [], keys)
            shots.append(app.export_screenshot().replace("&#160;", " ").replace("\u00a0", " "))
    return shots


async def newest_report(stage: Stage, file: Path) -> reports.Report:
    """The crash report that was written after the run's end."""
    ended_t = stage.session.state.runs["demo"].view.attempt.ended_t  # type: ignore[union-attr]
    await stage.until(
        lambda: any(r["t"] >= ended_t for r in stage.ledger.reports.values()),
        180,
        "a report of the end",
    )
    await stage.session.streams()
    newest = max(reports.listed(stage.session), key=lambda one: one.t)
    await reports.fetch(stage.session, newest, file)
    return reports.load(file)


async def check(stage: Stage, trainer: str, seconds: float, tmp_path: Path) -> None:
    console, pod = Console(tmp_path), stage.pod
    console.add(pod.name, pod.host, pod.port, pod.user, pod.key_path, pod.known_host_key)
    await collapse(stage)
    await still_named(stage, seconds)

    verdict = await asyncio.to_thread(console, "check", "--pod", pod.name, "--json")
    assert verdict.code == 2
    assert f"demo: {CAUSE}" in verdict.out or CAUSE in verdict.out
    assert "trainer-exited" not in verdict.out
    assert "empty-batches" not in verdict.out
    found = diagnose([pod.run_dir])["findings"]
    assert found[0]["id"] == CAUSE
    assert [f["role"] for f in found] == ["root"]
    fleet, incident = await screens(stage, tmp_path)
    assert TITLE[:24] in fleet
    assert TITLE[:24] in incident

    report = await newest_report(stage, tmp_path / f"demo.1{reports.SUFFIX}")
    assert [i.failure for i in reports.incidents(report)] == [CAUSE]
    assert diagnose([tmp_path / f"demo.1{reports.SUFFIX}"])["findings"][0]["id"] == CAUSE

    plan = await stage.plan(stage.ledger.open_incidents()[0])
    assert plan.plan["steps"][0]["title"] == "demo is already stopped"
    action = await stage.act(
        "playbook", playbook=plan.playbook, run="demo", plan_hash=plan.plan_hash, confirm_run="demo"
    )
    assert action.state == "done", action.detail
    await stage.until(lambda: not stage.ledger.open_incidents(), 60, "the end of the incident")
    after = await asyncio.to_thread(console, "check", "--pod", pod.name, "--json")
    assert after.code == 0, after.out


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("trainer", "seconds"),
    [
        pytest.param("prime-rl-2026-01", 60.0, marks=pytest.mark.long, id="january, a minute"),
        pytest.param("prime-rl", 60.0, marks=pytest.mark.rounds, id="current, a minute"),
        pytest.param(
            "prime-rl-2026-01", 600.0, marks=pytest.mark.rounds, id="january, ten minutes"
        ),
        pytest.param("prime-rl", 600.0, marks=pytest.mark.rounds, id="current, ten minutes"),
    ],
)
async def test_the_cause_is_still_named_and_mended_after_the_collapse(
    trainer: str, seconds: float, tmp_path: Path
) -> None:
    async with staged(
        trainer, env=SLOW_INFERENCE if trainer == "prime-rl-2026-01" else {}
    ) as stage:
        await check(stage, trainer, seconds, tmp_path)
