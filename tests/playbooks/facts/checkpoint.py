"""Checkpoints torn, incomplete, stale, unwanted or lost; and the moments of a healthy run that look
like it.
"""

from __future__ import annotations

from bs4_common.failures.environment import Adapter, ConsoleFacts
from bs4_common.failures.facts import Facts, LogEvent, Side, StepFiles
from bs4_common.trainers.base import Checkpoint, Event
from tests.agent.facts import event
from tests.playbooks.facts.case import negative, positive
from tests.playbooks.facts.made import (
    CONFIG,
    GIB,
    NEW,
    NOW,
    OUT,
    VERL,
    WALL,
    around,
    look,
    run,
    saved,
    starting,
)

ENDED = {"state": "ended"}


@positive("checkpoint-torn")
def half_a_step_after_a_crash() -> Facts:
    return look(run(checkpoints=[saved(5), saved(10, complete=False)], **ENDED))


@positive("checkpoint-torn")
def the_trainer_is_far_past_it() -> Facts:
    return look(
        run(checkpoints=[saved(0), saved(5, complete=False)], trainer_side=Side(9, NOW, 10))
    )


@positive("checkpoint-torn")
def verl_above_its_tracker() -> Facts:
    return look(
        run(VERL, checkpoints=[saved(10), saved(20)], environment=around(pointer=10), **ENDED)
    )


def handed_over(step: int) -> Checkpoint:
    """A step of 2026-01 that nobody saves: its weights went to the engine."""
    place = {"broadcast": OUT / f"run_default/broadcasts/step_{step}"}
    return Checkpoint(
        step=step,
        parts=place,
        missing=("trainer", "orchestrator"),
        complete=False,
        bytes=GIB,
        newest_mtime=WALL - 600,
        directories=place,
    )


@negative("checkpoint-torn")
def steps_that_were_only_handed_over() -> Facts:
    return look(run(checkpoints=[saved(0), saved(5), handed_over(6), handed_over(7)], **ENDED))


@positive("checkpoint-torn")
def a_torn_step_below_what_was_handed_over() -> Facts:
    return look(
        run(
            checkpoints=[saved(0), saved(5, complete=False), handed_over(6), handed_over(7)],
            trainer_side=Side(8, NOW, 9),
        )
    )


@negative("checkpoint-torn")
def the_orchestrator_saved_first() -> Facts:
    """Normal for minutes while a run trains."""
    return look(run(checkpoints=[saved(0), saved(5, complete=False)], trainer_side=Side(5, NOW, 6)))


@negative("checkpoint-torn")
def it_is_still_being_written() -> Facts:
    return look(run(checkpoints=[saved(5), saved(10, complete=False, age=60)], **ENDED))


@negative("checkpoint-torn")
def the_run_was_stopped_by_us() -> Facts:
    return look(
        run(checkpoints=[saved(5), saved(10, complete=False)], stop_requested=True, **ENDED)
    )


@positive("incomplete-resume-set")
def the_resume_step_lacks_its_broadcast() -> Facts:
    return look(
        starting(resume=5, checkpoints=[saved(0), saved(5, complete=False, missing=("broadcast",))])
    )


@negative("incomplete-resume-set", "wandb-step-as-checkpoint", "silent-fresh-start")
def a_complete_resume_step() -> Facts:
    return look(starting(resume=5))


@negative("incomplete-resume-set", "checkpoint-torn")
def a_partial_step_that_is_not_resumed() -> Facts:
    return look(starting(resume=5, checkpoints=[saved(5), saved(10, complete=False)]))


@positive("wandb-step-as-checkpoint")
def a_step_that_was_never_saved() -> Facts:
    return look(starting(resume=1237))


@negative("wandb-step-as-checkpoint")
def a_step_that_was_rotated_away_after_the_resume() -> Facts:
    return look(run(resume=5, checkpoints=[saved(10), saved(15)], trainer_side=Side(16, NOW, 10)))


@positive("silent-fresh-start")
def asked_for_five_and_began_at_zero() -> Facts:
    return look(run(resume=5, trainer_side=Side(1, NOW, 2), orchestrator_side=Side(2, NOW, 3)))


@positive("silent-fresh-start")
def asked_for_the_latest_and_began_at_one() -> Facts:
    return look(run(NEW, resume=-1, trainer_side=Side(1, NOW, 1)))


@negative("silent-fresh-start")
def resumed_where_it_was_asked_to() -> Facts:
    return look(run(resume=5, trainer_side=Side(7, NOW, 2), orchestrator_side=Side(8, NOW, 3)))


def waiting(loop_age: float, **changes: object) -> Facts:
    loop = LogEvent(
        event=Event("starting", "trainer", {"what": "loop"}),
        m=NOW - loop_age,
        text="Starting training loop",
        source="trainer",
    )
    barrier = event("barrier", "orchestrator", "Hit async barrier")
    files = StepFiles(orchestrator_checkpoints={20: WALL - 5000, 40: WALL - 4000})
    side = Side(2, NOW - loop_age, 3)
    return look(starting(files=files, events=[loop, barrier], orchestrator_side=side, **changes))


@positive("stale-checkpoint-deadlock")
def a_fresh_start_over_an_old_run() -> Facts:
    return waiting(400)


@negative("stale-checkpoint-deadlock")
def the_loop_has_just_begun() -> Facts:
    return waiting(120)


@negative("stale-checkpoint-deadlock")
def the_old_checkpoints_are_what_is_resumed() -> Facts:
    return waiting(400, resume=40)


@positive("step-desync")
def written_below_what_is_awaited() -> Facts:
    files = StepFiles(orchestrator_checkpoints={40: WALL - 5000}, rollouts={0: WALL - 50})
    return look(starting(files=files, orchestrator_side=Side(0, NOW - 50, 1), checkpoints=[]))


@negative("step-desync")
def the_awaited_step_is_written() -> Facts:
    files = StepFiles(orchestrator_checkpoints={40: WALL - 5000}, rollouts={40: WALL - 50})
    return look(starting(files=files, orchestrator_side=Side(40, NOW - 50, 1), checkpoints=[]))


@positive("resume-latest-partial")
def latest_is_half_there() -> Facts:
    failure = event(
        "fatal",
        "trainer",
        "FileNotFoundError: Checkpoint not found at /o/checkpoints/step_37/trainer",
    )
    return look(
        starting(
            NEW, checkpoints=[saved(30), saved(37, complete=False)], events=[failure], resume=-1
        )
    )


@negative("resume-latest-partial")
def half_of_the_latest_while_it_trains() -> Facts:
    return look(
        run(NEW, checkpoints=[saved(30), saved(37, complete=False)], trainer_side=Side(36, NOW, 7))
    )


@positive("logs-lost-on-relaunch")
def cleaned_away_by_this_start() -> Facts:
    return look(run(environment=around(logs_kept=False)))


@negative("logs-lost-on-relaunch")
def archived_before_this_start() -> Facts:
    return look(run(environment=around(logs_kept=True)))


@negative("logs-lost-on-relaunch")
def the_first_attempt_has_none_to_lose() -> Facts:
    return look(run(environment=around(logs_kept=False), checkpoints=[saved(5, age=10)]))


def adapter(*missing: str) -> Facts:
    return look(starting(VERL, environment=around(adapters=[Adapter(OUT / "adapter", missing)])))


@positive("adapter-incomplete")
def without_its_weights() -> Facts:
    return adapter("adapter_model.safetensors")


@negative("adapter-incomplete")
def with_both_files() -> Facts:
    return adapter()


@positive("keep-last-not-deleting")
def more_than_one_too_many() -> Facts:
    return look(run(checkpoints=[saved(step) for step in range(0, 30, 5)]))


@negative("keep-last-not-deleting")
def one_more_while_it_rotates() -> Facts:
    return look(run(checkpoints=[saved(step) for step in range(0, 20, 5)]))


@negative("keep-last-not-deleting")
def many_without_a_limit() -> Facts:
    config = {key: value for key, value in CONFIG.items() if key != "ckpt.keep_last"}
    return look(
        run(config=config, checkpoints=[saved(step, GIB // 1000) for step in range(0, 100, 5)])
    )


def sync(**row: object) -> Facts:
    return look(
        run(),
        console=ConsoleFacts(sync=[{"run": "demo", "alive": True, "owners": ["pid 7"], **row}]),
    )


@positive("cleanup-upload-race")
def gone_under_its_upload() -> Facts:
    return sync(vanished=[5])


@positive("cleanup-upload-race")
def two_daemons() -> Facts:
    return sync(owners=["pid 7", "pid 8"])


@negative("cleanup-upload-race")
def one_daemon_that_loses_nothing() -> Facts:
    return sync(vanished=[])
