"""Detectors for what a run depends on besides its config: versions of environments, dataset caches,
limits of its processes, and local W&B directories.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bs4_common.failures.compiled import Parameters
from bs4_common.failures.detectors.reporting import found, live, quiet
from bs4_common.failures.evidence import as_evidence, file_evidence, process_evidence
from bs4_common.failures.facts import Facts, Finding, RunFacts

Found = Sequence[Finding]


def env_version_drift(facts: Facts, run: RunFacts, parameters: Parameters) -> Found:
    """Return a list with one finding (the reported failure, with its evidence) if a training
    environment (the package with tasks and rewards) is installed in another version than the one
    that a comment at the top of the run's config names, else an empty list. An environment that is
    not installed at all gives no finding. `parameters` is not used.
    """
    if run.environment is None or quiet(run):
        return []
    drifted = [e for e in run.environment.environments or () if e.installed not in (None, e.wanted)]
    if not drifted:
        return []
    evidence = [
        file_evidence(
            e.where, f"{e.name} {e.installed} is installed, the config's header names {e.wanted}"
        )
        for e in drifted
    ]
    first = drifted[0]
    text = (
        f"{first.name} {first.installed} is installed; the config was written for {first.wanted}."
    )
    return found("env-version-drift", run, text, evidence, f"env:{first.name}:{first.wanted}")


def dataset_cache_partial(facts: Facts, run: RunFacts, parameters: Parameters) -> Found:
    """Return a list with one finding (the reported failure, with its evidence) if no side of the
    run (trainer or orchestrator) has made a step and an entry of its dataset cache was left half
    written, else an empty list. Such an entry is not marked as complete, and nothing has been
    written to it for `parameters["quiet_s"]` seconds (default 120).
    """
    steps = run.trainer_side.steps or run.orchestrator_side.steps
    if run.environment is None or steps or quiet(run):
        return []
    rest = float(parameters.get("quiet_s", 120))
    torn, evidence = [], []
    for cache in run.environment.caches or ():
        age = facts.now_t - cache.changed
        if not cache.ready and age >= rest:
            torn.append(cache)
            text = f"no ready marker, and no writer for {age:.0f} s"
            evidence.append(file_evidence(cache.path, text))
    if not torn:
        return []
    return found(
        "dataset-cache-partial",
        run,
        f"A dataset cache was left half written: {torn[0].path.name}.",
        evidence,
        f"files:{torn[0].path}",
    )


def fd_limit_low(facts: Facts, run: RunFacts, parameters: Parameters) -> Found:
    """Return a list with one finding (the reported failure, with its evidence) if a process of a
    live run may open too few files (its soft limit), else an empty list. A limit below
    `parameters["floor"]` (default 1024) is too low. A limit below `parameters["wanted"]` (default
    65536) is too low if the process has opened more than the share `parameters["used"]` of it (0 to
    1, default 0.5). A limit of 1024 alone is no finding.
    """
    if run.environment is None or not live(run):
        return []
    floor, wanted = int(parameters.get("floor", 1024)), int(parameters.get("wanted", 65536))
    share = float(parameters.get("used", 0.5))
    low, evidence = [], []
    for p in run.environment.processes or ():
        if p.nofile is None:
            continue
        used = p.nofile < wanted and p.open_files is not None and p.open_files > share * p.nofile
        if p.nofile < floor or used:
            low.append(p)
            opened = p.open_files if p.open_files is not None else "unknown"
            said = f"{p.component}: soft limit {p.nofile}, open files {opened}"
            evidence.append(process_evidence(p.identity, said))
    if not low:
        return []
    worst = min(low, key=lambda p: p.nofile or 0)
    text = f"{worst.component} may open {worst.nofile} files; {wanted} is what this stack needs."
    return found("fd-limit-low", run, text, evidence, "limit:nofile")


def host_oom_kill(facts: Facts, run: RunFacts, parameters: Parameters) -> Found:
    """Return a list with one finding (the reported failure, with its evidence) if the kernel's
    out-of-memory killer has acted in the agent's control group during this attempt and a process of
    the run has ended, else an empty list. This works even if the kernel log is hidden. `parameters`
    is not used.
    """
    at = facts.oom_kill_m
    gone = [m for m in run.members if not m.alive and m.component is not None]
    if at is None or at < run.started_m or not gone or quiet(run):
        return []
    evidence = [
        as_evidence(
            "process",
            f"memory.events: oom_kill has grown, {facts.oom_kills} in all since the agent "
            "began to look",
        )
    ]
    for m in gone[:4]:
        evidence.append(process_evidence(m.identity, f"{m.component} is gone"))
    text = f"The kernel killed for memory in this container, and {gone[0].component} is gone."
    return found("host-oom-kill", run, text, evidence, "memory.events:oom_kill")


def wandb_shared_id(facts: Facts, run: RunFacts, parameters: Parameters) -> Found:
    """Return a list with one finding (the reported failure, with its evidence) if the trainer and
    the orchestrator of a live run have the same WANDB_RUN_ID in their environment, so that both
    write to one W&B run, although W&B's shared mode, which would allow that, is off. Else return an
    empty list. `parameters` is not used.
    """
    if run.environment is None or not live(run):
        return []
    sides = {"trainer": "trainer", "rank": "trainer", "orchestrator": "orchestrator"}
    seen: dict[str, dict[str, Any]] = {}
    for process in run.environment.processes or ():
        side = sides.get(process.component or "")
        if process.wandb_id is not None and not process.shared and side is not None:
            seen.setdefault(process.wandb_id, {})[side] = process
    both = next((by_side for by_side in seen.values() if len(by_side) == 2), None)
    own = run.setting("trainer.wandb.id") and run.setting("orchestrator.wandb.id")
    if both is None or own:
        return []
    evidence = [
        process_evidence(p.identity, f"{side} has the same WANDB_RUN_ID (compared by digest)")
        for side, p in both.items()
    ]
    return found(
        "wandb-shared-id",
        run,
        "Trainer and orchestrator inherit one WANDB_RUN_ID and write into one W&B run.",
        evidence,
        "env:WANDB_RUN_ID",
    )


def wandb_offline_unsynced(facts: Facts, run: RunFacts, parameters: Parameters) -> Found:
    """Return a list with one finding (the reported failure, with its evidence) if the run has ended
    and has offline W&B runs of this attempt that nobody has uploaded with `wandb sync` and that are
    newer than everything that was uploaded. Else return an empty list. `parameters` is not used.
    """
    if run.environment is None or run.state not in ("ended", "lost", "files"):
        return []
    newest = run.started_t
    unsynced = []
    for directory in run.environment.wandb or ():
        if directory.offline and not directory.synced:
            unsynced.append(directory)
        else:
            newest = max(newest, directory.changed)
    waiting = [d for d in unsynced if d.changed > newest]
    if not waiting:
        return []
    evidence = [
        file_evidence(
            d.path,
            "offline, never synced" + (f", up to step {d.step}" if d.step is not None else ""),
        )
        for d in waiting
    ]
    return found(
        "wandb-offline-unsynced",
        run,
        f"{len(waiting)} offline W&B runs were never synced.",
        evidence,
        f"files:{waiting[0].path.name}",
    )


def wandb_lag(facts: Facts, run: RunFacts, parameters: Parameters) -> Found:
    """Return a list with one finding (the reported failure, with its evidence) if the newest step
    that W&B shows of a live run is older than the trainer's last step on the pod, and W&B has got
    no data for more than `parameters["after_s"]` seconds (default 1200). Else return an empty list.
    A run that W&B shows as finished gives no finding.

    What W&B shows is in the list `wandb` of `facts.console` (what only the console can see).
    Without that list, or without step or time in it, nothing is found.
    """
    limit = float(parameters.get("after_s", 1200))
    for row in facts.rows("wandb", run):
        updated, last = row.get("updated_t"), row.get("last_step")
        if (
            not live(run)
            or updated is None
            or last is None
            or run.trainer_side.last_step is None
            or row.get("state") == "finished"
        ):
            continue
        age = facts.now_t - float(updated)
        if age > limit and run.trainer_side.last_step > int(last):
            evidence = [
                as_evidence("wandb", f"last update {age / 60:.0f} minutes ago, step {last}"),
                as_evidence("steps", f"the pod is at step {run.trainer_side.last_step}"),
            ]
            return found("wandb-lag", run, "W&B is behind the pod.", evidence, "wandb:lag")
    return []


def wandb_run_not_found(facts: Facts, run: RunFacts, parameters: Parameters) -> Found:
    """Return a list with one finding (the reported failure, with its evidence) if the trainer has
    made `parameters["steps"]` steps (default 2) and W&B has no run under the name or id that is
    recorded for this run, else an empty list. Whether W&B has it is in the list `wandb` of
    `facts.console` (what only the console can see); without that list nothing is found.
    """
    rows = facts.rows("wandb", run)
    if (
        not rows
        or any(row.get("found") is not False for row in rows)
        or run.trainer_side.steps < int(parameters.get("steps", 2))
    ):
        return []
    evidence = [
        as_evidence(
            "wandb",
            f"no run {row.get('name') or row.get('id')!r} in "
            f"{row.get('entity')}/{row.get('project')}",
        )
        for row in rows
    ]
    return found(
        "wandb-run-not-found",
        run,
        "W&B knows no run by the recorded name.",
        evidence,
        "wandb:not-found",
    )


def wandb_name_collision(facts: Facts, run: RunFacts, parameters: Parameters) -> Found:
    """Return a list with one finding (the reported failure, with its evidence) if another W&B run
    of the same project has the same name as this run's, else an empty list. The W&B runs are in the
    list `wandb` of `facts.console` (what only the console can see); without that list nothing is
    found. `parameters` is not used.
    """
    rows = (facts.console.wandb if facts.console else None) or ()
    for row in facts.rows("wandb", run):
        if not row.get("name") or not row.get("id"):
            continue
        others = []
        for other in rows:
            if (
                other.get("name") == row["name"]
                and other.get("id") not in (None, row["id"])
                and other.get("project") == row.get("project")
            ):
                others.append(other)
        if others:
            evidence = []
            for one in (row, *others):
                evidence.append(as_evidence("wandb", f"{one.get('id')}: {one['name']}"))
            return found(
                "wandb-name-collision",
                run,
                f"{len(others) + 1} W&B runs are called {row['name']}.",
                evidence,
                f"wandb:{row['name']}",
            )
    return []
