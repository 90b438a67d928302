"""A scenario brought to where its plan waits to be confirmed, and what must be true after the plan
was carried out.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bs4_console.pods.state import ActionView, PlanView
from bs4_practice import faults, witness
from bs4_practice.play import DETECT_S
from bs4_practice.scenarios import SCENARIOS, Scenario
from bs4_practice.stage import Stage, staged
from tests.e2e import journals
from tests.support.trees import below


@dataclass
class Broken:
    """A practice pod that stands still, with a fresh plan, and the state of everything before
    anything was done.
    """

    stage: Stage
    scenario: Scenario
    plan: PlanView
    files: witness.Snapshot
    steps: list[tuple[float, int]]
    attempts: int

    @property
    def home(self) -> Path:
        return self.stage.pod.home

    def body(self) -> dict[str, Any]:
        """What confirms the plan."""
        plan = self.plan
        return {
            "playbook": plan.playbook,
            "run": plan.run,
            "plan_hash": plan.plan_hash,
            "confirm_run": plan.run,
        }

    def kinds(self) -> list[str]:
        return [step["kind"] for step in self.plan.plan["steps"]]

    def attempt_keys(self) -> list[str]:
        """The action that started each attempt of the run, oldest first, from the pod's disk."""
        places = (self.home / ".bs4" / "runs" / self.plan.run / "attempts").iterdir()
        # An agent that dies between making the directory and writing its spec leaves an empty one:
        # a number that is never used.
        started = sorted(
            (place for place in places if (place / "spec.json").exists()),
            key=lambda place: int(place.name),
        )
        return [json.loads((place / "spec.json").read_text()).get("key", "") for place in started]

    def check_recovered(self, key: str, scratch: Path) -> list[dict[str, Any]]:
        """Nothing was done twice, nothing is lost, and the journal tells it. The action's
        records.
        """
        told = journals.of_action(self.home, key)
        ends = [
            r["event"]
            for r in told
            if r["event"] in ("done", "failed", "interrupted", "plan-changed")
        ]
        assert ends == ["done"]
        assert [r["event"] for r in told].count("accepted") == 1
        count = len(self.plan.plan["steps"])
        assert journals.finished_steps(told) == dict.fromkeys(range(count), 1)
        assert journals.problems(self.home, scratch) == []
        self._check_started_once(key)
        self._check_moved_once(key, told)
        assert witness.lost(self.files, self.stage.places()) == 0
        assert len(self.stage.steps(self.scenario.output(self.stage))) >= len(self.steps) + 2
        return told

    def _check_started_once(self, key: str) -> None:
        keys = self.attempt_keys()
        assert keys.count(key) == 1
        assert len(keys) == self.attempts + 1
        assert len(faults.find(self.stage.pod, "launcher")) == 1

    def _check_moved_once(self, key: str, told: list[dict[str, Any]]) -> None:
        """Every directory that an intent named lies in the trash of this action, once, and no other
        trash was made for it.
        """
        tickets = [p for p in below(self.stage.pod.project) if p.match(".*.bs4-moved.json")]
        mine = [p for p in tickets if key in p.parts]
        originals = [json.loads(p.read_text())["original"] for p in mine]
        assert len(originals) == len(set(originals))
        for ticket in mine:
            assert (ticket.parent / ticket.name[1:].removesuffix(".bs4-moved.json")).exists()
        moves = {i for i, kind in enumerate(self.kinds()) if kind.startswith("move_")}
        named = {
            t["path"]
            for r in told
            if r["event"] == "intent" and r["step"] in moves
            for t in r.get("targets", ())
        }
        assert named <= set(originals)


@contextlib.asynccontextmanager
async def broken(name: str, trainer: str) -> AsyncIterator[Broken]:
    """The scenario's pod, broken, its incident open and its plan made."""
    scenario = SCENARIOS[name]
    async with staged(trainer, foreign_pids=scenario.foreign_pids) as stage:
        await scenario.prepare(stage)
        await scenario.inject(stage)
        incident = await stage.incident(scenario.failure, DETECT_S)
        plan = await stage.plan(incident)
        files = witness.Snapshot.take(stage.places())
        before = stage.steps(scenario.output(stage))
        found = Broken(stage, scenario, plan, files, before, 0)
        found.attempts = len(found.attempt_keys())
        try:
            yield found
        except BaseException:
            _tell(found)
            raise


def _tell(pod: Broken) -> None:
    """For the report of a failed test: what the pod itself has to say."""
    for record in journals.records(pod.home)[-25:]:
        shown = {
            k: v
            for k, v in record.items()
            if k not in ("b", "m", "prev", "plan", "body", "evidence", "coverage")
        }
        print(str(shown)[:400])
    print((pod.home / ".bs4" / "agent.log").read_text(errors="replace")[-3000:])
    for log in sorted(pod.stage.pod.project.glob("outputs*/**/logs/*.stdout")) + sorted(
        pod.stage.pod.project.glob("outputs*/**/logs/latest/*.log")
    ):
        print(f"--- {log}\n{log.read_text(errors='replace')[-1200:]}")
    print("witness", pod.steps, pod.stage.steps(pod.scenario.output(pod.stage)))
    print([(p.pid, p.title[:60]) for p in pod.stage.pod.processes()])
    print(pod.stage.session.state.link, pod.stage.session.state.hello.get("pid"))


async def ended(stage: Stage, key: str) -> ActionView:
    """The action's end, as this console sees it; it survives reconnects."""
    last: ActionView | None = None
    async for view in stage.session.follow_action(key):
        last = view
    assert last is not None
    return last
