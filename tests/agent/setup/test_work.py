"""Set-ups as actions: what may be confirmed, what a dead agent leaves, and where no secret may
be.
"""

from __future__ import annotations

import contextlib
import json
import time
from pathlib import Path
from typing import Any

import pytest

from bs4_agent.actions import executor
from bs4_agent.actions.executor import ActionExecutor
from bs4_agent.book import Book
from bs4_agent.errors import BadRequest, PlanExpired, Refused, StepFailed
from bs4_agent.journal import Journal
from bs4_agent.launch.environment import inherited
from bs4_agent.paths import Home
from bs4_agent.runs.registry import Runs
from bs4_agent.scope import Scope
from bs4_agent.setup.plan import NAME
from bs4_agent.setup.recipe import read
from bs4_agent.setup.steps import STEPS
from bs4_agent.setup.work import SetUps
from bs4_agent.setup_log import open_setup_log
from bs4_agent.streams.segments import SegmentStream
from bs4_agent.telemetry.processes import ProcessTable
from tests.agent.setup.places import KEY, RECIPE

SECRET = json.dumps({"b2": {"key_id": "canary-id", "key": "canary-key"}}).encode()


class Pod:
    """Set-ups with a journal of their own, of which only the steps about files are left."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self.stream = SegmentStream(home.state / "journal", 1 << 20)
        self.book = Book(Journal(self.stream))
        self.ups = SetUps(
            home,
            open_setup_log(home),
            self.book,
            self.book.ledger,
            lambda: 65536,
            [],
            contextlib.nullcontext,
        )
        scope = Scope.from_environment()
        self.executor = ActionExecutor(self.book, Runs(home, scope, self.book, ProcessTable(scope)))

    def plan(self, **changes: Any) -> str:
        recipe = read({**RECIPE, **changes})
        self.executor.journal_plan(KEY, NAME, "", lambda: self.ups.make(KEY, recipe))
        return next(reversed(self.book.ledger.plans.values())).plan_hash

    def accept(self, key: str, plan_hash: str, payload: bytes = b"") -> Any:
        body = {"kind": "setup", "key": key, "plan_hash": plan_hash}
        view = self.executor.kept_plan(body, NAME, "pods setup --plan")
        recipe = read(view.plan["recipe"])
        plan = self.executor.made_again(view, "t", lambda: self.ups.make(key, recipe))
        self.ups.keep(key, plan, payload)
        self.book(
            "action",
            action=key,
            kind="setup",
            who="t",
            run="",
            event="accepted",
            body={**body, "plan": plan.as_dict()},
        )
        return plan

    def journal(self) -> str:
        return "".join(path.read_text() for path in (self.home.state / "journal").glob("*.ndjson"))


@pytest.fixture
def pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pod:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in set(STEPS) - {"limits", "variables", "profile", "credential"}:
        monkeypatch.delitem(STEPS, name)
    home = Home(tmp_path / ".bs4")
    home.create()
    return Pod(home)


def test_credentials_alone_are_a_set_up(pod: Pod) -> None:
    plan = pod.accept("K1", pod.plan(trainer="credentials", secrets=["b2"]), SECRET)
    assert {step.kind for step in plan.steps} == {"credential"}
    pod.ups.carry_out("K1", plan)
    assert pod.book.ledger.actions["K1"].state == "done"
    assert json.loads((pod.home.credentials / "b2.json").read_text())["key"] == "canary-key"
    assert not (pod.home.root / "environment").exists()
    with pytest.raises(BadRequest, match="No credential is named"):
        read({"trainer": "credentials", "secrets": []})


def test_a_step_that_fails_leaves_the_credentials_stored(
    pod: Pod, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They come before whatever may fail."""

    def fails(*_: Any) -> str:
        raise StepFailed("no space left on the device")

    monkeypatch.setattr(STEPS["limits"], "act", fails)
    plan = pod.accept("K1", pod.plan(secrets=["b2"]), SECRET)
    pod.ups.carry_out("K1", plan)
    assert pod.book.ledger.actions["K1"].state == "failed"
    assert json.loads((pod.home.credentials / "b2.json").read_text())["key"] == "canary-key"


def test_a_plan_is_confirmed_carried_out_and_leaves_no_secret_behind(pod: Pod) -> None:
    plan = pod.accept("K1", pod.plan(secrets=["b2"]), SECRET)
    pod.ups.carry_out("K1", plan)
    action = pod.book.ledger.actions["K1"]
    assert (action.state, action.result["ready"]) == ("done", True), action.detail
    assert "canary" not in pod.journal()
    assert json.loads((pod.home.credentials / "b2.json").read_text())["key"] == "canary-key"
    assert list((pod.home.credentials / "incoming").iterdir()) == []
    assert inherited(pod.home, Path.home() / "prime-rl") == {
        "VLLM_WORKER_MULTIPROC_METHOD": "spawn"
    }
    assert inherited(pod.home, Path.home() / "elsewhere") == {}


def test_only_a_living_plan_with_all_its_secrets_is_confirmed(
    pod: Pod, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan_hash = pod.plan(secrets=["b2"])
    with pytest.raises(BadRequest, match="no JSON"):
        pod.accept("K1", plan_hash)
    with pytest.raises(BadRequest, match="others came"):
        pod.accept("K1", plan_hash, b'{"wandb": {"key": "abcdef"}}')
    with pytest.raises(Refused, match="No plan has the hash"):
        pod.accept("K1", "0" * 64, SECRET)
    assert not (pod.home.credentials / "incoming").exists()
    now = time.monotonic()
    with monkeypatch.context() as later:
        later.setattr(time, "monotonic", lambda: now + 901)
        with pytest.raises(PlanExpired):
            pod.accept("K1", plan_hash, SECRET)
    monkeypatch.setattr(executor, "boot_id", lambda: "another")
    with pytest.raises(PlanExpired):
        Pod(pod.home).accept("K1", plan_hash, SECRET)


@pytest.mark.parametrize(("step", "before"), [("credential", 0), ("profile", 3)])
def test_another_agent_goes_on_where_this_one_died(
    pod: Pod, monkeypatch: pytest.MonkeyPatch, step: str, before: int
) -> None:
    plan = pod.accept("K1", pod.plan(secrets=["b2"]), SECRET)

    class Died(BaseException):
        """kill -9."""

    def dies(*_: object) -> str:
        raise Died

    with monkeypatch.context() as dying:
        dying.setattr(STEPS[step], "act", dies)
        # a killed process forgets nothing either
        dying.setattr(pod.ups, "forget", lambda key: None)
        with pytest.raises(Died):
            pod.ups.carry_out("K1", plan)
    heir = Pod(pod.home)
    heir.ups.forget_ended()
    action = heir.book.ledger.actions["K1"]
    assert [step.state for step in action.steps].count("done") == before
    heir.ups.carry_out("K1", plan, action)
    assert heir.book.ledger.actions["K1"].state == "done"
    assert json.loads((pod.home.credentials / "b2.json").read_text())["key_id"] == "canary-id"


def test_what_was_never_accepted_is_forgotten(pod: Pod) -> None:
    # and the agent dies before it is journalled
    pod.ups.keep("K9", pod.ups.make("K9", read({**RECIPE, "secrets": ["b2"]})), SECRET)
    assert len(list((pod.home.credentials / "incoming").iterdir())) == 1
    Pod(pod.home).ups.forget_ended()
    assert list((pod.home.credentials / "incoming").iterdir()) == []


def test_a_step_that_does_not_last_is_no_success(pod: Pod, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = pod.accept("K1", pod.plan())
    profile = STEPS["profile"].act

    def undone(*words: Any) -> str:
        said = profile(*words)
        (Path.home() / ".profile").write_text("somebody else was here\n")
        return said

    monkeypatch.setattr(STEPS["profile"], "act", undone)
    pod.ups.carry_out("K1", plan)
    action = pod.book.ledger.actions["K1"]
    assert action.state == "failed"
    assert "profile" in action.detail


def test_a_full_disk_ends_the_action_with_a_sentence(
    pod: Pod, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = pod.accept("K1", pod.plan())

    def full(*_: object) -> str:
        raise OSError(28, "No space left on device", "/x/limits.json")

    monkeypatch.setattr(STEPS["limits"], "act", full)
    pod.ups.carry_out("K1", plan)
    action = pod.book.ledger.actions["K1"]
    assert (action.state, action.steps[-1].state) == ("failed", "failed")
    assert "/x/limits.json cannot be used: No space left" in action.detail
