"""verl's processes under the real shim: launched, followed, killed in their several ways, stopped
by descent, resumed, adopted.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bs4_agent.launch.start import launch
from bs4_agent.paths import Home
from bs4_agent.runs.adopt import adopt, candidates
from bs4_agent.runs.archive import archive_logs
from bs4_agent.runs.follower import RunFollower
from bs4_agent.runs.outcome import judge
from bs4_agent.runs.registry import Runs
from bs4_agent.runs.stop import StopRun
from bs4_agent.scope import Scope
from bs4_agent.streams.registry import Streams
from bs4_agent.telemetry.processes import ProcessTable
from bs4_common.checkpoints.inventory import newest_resumable
from bs4_common.errors import RunExists
from bs4_common.failures import environment_probes
from bs4_common.streams.segments import SegmentStream
from bs4_common.trainers import verl_processes
from bs4_common.trainers.base import LaunchSpec
from tests.agent.runs.practice import ListJournal, components, ended, kill, until

pytestmark = [pytest.mark.long, pytest.mark.beside]

install = pytest.importorskip("bs4_practice.miniature.install")

TOML = """
[trainer]
project_name = "practice"
experiment_name = "demo"
n_gpus_per_node = 2
total_training_steps = 400
save_freq = 5
logger = ["console"]
val_before_train = false
[data]
train_batch_size = 8
"""


class Place:
    """A pod with the miniature verl as its training environment."""

    def __init__(self, root: Path) -> None:
        self.root, self.project = root, root / "verl"
        self.project.mkdir()
        install.install_verl(self.project, sys.executable)
        (self.project / "verl/version").mkdir(parents=True)
        (self.project / "verl/version/version").write_text("0.6.1\n")
        (self.project / "verl.toml").write_text(TOML)
        self.home = Home(root / "home")
        self.home.create()
        self.journal = ListJournal(root / "journal.ndjson")
        scope = Scope.from_environment()
        self.runs = Runs(
            self.home, scope, self.journal, ProcessTable(scope), settle_s=0.5, snapshot_age_s=0.1
        )
        self.streams = Streams()
        self.follower = RunFollower(self.streams, self.runs)

    def spec(self, *overrides: str) -> LaunchSpec:
        return LaunchSpec(
            run="demo",
            trainer="verl",
            config=Path("verl.toml"),
            cwd=self.project,
            output_dir=self.project / "outputs",
            overrides=overrides,
        )

    def until(self, condition: Callable[[], Any], seconds: float = 90.0) -> Any:
        def looked() -> Any:
            self.runs.poll()
            self.follower.poll()
            return condition()

        return until(looked, seconds)

    def step(self, name: str = "demo") -> int:
        return self.follower.recent(name).side("trainer").last_step or 0

    def records(self, name: str = "demo") -> list[dict[str, Any]]:
        stream = self.streams.get(f"steps/{name}")
        assert isinstance(stream, SegmentStream)
        return list(stream.records())

    def whole(self) -> int:
        found = newest_resumable(self.runs.trainer(self.spec()).checkpoints(self.spec()))
        return found.step if found is not None else 0


@pytest.fixture
def place(no_process_left: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    with tempfile.TemporaryDirectory(prefix="bs4-") as short:
        monkeypatch.setenv("RAY_TMPDIR", str(Path(short) / "tmp"))
        monkeypatch.setenv("BS4_MINIATURE_STEP_SECONDS", "0.1")
        made = Place(Path(short))
        yield made
        for run in made.runs.all():
            StopRun(made.runs, run.name, scale=0.1).execute()
        made.streams.close()


def test_a_run_is_launched_followed_and_stopped_by_descent(place: Place) -> None:
    attempt = launch(place.runs, place.spec(), key="k1")
    found = components(place.runs, "launcher", "trainer", "worker", "ray", name="demo")
    assert os.getsid(found["worker"].pid) == os.getsid(
        attempt.launcher.pid if attempt.launcher else 0
    )
    # a signal to the driver's group would not reach it
    assert os.getpgid(found["worker"].pid) == found["worker"].pid
    place.until(lambda: place.step() >= 6 and place.whole() >= 5)
    records = place.records()
    trained = {r["step"]: r for r in records if r["side"] == "trainer"}
    assert {"loss", "grad_norm", "lr", "entropy", "time_s"} <= trained[3].keys()
    assert {r["step"]: r for r in records if r["side"] == "orchestrator"}[3]["reward"] > 0
    # Rows of the file logger and lines of the driver are one step each, whichever came first.
    assert {r["at"]["stream"] for r in records} <= {"log/demo/trainer", "log/demo/metrics"}
    assert environment_probes.flat_settings(place.spec(), attempt.argv)["trainer.save_freq"] == 5  # type: ignore[index]
    place.until(lambda: phase_of(place) == "rollout")
    place.until(lambda: phase_of(place) == "train")
    titles = {member.cmdline[0] for member in place.runs.members("demo") if member.alive}
    assert {"ray::DashboardAgent", "ray::RuntimeEnvAgent"} <= titles
    StopRun(place.runs, "demo", scale=0.2).execute()
    end = ended(place.runs, "demo")
    assert not end.good
    assert place.runs.leftovers("demo") == []
    assert not [m for m in place.runs.members("demo") if m.alive]
    # The metrics file lies beside the checkpoints: it is kept, and they are not.
    kept = archive_logs(place.runs, "demo").directory
    assert [path.name for path in sorted(kept.rglob("*")) if path.is_file()] == ["metrics.1.jsonl"]


def test_a_good_end_is_its_final_line_and_ray_leaves_its_agents(place: Place) -> None:
    launch(place.runs, place.spec("trainer.total_training_steps=3"), key="k1")
    end = ended(place.runs, "demo")
    assert (end.code, end.good) == (0, True)
    assert "its final line was written" in end.detail
    left = place.runs.leftovers("demo")
    assert sorted(m.cmdline[0] for m in left) == ["ray::DashboardAgent", "ray::RuntimeEnvAgent"]
    assert {m.proof for m in left} == {"descent"}
    with pytest.raises(RunExists, match="there still live"):
        launch(place.runs, place.spec(), key="k2")
    StopRun(place.runs, "demo", scale=0.2).execute()
    assert place.runs.leftovers("demo") == []


@pytest.mark.parametrize("who", ["launcher", "worker"])
def test_killed_and_resumed_without_a_step_lost_above_the_last_whole_checkpoint(
    place: Place, who: str
) -> None:
    launch(place.runs, place.spec(), key="k1")
    found = components(place.runs, "launcher", "trainer", "worker", name="demo")
    place.until(lambda: place.step() >= 7)
    kill(found[who])
    end = ended(place.runs, "demo")
    assert not end.good
    until(lambda: not found["trainer"].alive())
    if who == "worker":
        place.until(
            lambda: (
                any("ActorDiedError" in e.text for e in place.follower.recent("demo").errors)
                or _said(place, "ActorDiedError")
            )
        )
    whole = place.whole()
    assert whole >= 5
    StopRun(place.runs, "demo", scale=0.2).execute()
    attempt = launch(place.runs, replace(place.spec(), resume=whole), key="k2")
    assert (
        f"trainer.resume_from_path={place.project}/outputs/demo/checkpoints/global_step_{whole}"
        in attempt.argv
    )
    place.until(lambda: place.follower.recent("demo").attempt == 2 and place.step() >= whole + 2)
    steps = sorted(
        r["step"] for r in place.records() if r["attempt"] == 2 and r["side"] == "trainer"
    )
    assert steps[0] == whole + 1
    run = place.project / "outputs/demo"
    assert sorted(path.name for path in run.glob("metrics.*")) == [
        "metrics.1.jsonl",
        "metrics.2.jsonl",
    ]


def phase_of(place: Place) -> str:
    """Return the phase that the titles name now, as the stall detector names it, or "" if no title
    does.

    Titles are read from /proc here. The process table reads a title again only every 60 s once a
    process is 10 s old and its 15-character name is unchanged (all of `ray::WorkerDict.*` share
    one), so on a slow machine it would miss phases of 40 ms.
    """
    pids = [member.identity.pid for member in place.runs.members("demo") if member.alive]
    return verl_processes.phase(
        Path(f"/proc/{pid}/cmdline").read_text().partition("\0")[0] for pid in pids
    )


def _said(place: Place, text: str) -> bool:
    return text in (place.home.attempt("demo", 1) / "launcher.log").read_text(errors="replace")


def test_only_the_task_runner_says_that_a_run_is_alive(place: Place) -> None:
    launch(place.runs, place.spec(), key="k1")
    found = components(place.runs, "launcher", "trainer", "worker", "ray", name="demo")
    members = [m for m in place.runs.members("demo") if m.alive]
    attempt = place.runs.get("demo").attempts[0]
    kill(found["launcher"])
    until(lambda: not found["launcher"].alive())
    directory = place.root / "nothing-written-there"
    directory.mkdir()
    attempt = replace(attempt, adopted=True)  # nobody's shim keeps its exit code
    others = [m for m in members if m.component not in ("launcher", "trainer")]
    runner = [m for m in members if m.component == "trainer"]
    assert judge(directory, attempt, [*others, *runner], settled=True) is None
    assert {m.component for m in others} >= {"worker", "ray"}
    over = judge(directory, attempt, others, settled=True)
    assert over is not None
    assert over.state == "ended"


def test_a_run_that_somebody_started_is_adopted_from_its_log(place: Place) -> None:
    words = [
        "trainer.project_name=p",
        "trainer.experiment_name=e",
        "trainer.n_gpus_per_node=1",
        "trainer.save_freq=2",
        "data.train_batch_size=4",
        "trainer.logger=[console]",
        "trainer.val_before_train=False",
    ]
    with open(place.project / "training.log", "wb") as output:
        by_hand = subprocess.Popen(
            [str(place.project / ".venv/bin/python3"), "-u", "-m", "verl.trainer.main_ppo", *words],
            cwd=place.project,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        table = place.runs.table
        (candidate,) = until(
            lambda: [
                c
                for c in candidates(place.runs, table.snapshot(max_age=0.0))
                if c.spec.cwd == place.project
            ]
        )
        assert adopt(place.runs, candidate).name == "e"
        place.until(lambda: place.step("e") >= 3)
        layout = place.runs.trainer(place.runs.get("e")).layout(place.runs.get("e").spec)
        assert layout.trainer_checkpoints == place.project / "checkpoints/p/e"
        # The tracker is written a moment after the directory.
        place.until(
            lambda: any(
                c.complete
                for c in place.runs.trainer(place.runs.get("e")).checkpoints(
                    place.runs.get("e").spec
                )
            )
        )
        StopRun(place.runs, "e", scale=0.2).execute()
        assert not [m for m in place.runs.members("e") if m.alive]
    finally:
        by_hand.kill()
        by_hand.wait()


def test_the_command_typed_again_goes_on_with_the_run_and_its_directories(place: Place) -> None:
    attempt = launch(place.runs, place.spec(), key="k1")
    place.until(lambda: place.step() >= 6 and place.whole() >= 5)
    StopRun(place.runs, "demo", scale=0.2).execute()
    ended(place.runs, "demo")
    layout = place.runs.trainer(place.spec()).layout(place.runs.get("demo").spec)
    words = [
        word
        for word in attempt.argv
        if word != "env" and not word.startswith(("VERL_", "trainer.resume_"))
    ]
    with open(place.project / "training.log", "wb") as output:
        by_hand = subprocess.Popen(
            words,
            cwd=place.project,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        table = place.runs.table
        (candidate,) = until(
            lambda: [
                c
                for c in candidates(place.runs, table.snapshot(max_age=0.0))
                if c.spec.cwd == place.project
            ]
        )
        run = adopt(place.runs, candidate)
        assert (run.name, run.adopted, [one.name for one in place.runs.all()]) == (
            "demo",
            True,
            ["demo"],
        )
        assert place.runs.trainer(run).layout(run.spec) == layout
        place.until(lambda: place.follower.recent("demo").attempt == 2 and place.step() >= 7)
        StopRun(place.runs, "demo", scale=0.2).execute()
        assert not [m for m in place.runs.members("demo") if m.alive]
    finally:
        by_hand.kill()
        by_hand.wait()


@pytest.mark.parametrize(
    ("title", "component"),
    [
        ("ray::TaskRunner.run", "trainer"),
        ("ray::TaskRunner", "trainer"),
        ("ray::TaskRunnerV1.run", "trainer"),
        ("ray::main_task", "trainer"),
        ("ray::WorkerDict", "worker"),
        ("ray::WorkerDict.actor_rollout_update_actor", "worker"),
        ("ray::CheckpointEngineWorker", "worker"),
        ("ray::vLLMHttpServer", "inference"),
        ("ray::AsyncvLLMServer", "inference"),
        ("ray::SGLangHttpServer.launch", "inference"),
        ("ray::AgentLoopWorker", "env-server"),
        ("ray::RewardLoopWorker", "env-server"),
        ("VLLM::EngineCore", "engine"),
        ("ray::DashboardAgent", "ray"),
        ("ray::RuntimeEnvAgent", "ray"),
        ("/x/ray/core/src/ray/raylet/raylet", "ray"),
        ("/x/ray/core/src/ray/gcs/gcs_server", "ray"),
        ("bash", None),
    ],
)
def test_what_a_process_is_by_its_title(title: str, component: str | None) -> None:
    assert verl_processes.component([title], "") == component


def test_programs_of_ray_by_their_path() -> None:
    for name in (
        "dashboard/dashboard.py",
        "_private/log_monitor.py",
        "autoscaler/_private/monitor.py",
    ):
        assert (
            verl_processes.component(
                ["/usr/bin/python3", f"/x/site-packages/ray/{name}", "--port=8265"], "python3"
            )
            == "ray"
        )
    assert (
        verl_processes.component(["/usr/bin/python3", "/home/someone/monitor.py"], "python3")
        is None
    )


@pytest.mark.parametrize(
    ("titles", "phase"),
    [
        (["ray::WorkerDict", "ray::TaskRunner.run"], ""),
        (["ray::WorkerDict.actor_rollout_update_actor", "ray::WorkerDict"], "train"),
        (["ray::WorkerDict.actor_rollout_generate_sequences"], "rollout"),
        (["ray::WorkerDict.actor_rollout_compute_log_prob"], "train"),
        (
            ["ray::WorkerDict.save_checkpoint", "ray::WorkerDict.actor_rollout_update_actor"],
            "checkpoint",
        ),
        (["ray::WorkerDict.init_model"], "start-up"),
    ],
)
def test_the_phase_from_the_titles(titles: list[str], phase: str) -> None:
    assert verl_processes.phase(titles) == phase
