"""GPUs that the driver lost or complains of, and memory that nobody of ours holds."""

from __future__ import annotations

from typing import Any

from bs4_common.failures.facts import Facts, GpuFacts, Holder
from tests.agent.facts import event, identity
from tests.playbooks.facts.case import negative, positive
from tests.playbooks.facts.made import GIB, gpus, look, run, starting

REFUSED = event(
    "gpu-memory", "inference", "ValueError: Free memory on device cuda:0 is less than desired"
)


def held(**changes: Any) -> Facts:
    holder = {
        "mem": 60 * GIB,
        "run": None,
        "component": None,
        "dead_run": "old",
        "same_user": True,
        **changes,
    }
    one = Holder(
        identity=identity(99),
        gpu=0,
        mem=holder["mem"],
        cmdline=("VLLM::EngineCore",),
        run=holder["run"],
        component=None,
        dead_run=holder["dead_run"],
        same_user=True,
    )
    return look(starting(events=[REFUSED]), gpus=gpus(holders=[one]))


@positive("stale-gpu-process")
def an_engine_of_a_dead_run() -> Facts:
    return held()


@negative("stale-gpu-process")
def an_engine_of_a_living_run() -> Facts:
    return held(run="other", dead_run=None)


@negative("stale-gpu-process")
def half_a_gigabyte() -> Facts:
    return held(mem=500_000_000)


def driver(**changes: Any) -> Facts:
    return look(run(), gpus=gpus(**changes))


@positive("gpu-off-bus")
def lost() -> Facts:
    return driver(errors={1: "GPU is lost (nvmlDeviceGetUtilizationRates)"})


@positive("gpu-off-bus")
def not_listed_any_more() -> Facts:
    return driver(errors={1: "the driver does not list this GPU any more (it was GPU 1)"})


@negative("gpu-off-bus")
def a_field_that_could_not_be_read() -> Facts:
    return driver(errors={1: "Timeout (nvmlDeviceGetPowerUsage)"})


@positive("gpu-row-remap-pending")
def a_row_waits() -> Facts:
    return driver(remaps={0: "pending"})


@positive("gpu-recovery-action")
def a_reset_is_asked_for() -> Facts:
    return driver(actions={0: "reset"})


@negative("gpu-row-remap-pending", "gpu-recovery-action", "gpu-off-bus", "stale-gpu-process")
def two_healthy_cards() -> Facts:
    return driver()


@negative("gpu-row-remap-pending", "gpu-recovery-action", "gpu-off-bus")
def no_driver_at_all() -> Facts:
    return look(run(), gpus=GpuFacts(state="absent"))
