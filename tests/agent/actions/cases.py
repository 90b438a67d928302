"""Pods on which one kind of action can be planned, confirmed and resumed, for tests that hold for
all kinds.
"""

from __future__ import annotations

import abc
import dataclasses
import shutil
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from bs4_agent.actions.submit import Actions
from bs4_agent.book import Book
from bs4_agent.paths import Home
from bs4_agent.runs.registry import Runs
from bs4_agent.setup.steps import STEPS
from bs4_common.ids import ulid
from bs4_common.ledger import PlanView
from bs4_common.trainers.base import LaunchSpec
from tests.agent.actions.stopping import HANGS, RELAUNCHES, RUN, StoppingAgent
from tests.agent.checkpoints import trees
from tests.agent.checkpoints.merging.merge_pod import MergePod
from tests.agent.checkpoints.restored import PLACE, NewPod, new_pod
from tests.agent.runs.practice import until
from tests.agent.setup.places import RECIPE
from tests.golden.test_golden import DATA
from tests.support.remote_sets import put_step

#: The set-up steps that only write files.
FILES = ("limits", "variables", "profile", "credential")


def begin_attempt(runs: Runs, spec: LaunchSpec) -> None:
    """Let the run have one more attempt, which has ended: one of the golden corpus."""
    if RUN not in {run.name for run in runs.all()}:
        runs.register(spec)
    run = runs.get(RUN)
    number = len(run.attempts) + 1
    recorded = DATA / "prime-rl" / "agent" / "runs" / "demo" / "attempts" / "1"
    shutil.copytree(recorded, runs.attempt_directory(RUN, number))
    runs._read_attempts(run)
    assert (run.attempts[-1].number, run.attempts[-1].state) == (number, "ended")


def stop_all(agent: StoppingAgent) -> None:
    """Stop what a confirmed plan starts, as soon as it can be stopped."""
    for kind in ("launch", "playbook"):
        for action in agent.book.ledger.actions_of(kind, RUN):
            until(lambda action=action: action.ended or agent.runs.all()[-1:] != [])
            if not action.ended:
                agent.ended(agent.stop())


class Case(abc.ABC):
    """A pod on which one kind of action can be planned and confirmed."""

    kind: str
    run = RUN
    actions: Actions
    book: Book
    home: Home
    runs: Runs
    spec: LaunchSpec

    def __init__(self, root: Path, patch: pytest.MonkeyPatch, stack: ExitStack) -> None:
        self.root, self.patch, self.stack = root, patch, stack

    @abc.abstractmethod
    def asked(self) -> dict[str, Any]:
        """Return what a plan of this kind is asked for with."""

    @abc.abstractmethod
    def reload(self) -> None:
        """Begin another life of the agent on the same home."""

    def close(self) -> None:
        """Let the actions end."""
        self.actions.executor.join(60.0)

    def use(self, agent: StoppingAgent | MergePod | NewPod) -> None:
        self.actions, self.book, self.home, self.runs = (
            agent.actions,
            agent.book,
            agent.home,
            agent.runs,
        )

    def plan(self) -> PlanView:
        """Return a fresh plan."""
        key = ulid()
        self.actions.submit({"key": key, "kind": "plan", **self.asked()}, "alice")
        until(lambda: self.book.ledger.actions[key].ended)
        return self.newest()

    def newest(self) -> PlanView:
        view = list(self.book.ledger.plans.values())[-1]
        assert view.plan_hash, view.refused
        return view

    def confirm(self, plan_hash: str, **more: Any) -> None:
        body = {"kind": self.kind, "plan_hash": plan_hash, **more}
        if self.kind == "playbook":
            body["playbook"] = RELAUNCHES
        self.actions.submit({"key": ulid(), **body}, "bob")

    def journal_again(self, view: PlanView, **changed: Any) -> None:
        """Journal the plan once more, as another life or version of the agent has left it."""
        record = next(
            record
            for record in self.book.records()
            if record["type"] == "plan" and record.get("plan_hash") == view.plan_hash
        )
        own = ("t", "m", "b", "seq", "prev", "type")
        fields = {name: value for name, value in record.items() if name not in own}
        self.book("plan", **{**fields, **changed})

    def accepted(self) -> int:
        """Return how many actions of this kind were accepted."""
        return sum(action.kind == self.kind for action in self.book.ledger.actions.values())


class LaunchCase(Case):
    kind = "launch"
    program = HANGS

    def __init__(self, root: Path, patch: pytest.MonkeyPatch, stack: ExitStack) -> None:
        super().__init__(root, patch, stack)
        patch.setenv("HOME", str(root))
        self.agent = StoppingAgent(root, self.program)
        self.spec = self.agent.spec()
        self.use(self.agent)

    def asked(self) -> dict[str, Any]:
        fields = {**self.agent.launch_body(), "resume": "auto"}
        del fields["kind"], fields["preflight"]
        return {"launch": fields}

    def reload(self) -> None:
        self.agent.close()
        self.agent = StoppingAgent(self.root, self.program)
        self.use(self.agent)

    def close(self) -> None:
        stop_all(self.agent)
        self.agent.close()


class PlaybookCase(LaunchCase):
    kind = "playbook"

    def __init__(self, root: Path, patch: pytest.MonkeyPatch, stack: ExitStack) -> None:
        super().__init__(root, patch, stack)
        begin_attempt(self.runs, self.spec)

    def asked(self) -> dict[str, Any]:
        return {"playbook": RELAUNCHES, "run": RUN}


class SetupCase(LaunchCase):
    kind, run = "setup", ""

    def __init__(self, root: Path, patch: pytest.MonkeyPatch, stack: ExitStack) -> None:
        for name in set(STEPS) - set(FILES):
            patch.delitem(STEPS, name)
        super().__init__(root, patch, stack)

    def asked(self) -> dict[str, Any]:
        return {"setup": RECIPE}

    def close(self) -> None:
        self.agent.close()


class MergeCase(Case):
    kind = "merge"

    def __init__(self, root: Path, patch: pytest.MonkeyPatch, stack: ExitStack) -> None:
        super().__init__(root, patch, stack)
        patch.setenv("BS4_MINIATURE_STEP_SECONDS", "0.01")
        self.pod = MergePod(root)
        self.pod.save(5)
        self.spec = self.pod.spec
        self.use(self.pod)

    def asked(self) -> dict[str, Any]:
        return {"merge": {"run": RUN}}

    def reload(self) -> None:
        self.pod.close()
        self.pod.load()
        self.use(self.pod)


class BackupCase(MergeCase):
    kind = "backup"

    def asked(self) -> dict[str, Any]:
        return {"backup": {"run": RUN}}


class RestoreCase(Case):
    kind = "restore"

    def __init__(self, root: Path, patch: pytest.MonkeyPatch, stack: ExitStack) -> None:
        super().__init__(root, patch, stack)
        (root / "old").mkdir()
        lost = trees.old_run(root / "old")
        trees.old_step(lost, 10)
        self.pod = stack.enter_context(new_pod(root, lost, patch))
        put_step(self.pod.store, PLACE, lost, 10)
        self.spec = dataclasses.replace(lost, cwd=self.pod.cwd, output_dir=self.pod.out)
        self.use(self.pod)

    def asked(self) -> dict[str, Any]:
        return {"restore": self.pod.body()["restore"]}

    def reload(self) -> None:
        self.pod.restart()
        self.use(self.pod)


CASES = (LaunchCase, PlaybookCase, SetupCase, MergeCase, BackupCase, RestoreCase)
