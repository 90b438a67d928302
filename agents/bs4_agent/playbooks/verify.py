"""Verification: does training move again? Nothing else counts as recovered."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from bs4_agent.playbooks.world import World


@dataclass(frozen=True)
class Verdict:
    recovered: bool
    detail: str
    step: int | None


def steps_advance(world: World, run: str, attempt: int, parameters: Mapping[str, Any], say: Callable[[str], None]) -> Verdict:
    """`count` new steps of the trainer in an attempt after `attempt`, within `within` seconds.

    The first step after a restart can be an echo of what was in the pipe; from the second on both sides work.
    """
    count, within = int(parameters.get("count", 2)), float(parameters.get("within", 1800))
    deadline = time.monotonic() + within
    last_said = None
    while time.monotonic() < deadline:
        facts = world.run_facts(run)
        if facts.attempt > attempt:
            done = facts.trainer_side.steps
            if done >= count and facts.orchestrator_side.steps >= 1:
                return Verdict(
                    True, f"{done} steps since the restart, now at step {facts.trainer_side.last_step}", facts.trainer_side.last_step
                )
            if facts.state in ("ended", "lost"):
                return Verdict(False, f"attempt {facts.attempt} ended before its second step; look at its logs", None)
            if done != last_said:
                say(f"attempt {facts.attempt}: {done} of {count} steps")
                last_said = done
        time.sleep(0.25)
    return Verdict(False, f"no second step within {within:.0f} s; the run still does not train", None)


VERIFIERS = {"steps_advance": steps_advance}
