"""One scenario from a working run to a proved recovery, with the times and losses as the witness
saw them.
"""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bs4_console.errors import NotApplicableError
from bs4_console.failures.playbooks import lint
from bs4_console.pods.state import IncidentView
from bs4_practice import person, witness
from bs4_practice.scenario import Scenario
from bs4_practice.stage import Stage, staged

DETECT_S = 90.0
RECOVER_S = 180.0
_HAND_OFFS = ("*/broadcasts/*", "*/rollouts/*")
_ROTATED = ("*/checkpoints/step_*/trainer/*", "*/weights/step_*/*")
#: With --no-fix the pod is watched this long; a run that moves again in it was not broken.
BROKEN_S = 15.0

Say = Callable[[str], None]


async def play(
    scenario: Scenario, trainer: str, *, fix: bool = True, say: Say = lambda text: None
) -> dict[str, Any]:
    """Play `scenario` on a new practice pod with the given trainer: break the pod, wait for the
    incident, repair it, and wait for two new training steps. `say` is called with a line of text
    for each thing that happens. With `fix` False nothing is repaired, and the pod is only watched
    for 15 seconds.

    Returns the report that `demo --scenario` and `playbook try` print. Times are in seconds, steps
    are integers (-1 if there is none), `data_lost` is a number of files, and `fixed_by` is
    "playbook", "person" or "nobody"; only a playbook has a `plan_hash`. Raises NotApplicableError
    if the scenario cannot be played on this machine, and StageError if the pod cannot be broken
    that way or the incident does not come.
    """
    if missing := scenario.needs():
        raise NotApplicableError(
            f"{scenario.name} cannot be practised here: {missing}.", "Try it on another machine."
        )
    async with staged(trainer, foreign_pids=scenario.foreign_pids, **scenario.pod) as stage:
        say(
            f"practice pod up on {stage.pod.host}:{stage.pod.port}, agent "
            f"{stage.session.state.hello['bundle']} deployed"
        )
        await scenario.prepare(stage)
        say("the pod is ready; now it is broken")
        injected = time.monotonic()
        await scenario.inject(stage)
        incident = await stage.incident(scenario.failure, scenario.detect_s or DETECT_S)
        detected_s = time.monotonic() - injected
        say(f"after {detected_s:.1f} s: {incident.title}: {incident.summary}")
        report: dict[str, Any] = {
            "scenario": scenario.name,
            "failure_id": incident.failure,
            "detected_s": round(detected_s, 2),
            "plan_hash": None,
            "steps": [],
        }
        if scenario.repair is None and _has_steps(incident.playbook):
            report |= await _planned(stage, incident, say)
        if not fix:
            return {**report, "fixed_by": "nobody", **await _left_broken(stage, scenario, say)}
        outcome = await _fixed(stage, scenario, report["plan_hash"], say)
        return {**report, "fixed_by": "playbook" if report["plan_hash"] else "person", **outcome}


def _has_steps(playbook: str | None) -> bool:
    return any(entry["id"] == playbook and entry.get("fix") for entry in lint()[0])


async def _planned(stage: Stage, incident: IncidentView, say: Say) -> dict[str, Any]:
    plan = await stage.plan(incident)
    steps = [{"title": s["title"], "command": s["command"]} for s in plan.plan["steps"]]
    for step in steps:
        say(f"  {step['title']}" + (f": {step['command']}" if step["command"] else ""))
    return {"plan_hash": plan.plan_hash, "steps": steps}


async def _fixed(
    stage: Stage, scenario: Scenario, plan_hash: str | None, say: Say
) -> dict[str, Any]:
    """By the playbook whose plan is confirmed here, or by what a person does where there is
    none.
    """
    output = scenario.output(stage)
    before = stage.steps(output)
    files = witness.Snapshot.take(stage.places(), ignore=_replaced_by_itself(stage, scenario.run))
    begun, begun_t = time.monotonic(), time.time()
    if plan_hash is not None:
        plan = stage.ledger.plans[plan_hash]
        body = {
            "playbook": plan.playbook,
            "run": plan.run,
            "plan_hash": plan_hash,
            "confirm_run": plan.run,
        }
        try:
            action = await asyncio.wait_for(stage.act("playbook", **body), RECOVER_S)
            done, detail = action.state == "done", action.detail
            state: str = action.state
        except TimeoutError:
            done, state, detail = (
                False,
                "unfinished",
                f"after {RECOVER_S:.0f} s the playbook has not ended; the pod is given up",
            )
        say(f"{state}: {detail}")
    else:
        say("no machine may mend this: a person does what the advice says")
        await (scenario.repair or functools.partial(person.recover, run=scenario.run))(stage)
        done, state = True, "none"
    recovered_s = await _second_new_step(stage, scenario, begun, begun_t) if done else None
    after = stage.steps(output)
    lost = witness.lost_files(files, stage.places())
    for path in lost:
        why = "it has other bytes now" if Path(path).exists() else "it is gone"
        say(f"lost: {path} ({why})")
    return {
        "recovered": recovered_s is not None,
        "recovered_s": None if recovered_s is None else round(recovered_s, 2),
        "steps_before": before[-1][1] if before else -1,
        "steps_after": after[-1][1] if after else -1,
        "data_lost": len(lost),
        "action": state,
    }


def _replaced_by_itself(stage: Stage, run: str) -> tuple[str, ...]:
    """What a run that works deletes on its own while it is looked at, from its first step on: that
    is no loss of the fix's.
    """
    if stage.session.state.runs[run].word not in ("starting", "running"):
        return ()
    rotates = "keep_last" in stage.pod.config_path.read_text()
    return (*_HAND_OFFS, *_ROTATED) if rotates else _HAND_OFFS


async def _second_new_step(
    stage: Stage, scenario: Scenario, confirmed: float, confirmed_t: float
) -> float | None:
    """Seconds from the confirmation to the second step with tokens trained after it, by the
    witness; None when it does not come.
    """
    deadline = confirmed + RECOVER_S
    while time.monotonic() < deadline:
        # 2026-01's log lines have whole seconds only: a step in the second of the confirmation is
        # not counted as new.
        new = [t for t, _ in stage.trained_steps(scenario.output(stage)) if t > confirmed_t + 1]
        if len(new) >= 2:
            return time.monotonic() - confirmed
        await asyncio.sleep(0.2)
    return None


async def _left_broken(stage: Stage, scenario: Scenario, say: Say) -> dict[str, Any]:
    output = scenario.output(stage)
    before = stage.steps(output)
    say(f"not fixed; watching for {BROKEN_S:.0f} s whether it mends itself")
    begun = len(stage.trained_steps(output))
    deadline = time.monotonic() + BROKEN_S
    while time.monotonic() < deadline and len(stage.trained_steps(output)) < begun + 2:
        await asyncio.sleep(0.5)
    after = stage.steps(output)
    return {
        "recovered": len(stage.trained_steps(output)) >= begun + 2,
        "recovered_s": None,
        "steps_before": before[-1][1] if before else -1,
        "steps_after": after[-1][1] if after else -1,
        "data_lost": 0,
        "action": "none",
    }
