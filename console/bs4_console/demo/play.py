"""One scenario from a working run to a proved recovery, with the times and losses as the witness saw them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

from bs4_console.demo import witness
from bs4_console.demo.scenarios import Scenario
from bs4_console.demo.stage import Stage, staged

DETECT_S = 180.0
RECOVER_S = 240.0
#: With --no-fix the pod is watched this long; a run that moves again in it was not broken.
BROKEN_S = 15.0

Say = Callable[[str], None]


async def play(scenario: Scenario, trainer: str, *, fix: bool = True, say: Say = lambda text: None) -> dict[str, Any]:
    """The report of `demo --scenario`: times in seconds, steps as integers (-1 = none), `data_lost` in files."""
    async with staged(trainer, foreign_pids=scenario.foreign_pids) as stage:
        say(f"practice pod up on {stage.pod.host}:{stage.pod.port}, agent {stage.session.state.hello['bundle']} deployed")
        await scenario.prepare(stage)
        say("the run trains; now it is broken")
        injected = time.monotonic()
        await scenario.inject(stage)
        incident = await stage.incident(scenario.failure, DETECT_S)
        detected_s = time.monotonic() - injected
        say(f"after {detected_s:.1f} s: {incident.title}: {incident.summary}")
        plan = await stage.plan(incident)
        report: dict[str, Any] = {
            "scenario": scenario.name,
            "failure_id": incident.failure,
            "detected_s": round(detected_s, 2),
            "plan_hash": plan.plan_hash,
            "steps": [{"title": s["title"], "command": s["command"]} for s in plan.plan["steps"]],
        }
        for step in report["steps"]:
            say(f"  {step['title']}" + (f": {step['command']}" if step["command"] else ""))
        outcome = await (_fixed if fix else _left_broken)(stage, scenario, plan.plan_hash, say)
        return {**report, **outcome}


async def _fixed(stage: Stage, scenario: Scenario, plan_hash: str, say: Say) -> dict[str, Any]:
    output = scenario.output(stage)
    before = stage.steps(output)
    files = witness.Snapshot.take(stage.places())
    confirmed, confirmed_t = time.monotonic(), time.time()
    plan = stage.ledger.plans[plan_hash]
    action = await stage.act("playbook", playbook=plan.playbook, run=plan.run, plan_hash=plan_hash, confirm_run=plan.run)
    say(f"{action.state}: {action.detail}")
    recovered_s = await _second_new_step(stage, scenario, confirmed, confirmed_t) if action.state == "done" else None
    after = stage.steps(output)
    lost = witness.lost_files(files, stage.places())
    for path in lost:
        say(f"lost: {path}")
    return {
        "recovered": recovered_s is not None,
        "recovered_s": None if recovered_s is None else round(recovered_s, 2),
        "steps_before": before[-1][1] if before else -1,
        "steps_after": after[-1][1] if after else -1,
        "data_lost": len(lost),
        "action": action.state,
    }


async def _second_new_step(stage: Stage, scenario: Scenario, confirmed: float, confirmed_t: float) -> float | None:
    """Seconds from the confirmation to the second step that was finished after it, by the witness; None when it does not come."""
    deadline = confirmed + RECOVER_S
    while time.monotonic() < deadline:
        # 2026-01's log lines have whole seconds only: a step in the second of the confirmation is not counted as new.
        new = [t for t, _ in stage.steps(scenario.output(stage)) if t > confirmed_t + 1]
        if len(new) >= 2:
            return time.monotonic() - confirmed
        await asyncio.sleep(0.2)
    return None


async def _left_broken(stage: Stage, scenario: Scenario, plan_hash: str, say: Say) -> dict[str, Any]:
    output = scenario.output(stage)
    before = stage.steps(output)
    say(f"not fixed; watching for {BROKEN_S:.0f} s whether it mends itself")
    deadline = time.monotonic() + BROKEN_S
    while time.monotonic() < deadline and len(stage.steps(output)) < len(before) + 2:
        await asyncio.sleep(0.5)
    after = stage.steps(output)
    return {
        "recovered": len(after) >= len(before) + 2,
        "recovered_s": None,
        "steps_before": before[-1][1] if before else -1,
        "steps_after": after[-1][1] if after else -1,
        "data_lost": 0,
        "action": "none",
    }
