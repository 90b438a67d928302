"""The plan of a verl launch: the same guided path as prime-rl's, by Hydra's words and verl's
files.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bs4_agent.launch import plan as launch_plan
from bs4_agent.paths import Home
from bs4_agent.runs.records import spec_as_dict
from bs4_agent.runs.registry import Runs
from bs4_agent.scope import Scope
from bs4_agent.telemetry.processes import ProcessTable
from bs4_common.errors import BadRequest, Refused
from bs4_common.trainers.base import LaunchSpec
from bs4_common.trainers.settings import BadConfig
from tests.agent.checkpoints import test_verl as files
from tests.agent.runs.practice import ListJournal

RL = """
[trainer]
total_training_steps = 40
save_freq = 5
max_actor_ckpt_to_keep = 3
n_gpus_per_node = 2
logger = ["console", "wandb"]
[actor_rollout_ref.model]
path = "Qwen/Qwen2.5-0.5B-Instruct"
[environment]
VLLM_ATTENTION_BACKEND = "FLASH_ATTN"
"""
SFT = """
[trainer]
save_freq = 5
total_epochs = 2
n_gpus_per_node = 2
logger = ["console"]
[model]
partial_pretrain = "a/b"
"""


class Bench:
    """An agent's home, and a checkout of verl 0.6 with both kinds of config."""

    def __init__(self, root: Path) -> None:
        self.cwd = root / "verl"
        (self.cwd / "verl" / "version").mkdir(parents=True)
        (self.cwd / "verl" / "version" / "version").write_text("0.6.1\n")
        (self.cwd / "rl.toml").write_text(RL)
        (self.cwd / "sft.toml").write_text(SFT)
        self.home = Home(root / ".bs4")
        self.home.create()
        self.runs = self.open()

    def open(self) -> Runs:
        scope = Scope.from_environment()
        return Runs(self.home, scope, ListJournal(self.home.root / "journal"), ProcessTable(scope))

    @property
    def checkpoints(self) -> Path:
        return self.cwd / "outputs" / "demo" / "checkpoints"

    def save(self, *steps: int, tracker: int, part: str = "actor") -> None:
        for step in steps:
            files.part(self.checkpoints / f"global_step_{step}" / part)
            (self.checkpoints / f"global_step_{step}" / "data.pt").write_bytes(b"x")
        (self.checkpoints / files.TRACKER).write_text(str(tracker))

    def ended(self, **more: Any) -> None:
        """The run as an agent knows it that has seen one attempt of it end."""
        spec = LaunchSpec(
            run="demo",
            trainer="verl",
            config=Path("rl.toml"),
            cwd=self.cwd,
            output_dir=self.cwd / "outputs",
            **more,
        )
        directory = self.home.attempt("demo", 1)
        directory.mkdir(parents=True)
        (self.home.run("demo") / "run.json").write_text(
            json.dumps({"spec": spec_as_dict(spec), "adopted": False})
        )
        (directory / "spec.json").write_text(
            json.dumps({"launch": spec_as_dict(spec), "argv": ["python3"], "key": "K"})
        )
        stamp = {"t": 1.0, "m": 1.0, "b": "x"}
        (directory / "shim.json").write_text(
            json.dumps({**stamp, "exec_t": 1.0, "shim": None, "launcher": None})
        )
        outcome = {
            "state": "ended",
            "code": 1,
            "signal": None,
            "t": 2.0,
            "good": False,
            "detail": "x",
        }
        (directory / "outcome.json").write_text(json.dumps(outcome))
        self.runs = self.open()

    def plan(self, **more: Any) -> launch_plan.LaunchPlan:
        asked = {
            "run": "demo",
            "trainer": "verl",
            "config": "rl.toml",
            "cwd": str(self.cwd),
            "output_dir": "outputs",
            **more,
        }
        return launch_plan.make(self.runs, asked)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_a_first_start_has_its_command_environment_and_model(bench: Bench) -> None:
    plan = bench.plan(env={"OMP_NUM_THREADS": "1"}, overrides=["data.train_batch_size=8"])
    assert (plan.spec.resume, plan.why, list(plan.moves), plan.typed_name) == (
        None,
        "nothing was saved here yet",
        [],
        False,
    )
    assert {
        "trainer.resume_mode=disable",
        "data.train_batch_size=8",
        "trainer.experiment_name=demo",
    } <= set(plan.argv)
    assert plan.environment["VLLM_ATTENTION_BACKEND"] == "FLASH_ATTN"
    assert plan.environment["OMP_NUM_THREADS"] == "1"
    assert plan.config["model"] == "Qwen/Qwen2.5-0.5B-Instruct"
    assert [step["kind"] for step in plan.as_dict()["steps"]] == ["start", "first_step"]
    assert (
        plan.hash
        == bench.plan(env={"OMP_NUM_THREADS": "1"}, overrides=["data.train_batch_size=8"]).hash
    )
    assert (
        plan.hash
        != bench.plan(env={"OMP_NUM_THREADS": "1"}, overrides=["data.train_batch_size=9"]).hash
    )


def test_what_was_said_wins_over_the_configs_environment(bench: Bench) -> None:
    assert (
        bench.plan(env={"VLLM_ATTENTION_BACKEND": "XFORMERS"}).environment["VLLM_ATTENTION_BACKEND"]
        == "XFORMERS"
    )


def test_a_secret_in_the_configs_environment_is_refused(bench: Bench) -> None:
    (bench.cwd / "rl.toml").write_text(RL + 'WANDB_API_KEY = "x"\n')
    with pytest.raises(BadRequest, match="looks like a secret"):
        bench.plan()


def test_the_newest_whole_step_is_resumed_and_a_torn_one_moved_aside(bench: Bench) -> None:
    bench.save(5, 10, 15, tracker=10)
    plan = bench.plan()
    assert plan.spec.resume == 10
    assert f"trainer.resume_from_path={bench.checkpoints}/global_step_10" in plan.argv
    assert list(plan.moves) == [bench.checkpoints / "global_step_15"]
    assert not plan.typed_name
    back = bench.plan(resume=5)
    assert (back.spec.resume, back.typed_name) == (5, True)
    with pytest.raises(Refused, match=r"Step 15 is not complete.*Complete steps: 5, 10"):
        bench.plan(resume=15)


def test_nothing_is_left_to_train_at_the_hard_stop(bench: Bench) -> None:
    bench.save(40, tracker=40)
    with pytest.raises(Refused, match=r"trainer\.total_training_steps is 40, so nothing is left"):
        bench.plan()


def test_an_sft_is_resumed_like_rl(bench: Bench) -> None:
    bench.save(5, 10, tracker=10, part="")
    plan = bench.plan(config="sft.toml", component="sft")
    assert plan.spec.resume == 10
    assert "--nproc_per_node=2" in plan.argv
    assert plan.config["model"] == "a/b"
    assert bench.plan(config="sft.toml", component="sft", fresh=True).typed_name


def test_a_mode_that_is_none_and_the_wrong_component_are_refused(bench: Bench) -> None:
    with pytest.raises(BadConfig, match="is no mode"):
        bench.plan(overrides=["trainer.resume_mode=off"])
    with pytest.raises(BadConfig, match="--component sft"):
        bench.plan(config="sft.toml")


def test_a_run_that_goes_on_keeps_its_id_at_wandb(bench: Bench) -> None:
    first = bench.plan().environment
    assert first["WANDB_RESUME"] == "allow"
    bench.save(5, tracker=5)
    bench.ended(env={"WANDB_RUN_ID": "kept"})
    assert bench.plan().environment["WANDB_RUN_ID"] == "kept"
    assert bench.plan(fresh=True).environment["WANDB_RUN_ID"] not in ("kept", first["WANDB_RUN_ID"])
    (bench.cwd / "rl.toml").write_text(RL.replace(', "wandb"', ""))
    assert "WANDB_RUN_ID" not in bench.plan().environment


def test_words_of_the_attempt_before_that_are_missing_now_are_said(bench: Bench) -> None:
    bench.save(5, tracker=5)
    bench.ended(overrides=("data.train_batch_size=8", "trainer.test_freq=7"))
    (note,) = bench.plan(overrides=["trainer.test_freq=9"]).notes
    assert "data.train_batch_size=8" in note
    assert "test_freq" not in note
