"""The plan of a launch: which step and why, what is in the way, whose the name and the directory
are, and a hash that means just that.
"""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from bs4_agent.launch import plan as launch_plan
from bs4_agent.paths import Home
from bs4_agent.runs.records import spec_as_dict
from bs4_agent.runs.registry import Runs
from bs4_agent.scope import Scope
from bs4_agent.telemetry.processes import ProcessTable
from bs4_common.errors import BadRequest, Refused, RunExists
from bs4_common.ledger import Ledger
from bs4_common.runs.model import Attempt
from bs4_common.trainers.base import LaunchSpec
from tests.agent.runs.practice import ListJournal

OLD, NEW = "prime-rl-2026-01", "prime-rl"
CONFIGS = {
    OLD: (
        'max_steps = 100\n[model]\nname = "org/model"\n[ckpt]\ninterval = 5\n[orchestrator]\n'
        'lora_name = "a"\n[wandb]\nproject = "p"\n'
    ),
    NEW: 'max_steps = 100\n[model]\nname = "org/model"\n[ckpt]\ninterval = 5\n',
}


class Bench:
    """An agent's home, a checkout with a config, and a `uv` that is only there to be found."""

    def __init__(self, root: Path, trainer: str) -> None:
        self.trainer, self.cwd = trainer, root / "prime-rl"
        (self.cwd / "configs").mkdir(parents=True)
        (self.cwd / "configs" / "rl.toml").write_text(CONFIGS[trainer])
        self.home = Home(root / ".bs4")
        self.home.create()
        self.runs = self.open()

    def open(self) -> Runs:
        table = ProcessTable(Scope.from_environment())
        return Runs(
            self.home, Scope.from_environment(), ListJournal(self.home.root / "journal"), table
        )

    @property
    def out(self) -> Path:
        return self.cwd / "outputs"

    def run_dir(self, run: str = "demo") -> Path:
        return self.out / ("run_default" if self.trainer == OLD else run)

    def save(self, step: int, *parts: str, run: str = "demo") -> None:
        """Parts of a checkpoint, each with its last-written marker and something in it."""
        base = self.run_dir(run)
        trainer = (
            (self.out if self.trainer == OLD else base) / "checkpoints" / f"step_{step}" / "trainer"
        )
        places = {
            "trainer": [trainer / ".metadata", trainer / "__0_0.distcp"],
            "orchestrator": [
                base / "checkpoints" / f"step_{step}" / "orchestrator" / name
                for name in ("progress.pt", "buffer/rollout_buffer.jsonl")
            ],
            "broadcast": [
                base / "broadcasts" / f"step_{step}" / name
                for name in ("STABLE", "model.safetensors")
            ],
        }
        for part in parts or tuple(places):
            for path in places[part]:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(
                    b"\x02" + bytes(7) + b"{}" if path.suffix == ".safetensors" else b"x" * 64
                )

    def ended(self, run: str = "demo", **more: Any) -> None:
        """The run as an agent knows it that has seen one attempt of it end."""
        spec = LaunchSpec(
            run=run,
            trainer=self.trainer,
            config=Path("configs/rl.toml"),
            cwd=self.cwd,
            output_dir=self.out,
            **more,
        )
        directory = self.home.attempt(run, 1)
        directory.mkdir(parents=True)
        stamp = {"t": 1.0, "m": 1.0, "b": "x"}
        (self.home.run(run) / "run.json").write_text(
            json.dumps({"spec": spec_as_dict(spec), "adopted": False})
        )
        (directory / "spec.json").write_text(
            json.dumps({"launch": spec_as_dict(spec), "argv": ["uv"], "key": "K"})
        )
        (directory / "shim.json").write_text(
            json.dumps({**stamp, "exec_t": 1.0, "shim": None, "launcher": None})
        )
        (directory / "outcome.json").write_text(
            json.dumps(
                {
                    "state": "ended",
                    "code": 1,
                    "signal": None,
                    "t": 2.0,
                    "good": False,
                    "detail": "x",
                }
            )
        )
        self.runs = self.open()

    def plan(self, run: str = "demo", tries: int = 0, **more: Any) -> launch_plan.LaunchPlan:
        asked = {
            "run": run,
            "trainer": self.trainer,
            "config": "configs/rl.toml",
            "cwd": str(self.cwd),
            "output_dir": "outputs",
            **more,
        }
        return launch_plan.make(self.runs, asked, tries=tries)


@pytest.fixture(params=[OLD, NEW])
def bench(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    program = tmp_path / "bin" / "uv"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    return Bench(tmp_path, request.param)


def below(bench: Bench, plan: launch_plan.LaunchPlan) -> set[str]:
    return {str(path.relative_to(bench.out)) for path in plan.moves}


def test_what_no_rename_moves_is_said_when_the_plan_is_made(bench: Bench, other_disk: Path) -> None:
    bench.save(5)
    bench.save(10)
    step = bench.run_dir() / "checkpoints" / "step_10"
    subprocess.run(["mount", "--bind", str(other_disk), str(step)], check=True)
    try:
        with pytest.raises(Refused, match=f"{step} is mounted there"):
            bench.plan(resume=5)
    finally:
        subprocess.run(["umount", str(step)], check=True)


def test_nothing_there_is_a_start_afresh_that_moves_nothing(bench: Bench) -> None:
    plan = bench.plan()
    assert (plan.spec.resume, plan.moves, plan.typed_name, plan.attempt) == (None, [], False, 0)
    shown = plan.as_dict()
    assert [step["kind"] for step in shown["steps"]] == ["start", "first_step"]
    assert "--ckpt" in plan.argv
    assert shown["config"]["model"] == "org/model"
    assert "nothing was saved" in plan.why


def test_the_newest_step_that_is_complete_on_every_side_is_resumed(bench: Bench) -> None:
    bench.ended()
    for step in (5, 10):
        bench.save(step)
    bench.save(15, "orchestrator")
    plan = bench.plan()
    assert plan.spec.resume == 10
    assert "step 10 is the newest" in plan.why
    assert "step 15 lacks trainer" in plan.why
    assert any("step_15" in name for name in below(bench, plan))
    assert not any("step_10" in name or "step_5" in name for name in below(bench, plan))
    assert not plan.typed_name, "nothing whole is moved"
    flag = "--ckpt.resume-step" if bench.trainer == OLD else "--resume.step"
    assert plan.argv[list(plan.argv).index(flag) + 1] == "10"


def test_the_logs_of_the_attempt_before_are_archived_by_a_step_of_the_plan(bench: Bench) -> None:
    bench.save(5)
    assert "archive_logs" not in [step.kind for step in bench.plan().steps]
    bench.ended()
    bench.save(10, "orchestrator")
    shown = bench.plan().as_dict()["steps"]
    assert [step["kind"] for step in shown] == ["archive_logs", "move_aside", "start", "first_step"]
    assert shown[0]["title"] == "Archive the logs of demo"
    assert shown[1]["shown"]["directories"], "the sizes are of the step that moves"
    assert "directories" not in shown[0]["shown"]


def test_where_nothing_is_complete_a_silent_fresh_start_is_refused(bench: Bench) -> None:
    bench.ended()
    bench.save(5, "orchestrator")
    with pytest.raises(Refused, match=r"step 5 lacks trainer.*none can be resumed.*--fresh"):
        bench.plan()
    plan = bench.plan(fresh=True)
    assert plan.spec.resume is None
    assert plan.typed_name
    assert bench.run_dir().relative_to(bench.out).parts[0] in {
        name.split("/")[0] for name in below(bench, plan)
    }
    assert bench.run_dir().exists(), "a plan moves nothing"


def test_going_back_below_what_is_complete_wants_the_name(bench: Bench) -> None:
    bench.ended()
    bench.save(5)
    bench.save(10)
    plan = bench.plan(resume=5)
    assert (plan.spec.resume, plan.typed_name) == (5, True)
    assert any("step_10" in name for name in below(bench, plan))
    with pytest.raises(Refused, match=r"Step 7 is not complete.*Complete steps: 5, 10"):
        bench.plan(resume=7)
    with pytest.raises(BadRequest, match="either afresh or from a step"):
        bench.plan(resume=5, fresh=True)


def test_a_run_that_has_done_its_last_step_is_not_started_for_nothing(bench: Bench) -> None:
    bench.ended()
    bench.save(100)
    with pytest.raises(Refused, match=r"max_steps is 100, so nothing is left"):
        bench.plan()


def test_a_name_that_is_taken_says_by_which_and_the_next_free_one(bench: Bench) -> None:
    bench.ended()
    bench.ended("demo-2")
    with pytest.raises(
        RunExists, match=r"The name demo is taken: by rl of .*outputs\. Start this one as demo-3"
    ):
        bench.plan(output_dir="elsewhere")
    with pytest.raises(RunExists, match=rf"or continue that one with --output-dir {bench.out}\."):
        bench.plan(output_dir="elsewhere")
    with pytest.raises(
        RunExists,
        match=r"demo-3, or continue that one with `bs4-console playbook run resume-run --run "
        r"demo`\.",
    ):
        bench.plan(component="sft")


def test_what_another_run_has_saved_is_not_continued_by_chance(bench: Bench) -> None:
    bench.ended()
    bench.save(5)
    if bench.trainer == NEW:
        assert bench.plan("other").spec.resume is None, "each run has a directory of its own"
        return
    with pytest.raises(Refused, match=r"holds what demo has written.*--run demo"):
        bench.plan("other")
    assert bench.plan("other", fresh=True).typed_name


@pytest.mark.parametrize("asked", [{"resume": 5}, {"resume": 10}, {"fresh": True}])
def test_nothing_is_started_where_another_run_trains(bench: Bench, asked: dict[str, Any]) -> None:
    bench.ended()
    bench.save(5)
    bench.save(10)
    bench.runs.get("demo").attempts = [
        Attempt(
            number=1,
            state="running",
            shim=None,
            launcher=None,
            started_t=0.0,
            started_m=0.0,
            resume=None,
            argv=(),
        )
    ]
    if bench.trainer == NEW:
        bench.save(5, run="other")
        bench.save(10, run="other")
        assert bool(bench.plan("other", **asked).moves) == (asked != {"resume": 10}), (
            "each run has a directory of its own"
        )
        return
    with pytest.raises(
        Refused, match=r"other and demo, which is running, both write to .*Stop demo first"
    ):
        bench.plan("other", **asked)
    bench.runs.get("demo").spec = dataclasses.replace(
        bench.runs.get("demo").spec, component="inference"
    )
    assert bench.plan("other", **asked).spec.run == "other", "an engine that serves it"


def test_the_hash_is_of_what_would_be_done(bench: Bench) -> None:
    first = bench.plan().hash
    assert bench.plan().hash == first
    assert bench.plan(tries=1).hash != first, "a second try is another action"
    assert bench.plan(overrides=["--max-steps", "7"]).hash != first
    (bench.cwd / "configs" / "rl.toml").write_text(CONFIGS[bench.trainer].replace("100", "200"))
    assert bench.plan().hash != first, "the config is part of it"


def test_tracking_goes_on_under_the_same_id_and_begins_anew_afresh(bench: Bench) -> None:
    def ids(plan: launch_plan.LaunchPlan) -> list[str]:
        if bench.trainer == NEW:
            return [plan.environment["PRL_RUN_ID"]]
        return [
            plan.argv[plan.argv.index(f"--{side}.wandb.id") + 1]
            for side in ("trainer", "orchestrator")
        ]

    first = bench.plan()
    assert len(set(ids(first))) == len(ids(first))
    assert ids(bench.plan("other")) != ids(first)
    bench.ended(overrides=tuple(first.spec.overrides), env=dict(first.spec.env))
    bench.save(5)
    assert ids(bench.plan()) == ids(first)
    assert not set(ids(bench.plan(fresh=True))) & set(ids(first))
    assert bench.plan().notes == [], "the id is no argument that somebody forgot"


def test_an_id_that_the_config_names_stands(bench: Bench) -> None:
    if bench.trainer == OLD:
        (bench.cwd / "configs" / "rl.toml").write_text(
            CONFIGS[OLD] + '[trainer.wandb]\nid = "mine"\n'
        )
        assert "--trainer.wandb.id" not in bench.plan().argv
        assert "--orchestrator.wandb.id" in bench.plan().argv
    else:
        assert bench.plan(env={"PRL_RUN_ID": "mine"}).environment["PRL_RUN_ID"] == "mine"


def test_arguments_that_were_left_out_are_said(bench: Bench) -> None:
    bench.ended(overrides=("--max-steps", "50"))
    bench.save(5)
    assert bench.plan().notes == ["The attempt before had --max-steps 50; this one has not."]
    assert bench.plan(overrides=["--max-steps", "60"]).notes == []


def test_leaving_the_container_of_the_attempt_before_is_said(bench: Bench) -> None:
    bench.ended(container="trainer")
    bench.save(5)
    assert bench.plan().notes == [
        "The attempt before ran in container trainer; this one starts on the machine itself."
    ]


def test_the_config_is_named_by_version_and_parent(bench: Bench) -> None:
    values = bench.plan().config["values"]
    versions = {"v1": {"digest": "other"}, "v2": {"digest": values, "based_on": "rl.toml:v1"}}
    registry = bench.cwd / "configs" / "registry.json"
    registry.write_text(
        json.dumps({"configs": {"rl.toml": {"current_version": "v2", "versions": versions}}})
    )
    config = bench.plan().config
    assert (config["version"], config["based_on"]) == ("v2", "rl.toml:v1")
    for damaged in ("{", "[]", '{"configs": {"rl.toml": 3}}'):
        registry.write_text(damaged)
        assert bench.plan().config["version"] == ""


def test_secrets_do_not_go_into_what_is_written_down(bench: Bench) -> None:
    for name in ("WANDB_API_KEY", "HF_TOKEN", "B2_APPLICATION_KEY", "my_secret", "DB_PASSWORD"):
        with pytest.raises(BadRequest, match="looks like a secret"):
            bench.plan(env={name: "x"})
    assert (
        bench.plan(env={"TOKENIZERS_PARALLELISM": "false"}).environment["TOKENIZERS_PARALLELISM"]
        == "false"
    )


@pytest.mark.parametrize("component", ["inference", "orchestrator", "trainer", "sft", "eval"])
def test_parts_and_programs_of_their_own_are_started_by_their_real_command(
    bench: Bench, component: str
) -> None:
    plan = bench.plan("part", component=component)
    script = "evals" if component == "eval" and bench.trainer == NEW else component
    assert list(plan.argv[:5]) == ["uv", "run", script, "@", "configs/rl.toml"]
    assert ("--ckpt" in plan.argv) == (component in ("orchestrator", "trainer", "sft"))
    kinds = [step["kind"] for step in plan.as_dict()["steps"]]
    assert kinds[-1] == "first_step", "each is watched until it is known to be good"
    if component == "trainer":
        several = bench.plan("part", component="trainer", processes=4)
        assert list(several.argv[:8]) == [
            "uv",
            "run",
            "torchrun",
            "--nproc-per-node",
            "4",
            "-m",
            "prime_rl.trainer.rl.train",
            "@",
        ]


def test_an_attempts_overrides_are_in_the_journal(bench: Bench) -> None:
    bench.ended(overrides=("--max-steps", "50"))
    bench.runs.poll()
    ledger = Ledger(ListJournal(bench.home.root / "journal").records() and ())
    for number, record in enumerate(ListJournal(bench.home.root / "journal").records()):
        ledger.apply({"t": 1.0, "seq": number, **record})
    assert ledger.runs["demo"].attempts[1].overrides == ["--max-steps", "50"]


def test_the_plan_says_where_the_config_that_is_to_be_launched_ends(bench: Bench) -> None:
    bench.ended()
    text = CONFIGS[bench.trainer].replace("max_steps = 100", "max_steps = 30")
    (bench.cwd / "configs" / "short.toml").write_text(text)
    assert bench.plan(config="configs/short.toml").as_dict()["config"]["max_steps"] == 30
