"""Detectors for the object store and for the processes that write to it: partial copies, a dead
daemon, a marker that never comes, and retention that deletes the newest step.

They use what the console has learned from the store and from the sync process. Without these facts
they find nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from bs4_common.failures.compiled import Parameters
from bs4_common.failures.detectors.reporting import found, number
from bs4_common.failures.evidence import as_evidence, file_evidence
from bs4_common.failures.facts import Facts, Finding, RunFacts

Found = Sequence[Finding]


def remote_checkpoint_partial(facts: Facts, run: RunFacts, parameters: Parameters) -> Found:
    """Return a list with one finding (the reported failure, with its evidence) if a step in the
    object store (to which checkpoints are copied) has fewer files or bytes than the complete
    checkpoint of that step on the pod and is not being uploaded now, else an empty list. The steps
    in the store are in the list `remote` of `facts.console` (what only the console can see);
    without that list nothing is found. `parameters` is not used.
    """
    local = run.complete
    for row in facts.rows("remote", run):
        here = local.get(row.get("step", -1))
        if here is None or row.get("uploading"):
            continue
        size, files = row.get("bytes"), row.get("files")
        short = size is not None and int(size) < here.bytes
        fewer = (
            files is not None
            and row.get("local_files") is not None
            and int(files) < int(row["local_files"])
        )
        wrong = str(row.get("missing") or "")
        if short or fewer or wrong:
            if fewer:
                text = f"{files} of {row['local_files']} files"
            else:
                text = f"{files} files, {size} bytes"
            said = f"step {here.step}: {wrong or text}"
            evidence = [as_evidence("store", said, str(row.get("prefix", "")))]
            for part, path in here.parts.items():
                said = f"{part}: step {here.step} is {here.bytes} bytes here"
                evidence.append(file_evidence(path, said))
            return found(
                "remote-checkpoint-partial",
                run,
                f"Step {here.step} in the store is not whole.",
                evidence,
                f"remote:step_{here.step}",
            )
    return []


def sync_daemon_dead(facts: Facts, run: RunFacts, parameters: Parameters) -> Found:
    """Return a list with one finding (the reported failure, with its evidence) if the object store
    (to which checkpoints are copied) lacks the pod's newest complete checkpoint, and either the
    process that copies checkpoints is gone or that checkpoint is older than
    `parameters["intervals"]` (default 2) times the process's interval. Else return an empty list.
    The state of that process and of the store is in the list `sync` of `facts.console` (what only
    the console can see); without that list nothing is found.
    """
    intervals = float(parameters.get("intervals", 2))
    newest = run.newest_complete
    if newest is None:
        return []
    for row in facts.rows("sync", run):
        pointer, every = row.get("pointer"), number(row.get("interval_s")) or 300.0
        behind = pointer is not None and int(pointer) < newest.step
        if row.get("alive") is False and (behind or pointer is None):
            text = "The sync process of this run is gone."
        elif behind and facts.now_t - newest.newest_mtime > intervals * every:
            text = (
                f"The store's pointer is {intervals:g} intervals behind the newest complete step."
            )
        else:
            continue
        said = f"alive: {row.get('alive')}, pointer: {pointer}"
        evidence = [as_evidence("sync", f"{said}, newest complete step here: {newest.step}")]
        return found("sync-daemon-dead", run, text, evidence, "sync:dead")
    return []


def sync_marker_mismatch(facts: Facts, run: RunFacts, parameters: Parameters) -> Found:
    """Return a list with one finding (the reported failure, with its evidence) if the process that
    copies checkpoints to the object store has skipped all complete checkpoints as incomplete for at
    least `parameters["rounds"]` rounds (default 2), because it waits for a file that this trainer
    never writes. Else return an empty list. The skipped steps are in the list `sync` of
    `facts.console` (what only the console can see); without that list nothing is found.
    """
    complete = run.complete.keys()
    for row in facts.rows("sync", run):
        skipped = {int(step) for step in row.get("skipped") or ()} & complete
        if (
            not skipped
            or skipped != complete
            or int(row.get("rounds", 0)) < int(parameters.get("rounds", 2))
        ):
            continue
        why = row.get("why") or f"it looks for {row.get('marker', 'another marker')}"
        return found(
            "sync-marker-mismatch",
            run,
            "The sync skips every complete checkpoint: it waits for a file that this trainer "
            "never writes.",
            [as_evidence("sync", f"skips complete steps {sorted(skipped)}: {why}")],
            "sync:marker",
        )
    return []


def retention_deleted_newest(facts: Facts, run: RunFacts, parameters: Parameters) -> Found:
    """Return a list with one finding (the reported failure, with its evidence) if the store's
    pointer (the step that the store names as newest) is a step that the store does not have, or if
    the newest checkpoint was removed from the pod while an older one stayed. Else return an empty
    list. The lists `sync` and `remote` of `facts.console` (what only the console can see) are used;
    without `sync` nothing is found. `parameters` is not used.
    """
    rows = facts.rows("remote", run)
    listed = {int(row["step"]) for row in rows if row.get("step") is not None}
    kept = run.steps
    for row in facts.rows("sync", run):
        pointer = row.get("pointer")
        removed = {int(step) for step in row.get("removed") or ()}
        asked = facts.console is not None and facts.console.remote is not None
        known = asked and row.get("listed", True)
        if pointer is not None and known and int(pointer) not in listed:
            evidence = [
                as_evidence(
                    "store", f"the pointer names step {pointer}; listed are {sorted(listed)}"
                )
            ]
            return found(
                "retention-deleted-newest",
                run,
                f"The store's pointer names step {pointer}, which is not there.",
                evidence,
                f"remote:{pointer}",
            )
        if removed and kept and max(removed) > min(kept) and max(removed) >= max(kept):
            evidence = [as_evidence("sync", f"removed {sorted(removed)}, kept {sorted(kept)}")]
            return found(
                "retention-deleted-newest",
                run,
                f"Retention removed step {max(removed)} and kept step {min(kept)}.",
                evidence,
                f"sync:{max(removed)}",
            )
    return []


def cleanup_upload_race(facts: Facts, run: RunFacts, parameters: Parameters) -> Found:
    """Return a list with one finding (the reported failure, with its evidence) if a checkpoint was
    deleted while it was being uploaded, or if more than one process deletes or uploads the run's
    checkpoints, else an empty list. Both are read from the list `sync` of `facts.console` (what
    only the console can see); without that list nothing is found. `parameters` is not used.
    """
    for row in facts.rows("sync", run):
        vanished, owners = row.get("vanished") or (), row.get("owners") or ()
        if vanished:
            text = f"Step {vanished[0]} was deleted while it was being uploaded."
            detail = f"vanished during upload: {list(vanished)}"
        elif len(owners) > 1:
            text = f"{len(owners)} processes rotate or upload this run's checkpoints."
            detail = f"owners: {list(owners)}"
        else:
            continue
        return found("cleanup-upload-race", run, text, [as_evidence("sync", detail)], "sync:race")
    return []


def object_store_auth(facts: Facts, run: RunFacts, parameters: Parameters) -> Found:
    """Return a list with one finding (the reported failure, with its evidence) if the last uploads,
    at least `parameters["times"]` in a row (default 1), failed because the object store (to which
    checkpoints are copied) refused the key or the account has reached a limit, else an empty list.
    A person has to repair that. The failures are in the list `sync` of `facts.console` (what only
    the console can see); without that list nothing is found.
    """
    return _trouble(
        facts,
        run,
        "object-store-auth",
        ("store-auth", "store-full"),
        int(parameters.get("times", 1)),
    )


def object_store_throttled(facts: Facts, run: RunFacts, parameters: Parameters) -> Found:
    """Return a list with one finding (the reported failure, with its evidence) if the last uploads,
    at least `parameters["times"]` in a row (default 1), failed because the object store (to which
    checkpoints are copied) answered that it is busy (429 or 503), else an empty list. Each of these
    uploads had been tried many times. The failures are in the list `sync` of `facts.console` (what
    only the console can see); without that list nothing is found.
    """
    return _trouble(
        facts, run, "object-store-throttled", ("store-throttled",), int(parameters.get("times", 1))
    )


def object_store_unreachable(facts: Facts, run: RunFacts, parameters: Parameters) -> Found:
    """Return a list with one finding (the reported failure, with its evidence) if the last uploads,
    at least `parameters["times"]` in a row (default 2), failed because the object store (to which
    checkpoints are copied) could not be reached, else an empty list. The failures are in the list
    `sync` of `facts.console` (what only the console can see); without that list nothing is found.
    """
    return _trouble(
        facts,
        run,
        "object-store-unreachable",
        ("store-unreachable",),
        int(parameters.get("times", 2)),
    )


def _trouble(facts: Facts, run: RunFacts, failure: str, errors: Sequence[str], times: int) -> Found:
    """Return a finding if the last uploads failed with one of these errors at least `times` times
    in a row. Each kind of error is a finding of its own, because each needs another repair.
    """
    for row in facts.rows("sync", run):
        failures = int(row.get("failures") or 0)
        if row.get("error") in errors and failures >= times:
            detail = str(row.get("detail", ""))
            evidence = [as_evidence("sync", f"{failures} failed in a row; the last one: {detail}")]
            return found(
                failure, run, f"{detail.partition(';')[0]}.", evidence, f"store:{row['error']}"
            )
    return []
