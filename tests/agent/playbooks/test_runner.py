"""Plans and their execution on a world of files: hashes, refusals, and a death at every record the
runner writes.
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from bs4_agent.book import Book
from bs4_agent.playbooks import plan as plans
from bs4_common.errors import NotApplicable
from bs4_common.failures.compiled import Library
from bs4_common.failures.facts import GpuFacts, Side
from bs4_common.journal import Journal
from bs4_common.streams.segments import SegmentStream
from bs4_common.trainers.base import Checkpoint
from bs4_console.failures.playbooks import compile_all
from tests.agent.facts import healthy, layout, trained
from tests.agent.playbooks.dying import Died, dying
from tests.agent.playbooks.running import runner

LIBRARY = Library(compile_all())
KEY = "01J00000000000000000000000"


class PodActions:
    """A run of which step 5 is complete and step 10 only half, on real files; it counts what is
    done to it.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.layout = layout(root / "outputs")
        for step in (5, 10):
            (self.layout.orchestrator_checkpoints / f"step_{step}").mkdir(parents=True)
        (self.layout.trainer_checkpoints / "step_5").mkdir(parents=True)
        (self.layout.trainer_checkpoints / "step_5" / ".metadata").write_text("x")
        self.attempt = 1
        self.alive = True
        self.done: list[str] = []
        self.keys: dict[str, int] = {}

    def run_facts(self, run):
        base = healthy(layout=self.layout, attempt=self.attempt)
        members = [dataclasses.replace(m, alive=self.alive) for m in base.members]
        found = (
            [Checkpoint(step=5, parts={}, missing=(), complete=True, bytes=1, newest_mtime=0.0)]
            if (self.layout.trainer_checkpoints / "step_5").exists()
            else []
        )
        known = dataclasses.replace(
            base, members=members, checkpoints=found, trainer_side=Side(), orchestrator_side=Side()
        )
        return trained(known, 6, 7) if self.attempt > 1 else known

    def gpu_facts(self):
        return GpuFacts()

    def stop(self, run, say):
        self.done.append("stop")
        self.alive = False
        return "stopped"

    def stop_command(self, run):
        return "kill"

    def archive_logs(self, run):
        return "archived"

    def trash(self, run, path, key, *, everything=False):
        self.done.append(f"move {path.name}")
        target = self.root / ".bs4" / path.parent.name / path.name
        target.parent.mkdir(parents=True, exist_ok=True)
        return path.rename(target)

    def launch(self, spec, key):
        if key in self.keys:
            return self.keys[key]
        self.done.append(f"launch {spec.resume}")
        self.alive = True
        self.attempt += 1
        self.keys[key] = self.attempt
        return self.attempt

    def launched(self, run, key):
        return self.keys.get(key)

    def command(self, spec):
        return ["uv", "run", "rl", "--ckpt.resume-step", str(spec.resume)]

    def companion(self, run):
        return None

    def port_holders(self, run):
        return []

    def gpu_rivals(self, run):
        return []


@pytest.fixture
def pod_actions(tmp_path):
    return PodActions(tmp_path)


def plan(pod_actions):
    return plans.make(pod_actions, LIBRARY.get("step-desync"), "demo", KEY)


def book(tmp_path):
    return Book(Journal(SegmentStream(tmp_path / "journal", 1 << 20)))


def test_the_plan_shows_what_will_be_done_and_hashes_what_matters(pod_actions):
    made = plan(pod_actions)
    assert [s.kind for s in made.steps] == ["stop_run", "archive_logs", "move_steps", "relaunch"]
    assert made.resume == 5
    assert "step_10" in made.steps[2].command
    assert "--ckpt.resume-step 5" in made.steps[3].command
    assert made.hash == plan(pod_actions).hash
    again = plans.Plan.from_dict(json.loads(json.dumps(made.as_dict())), made.playbook, 0.0)
    assert again.hash == made.hash, "the hash survives the journal"
    pod_actions.attempt = 2
    assert plan(pod_actions).hash != made.hash


def test_a_plan_that_is_made_again_keeps_the_limits_that_were_confirmed(pod_actions):
    """Other numbers of processes and directories make no other plan; another step does."""
    made = plan(pod_actions)
    confirmed = plans.Plan.from_dict(json.loads(json.dumps(made.as_dict())), made.playbook, 0.0)
    (pod_actions.layout.orchestrator_checkpoints / "step_12").mkdir()
    pod_actions.alive = False
    now = plan(pod_actions)
    assert [step.parameters.get("limit") for step in now.steps] != [
        step.parameters.get("limit") for step in made.steps
    ]
    assert now.hash != made.hash
    playbook = LIBRARY.get("step-desync")
    again = plans.make(pod_actions, playbook, "demo", KEY, "", confirmed)
    assert again.hash == made.hash
    assert "step_12" in again.steps[2].command, "what it would move now is shown"
    pod_actions.attempt = 2
    assert plans.make(pod_actions, playbook, "demo", KEY, "", confirmed).hash != made.hash


def test_without_a_complete_step_there_is_no_plan_but_a_word_where_to_go(pod_actions):
    (pod_actions.layout.trainer_checkpoints / "step_5" / ".metadata").unlink()
    (pod_actions.layout.trainer_checkpoints / "step_5").rmdir()
    with pytest.raises(NotApplicable, match="start-afresh"):
        plan(pod_actions)


def test_it_does_it_verifies_it_and_journals_it(pod_actions, tmp_path):
    diary = book(tmp_path)
    assert runner(pod_actions, diary, KEY, plan(pod_actions)).run()
    assert pod_actions.done == ["stop", "move step_10", "launch 5"]
    action = diary.ledger.actions[KEY]
    assert action.state == "done"
    assert action.result["recovered"] is True
    assert (tmp_path / ".bs4" / "checkpoints" / "step_10").is_dir()
    assert (pod_actions.layout.orchestrator_checkpoints / "step_5").is_dir()


def test_what_changed_since_is_left_alone(pod_actions, tmp_path):
    made = plan(pod_actions)
    pod_actions.attempt = 2
    diary = book(tmp_path)
    assert not runner(pod_actions, diary, KEY, made).run()
    assert diary.ledger.actions[KEY].state == "plan-changed"
    assert pod_actions.done == []


def test_a_death_at_every_record_does_nothing_twice(tmp_path):
    """The runner is killed after its n-th record, for every n, and started again from the journal
    as the agent does.
    """
    deaths = 0
    while True:
        root = tmp_path / str(deaths)
        pod_actions = PodActions(root)
        made = plan(pod_actions)
        diary = book(root)
        try:
            runner(pod_actions, dying(diary, deaths), KEY, made).run()
            break
        except Died:
            pass
        again = book(root)
        assert runner(pod_actions, again, KEY, made).run(again.ledger.actions.get(KEY)), (
            f"not recovered after a death at record {deaths}"
        )
        assert pod_actions.done == ["stop", "move step_10", "launch 5"], (
            f"after a death at record {deaths}"
        )
        assert again.ledger.actions[KEY].state == "done"
        deaths += 1
    assert deaths >= 8
