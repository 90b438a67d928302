"""NVML inside a container names holders by the host's pids, and one of those numbers is an innocent
local process's.
"""

from __future__ import annotations

import pytest

from bs4_practice import faults, tree
from bs4_practice.scenarios import kill_server_and_start_another_run, train
from bs4_practice.stage import staged
from tests.e2e.test_decoys import named

OFFSET = 100_000


@pytest.mark.long
@pytest.mark.beside
@pytest.mark.timeout(600)
@pytest.mark.parametrize("trainer", ["prime-rl-2026-01", "prime-rl"])
async def test_the_innocent_with_a_holders_number_is_never_touched(trainer: str) -> None:
    async with staged(trainer, foreign_pids=True) as stage:
        await train(stage)
        engine = faults.find(stage.pod, "engine")[0]
        innocents = [
            await faults.start_decoy(stage.pod, ["python3", "innocent.py"]),
            await faults.start_decoy(stage.pod, ["python3"], engine.title),
        ]
        holders = sorted({holder.pid for holder in stage.pod.gpus.holders()})
        assert len(holders) >= 2
        hosts = {pid: pid + OFFSET for pid in holders}
        # The one that stays behind, the engine's worker, gets an innocent's number; so does whoever
        # holds least.
        worker = faults.find(stage.pod, "worker")[0].pid
        assert worker in hosts
        other = next(pid for pid in holders if pid != worker)
        stage.pod.gpus.report_pids({**hosts, worker: innocents[0].pid, other: innocents[1].pid})

        (server,) = [
            p
            for p in faults.find(stage.pod, "inference")
            if p.pid not in {i.pid for i in innocents}
        ]
        assert tree.alive(server)
        await kill_server_and_start_another_run(stage)
        plan = await stage.plan(await stage.incident("stale-gpu-process", 180))
        pids = {innocent.pid for innocent in innocents}
        targets = {t["pid"] for step in plan.plan["steps"] for t in step["targets"] if "pid" in t}
        assert worker in targets
        assert not targets & pids
        assert not named(plan.plan["steps"]) & pids
        action = await stage.act(
            "playbook",
            playbook=plan.playbook,
            run=plan.run,
            plan_hash=plan.plan_hash,
            confirm_run=plan.run,
        )
        for innocent in innocents:
            assert tree.alive(innocent)
            assert (now := tree.look(innocent.pid)) is not None
            assert now.state == "S"
        assert (action.state, action.result.get("recovered")) == ("done", True), action.detail
