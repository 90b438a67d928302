"""Detectors for a driver that ended before its work was done, although nobody stopped it, and for a
run that ended because its pod did: a reboot, or a container that the provider paused, stopped or
moved, and started again.

verl's launcher prints no exit code, so the code comes from the process that reaped it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from bs4_common.failures.compiled import Parameters
from bs4_common.failures.detectors.reporting import found, quiet
from bs4_common.failures.evidence import as_evidence, process_evidence
from bs4_common.failures.facts import Facts, Finding, Intent, RunFacts
from bs4_common.runs.model import Exit


def trainer_exited(facts: Facts, run: RunFacts, parameters: Parameters) -> Sequence[Finding]:
    """Return a list with one finding (the reported failure, with its evidence) if the driver (main
    process) of a verl run ended by itself before the work was done: by a signal, with an exit code
    other than 0, or without the log's final line. Else return an empty list. The last lines of the
    log may arrive up to `parameters["after"]` seconds (default 5) after the end, so nothing is
    found before that.

    The exit code of a run that was started by hand is unknown; then only the missing final line
    counts.
    """
    if (
        run.trainer.traits.reports_exits
        or run.spec.component not in ("rl", "sft")
        or run.state != "ended"
        or run.with_pod
        or quiet(run)
        or run.last_event("finished", "trainer") is not None
    ):
        return []
    end = _end_of_driver(run)
    over_m = end.m if end is not None else run.last_activity_m
    if over_m is None or facts.now_m - over_m < float(parameters.get("after", 5.0)):
        return []
    if end is None:
        if run.exits or not any(event.source == run.layout.own_log for event in run.events):
            return []
        how = "without its final line"
        evidence = [as_evidence("process", "the driver has ended; its exit code is not known")]
    elif end.code == 0 and run.spec.component != "rl":
        return []
    else:
        how = f"by signal {end.signal}" if end.signal is not None else f"with code {end.code}"
        if end.code == 0:
            how += ", without its final line"
        evidence = [process_evidence(end.identity, f"the driver has ended {how}")]
    if (last := run.last_event("fatal", "trainer")) is not None:
        evidence.append(last.evidence())
    if end is not None:
        anchor = f"exit:{end.identity.pid}:{end.identity.start_ticks}"
    else:
        anchor = f"exit:{run.attempt}"
    text = f"The driver of {run.name} has ended {how}."
    return found("trainer-exited", run, text, evidence, anchor, playbook=run.fallback)


def _end_of_driver(run: RunFacts) -> Exit | None:
    """Return how the driver ended, or None if it is unknown. For a run in a container, the shim
    reaps Docker's client, which passes on the driver's exit code.
    """
    own = [end for end in run.exits if end.component == "launcher"] or (
        list(run.exits) if run.spec.container else []
    )
    return max(own, key=lambda end: end.m, default=None)


def pod_restarted(facts: Facts, run: RunFacts, parameters: Parameters) -> Sequence[Finding]:
    """Return a list with one finding (the reported failure, with its evidence) if this attempt
    ended because the pod itself was stopped or rebooted, and the pod is back, else an empty list.
    An attempt that had finished, or that a person stopped, gives no finding. `parameters` is not
    used.
    """
    if not run.with_pod or quiet(run) or run.living:
        return []
    evidence = [
        as_evidence(
            "run",
            f"attempt {run.attempt} was started before this pod's first process; nobody was "
            "left to write its end",
        )
    ]
    if run.leaving is not None:
        evidence.append(as_evidence("agent", _last_word(run.leaving)))
    where = "no step is complete here any more"
    if run.newest_complete is not None:
        where = f"step {run.newest_complete.step} is the newest that is complete here"
    return found(
        "resume-after-restart",
        run,
        f"{run.name} ended with its pod, which is back; {where}.",
        evidence,
        f"restart:{run.attempt}",
    )


def _last_word(leaving: Intent) -> str:
    """Return a phrase for what the agent recorded when it received the signal to leave."""
    at = time.strftime("%H:%M:%S", time.localtime(float(leaving.get("t") or 0)))
    local = f"step {leaving['local_step']}" if leaving.get("local_step") is not None else "none"
    if not leaving.get("local_known"):
        local = "not known, the disk did not answer in time"
    remote = f"step {leaving['remote_step']}" if leaving.get("remote_step") is not None else "none"
    return (
        f"{leaving.get('signal')} at {at}; newest that verified: here {local}, in the store "
        f"{remote}"
    )
