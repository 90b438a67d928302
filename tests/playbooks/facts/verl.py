"""verl: what the driver leaves behind, and settings that mean something else than they say."""

from __future__ import annotations

from typing import Any

from bs4_common.failures.facts import Facts, Side
from bs4_common.runs.model import Member
from tests.agent.facts import identity
from tests.playbooks.facts.case import negative, positive
from tests.playbooks.facts.made import NOW, VERL, look, run, starting


def left(title: str, state: str = "ended") -> Facts:
    driver = Member(
        identity=identity(20),
        component="launcher",
        cmdline=("python3", "-m", "verl.trainer.main_ppo"),
        alive=state != "ended",
        proof="descent",
        attempt=1,
    )
    return look(
        run(
            VERL,
            state=state,
            members=[
                driver,
                Member(
                    identity=identity(21),
                    component=None,
                    cmdline=(title,),
                    alive=True,
                    proof="descent",
                    attempt=1,
                ),
            ],
        )
    )


@positive("ray-leftover-processes")
def a_dashboard_after_the_driver() -> Facts:
    return left("ray::DashboardAgent")


@negative("ray-leftover-processes")
def a_task_runner_still_works() -> Facts:
    return left("ray::TaskRunner.run")


@negative("ray-leftover-processes")
def the_driver_lives() -> Facts:
    return left("ray::DashboardAgent", "running")


def configured(config: dict[str, Any], step: int | None = None) -> Facts:
    side = Side() if step is None else Side(step, NOW, 3)
    return look(starting(VERL, config=config, trainer_side=side))


@positive("resume-mode-not-off")
def off_as_a_word() -> Facts:
    return configured({"trainer.resume_mode": "off"})


@positive("resume-mode-not-off")
def off_as_yaml_reads_it() -> Facts:
    return configured({"trainer.resume_mode": False}, 41)


@negative("resume-mode-not-off")
def disable() -> Facts:
    return configured({"trainer.resume_mode": "disable"})


@positive("verl-overshoot")
def beyond_the_plan() -> Facts:
    return configured({"plan.steps": 200}, 240)


@negative("verl-overshoot")
def within_the_plan() -> Facts:
    return configured({"plan.steps": 200}, 100)


@negative("verl-overshoot")
def a_longer_run_was_ordered() -> Facts:
    return configured({"plan.steps": 200, "trainer.total_training_steps": 400}, 240)
