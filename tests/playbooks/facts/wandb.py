"""W&B beside the pod: behind it, unknown to it, shared, double, offline."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bs4_common.failures.environment import ConsoleFacts, ProcessFacts, WandbDirectory
from bs4_common.failures.facts import Facts, Side
from tests.agent.facts import identity
from tests.playbooks.facts.case import negative, positive
from tests.playbooks.facts.made import NEW, NOW, OLD, WALL, around, look, run


def seen(**row: Any) -> Facts:
    base = {
        "run": "demo",
        "found": True,
        "id": "a1",
        "name": "demo-trainer",
        "project": "p",
        "last_step": 5,
        "updated_t": WALL - 30,
    }
    return look(run(), console=ConsoleFacts(wandb=[{**base, **row}]))


@positive("wandb-lag")
def half_an_hour_behind() -> Facts:
    return seen(last_step=2, updated_t=WALL - 1800)


@negative("wandb-lag")
def ten_minutes_behind() -> Facts:
    return seen(last_step=4, updated_t=WALL - 600)


@negative("wandb-lag")
def old_and_equal() -> Facts:
    """The pod makes no steps either: that is another failure."""
    return seen(last_step=5, updated_t=WALL - 1800)


@negative("wandb-lag")
def a_finished_run() -> Facts:
    return seen(last_step=2, updated_t=WALL - 1800, state="finished")


@positive("wandb-run-not-found")
def no_such_run() -> Facts:
    return seen(found=False)


@negative("wandb-run-not-found", "wandb-name-collision")
def found_by_its_id() -> Facts:
    return seen()


@negative("wandb-run-not-found")
def before_the_first_steps() -> Facts:
    return look(
        run(trainer_side=Side(0, NOW, 1)),
        console=ConsoleFacts(wandb=[{"run": "demo", "found": False}]),
    )


@positive("wandb-name-collision")
def two_of_one_name() -> Facts:
    rows = [
        {"run": "demo", "id": "a1", "name": "demo", "project": "p"},
        {"run": None, "id": "b2", "name": "demo", "project": "p"},
    ]
    return look(run(), console=ConsoleFacts(wandb=rows))


@negative("wandb-name-collision")
def one_name_in_two_projects() -> Facts:
    rows = [
        {"run": "demo", "id": "a1", "name": "demo", "project": "p"},
        {"run": None, "id": "b2", "name": "demo", "project": "q"},
    ]
    return look(run(), console=ConsoleFacts(wandb=rows))


def local(state: str, *directories: WandbDirectory) -> Facts:
    return look(run(state=state, environment=around(wandb=directories)))


OFFLINE = WandbDirectory(
    path=Path("/w/offline-run-1"), offline=True, synced=False, changed=WALL - 50
)


@positive("wandb-offline-unsynced")
def offline_at_the_end() -> Facts:
    return local("ended", OFFLINE)


@negative("wandb-offline-unsynced")
def offline_while_it_trains() -> Facts:
    return local("running", OFFLINE)


@negative("wandb-offline-unsynced")
def synced_since() -> Facts:
    return local(
        "ended",
        WandbDirectory(path=Path("/w/offline-run-1"), offline=True, synced=True, changed=WALL - 50),
    )


@negative("wandb-offline-unsynced")
def of_an_older_run() -> Facts:
    return local(
        "ended",
        WandbDirectory(
            path=Path("/w/offline-run-0"), offline=True, synced=False, changed=WALL - 9000
        ),
    )


def ids(trainer: str, first: str | None, second: str | None, shared: bool = False) -> Facts:
    processes = [
        ProcessFacts(identity=identity(14), component="trainer", wandb_id=first, shared=shared),
        ProcessFacts(
            identity=identity(13), component="orchestrator", wandb_id=second, shared=shared
        ),
    ]
    return look(run(trainer, environment=around(processes=processes)))


@positive("wandb-shared-id")
def one_id_in_both() -> Facts:
    return ids(OLD, "d1", "d1")


@negative("wandb-shared-id")
def an_id_each() -> Facts:
    return ids(OLD, "d1", "d2")


@negative("wandb-shared-id")
def shared_on_purpose() -> Facts:
    return ids(NEW, "d1", "d1", shared=True)


@negative("wandb-shared-id")
def environments_that_cannot_be_read() -> Facts:
    return ids(OLD, None, None)
