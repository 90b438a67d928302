"""STATUS.md entries."""

from __future__ import annotations

from pathlib import Path

import pytest

from bs4_console.run_log import status_file as status
from bs4_console.run_log.record import Incident, RunRecord

NOW = 1_767_225_600.0  # 2026-01-01 00:00 UTC


def test_an_entry_has_the_six_points() -> None:
    run = RunRecord(
        name="a",
        status="RUNNING",
        step=99,
        max_steps=1000,
        pace_s=220.0,
        reward=0.5,
        incidents=[Incident("Engine\ndied", state="open")],
    )
    text = status.entry(run, NOW)
    assert text.startswith(
        "## 2026-01-01 00:00 UTC\n\n- **Step**: 99 of 1000\n- **Health**: Degraded\n"
    )
    assert [line.split("**")[1] for line in text.splitlines() if line.startswith("- ")] == [
        *("Step", "Health", "Progress", "Stability", "Performance", "Notes")
    ]
    assert "time left 2d 07h" in text
    assert "- **Notes**: Engine died\n" in text


def test_the_time_left_counts_steps_as_the_trainer_does() -> None:
    run = RunRecord(name="a", source="pod-a", step=9, max_steps=10, pace_s=3600.0)
    run.trainer = "prime-rl"
    assert "time left 1h 00m" in status.entry(run, NOW)
    run.trainer = "prime-rl-2026-01"
    assert "time left 0m" in status.entry(run, NOW)
    run.source = "log"
    assert "time left 1h 00m" in status.entry(run, NOW), "a person wrote how many are done"


@pytest.mark.parametrize(
    ("word", "health"),
    [
        ("RUNNING", "Healthy"),
        ("FINISHED", "Healthy"),
        ("COMPLETED", "Healthy"),
        ("STARTING", "Degraded"),
        ("FAILED", "Down"),
        ("STOPPED", "Down"),
    ],
)
def test_health(word: str, health: str) -> None:
    assert f"**Health**: {health}" in status.entry(RunRecord(name="a", status=word), NOW)


@pytest.mark.parametrize("before", ["", "# Status", "# Status\n", "# Status\n\n"])
def test_what_others_wrote_stays(tmp_path: Path, before: str) -> None:
    path = tmp_path / "STATUS.md"
    if before:
        path.write_text(before)
    status.append(path, "## one\n\n")
    status.append(path, "## two\n\n")
    assert path.read_text() == (f"{before.rstrip()}\n\n" if before else "") + "## one\n\n## two\n\n"
