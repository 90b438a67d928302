"""The SFT trainer of verl 0.9.1 from PyPI on the CPU, launched as the product launches it, and what
the product reads of it: `make test-pypi-trainers`.
"""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from bs4_agent.launch.start import launch
from bs4_agent.paths import Home
from bs4_agent.runs.registry import Runs
from bs4_agent.scope import Scope
from bs4_agent.telemetry.processes import ProcessTable
from bs4_common.trainers import registry
from bs4_common.trainers.base import Event, LaunchSpec
from bs4_console.checks.diagnose import diagnose
from tests.agent.runs.practice import ListJournal, until
from tests.support.environments import READY

VERL = Path(__file__).resolve().parents[2] / "build/verl"
RUN = "real"

pytestmark = [
    pytest.mark.pypi,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(
        not (VERL / READY).exists(),
        reason="verl is not in build/verl: `make test-pypi-trainers` does it where it can",
    ),
]
CONFIG = """
[data]
train_files = "{train}"
val_files = "{root}/val.parquet"
train_batch_size = 8
micro_batch_size_per_gpu = 4
num_workers = 0
max_length = 64
use_dynamic_bsz = false
[model]
path = "{root}/model"
use_remove_padding = false
"+override_config.attn_implementation" = "sdpa"
[engine]
strategy = "fsdp2"
use_torch_compile = false
[trainer]
device = "cpu"
logger = ["console", "file"]
total_training_steps = {steps}
total_epochs = 100
save_freq = 3
test_freq = 4
"""
SETTINGS = {
    "PYTHONPATH": str(Path(__file__).parent),
    "VERL_USE_EXTERNAL_MODULES": "cpu_platform",
    "VERL_PLATFORM": "cpu",
    "VERL_ENGINE_DEVICE": "cuda",
    "HF_HUB_OFFLINE": "1",
    "OMP_NUM_THREADS": "1",
}


@pytest.fixture(scope="module")
def material(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with a tiny model and conversations."""
    root = tmp_path_factory.mktemp("material")
    script = Path(__file__).with_name("material.py")
    subprocess.run([VERL / "bin/python", script, root], timeout=600, check=True)
    return root


class Real:
    """One run of SFT and the agent's registry that watches it."""

    def __init__(self, root: Path, material: Path) -> None:
        home = Home(root / "home")
        home.create()
        self.work, self.material = root / "work", material
        self.work.mkdir()
        (self.work / ".venv").symlink_to(VERL)
        scope = Scope.from_environment()
        journal = ListJournal(root / "journal.ndjson")
        self.runs = Runs(
            home, scope, journal, ProcessTable(scope), settle_s=0.2, snapshot_age_s=0.05
        )
        self.spec = LaunchSpec(
            run=RUN,
            trainer="verl",
            config=Path("sft.toml"),
            cwd=self.work,
            output_dir=self.work / "out",
            component="sft",
            env=SETTINGS,
        )
        self.verl = registry.get("verl")

    def start(self, steps: int, *, train: str = "train", resume: int | None = None) -> None:
        config = CONFIG.format(
            root=self.material, train=self.material / f"{train}.parquet", steps=steps
        )
        (self.work / "sft.toml").write_text(config)
        self.spec = replace(self.spec, resume=resume)
        launch(self.runs, self.spec, key=f"start {resume}")

    def ended(self) -> bool:
        self.runs.poll()
        return self.runs.get(RUN).attempt.end is not None

    def components(self) -> list[str | None]:
        self.runs.poll()
        return [member.component for member in self.runs.members(RUN) if member.alive]

    def log(self, attempt: int) -> Path:
        return self.runs.attempt_directory(RUN, attempt) / "launcher.log"

    def events(self, path: Path, source: str) -> list[Event]:
        raw = path.read_bytes().splitlines(keepends=True)
        found = [self.verl.event(source, self.verl.parse_line(source, line)) for line in raw]
        return [event for event in found if event is not None]

    def metrics(self, attempt: int) -> Path:
        return self.spec.output_dir / RUN / f"metrics.{attempt}.jsonl"

    def complete(self) -> Mapping[int, bool]:
        return {found.step: found.complete for found in self.verl.checkpoints(self.spec)}


def steps_of(events: list[Event], kind: str) -> list[int | None]:
    return [event.step for event in events if event.kind == kind]


def test_killed_resumed_and_ended(tmp_path: Path, material: Path) -> None:
    real = Real(tmp_path, material)
    real.start(500)
    until(lambda: real.complete().get(6, False) or real.ended(), 600)
    assert {"launcher", "rank"} <= set(real.components())
    (rank,) = [m for m in real.runs.members(RUN) if m.alive and m.component == "rank"]
    assert rank.identity.send(signal.SIGKILL)
    until(real.ended, 120)
    told = real.events(real.metrics(1), "metrics")
    steps = steps_of(told, "step")
    assert steps[:6] == [1, 2, 3, 4, 5, 6]
    first = next(event for event in told if event.kind == "step")
    assert {"loss", "lr", "grad_norm"} <= set(first.values)
    assert steps_of(told, "eval")[:1] == [4]
    printed = real.events(real.log(1), "trainer")
    assert steps_of(printed, "step")[:6] == [1, 2, 3, 4, 5, 6]
    assert steps_of(printed, "save")[:2] == [3, 6]
    newest = max(step for step, complete in real.complete().items() if complete)
    assert newest % 3 == 0
    findings = diagnose([real.log(1)], "trainer", "verl")["findings"]
    assert [f["id"] for f in findings if f["role"] == "root"] == ["rank-sigkill"]

    real.start(newest + 2, resume=newest)
    until(real.ended, 600)
    again = real.events(real.log(2), "trainer")
    assert steps_of(again, "step") == [newest + 1, newest + 2]
    assert steps_of(again, "finished") == [None]
    assert real.complete()[newest + 2]
    assert diagnose([real.log(2)], "trainer", "verl")["findings"] == []


def test_an_exception_in_the_data(tmp_path: Path, material: Path) -> None:
    real = Real(tmp_path, material)
    real.start(12, train="bad")
    until(real.ended, 600)
    assert "is larger than self.max_length=64" in real.log(1).read_text()
    findings = diagnose([real.log(1)], "trainer", "verl")["findings"]
    assert [f["id"] for f in findings] == ["trainer-exited"]
