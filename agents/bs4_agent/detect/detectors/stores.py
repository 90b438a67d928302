"""The object store and who writes to it: partial copies, a dead daemon, a marker that never comes,
retention that deletes the newest.

All of it rests on what the console was told by the store and by the sync process; without that
nothing is said.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bs4_agent.detect.detectors.words import found, number, told
from bs4_agent.detect.facts import Facts, Finding, RunFacts, file_evidence

Found = Sequence[Finding]


def remote_checkpoint_partial(facts: Facts, run: RunFacts, parameters: Mapping[str, Any]) -> Found:
    """A step in the store with fewer files or bytes than the same complete step here."""
    local = {}
    for c in run.checkpoints:
        if c.complete:
            local[c.step] = c
    for row in _rows(facts, "remote", run):
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
            evidence = [
                told("store", f"step {here.step}: {wrong or text}", str(row.get("prefix", ""))),
                *(
                    file_evidence(path, f"{part}: step {here.step} is {here.bytes} bytes here")
                    for part, path in here.parts.items()
                ),
            ]
            return found(
                "remote-checkpoint-partial",
                run,
                f"Step {here.step} in the store is not whole.",
                evidence,
                f"remote:step_{here.step}",
            )
    return []


def sync_daemon_dead(facts: Facts, run: RunFacts, parameters: Mapping[str, Any]) -> Found:
    """No process syncs, or the pointer is two intervals behind the newest complete step."""
    intervals = float(parameters.get("intervals", 2))
    newest = max((c for c in run.checkpoints if c.complete), key=lambda c: c.step, default=None)
    for row in _rows(facts, "sync", run):
        every = number(row.get("interval_s")) or 300.0
        behind = (
            newest is not None
            and row.get("pointer") is not None
            and int(row["pointer"]) < newest.step
        )
        late = (
            behind and newest is not None and facts.now_t - newest.newest_mtime > intervals * every
        )
        unsaved = newest is not None and row.get("pointer") is None
        if row.get("alive") is False and (behind or unsaved):
            text = "The sync process of this run is gone."
        elif late:
            text = (
                f"The store's pointer is {intervals:g} intervals behind the newest complete step."
            )
        else:
            continue
        evidence = [
            told(
                "sync",
                f"alive: {row.get('alive')}, pointer: {row.get('pointer')}, newest complete "
                f"step here: {newest.step if newest else None}",
            )
        ]
        return found("sync-daemon-dead", run, text, evidence, "sync:dead")
    return []


def sync_marker_mismatch(facts: Facts, run: RunFacts, parameters: Mapping[str, Any]) -> Found:
    """Complete steps are skipped as incomplete, every one of them, for two rounds."""
    complete = set()
    for c in run.checkpoints:
        if c.complete:
            complete.add(c.step)
    for row in _rows(facts, "sync", run):
        skipped = {int(step) for step in row.get("skipped") or ()} & complete
        if (
            not skipped
            or skipped != complete
            or int(row.get("rounds", 0)) < int(parameters.get("rounds", 2))
        ):
            continue
        why = row.get("why") or f"it looks for {row.get('marker', 'another marker')}"
        evidence = [told("sync", f"skips complete steps {sorted(skipped)}: {why}")]
        return found(
            "sync-marker-mismatch",
            run,
            "The sync skips every complete checkpoint: it waits for a file that this trainer "
            "never writes.",
            evidence,
            "sync:marker",
        )
    return []


def retention_deleted_newest(facts: Facts, run: RunFacts, parameters: Mapping[str, Any]) -> Found:
    """The pointer names a step that the store does not have, or older steps were kept here and
    newer ones removed.
    """
    rows = _rows(facts, "remote", run)
    listed = {int(row["step"]) for row in rows if row.get("step") is not None}
    for row in _rows(facts, "sync", run):
        pointer = row.get("pointer")
        removed = set()
        for step in row.get("removed") or ():
            removed.add(int(step))
        asked = (
            facts.console is not None
            and facts.console.remote is not None
            and row.get("listed", True)
        )
        if pointer is not None and asked and int(pointer) not in listed:
            evidence = [
                told("store", f"the pointer names step {pointer}; listed are {sorted(listed)}")
            ]
            return found(
                "retention-deleted-newest",
                run,
                f"The store's pointer names step {pointer}, which is not there.",
                evidence,
                f"remote:{pointer}",
            )
        kept = {c.step for c in run.checkpoints}
        if removed and kept and max(removed) > min(kept) and max(removed) >= max(kept):
            evidence = [told("sync", f"removed {sorted(removed)}, kept {sorted(kept)}")]
            return found(
                "retention-deleted-newest",
                run,
                f"Retention removed step {max(removed)} and kept step {min(kept)}.",
                evidence,
                f"sync:{max(removed)}",
            )
    return []


def cleanup_upload_race(facts: Facts, run: RunFacts, parameters: Mapping[str, Any]) -> Found:
    """A step went away under its upload, or two daemons own one directory."""
    for row in _rows(facts, "sync", run):
        vanished, owners = row.get("vanished") or (), row.get("owners") or ()
        if vanished:
            text, detail = (
                f"Step {vanished[0]} was deleted while it was being uploaded.",
                f"vanished during upload: {list(vanished)}",
            )
        elif len(owners) > 1:
            text, detail = (
                f"{len(owners)} processes rotate or upload this run's checkpoints.",
                f"owners: {list(owners)}",
            )
        else:
            continue
        return found("cleanup-upload-race", run, text, [told("sync", detail)], "sync:race")
    return []


def object_store_auth(facts: Facts, run: RunFacts, parameters: Mapping[str, Any]) -> Found:
    """The key is refused, or a cap of the account is reached: a person has to act."""
    return _trouble(
        facts,
        run,
        "object-store-auth",
        ("store-auth", "store-full"),
        int(parameters.get("times", 1)),
    )


def object_store_throttled(facts: Facts, run: RunFacts, parameters: Mapping[str, Any]) -> Found:
    """The store answers with 429 or 503. One failed upload of ours stands for dozens of them: it
    has waited and tried again by itself.
    """
    return _trouble(
        facts, run, "object-store-throttled", ("store-throttled",), int(parameters.get("times", 1))
    )


def object_store_unreachable(facts: Facts, run: RunFacts, parameters: Mapping[str, Any]) -> Found:
    """No answer from the store, several uploads in a row."""
    return _trouble(
        facts,
        run,
        "object-store-unreachable",
        ("store-unreachable",),
        int(parameters.get("times", 2)),
    )


def _trouble(facts: Facts, run: RunFacts, failure: str, errors: Sequence[str], times: int) -> Found:
    """What the last uploads failed with; each kind of error is a finding of its own, since each
    wants another deed.
    """
    for row in _rows(facts, "sync", run):
        failures = int(row.get("failures") or 0)
        if row.get("error") in errors and failures >= times:
            detail = str(row.get("detail", ""))
            evidence = [told("sync", f"{failures} failed in a row; the last one: {detail}")]
            return found(
                failure, run, f"{detail.partition(';')[0]}.", evidence, f"store:{row['error']}"
            )
    return []


def _rows(facts: Facts, what: str, run: RunFacts) -> list[Mapping[str, Any]]:
    if facts.console is not None:
        return facts.console.of(what, run.name)
    return []
