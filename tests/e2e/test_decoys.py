"""Processes that look like a run's and are not: never shown as its own, never in a plan, never
signalled.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from bs4_practice import faults, tree
from bs4_practice.scenarios import train
from bs4_practice.stage import Stage, staged
from bs4_practice.tree import Process
from tests.e2e import journals

pytestmark = pytest.mark.beside

LOOKS = ("launcher", "inference", "engine", "worker", "orchestrator", "rank")


@dataclass
class Cast:
    """The run's own processes, and one decoy for each of them with exactly its command line or
    title.
    """

    originals: dict[str, Process]
    decoys: dict[str, Process]

    @property
    def pids(self) -> set[int]:
        return {decoy.pid for decoy in self.decoys.values()}


async def disguised(stage: Stage, looks: Sequence[str] = LOOKS) -> Cast:
    originals = {name: faults.find(stage.pod, name)[0] for name in looks}
    decoys = {}
    for name, original in originals.items():
        titled = len(original.cmdline) == 1 or original.title.startswith(("PRIME-RL::", "VLLM::"))
        decoys[name] = await faults.start_decoy(
            stage.pod,
            ["python3"] if titled else original.cmdline,
            original.title if titled else None,
        )
        assert decoys[name].title.rstrip("\0 ") == original.title.rstrip("\0 ")
    return Cast(originals, decoys)


Injection = Callable[[Stage, Cast], Awaitable[None]]


def shown(stage: Stage, run: str) -> set[int]:
    """The pids that telemetry has ever counted to the run."""
    entries = [
        entry
        for record in stage.session.state.telemetry
        for entry in record.get("runs", [])
        if entry["run"] == run
    ]
    return {component["pid"] for entry in entries for component in entry["components"]}


#: What a text that names processes says before or between their pids.
_NAMES_A_PROCESS = re.compile(r"\bpids?\b|\bkill\b|\bSIG[A-Z]+\b")


def named(value: Any) -> set[int]:
    """Return every pid in a plan or journal record: in its fields, and in what it says in words."""
    if isinstance(value, dict):
        pid = value.get("pid")
        own = {pid} if isinstance(pid, int) else set()
        return own.union(*(named(item) for item in value.values()))
    if isinstance(value, list):
        return set().union(*(named(item) for item in value))
    if isinstance(value, str) and _NAMES_A_PROCESS.search(value):
        return {int(number) for number in re.findall(r"\b\d+\b", value)}
    return set()


def check_untouched(stage: Stage, cast: Cast, run: str) -> None:
    assert not shown(stage, run) & cast.pids, "a decoy was shown as a part of the run"
    told = [
        r
        for r in journals.records(stage.pod.home)
        if r["type"] in ("action", "plan") and r.get("run") == run
    ]
    assert not named(told) & cast.pids, "a decoy was named by what was done to the run"
    for name, decoy in cast.decoys.items():
        assert tree.alive(decoy), f"the {name} decoy was killed"
        now = tree.look(decoy.pid)
        assert now is not None
        assert now.state == "S", f"the {name} decoy was stopped"


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("trainer", ["prime-rl-2026-01", "prime-rl"])
async def test_decoys_survive_a_stop_unseen(trainer: str) -> None:
    async with staged(trainer) as stage:
        await stage.launch("demo")
        cast = await disguised(stage)
        seen = len(stage.session.state.telemetry)
        await stage.until(
            lambda: len(stage.session.state.telemetry) >= seen + 8, 120, "eight more samples"
        )
        await stage.until(
            lambda: {p.pid for p in cast.originals.values()} <= shown(stage, "demo"),
            60,
            "the run's own in a sample",
        )
        assert not shown(stage, "demo") & cast.pids
        await stage.must("stop", run="demo")
        assert not any(tree.alive(original) for original in cast.originals.values())
        check_untouched(stage, cast, "demo")


async def stop_the_engine(stage: Stage, cast: Cast) -> None:
    await faults.wait_generating(stage.pod)
    faults.pause(cast.originals["engine"])


async def orphan_the_engine(stage: Stage, cast: Cast) -> None:
    faults.kill(cast.originals["inference"])
    await stage.until(
        lambda: stage.session.state.runs["demo"].word == "failed", 180, "the end of the first run"
    )
    await stage.launch("second", output_dir="outputs-second", wait=False)


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("failure", "trainer", "injection"),
    [
        ("vllm-silent-death", "prime-rl-2026-01", stop_the_engine),
        ("stale-gpu-process", "prime-rl", orphan_the_engine),
    ],
)
async def test_decoys_survive_a_recovery_unseen(
    failure: str, trainer: str, injection: Injection
) -> None:
    async with staged(trainer) as stage:
        await train(stage)
        # Not of the launcher: what looks like a launcher in the run's own directory is taken for a
        # second run there, and rightly so.
        cast = await disguised(stage, LOOKS[1:])
        await injection(stage, cast)
        plan = await stage.plan(await stage.incident(failure, 180))
        assert not named(plan.plan["steps"]) & cast.pids
        action = await stage.act(
            "playbook",
            playbook=plan.playbook,
            run=plan.run,
            plan_hash=plan.plan_hash,
            confirm_run=plan.run,
        )
        assert (action.state, action.result.get("recovered")) == ("done", True), action.detail
        for run in {plan.run, "demo"}:
            check_untouched(stage, cast, run)
