"""Detector for a run that ended because its pod did: a reboot, or a container that the provider
paused, stopped or moved, and started again.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from bs4_agent.detect.detectors.words import found, quiet, told
from bs4_agent.detect.facts import Facts, Finding, RunFacts


def pod_restarted(facts: Facts, run: RunFacts, parameters: Mapping[str, Any]) -> Sequence[Finding]:
    """Return a finding if the newest attempt belongs to an earlier life of this pod, and did not
    end well and was not stopped by us.
    """
    if not run.with_pod or quiet(run) or run.living:
        return []
    evidence = [
        told(
            "run",
            f"attempt {run.attempt} was started before this pod's first process; nobody was "
            "left to write its end",
        )
    ]
    if run.leaving is not None:
        evidence.append(told("agent", _last_word(run.leaving)))
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


def _last_word(leaving: Mapping[str, Any]) -> str:
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
