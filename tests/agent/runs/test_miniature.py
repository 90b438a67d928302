"""The practice trainer of both generations under the real shim: launched, followed, stopped, and to
its good end.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from bs4_agent.launch.start import launch
from bs4_agent.runs.follower import RunFollower
from bs4_agent.runs.registry import Runs
from bs4_agent.runs.stop import StopRun
from bs4_agent.scope import Scope
from bs4_agent.streams.registry import Streams
from bs4_agent.telemetry.processes import ProcessTable
from bs4_common.trainers.base import LaunchSpec
from tests.agent.runs.practice import ListJournal, components, until

workspace = pytest.importorskip("bs4_practice.workspace")

TRAINERS = {"2026-01": "prime-rl-2026-01", "current": "prime-rl"}
pytestmark = pytest.mark.parametrize("generation", TRAINERS)


class Place:
    def __init__(self, root: Path, generation: str) -> None:
        from bs4_agent.paths import Home

        self.work = workspace.create("practice", generation, root)
        self.home = Home(self.work.home / ".bs4")
        self.home.create()
        self.journal = ListJournal(root / "journal.ndjson")
        scope = Scope.from_environment()
        self.runs = Runs(
            self.home, scope, self.journal, ProcessTable(scope), settle_s=0.5, snapshot_age_s=0.1
        )
        self.streams = Streams()
        self.follower = RunFollower(self.streams, self.runs)
        self.trainer = TRAINERS[generation]

    def spec(self, *overrides: str) -> LaunchSpec:
        project = self.work.project
        return LaunchSpec(
            run="practice",
            trainer=self.trainer,
            config=Path("configs/rl.toml"),
            cwd=project,
            output_dir=project / "outputs",
            overrides=overrides,
        )

    def poll(self) -> None:
        self.runs.poll()
        self.follower.poll()

    def until(self, condition: object, seconds: float = 90.0) -> object:
        return until(lambda: [self.poll(), condition()][1], seconds)  # type: ignore[operator]


@pytest.fixture
def place(
    generation: str, no_process_left: None, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Place]:
    with tempfile.TemporaryDirectory(prefix="bs4-") as short:
        place = Place(Path(short), generation)
        quick = workspace.environment(
            place.work, step_seconds=0.05, engine_seconds=0.1, pace=0.05, scope_root=os.getpid()
        )
        for name, value in quick.items():
            if not name.startswith("BS4_SCOPE"):
                monkeypatch.setenv(name, value)
        yield place
        if place.runs.all():
            StopRun(place.runs, "practice", scale=0.1).execute()
        place.streams.close()


def test_a_run_is_launched_followed_and_stopped(place: Place, generation: str) -> None:
    attempt = launch(place.runs, place.spec(), key="k1")
    recent = lambda: place.follower.recent("practice")  # noqa: E731
    place.until(
        lambda: (
            (recent().side("trainer").last_step or 0) >= 2
            and recent().side("orchestrator").last_step is not None
        )
    )
    components(
        place.runs,
        "launcher",
        "inference",
        "engine",
        "orchestrator",
        "trainer",
        "rank",
        name="practice",
    )
    report = StopRun(place.runs, "practice", scale=0.2).execute()
    assert report.ok
    first = report.sent[0]
    if generation == "current":
        (launcher,) = [
            m
            for m in place.runs.members("practice")
            if m.component == "launcher" and m.identity == first.identity
        ]
        assert first.signal == "SIGTERM"
        assert attempt.launcher != launcher.identity, "the Python launcher, not the uv around it"
    else:
        assert len([one for one in report.sent if one.signal == "SIGINT"]) >= 5
    place.until(lambda: place.runs.get("practice").attempt.end)  # type: ignore[union-attr]
    end = place.runs.get("practice").attempt.end  # type: ignore[union-attr]
    assert end is not None
    assert not end.good
    assert not place.runs.leftovers("practice")


def test_a_run_that_finishes_has_a_good_end_and_every_step_once(
    place: Place, generation: str
) -> None:
    launch(place.runs, place.spec("--max-steps", "3"), key="k1")
    place.until(lambda: place.runs.get("practice").attempt.end)  # type: ignore[union-attr]
    end = place.runs.get("practice").attempt.end  # type: ignore[union-attr]
    assert end is not None
    assert (end.good, end.code) == (True, 0), end.detail
    first = 0 if generation == "2026-01" else 1
    wanted = list(range(first, first + 3))
    place.until(lambda: place.follower.recent("practice").side("trainer").last_step == wanted[-1])
    for _ in range(5):
        place.poll()
    records = list(place.streams.get("steps/practice").records())  # type: ignore[union-attr]
    assert sorted({r["step"] for r in records if r["side"] == "trainer"}) == wanted
    newest = {(r["side"], r["step"]): r for r in records}
    assert all("loss" in r for (side, _), r in newest.items() if side == "trainer")
    assert all("reward" in r for (side, _), r in newest.items() if side == "orchestrator")
    assert all(r["at"]["stream"] == f"log/practice/{side}" for (side, _), r in newest.items())
