"""Detectors that use the provider's listing and our own record of actions: a reclaimed pod, a
needless pod, a pod that never came up, or a loop.

A provider that does not answer is unknown, and a link that is down says nothing about the pod. So
two independent signs are needed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from bs4_common.failures.compiled import Parameters
from bs4_common.failures.detectors.reporting import found
from bs4_common.failures.evidence import as_evidence
from bs4_common.failures.facts import Facts, Finding, RunFacts

Found = Sequence[Finding]

_GONE = ("stopped", "outbid", "exited", "gone")
_TOOLS = re.compile(
    "Missing required tools|No such file or directory|installationFailure|command not found"
)


def spot_reclaimed(facts: Facts, run: RunFacts, parameters: Parameters) -> Found:
    """Return a list with one finding (the reported failure, with its evidence) if the provider's
    last `parameters["samples"]` answers (default 2) say that the run's instance was stopped, outbid
    or is gone, and the pod cannot be reached either, else an empty list. The answers are in the
    list `pods` of `facts.console` (what only the console can see); without that list nothing is
    found.
    """
    for row in facts.rows("pods", run):
        if (
            row.get("state") in _GONE
            and row.get("reachable") is False
            and int(row.get("samples", 0)) >= int(parameters.get("samples", 2))
        ):
            evidence = [
                as_evidence(
                    "provider",
                    f"instance {row.get('instance')}: {row['state']}, {row.get('samples')} "
                    "looks in a row",
                ),
                as_evidence("ssh", f"{row.get('pod')} cannot be reached"),
            ]
            return found(
                "spot-reclaimed",
                run,
                f"The provider took {row.get('pod')} back ({row['state']}).",
                evidence,
                f"instance:{row.get('instance')}",
            )
    return []


def needless_backup_pod(facts: Facts, run: RunFacts, parameters: Parameters) -> Found:
    """Return a list with one finding (the reported failure, with its evidence) if two instances are
    running for the same run and one of them makes steps, so that the other is paid for nothing,
    else an empty list. The instances are in the list `pods` of `facts.console` (what only the
    console can see); without that list nothing is found. `parameters` is not used.
    """
    pods = [row for row in facts.rows("pods", run) if row.get("state") == "running"]
    stepping = [row for row in pods if row.get("steps")]
    if len(pods) < 2 or not stepping or len({row.get("instance") for row in pods}) < 2:
        return []
    evidence = [
        as_evidence(
            "provider",
            f"instance {row.get('instance')} ({row.get('pod')}): {row.get('steps') or 'no'} "
            "new steps",
        )
        for row in pods
    ]
    idle = next((row for row in pods if not row.get("steps")), pods[-1])
    text = f"{stepping[0].get('pod')} makes steps, and {idle.get('pod')} is paid for the same run."
    return found("needless-backup-pod", run, text, evidence, f"instance:{idle.get('instance')}")


def no_offers(facts: Facts, run: RunFacts, parameters: Parameters) -> Found:
    """Return a list with one finding (the reported failure, with its evidence) if each of the last
    `parameters["searches"]` searches for a new instance (default 2) found no offer under the price
    limit, else an empty list. The searches are in the list `searches` of `facts.console` (what only
    the console can see); with fewer searches, or without that list, nothing is found.
    """
    wanted = int(parameters.get("searches", 2))
    searches = [row for row in facts.rows("searches", run) if row.get("offers") is not None]
    last = searches[-wanted:]
    if len(last) < wanted or any(row["offers"] for row in last):
        return []
    evidence = [
        as_evidence("provider", f"{row.get('text', 'search')}: no offer under {row.get('cap')} $/h")
        for row in last
    ]
    text = f"No offer under {last[-1].get('cap')} $ an hour in {len(last)} searches."
    return found("no-offers", run, text, evidence, "provider:offers")


def recovery_never_ends(facts: Facts, run: RunFacts, parameters: Parameters) -> Found:
    """Return a list with one finding (the reported failure, with its evidence) if none of the last
    `parameters["recoveries"]` recoveries of the run (default 3) brought a step beyond the step at
    which the run stood before that recovery, else an empty list. The recoveries are in the list
    `recoveries` of `facts.console` (what only the console can see); with fewer, or without that
    list, nothing is found.
    """
    limit = int(parameters.get("recoveries", 3))
    last = facts.rows("recoveries", run)[-limit:]
    evidence = []
    for row in last:
        before, after = row.get("step_before"), row.get("step_after")
        if before is not None and (after or 0) <= before:
            text = f"recovery from step {before}: at step {after} afterwards"
            evidence.append(as_evidence("journal", text))
    if len(evidence) < limit:
        return []
    text = f"{limit} recoveries in a row brought no new step."
    return found("recovery-never-ends", run, text, evidence, f"recovery:{last[0].get('t')}")


def label_prefix_match(facts: Facts, run: RunFacts, parameters: Parameters) -> Found:
    """Return a list with one finding (the reported failure, with its evidence) if a console's
    action on an instance of the provider would meet the wrong instance, because that instance's
    label only begins with the requested label. Else return an empty list. The actions are in the
    list `actions` of `facts.console` (what only the console can see); without that list nothing is
    found. `parameters` is not used.
    """
    for row in facts.rows("actions", run):
        wanted, got = row.get("label"), row.get("instance_label")
        if wanted is None or got is None or got == wanted or not str(got).startswith(str(wanted)):
            continue
        evidence = [
            as_evidence(
                "journal",
                f"{row.get('kind')}: asked for {wanted!r}, would touch {got!r} (instance "
                f"{row.get('instance')})",
            )
        ]
        return found(
            "label-prefix-match",
            run,
            f"{row.get('kind')} of {wanted} would touch {got}, another run's pod.",
            evidence,
            f"action:{row.get('t')}",
        )
    return []


def create_left_instance(facts: Facts, run: RunFacts, parameters: Parameters) -> Found:
    """Return a list with one finding (the reported failure, with its evidence) if the creation of
    an instance for the run ended with an error, but the provider lists an instance with the
    requested label that is none of the run's known pods, so that it is paid for nothing. Else
    return an empty list. The lists `creations`, `instances` and `pods` of `facts.console` (what
    only the console can see) are used; without the first two nothing is found. `parameters` is not
    used.
    """
    listing = (facts.console.instances if facts.console is not None else None) or ()
    known = {row.get("instance") for row in facts.rows("pods", run)}
    for row in facts.rows("creations", run):
        if not row.get("error"):
            continue
        label = row.get("label")
        left = [one for one in listing if one.get("label") == label and one.get("id") not in known]
        if left:
            evidence = [as_evidence("journal", f"create {label}: {row['error']}")]
            for one in left:
                said = f"instance {one.get('id')} is {one.get('state')}, {one.get('price')} $/h"
                evidence.append(as_evidence("provider", said))
            text = (
                f"Creating {label} was answered with an error, and instance "
                f"{left[0].get('id')} exists all the same."
            )
            return found(
                "create-left-instance", run, text, evidence, f"instance:{left[0].get('id')}"
            )
    return []


def pod_bootstrap_failed(facts: Facts, run: RunFacts, parameters: Parameters) -> Found:
    """Return a list with one finding (the reported failure, with its evidence) if a pod of the run
    has been up for `parameters["after_s"]` seconds (default 600) without a launcher and the cause
    is known, else an empty list. Known causes: the provider reports a failed installation, the
    start log names missing tools, or variables that the start needs are not set. The pods are in
    the list `pods` of `facts.console` (what only the console can see); without that list nothing is
    found.
    """
    after = float(parameters.get("after_s", 600))
    for row in facts.rows("pods", run):
        if (
            row.get("state") not in ("running", "installation-failed")
            or row.get("launcher") is not False
            or float(row.get("running_s") or 0) < after
        ):
            continue
        log = str(row.get("start_log") or "")
        why = [line for line in log.splitlines() if _TOOLS.search(line)]
        missing = list(row.get("missing_names") or ())
        if row["state"] != "installation-failed" and not why and not missing:
            continue
        minutes = float(row["running_s"]) / 60
        idle = (
            f"{row.get('pod')} has been {row['state']} for {minutes:.0f} minutes, no launcher, "
            f"GPU {row.get('gpu_util')} %"
        )
        evidence = [as_evidence("provider", idle)]
        for line in why[:3]:
            evidence.append(as_evidence("provider", line[:300]))
        for name in missing:
            evidence.append(as_evidence("environment", f"{name} is not set"))
        return found(
            "pod-bootstrap-failed",
            run,
            f"{row.get('pod')} is up and idle: its start script failed.",
            evidence,
            f"instance:{row.get('instance')}",
        )
    return []
