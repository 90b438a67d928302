"""Set-ups as actions: what may be confirmed, what a dead agent leaves, and where no secret may
be.
"""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bs4_agent.actions import executor
from bs4_agent.actions.submit import Actions
from bs4_agent.book import Book
from bs4_agent.launch.environment import inherited
from bs4_agent.paths import Home
from bs4_agent.runs.registry import Runs
from bs4_agent.scope import Scope
from bs4_agent.setup.recipe import read
from bs4_agent.setup.steps import STEPS
from bs4_agent.telemetry.processes import ProcessTable
from bs4_common.errors import BadRequest, PlanExpired, Refused, StepFailed
from bs4_common.failures.compiled import Library
from bs4_common.ids import ulid
from bs4_common.journal import Journal
from bs4_common.ledger import ActionView
from bs4_common.streams.segments import SegmentStream
from tests.agent.setup.places import RECIPE

SECRET = json.dumps({"b2": {"key_id": "canary-id", "key": "canary-key"}}).encode()


class Pod:
    """Set-ups with a journal of their own, of which only the steps about files are left."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self.stream = SegmentStream(home.state / "journal", 1 << 20)
        self.book = Book(Journal(self.stream))
        scope = Scope.from_environment()
        runs = Runs(home, scope, self.book, ProcessTable(scope))
        pod: Any = SimpleNamespace(runs=runs, book=self.book, hard_nofile=lambda: 65536)
        library = Library(b'{"playbooks": []}')
        self.actions = Actions(pod, library, self.book, self.stream, lambda body: None)

    def plan(self, **changes: Any) -> str:
        self.submit(ulid(), {"kind": "plan", "setup": {**RECIPE, **changes}})
        self.actions.executor.join(30.0)
        return next(reversed(self.book.ledger.plans.values())).plan_hash

    def submit(self, key: str, body: dict[str, Any], payload: bytes = b"") -> None:
        self.actions.submit({"key": key, **body}, "t", payload)

    def begin(self, key: str, plan_hash: str, payload: bytes = b"") -> None:
        self.submit(key, {"kind": "setup", "plan_hash": plan_hash}, payload)

    def carry_out(self, key: str, plan_hash: str, payload: bytes = b"") -> ActionView:
        """Begin the set-up and wait for its end."""
        self.begin(key, plan_hash, payload)
        self.actions.executor.join(30.0)
        return self.book.ledger.actions[key]

    def secrets(self) -> list[Path]:
        """Return the files of the secrets that wait for their step."""
        return list((self.home.credentials / "incoming").glob("*"))

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
    action = pod.carry_out(ulid(), pod.plan(trainer="credentials", secrets=["b2"]), SECRET)
    assert {step["kind"] for step in action.body["plan"]["steps"]} == {"credential"}
    assert action.state == "done", action.detail
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
    action = pod.carry_out(ulid(), pod.plan(secrets=["b2"]), SECRET)
    assert action.state == "failed"
    assert json.loads((pod.home.credentials / "b2.json").read_text())["key"] == "canary-key"


def test_a_plan_is_confirmed_carried_out_and_leaves_no_secret_behind(pod: Pod) -> None:
    action = pod.carry_out(ulid(), pod.plan(secrets=["b2"]), SECRET)
    assert (action.state, action.result["ready"]) == ("done", True), action.detail
    assert "canary" not in pod.journal()
    assert json.loads((pod.home.credentials / "b2.json").read_text())["key"] == "canary-key"
    assert pod.secrets() == []
    assert inherited(pod.home, Path.home() / "prime-rl") == {
        "VLLM_WORKER_MULTIPROC_METHOD": "spawn"
    }
    assert inherited(pod.home, Path.home() / "elsewhere") == {}


def test_only_a_living_plan_with_all_its_secrets_is_confirmed(
    pod: Pod, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan_hash = pod.plan(secrets=["b2"])
    with pytest.raises(BadRequest, match="no JSON"):
        pod.begin(ulid(), plan_hash)
    with pytest.raises(BadRequest, match="others came"):
        pod.begin(ulid(), plan_hash, b'{"wandb": {"key": "abcdef"}}')
    with pytest.raises(Refused, match="No plan has the hash"):
        pod.begin(ulid(), "0" * 64, SECRET)
    assert not (pod.home.credentials / "incoming").exists()
    now = time.monotonic()
    with monkeypatch.context() as later:
        later.setattr(time, "monotonic", lambda: now + 901)
        with pytest.raises(PlanExpired):
            pod.begin(ulid(), plan_hash, SECRET)
    monkeypatch.setattr(executor, "boot_id", lambda: "another")
    with pytest.raises(PlanExpired):
        Pod(pod.home).begin(ulid(), plan_hash, SECRET)
    assert pod.secrets() == []


@pytest.mark.parametrize(("step", "before"), [("credential", 0), ("profile", 3)])
def test_another_agent_goes_on_where_this_one_died(pod: Pod, step: str, before: int) -> None:
    plan_hash, key = pod.plan(secrets=["b2"]), ulid()
    deadly = STEPS[step]
    child = os.fork()
    if child == 0:
        deadly.act = lambda *_: os.kill(os.getpid(), signal.SIGKILL)  # type: ignore[method-assign]
        pod.carry_out(key, plan_hash, SECRET)
        os._exit(0)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
    assert len(pod.secrets()) == 1
    heir = Pod(pod.home)
    states = [step.state for step in heir.book.ledger.actions[key].steps]
    assert states.count("done") == before
    heir.actions.resume()
    heir.actions.executor.join(30.0)
    assert heir.book.ledger.actions[key].state == "done"
    assert json.loads((pod.home.credentials / "b2.json").read_text())["key_id"] == "canary-id"
    assert heir.secrets() == []


def test_what_was_never_accepted_is_forgotten(pod: Pod) -> None:
    """The agent dies before it has journalled that the set-up is accepted."""
    plan_hash = pod.plan(secrets=["b2"])
    child = os.fork()
    if child == 0:
        pod.actions.executor.accept = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)  # type: ignore[method-assign]
        pod.begin(ulid(), plan_hash, SECRET)
        os._exit(0)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
    assert len(pod.secrets()) == 1
    Pod(pod.home).actions.resume()
    assert pod.secrets() == []


def test_a_step_that_does_not_last_is_no_success(pod: Pod, monkeypatch: pytest.MonkeyPatch) -> None:
    plan_hash = pod.plan()
    profile = STEPS["profile"].act

    def undone(*words: Any) -> str:
        said = profile(*words)
        (Path.home() / ".profile").write_text("somebody else was here\n")
        return said

    monkeypatch.setattr(STEPS["profile"], "act", undone)
    action = pod.carry_out(ulid(), plan_hash)
    assert action.state == "failed"
    assert "profile" in action.detail


def test_a_full_disk_ends_the_action_with_a_sentence(
    pod: Pod, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan_hash = pod.plan()

    def full(*_: object) -> str:
        raise OSError(28, "No space left on device", "/x/limits.json")

    monkeypatch.setattr(STEPS["limits"], "act", full)
    action = pod.carry_out(ulid(), plan_hash)
    assert action.state == "failed"
    assert [step.state for step in action.steps].count("failed") == 1
    assert "/x/limits.json cannot be used: No space left" in action.detail
