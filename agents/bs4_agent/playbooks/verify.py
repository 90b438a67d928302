"""Verifies that training advances again. Nothing else counts as recovered."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from bs4_agent.playbooks.steps.waits import used_percent
from bs4_agent.playbooks.trained import trained_steps
from bs4_agent.playbooks.world import World

#: Sleeps for a number of seconds; raises Cancelled if the verification is to end.
Pause = Callable[[float], None]


@dataclass(frozen=True)
class Verdict:
    """The result of a verification. `step` is the last step of the trainer, or None if the run has
    not recovered.
    """

    recovered: bool
    detail: str
    step: int | None


def steps_advance(
    world: World,
    run: str,
    attempt: int,
    parameters: Mapping[str, Any],
    say: Callable[[str], None],
    pause: Pause = time.sleep,
) -> Verdict:
    """Wait until an attempt after `attempt` has trained `count` steps on tokens, and return the
    verdict. The wait ends after `within` seconds.

    The first step after a restart can be an echo of what was in the pipe; from the second step on
    both sides work. `say` receives progress messages, `pause` sleeps between two polls.
    """
    count, within = int(parameters.get("count", 2)), float(parameters.get("within", 1800))
    deadline = time.monotonic() + within
    last_said = None
    while time.monotonic() < deadline:
        facts = world.run_facts(run)
        if facts.attempt > attempt:
            done = len(trained_steps(facts))
            if facts.good_end or done >= count:
                return Verdict(
                    True,
                    f"{done} steps since the restart, now at step {facts.trainer_side.last_step}",
                    facts.trainer_side.last_step,
                )
            if facts.state in ("ended", "lost"):
                return Verdict(
                    False,
                    f"attempt {facts.attempt} ended before its second step; look at its logs",
                    None,
                )
            if done != last_said:
                say(f"attempt {facts.attempt}: {done} of {count} steps")
                last_said = done
        pause(0.25)
    return Verdict(
        False, f"no second step within {within:.0f} s; the run still does not train", None
    )


def steps_continue(
    world: World,
    run: str,
    attempt: int,
    parameters: Mapping[str, Any],
    say: Callable[[str], None],
    pause: Pause = time.sleep,
) -> Verdict:
    """Wait until the run has trained `count` more steps on tokens than at the beginning, and return
    the verdict. The wait ends after `within` seconds.

    This is for a fix that starts nothing, so any attempt counts. A run that has ended well in the
    meantime needs no further step.
    """
    count, within = int(parameters.get("count", 2)), float(parameters.get("within", 1800))
    deadline = time.monotonic() + within
    first: tuple[int, int | None] | None = None
    while time.monotonic() < deadline:
        facts = world.run_facts(run)
        if first is None or first[0] != facts.attempt:
            first = (facts.attempt, facts.trainer_side.last_step)
        begun, new = first[1], 0
        for step in trained_steps(facts):
            new += begun is None or step > begun
        if facts.good_end or new >= count:
            return Verdict(
                True,
                f"{new} steps since the fix, now at step {facts.trainer_side.last_step}",
                facts.trainer_side.last_step,
            )
        if facts.state in ("ended", "lost"):
            return Verdict(
                False, f"attempt {facts.attempt} ended before its next step; look at its logs", None
            )
        pause(0.25)
    return Verdict(
        False, f"no {count} new steps within {within:.0f} s; the run does not train", None
    )


def disk_below(
    world: World,
    run: str,
    attempt: int,
    parameters: Mapping[str, Any],
    say: Callable[[str], None],
    pause: Pause = time.sleep,
) -> Verdict:
    """Wait until steps advance, and return the verdict. The run has recovered only if its file
    system is also used below `percent`: free space without progress is no recovery.
    """
    percent = int(parameters["percent"])
    verdict = steps_continue(world, run, attempt, parameters, say, pause)
    used = used_percent(world.run_facts(run).layout.output_dir)
    if used >= percent:
        return Verdict(
            False, f"the run's disk is still {used:.0f} % full, not below {percent} %", None
        )
    return Verdict(
        verdict.recovered, f"{verdict.detail}; the run's disk is {used:.0f} % full", verdict.step
    )


VERIFIERS = {
    "steps_advance": steps_advance,
    "steps_continue": steps_continue,
    "disk_below": disk_below,
}
