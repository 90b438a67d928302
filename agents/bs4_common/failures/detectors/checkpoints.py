"""Detectors for checkpoints as files: torn, incomplete for a resume, in the way of a fresh start,
or missing; and for logs that a start has deleted.
"""

from __future__ import annotations

from collections.abc import Sequence

from bs4_common.failures.compiled import Parameters
from bs4_common.failures.detectors.reporting import found, live, number, quiet, setting
from bs4_common.failures.evidence import as_evidence, file_evidence
from bs4_common.failures.facts import Facts, Finding, RunFacts
from bs4_common.trainers.base import Checkpoint

Found = Sequence[Finding]
#: Parts that also exist for steps between two checkpoints, because 2026-01 broadcasts every step.
#: These parts alone do not mean that a checkpoint was begun.
_HAND_OVERS = frozenset({"broadcast", "weights"})


def checkpoint_torn(facts: Facts, run: RunFacts, parameters: Parameters) -> Found:
    """Return a list with one finding (the reported failure, with its evidence) if the newest
    checkpoint lacks a part and nothing will write that part any more, else an empty list. That is
    so if its files have not changed for `parameters["quiet_s"]` seconds (default 120) and the run
    is over or the trainer has passed that step. Of a run of which only the files are read, none of
    its logs and checkpoints may have changed for so long; then it counts as over. For verl, a
    newest checkpoint whose step is above the number in latest_checkpointed_iteration.txt counts,
    too.

    While a run trains, a newest checkpoint with one half is normal, because the orchestrator saves
    minutes before the trainer does.
    """
    newest = next(
        (c for c in reversed(run.checkpoints) if not _HAND_OVERS.issuperset(c.directories)), None
    )
    torn = _behind_pointer(run) or (newest if newest is not None and not newest.complete else None)
    if torn is None or quiet(run):
        return []
    still_s = run.untouched_s
    if still_s is None:
        still_s = facts.now_t - torn.newest_mtime
    last = run.trainer_side.last_step
    passed = last is not None and last > torn.step + 1
    if still_s < float(parameters.get("quiet_s", 120)) or (live(run) and not passed):
        return []
    evidence = []
    for path in torn.directories.values():
        evidence.append(file_evidence(path, "its last-written file is missing"))
    missing = ", ".join(torn.missing) or "its number in latest_checkpointed_iteration.txt"
    evidence.append(as_evidence("files", f"missing: {missing}"))
    return found(
        "checkpoint-torn",
        run,
        f"Checkpoint step {torn.step} is incomplete: {missing}.",
        evidence,
        f"files:step_{torn.step}",
    )


def _behind_pointer(run: RunFacts) -> Checkpoint | None:
    """Return verl's newest step if it is above the number in its marker file, or None."""
    if run.environment is None or run.environment.pointer is None or not run.checkpoints:
        return None
    newest = run.checkpoints[-1]
    if newest.step > run.environment.pointer:
        return newest
    return None


def incomplete_resume_set(facts: Facts, run: RunFacts, parameters: Parameters) -> Found:
    """Return a list with one finding (the reported failure, with its evidence) if the run resumes
    from a checkpoint that lacks a part (for example the trainer's) and the trainer has not finished
    a training step since, else an empty list. A run that resumes from "the latest" checkpoint,
    without a number, gives no finding. `parameters` is not used.
    """
    if run.resume is None or run.resume < 0 or run.trainer_side.steps or quiet(run):
        return []
    chosen = next((c for c in run.checkpoints if c.step == run.resume), None)
    if chosen is None or chosen.complete:
        return []
    evidence = []
    for path in chosen.directories.values():
        evidence.append(file_evidence(path, f"of step {chosen.step}"))
    evidence.append(as_evidence("files", f"missing: {', '.join(chosen.missing)}"))
    if failure := run.last_event("fatal"):
        evidence.append(failure.evidence())
    text = f"The run resumes from step {chosen.step}, which lacks {', '.join(chosen.missing)}."
    return found("incomplete-resume-set", run, text, evidence, f"files:step_{chosen.step}")


def wandb_step(facts: Facts, run: RunFacts, parameters: Parameters) -> Found:
    """Return a list with one finding (the reported failure, with its evidence) if the run is to
    resume from a step of which no checkpoint exists and the trainer has not finished a training
    step since, else an empty list. Typically a person has read the number off a W&B curve. A run
    that resumes from "the latest" checkpoint, without a number, gives no finding. `parameters` is
    not used.
    """
    steps = run.steps
    if (
        run.resume is None
        or run.resume < 0
        or run.resume in steps
        or run.trainer_side.steps
        or quiet(run)
    ):
        return []
    interval = number(run.setting("ckpt.interval", "trainer.ckpt.interval", "trainer.save_freq"))
    evidence = [
        as_evidence(
            "files",
            f"there is no step_{run.resume}; there are {', '.join(map(str, steps)) or 'none'}",
            str(run.layout.trainer_checkpoints),
        )
    ]
    if interval and run.resume % interval:
        evidence.append(
            setting(run, "ckpt.interval", f"{interval:.0f}, of which {run.resume} is no multiple")
        )
    text = f"The run is to resume from step {run.resume}, which was never saved."
    return found("wandb-step-as-checkpoint", run, text, evidence, f"files:step_{run.resume}")


def silent_fresh_start(facts: Facts, run: RunFacts, parameters: Parameters) -> Found:
    """Return a list with one finding (the reported failure, with its evidence) if the run was to
    resume from a checkpoint later than step 1, but the first training step of a side (trainer or
    orchestrator) in this attempt is 0 or 1, so that this side has begun from the start. Else return
    an empty list. `parameters` is not used.
    """
    if run.resume is None or run.resume in (0, 1) or quiet(run):
        return []
    for name, side in (("trainer", run.trainer_side), ("orchestrator", run.orchestrator_side)):
        if side.last_step is None or side.steps == 0:
            continue
        first = side.last_step - side.steps + 1
        if first <= 1 and max([run.resume, *run.complete]) > 1:
            asked = "the latest checkpoint" if run.resume < 0 else f"step {run.resume}"
            evidence = [
                as_evidence(
                    "steps",
                    f"the {name}'s first step of this attempt is {first}; asked for: {asked}",
                )
            ]
            if event := run.last_event("step", name):
                evidence.append(event.evidence())
            return found(
                "silent-fresh-start",
                run,
                f"The run was to resume from {asked} and began at step {first}.",
                evidence,
                f"first:{first}",
            )
    return []


def stale_checkpoints(facts: Facts, run: RunFacts, parameters: Parameters) -> Found:
    """Return a list with one finding (the reported failure, with its evidence) if a run of
    prime-rl's version of January 2026 was started afresh in a directory in which an earlier run has
    left orchestrator checkpoints, so that the trainer waits for a step of that earlier run. Else
    return an empty list.

    While the run lives, there is a finding only once its training loop has run for
    `parameters["after_s"]` seconds (default 300) and the trainer has made no step. If the step
    numbers of the checkpoint and rollout files prove the wait, `step_desync` finds it earlier.
    """
    if run.resume is not None or run.trainer_side.steps or run.stop_requested:
        return []
    old = sorted(
        step for step, mtime in run.files.orchestrator_checkpoints.items() if mtime <= run.started_t
    )
    loop = run.last_event("starting", what="loop")
    barrier = run.last_event("barrier", "orchestrator")
    if not old or barrier is None or loop is None or run.orchestrator_side.steps == 0:
        return []
    if live(run) and facts.now_m - loop.m < float(parameters.get("after_s", 300)):
        return []
    leftover = run.layout.orchestrator_checkpoints / f"step_{old[-1]}"
    evidence = [
        file_evidence(leftover, "left by an earlier run; this one started afresh"),
        loop.evidence(),
        barrier.evidence(),
    ]
    text = (
        f"This start is a fresh one, and step {old[-1]} of an earlier run is still in its "
        "directory: the trainer waits for it."
    )
    return found(
        "stale-checkpoint-deadlock",
        run,
        text,
        evidence,
        f"files:step_{old[-1]}",
        playbook=run.fallback,
    )


def logs_lost(facts: Facts, run: RunFacts, parameters: Parameters) -> Found:
    """Return a list with one finding (the reported failure, with its evidence) if checkpoints are
    older than this attempt but no log is, so that the start of the attempt has deleted the earlier
    logs. Else, or if there is no log at all, return an empty list. `parameters` is not used.
    """
    if run.environment is None or run.environment.logs_kept is not False or quiet(run):
        return []
    earlier = []
    for c in run.checkpoints:
        if 0 < c.newest_mtime < run.started_t:
            earlier.append(c)
    if not earlier:
        return []
    evidence = [
        file_evidence(run.layout.output_dir / "logs", "holds nothing from before this start"),
        as_evidence(
            "files",
            f"step {earlier[-1].step} was saved before this start, so there was an earlier attempt",
        ),
    ]
    return found(
        "logs-lost-on-relaunch",
        run,
        "This start has deleted the logs of the attempt before it.",
        evidence,
        f"attempt:{run.attempt}",
    )


def adapter_incomplete(facts: Facts, run: RunFacts, parameters: Parameters) -> Found:
    """Return a list with one finding (the reported failure, with its evidence) if a LoRA adapter
    that the run's settings load lacks its config or its weights, else an empty list. Nothing is
    found while the adapters have not been scanned. `parameters` is not used.
    """
    if run.environment is None or quiet(run):
        return []
    broken = []
    for adapter in run.environment.adapters or ():
        if adapter.missing:
            broken.append(adapter)
    if not broken:
        return []
    evidence = []
    for a in broken:
        evidence.append(file_evidence(a.path, f"missing: {', '.join(a.missing)}"))
    text = f"The adapter {broken[0].path} lacks {', '.join(broken[0].missing)}."
    return found("adapter-incomplete", run, text, evidence, f"files:{broken[0].path}")


def checkpoints_off(facts: Facts, run: RunFacts, parameters: Parameters) -> Found:
    """Return a list with one finding (the reported failure, with its evidence) if the trainer of a
    live run has made `parameters["steps"]` steps (default 5), no checkpoint exists, and the run's
    settings turn checkpoints off. Else, or if the settings are unknown, return an empty list.
    """
    if (
        run.config is None
        or not live(run)
        or run.checkpoints
        or run.trainer_side.steps < int(parameters.get("steps", 5))
    ):
        return []
    key = run.trainer.traits.save_key
    given = run.setting(key, f"trainer.{key}")
    often = number(given)
    in_table = run.under(key) or run.under(f"trainer.{key}")
    if in_table or (given and (often is None or often > 0)):
        return []
    evidence = [
        setting(run, key, "off"),
        as_evidence("files", "no step was saved", str(run.layout.trainer_checkpoints)),
    ]
    text = (
        f"Nothing has been saved in {run.trainer_side.steps} steps, and nothing will be: "
        "checkpoints are off."
    )
    return found("checkpoints-off", run, text, evidence, "config:ckpt")


def resume_latest_partial(facts: Facts, run: RunFacts, parameters: Parameters) -> Sequence[Finding]:
    """Return a list with one finding (the reported failure, with its evidence) if a run of current
    prime-rl (not its version of January 2026) resumed from its newest checkpoint, which lacks the
    trainer's half, and a log line reports that the trainer failed because of that. Else return an
    empty list. `parameters` is not used.

    The orchestrator saves earlier than the trainer, and once more while it ends, so the newest
    checkpoint often lacks the trainer's half. A plain `--resume` takes that checkpoint
    nevertheless.
    """
    if not run.checkpoints or run.trainer_side.steps or run.good_end:
        return []
    newest = run.checkpoints[-1]
    if newest.complete or "trainer" not in newest.missing:
        return []
    part = f"step_{newest.step}/trainer"
    failure = next((e for e in run.events_of("fatal") if part in e.text), None)
    if failure is None:
        return []
    return [
        Finding(
            failure="resume-latest-partial",
            run=run.name,
            attempt=run.attempt,
            summary=(
                f"The run resumed from step {newest.step}, of which only the orchestrator's half "
                "exists."
            ),
            evidence=[
                failure.evidence(),
                file_evidence(
                    run.layout.orchestrator_checkpoints / f"step_{newest.step}",
                    f"missing: {', '.join(newest.missing)}",
                ),
            ],
            anchor=f"files:step_{newest.step}",
            playbook=run.fallback,
        )
    ]
