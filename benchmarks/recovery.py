"""How long a recovery takes on a practice pod, part by part, and how much of it is ours.

    python benchmarks/recovery.py [--repeats 3] [--json FILE]

A run resumes from a checkpoint whose newest file is cut, and its playbook mends that: stop the run,
archive its logs, move files to the trash, start it from the step before. The parts are taken from
the journal of the deployed agent, from the confirmation to the first new step, which the witness
reads from the trainer's own files.

What the trainer itself takes is measured beside it, in the same recovery: from the intent to stop
until its last process is gone, and from the start of its launcher to its first new step. What is
left is ours. No person who types the commands is faster than the trainer's part.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.detection import journal  # noqa: E402 (the checkout's root must be importable)

from bs4_practice import faults, tree  # noqa: E402
from bs4_practice.scenario import Scenario  # noqa: E402
from bs4_practice.stage import Stage, staged  # noqa: E402
from bs4_practice.tries import TRIES  # noqa: E402

RESULT = ROOT / "benchmarks" / "results" / "recovery.json"
SCENARIO = "checkpoint-corrupt"
GOAL = {"ours_s": 2.0}
DETECT_S, RECOVER_S = 90.0, 180.0
#: How often the processes of the run and the steps of the trainer are looked at.
GONE_LOOK_S, STEP_LOOK_S = 0.02, 0.1


async def all_gone(processes: list[tree.Process]) -> float:
    """Wait until none of these processes is alive, and return that moment, seconds since the
    epoch.
    """
    while any(tree.alive(process) for process in processes):
        await asyncio.sleep(GONE_LOOK_S)
    return time.time()


async def first_new_step(stage: Stage, scenario: Scenario) -> tuple[float, float]:
    """Wait for a step of training that was not there at the call. Returns when it was seen and when
    the launcher that trained it was started, in seconds since the epoch.
    """
    output = scenario.output(stage)
    before = set(stage.trained_steps(output))
    while not set(stage.trained_steps(output)) - before:
        await asyncio.sleep(STEP_LOOK_S)
    seen = time.time()
    (launcher, *_) = [*faults.find(stage.pod, "uv"), *faults.find(stage.pod, "launcher")]
    since_boot = launcher.start_ticks / os.sysconf("SC_CLK_TCK")
    return seen, time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + since_boot


def steps_of(records: list[dict[str, Any]], key: str) -> list[tuple[str, float, float]]:
    """Return (title, begin, end) of each step of the action `key`, as its journal has them."""
    begun: dict[int, float] = {}
    found = []
    for record in records:
        if record["type"] != "action" or record.get("action") != key:
            continue
        if record["event"] == "intent":
            begun.setdefault(record["step"], record["t"])
        elif record["event"] == "step-done":
            found.append((record["title"], begun[record["step"]], record["t"]))
    return found


def accepted(records: list[dict[str, Any]], key: str) -> float:
    """Return when the action `key` was accepted: its plan was made again by then, and compared."""
    for record in records:
        if record.get("action") == key and record.get("event") == "accepted":
            return float(record["t"])
    raise RuntimeError(f"The journal has no action {key}.")


async def recover(stage: Stage, scenario: Scenario) -> dict[str, Any]:
    """Break the run, confirm the playbook's plan, and return the parts in seconds."""
    await scenario.prepare(stage)
    await scenario.inject(stage)
    incident = await stage.incident(scenario.failure, scenario.detect_s or DETECT_S)
    plan = await stage.plan(incident)
    members = [p for p in stage.pod.processes() if faults.component(p) is not None]
    gone = asyncio.create_task(all_gone(members))
    trains = asyncio.create_task(first_new_step(stage, scenario))
    confirmed = time.time()
    body = {"run": plan.run, "plan_hash": plan.plan_hash, "confirm_run": plan.run}
    action = await asyncio.wait_for(
        stage.must("playbook", playbook=plan.playbook, **body), RECOVER_S
    )
    moved, started = await asyncio.wait_for(trains, RECOVER_S)
    ended = await asyncio.wait_for(gone, RECOVER_S)
    records = journal(stage)
    steps, taken = steps_of(records, action.key), accepted(records, action.key)
    first, last = steps[0], steps[-1]
    # A run that was gone already has no ending to wait for.
    ending = max(0.0, min(ended, first[2]) - first[1])
    training = moved - started
    parts = {
        "confirmation until it is accepted (the plan made again)": taken - confirmed,
        "accepted to the first step": first[1] - taken,
    }
    for title, begin, end in steps:
        parts[f"step: {title.split(':')[0]}"] = end - begin
    parts |= {
        "of the stop, the run's own ending": ending,
        "start of the launcher to the first new step, the run's own": training,
    }
    total = moved - confirmed
    return {
        "total_s": total,
        "trainer_s": ending + training,
        "ours_s": total - ending - training,
        "start_after_s": started - last[1],
        "parts": parts,
    }


async def main(repeats: int, target: Path) -> int:
    scenario = TRIES[SCENARIO]
    result: dict[str, Any] = {
        "schema": "bs4.bench-recovery/1",
        "scenario": SCENARIO,
        "repeats": repeats,
        "goal": GOAL,
        "trainers": {},
    }
    for trainer in scenario.trainers:
        seen = []
        for _ in range(repeats):
            async with staged(trainer, **scenario.pod) as stage:
                seen.append(await recover(stage, scenario))
        middle = sorted(seen, key=lambda one: one["ours_s"])[len(seen) // 2]
        numbers = ("total_s", "trainer_s", "ours_s", "start_after_s")
        row: dict[str, Any] = {
            name: round(statistics.median(one[name] for one in seen), 2) for name in numbers
        }
        row["profile"] = [f"{took:6.3f} s  {part}" for part, took in middle["parts"].items()]
        result["trainers"][trainer] = row
        print(trainer, json.dumps(row, indent=1), flush=True)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(result, indent=1) + "\n")
    within = [row["ours_s"] <= GOAL["ours_s"] for row in result["trainers"].values()]
    return 0 if all(within) else 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", type=Path, default=RESULT)
    options = parser.parse_args()
    sys.exit(asyncio.run(main(options.repeats, options.json)))
