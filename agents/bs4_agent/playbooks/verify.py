"""Verifies that training advances again. Nothing else counts as recovered.

Only steps that really trained on tokens count. A run that falls apart prints steps too: of batches
without a token, with weights that no server took.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from bs4_agent.playbooks.pod_actions import PodActions
from bs4_agent.playbooks.steps.waits import mount_of, used_percent
from bs4_common.checkpoints.inventory import one_on_each_disk, written_by
from bs4_common.errors import LaunchFailed, UnknownRun
from bs4_common.failures.compiled import VerifySettings
from bs4_common.failures.facts import LogEvent, RunFacts

#: Sleeps for a number of seconds; raises Cancelled if the verification is to end.
Pause = Callable[[float], None]


@dataclass(frozen=True)
class Verdict:
    """The result of the check if a repair worked. `recovered` is True if it did, and `detail` is a
    sentence that says why or why not. `step` is the number of the last step that the trainer has
    made, or None if the run has not recovered.
    """

    recovered: bool
    detail: str
    step: int | None


def steps_advance(
    pod_actions: PodActions,
    run: str,
    attempt: int,
    parameters: VerifySettings,
    say: Callable[[str], None],
    pause: Pause = time.sleep,
) -> Verdict:
    """Wait until the run has recovered or it is clear that it has not, and return the verdict. It
    has recovered if an attempt with a number above `attempt` has made enough training steps that
    used tokens, or has ended well. It has not if that attempt ends early or the time is over.
    `parameters` has `count` (how many steps, default 2) and `within` (the time in seconds, default
    1800).

    One step is not enough: the first step after a restart can come from batches that were made
    before the restart. `say` is called with progress messages, and `pause` sleeps between two
    polls.
    """
    count, within = int(parameters.get("count", 2)), float(parameters.get("within", 1800))
    deadline = time.monotonic() + within
    last_said = None
    while time.monotonic() < deadline:
        facts = _looked(pod_actions, run, deadline, say, pause)
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
    pod_actions: PodActions,
    run: str,
    attempt: int,
    parameters: VerifySettings,
    say: Callable[[str], None],
    pause: Pause = time.sleep,
) -> Verdict:
    """Wait until the run has recovered or it is clear that it has not, and return the verdict. It
    has recovered if it has made some training steps that used tokens since this call began. It has
    not if its attempt ends early or the time is over. `parameters` has `count` (how many steps,
    default 2) and `within` (the time in seconds, default 1800). `say` is called with progress
    messages, and `pause` sleeps between two polls. `attempt` is not used.

    Use this for a repair that starts no attempt, so that the steps of any attempt count. A run that
    has ended well in the meantime needs no further step.
    """
    count, within = int(parameters.get("count", 2)), float(parameters.get("within", 1800))
    deadline = time.monotonic() + within
    first: tuple[int, int | None] | None = None
    while time.monotonic() < deadline:
        facts = _looked(pod_actions, run, deadline, say, pause)
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
    pod_actions: PodActions,
    run: str,
    attempt: int,
    parameters: VerifySettings,
    say: Callable[[str], None],
    pause: Pause = time.sleep,
) -> Verdict:
    """Wait until the run has made some training steps that used tokens since the call began, then
    check its disks, and return the verdict. The run has recovered only if it has made these steps
    and less than `parameters["percent"]` percent of each file system that it writes to is used.
    `parameters` also has `count` (how many steps, default 2) and `within` (seconds, default 1800).
    `say` is called with progress messages, and `pause` sleeps between two polls. `attempt` is not
    used.
    """
    percent = int(parameters["percent"])
    verdict = steps_continue(pod_actions, run, attempt, parameters, say, pause)
    places = one_on_each_disk(written_by(pod_actions.run_facts(run).layout))
    fullest = max(places.values(), key=used_percent)
    used, mount = used_percent(fullest), mount_of(fullest)
    if used >= percent:
        return Verdict(False, f"{mount} is still {used:.0f} % full, not below {percent} %", None)
    return Verdict(
        verdict.recovered, f"{verdict.detail}; {mount} is {used:.0f} % full", verdict.step
    )


VERIFIERS = {
    "steps_advance": steps_advance,
    "steps_continue": steps_continue,
    "disk_below": disk_below,
}


def _looked(
    pod_actions: PodActions, run: str, deadline: float, say: Callable[[str], None], pause: Pause
) -> RunFacts:
    """Return the present facts of the run. A run that cannot be looked at for a moment, because of
    an odd file, has neither recovered nor failed: it is looked at again until `deadline`, in
    seconds of the monotonic clock. Raises what the last look raised.
    """
    said = ""
    while True:
        try:
            return pod_actions.run_facts(run)
        except (UnknownRun, LaunchFailed):
            raise
        except Exception as error:
            if time.monotonic() >= deadline:
                raise
            trouble = f"{run} cannot be looked at: {type(error).__name__}: {error}"[:500]
        if trouble != said:
            say(trouble)
            said = trouble
        pause(0.25)


def trained_steps(facts: RunFacts) -> list[int]:
    """Return the training steps of this attempt that really used tokens, oldest first. Only steps
    whose records are still in `facts.history` are included.

    The list is empty until an inference server has loaded weights of this attempt, because before
    that nothing proves that trainer and inference work together.
    """
    records, batches = [], {}
    for record in facts.history:
        if record["side"] == "trainer":
            records.append(record)
        elif record["side"] == "orchestrator":
            batches[record["step"]] = record
    first = min((int(record["step"]) for record in records), default=0)
    trained = []
    for record in records:
        step = record["step"]
        if _has_tokens(record, first) and _has_batch(facts, batches.get(step)):
            trained.append(int(step))
    if not trained or not _weights_taken(facts, min(trained)):
        return []
    return sorted(trained)


def _has_tokens(record: Mapping[str, Any], first: int) -> bool:
    """Return True if the trainer's step had tokens. The throughput is measured between two steps:
    both generations print 0 for the first step of every process.
    """
    throughput = record.get("throughput")
    if not isinstance(throughput, (int, float)):
        return True  # there is no value, or "nan" or "inf", which proves no empty batch
    return throughput > 0.0 or record["step"] == first


def _has_batch(facts: RunFacts, batch: Mapping[str, Any] | None) -> bool:
    """Return True if the batch of that step had tokens. The current generation ships no other
    batches; 2026-01 prints 0.0 tokens/s for an empty batch.
    """
    if facts.layout.own_log == "trainer":
        return True
    return batch is not None and batch.get("throughput") != 0.0


def _weights_taken(facts: RunFacts, step: int) -> bool:
    """Return True if the inference server has taken the weights of `step` or of a later step."""
    if facts.layout.own_log == "trainer":
        return True
    # The first step makes policy 1.
    return _taken(facts) >= step + 1 - facts.trainer.first_step


def _taken(facts: RunFacts) -> int:
    """Return the newest policy that the server certainly has, or -1.

    2026-01 prints its async level with a batch. The current generation announces an update before
    it is tried, and updates follow one another, so all but the last one have succeeded.
    """
    newest = -1
    for event in _orchestrator_events(facts, "step"):
        level = event.event.values.get("async_level")
        if event.event.step is not None and isinstance(level, (int, float)):
            newest = max(newest, event.event.step - int(level))
    for event in _orchestrator_events(facts, "policy-update")[:-1]:
        newest = max(newest, int(event.event.values.get("policy", -1)))
    return newest


def _orchestrator_events(facts: RunFacts, kind: str) -> list[LogEvent]:
    """Return the orchestrator's log events of this kind."""
    found = []
    for e in facts.events:
        if (e.event.side, e.event.kind) == ("orchestrator", kind):
            found.append(e)
    return found
