"""Step-time breakdown, idle GPUs, and settings that cost speed."""

from __future__ import annotations

from typing import Any

from bs4_common.failures.facts import Facts, GpuFacts, Holder, LogEvent
from bs4_common.runs.model import Member
from bs4_common.trainers.base import Event
from tests.agent.facts import NOW, facts, healthy, identity
from tests.playbooks.facts.case import negative, positive

GIB = 1 << 30


def gpus(serving: float, training: float, name: str = "NVIDIA GeForce RTX 4090") -> GpuFacts:
    holders = [
        Holder(
            identity=identity(12),
            gpu=0,
            mem=60 * GIB,
            cmdline=("engine",),
            run="demo",
            component="engine",
            dead_run=None,
            same_user=True,
        ),
        Holder(
            identity=identity(15),
            gpu=1,
            mem=40 * GIB,
            cmdline=("rank",),
            run="demo",
            component="rank",
            dead_run=None,
            same_user=True,
        ),
    ]
    return GpuFacts(
        state="ok",
        pids="local",
        used={0: 60 * GIB, 1: 40 * GIB},
        total={0: 80 * GIB, 1: 80 * GIB},
        holders=holders,
        names={0: name, 1: name},
        util={0: serving, 1: training},
        mean_util={0: serving, 1: training},
    )


def waiting(share: float, steps: int = 10) -> list[dict[str, Any]]:
    return [
        {"side": "trainer", "step": n, "time_s": 100.0, "wait_s": share, "compute_s": 100.0 - share}
        for n in range(steps)
    ]


def lines(work_s: float, steps: int = 10) -> list[dict[str, Any]]:
    """Both sides' step lines of a run whose trainer gets its batch and then computes for `work_s`
    of each 100 s.
    """
    done = [{"side": "trainer", "step": n, "m": 100.0 * n, "time_s": 100.0} for n in range(steps)]
    return done + [
        {"side": "orchestrator", "step": n, "m": 100.0 * n - work_s, "reward": 0.4}
        for n in range(steps)
    ]


@positive("rollout-latency-bound")
def remote_executor() -> Facts:
    config = {"orchestrator.env.0.args.executor_backend": "prime"}
    return facts(healthy("prime-rl", history=waiting(97.0), config=config))


@positive("rollout-latency-bound")
def idle_gpus_by_the_lines_alone() -> Facts:
    return facts(healthy(history=lines(5.0)), gpus=gpus(10.0, 4.0))


@positive("rollout-latency-bound")
def remote_executor_of_january_by_the_lines() -> Facts:
    """Steps of 27 minutes, of which the trainer worked for one; nothing is known of GPUs."""
    config = {"orchestrator.env.0.args.executor_backend": "prime"}
    return facts(healthy("prime-rl-2026-01", history=lines(3.0), config=config))


@negative("rollout-latency-bound", "inference-bottleneck")
def half_of_the_step_is_waiting() -> Facts:
    config = {"orchestrator.env.0.args.executor_backend": "prime"}
    return facts(healthy("prime-rl", history=waiting(50.0), config=config), gpus=gpus(70.0, 50.0))


@negative("rollout-latency-bound")
def waiting_for_a_busy_server() -> Facts:
    return facts(
        healthy(
            "prime-rl",
            history=waiting(90.0),
            config={"orchestrator.env.0.args.executor_backend": "local"},
        ),
        gpus=gpus(95.0, 8.0),
    )


@negative("rollout-latency-bound")
def balanced_by_the_lines() -> Facts:
    return facts(healthy(history=lines(80.0)), gpus=gpus(10.0, 4.0))


@positive("inference-bottleneck")
def trainer_waits_for_busy_inference() -> Facts:
    return facts(healthy("prime-rl", history=waiting(90.0)), gpus=gpus(95.0, 8.0))


@positive("inference-bottleneck")
def everything_idle() -> Facts:
    return facts(healthy("prime-rl", history=waiting(60.0)), gpus=gpus(12.0, 9.0))


@negative("inference-bottleneck")
def idle_but_not_known_for_long() -> Facts:
    few = gpus(12.0, 9.0)
    return facts(
        healthy("prime-rl", history=waiting(60.0)),
        gpus=GpuFacts(
            state="ok",
            pids="local",
            used=few.used,
            total=few.total,
            holders=few.holders,
            names=few.names,
            util=few.util,
        ),
    )


def served(model: str, tp: int, name: str = "NVIDIA GeForce RTX 4090") -> Facts:
    run = healthy(
        "prime-rl",
        config={"inference.vllm.model": model, "inference.vllm.tensor_parallel_size": tp},
    )
    return facts(run, gpus=gpus(60.0, 60.0, name))


@positive("tp-slow")
def eight_billion_over_two() -> Facts:
    return served("Qwen/Qwen3-8B", 2)


@negative("tp-slow")
def eight_billion_on_one() -> Facts:
    return served("Qwen/Qwen3-8B", 1)


@negative("tp-slow")
def thirty_billion_over_two() -> Facts:
    return served("Qwen/Qwen3-30B-A3B", 2)


@negative("tp-slow")
def small_over_nvlink() -> Facts:
    return served("Qwen/Qwen3-8B", 2, "NVIDIA H100 80GB HBM3")


def offloaded(value: bool, name: str) -> Facts:
    run = healthy("verl", config={"actor_rollout_ref.actor.fsdp_config.param_offload": value})
    return facts(run, gpus=gpus(60.0, 60.0, name))


@positive("offload-slow")
def offload_on_h100() -> Facts:
    return offloaded(True, "NVIDIA H100 80GB HBM3")


@negative("offload-slow")
def offload_where_memory_is_short() -> Facts:
    return offloaded(True, "NVIDIA GeForce RTX 4090")


@negative("offload-slow")
def offload_off() -> Facts:
    return offloaded(False, "NVIDIA H100 80GB HBM3")


def checkpointed(gap: float, uploader: str) -> Facts:
    events, m = [], 0.0
    for step in range(12):
        m += 180.0 if step % 5 or not step else gap
        if step and step % 5 == 0:
            events.append(
                LogEvent(
                    event=Event("save", "trainer", {}, step),
                    m=m - gap + 1,
                    text=f"Saving checkpoint at step {step}",
                    source="trainer",
                )
            )
        events.append(
            LogEvent(
                event=Event("step", "trainer", {}, step), m=m, text=f"Step {step}", source="trainer"
            )
        )
    upload = Member(
        identity=identity(40),
        component=None,
        cmdline=(uploader, "sync", "outputs", "b2://bucket"),
        alive=False,
        proof="descent",
        attempt=1,
    )
    base = healthy(events=events, median_step_s=180.0)
    return facts(
        healthy(events=events, median_step_s=180.0, members=[*base.members, upload]), now=NOW
    )


@positive("sync-blocks-training")
def two_long_uploads() -> Facts:
    return checkpointed(1200.0, "/usr/local/bin/b2")


@negative("sync-blocks-training")
def gaps_at_half() -> Facts:
    return checkpointed(300.0, "/usr/local/bin/b2")


@negative("sync-blocks-training")
def slow_checkpoints_without_an_upload() -> Facts:
    return checkpointed(1200.0, "python")
