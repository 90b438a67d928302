"""Silence and waits, as one look at a run sees them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from bs4_common.failures.facts import Facts, GpuFacts, Holder, LogEvent, Side
from bs4_common.trainers.base import Event
from tests.agent.facts import NOW, facts, healthy, identity, member
from tests.playbooks.facts.case import negative, positive

STEP_S = 60.0


def said(
    kind: str, side: str, ago: float, text: str = "", step: int | None = None, **values: Any
) -> LogEvent:
    return LogEvent(
        event=Event(kind, side, values, step),
        m=NOW - ago,
        text=text or kind,
        source=side,
        stream=f"log/demo/{side}",
        cursor="1:0",
    )


def steps(side: str, last: int, ago: float, count: int = 10) -> list[LogEvent]:
    """`count` step lines, a minute apart, the newest `ago` seconds old."""
    numbers = range(last - count + 1, last + 1)
    return [
        said("step", side, ago + STEP_S * (last - n), f"Step {n} | Time: 60.00s | Reward: 0.4", n)
        for n in numbers
    ]


def run(
    trainer_ago: float,
    orchestrator_ago: float,
    *events: LogEvent,
    last: tuple[int, int] = (20, 21),
    trainer: str = "prime-rl",
    **more: Any,
):
    """A run of one minute a step."""
    both = [
        *steps("trainer", last[0], trainer_ago),
        *steps("orchestrator", last[1], orchestrator_ago),
        *events,
    ]
    return healthy(
        trainer,
        trainer_side=Side(last[0], NOW - trainer_ago, 10),
        orchestrator_side=Side(last[1], NOW - orchestrator_ago, 10),
        median_step_s=STEP_S,
        events=sorted(both, key=lambda event: event.m),
        started_m=NOW - 4000,
        **more,
    )


@positive("run-stalled")
def trainer_hangs_with_its_batch() -> Facts:
    return facts(run(178, 172))


@negative("run-stalled")
def slow_step_of_two_and_a_half() -> Facts:
    return facts(run(150, 150))


@positive("run-stalled")
def no_batch_comes() -> Facts:
    return facts(run(100, 178, last=(21, 21)))


@negative("run-stalled")
def the_trainer_waits_for_a_batch_that_is_late() -> Facts:
    return facts(run(140, 150, last=(21, 21)))


@negative("run-stalled")
def the_barrier_excuses_the_orchestrator() -> Facts:
    """The trainer is slow; the orchestrator has been quiet for three steps because it may not go
    on.
    """
    barrier = said("barrier", "orchestrator", 200, checkpoint=22)
    return facts(run(140, 205, barrier, trainer="prime-rl-2026-01"))


@positive("run-stalled")
def the_barrier_was_lifted_and_nothing_followed() -> Facts:
    barrier = said("barrier", "orchestrator", 250, checkpoint=21)
    return facts(run(178, 255, barrier, last=(20, 20), trainer="prime-rl-2026-01"))


@negative("run-stalled")
def evaluation() -> Facts:
    start = said(
        "eval-start",
        "orchestrator",
        160,
        "Running evals for checkpoint step 20 (blocking, subprocess)",
    )
    return facts(run(400, 165, start, last=(21, 21), trainer="prime-rl-2026-01"))


@negative("run-stalled")
def writing_a_checkpoint() -> Facts:
    return facts(
        run(
            300,
            290,
            said("save", "trainer", 295, step=19),
            said("holding", "orchestrator", 285, needed_policy=21),
            last=(20, 22),
        )
    )


@positive("run-stalled")
def still_writing_after_a_quarter_of_an_hour() -> Facts:
    return facts(
        run(
            950,
            940,
            said("save", "trainer", 945, step=19),
            said("holding", "orchestrator", 935, needed_policy=21),
            last=(20, 22),
        )
    )


@negative("run-stalled")
def rate_limited() -> Facts:
    wait = said(
        "rate-limited",
        "orchestrator",
        150,
        "Rate limited. Waiting 300.0s before retry [Retry 1/5].",
        wait_s=300.0,
    )
    return facts(run(170, 175, wait, last=(21, 21)))


@positive("run-stalled")
def heartbeats_repeat_the_same_numbers() -> Facts:
    beats = [
        said(
            "heartbeat",
            "orchestrator",
            185 - 10 * n,
            have=64,
            target=128,
            inflight=64,
            train=64,
            eval=0,
        )
        for n in range(17)
    ]
    return facts(run(200, 190, *beats, last=(21, 21)))


@negative("run-stalled")
def heartbeats_move() -> Facts:
    beats = [
        said(
            "heartbeat",
            "orchestrator",
            170 - 10 * n,
            have=64 + n,
            target=128,
            inflight=64,
            train=64,
            eval=0,
        )
        for n in range(17)
    ]
    return facts(run(200, 190, *beats, last=(21, 21)))


@positive("run-stalled")
def the_servers_own_lines_are_no_news() -> Facts:
    lines = [
        said("heartbeat", "inference", 10 * n, generation_tps=100.0 + n, running=8)
        for n in range(16, 0, -1)
    ]
    return facts(run(200, 190, *lines, last=(21, 21)))


@positive("run-stalled")
def a_stopped_orchestrator_after_one_step() -> Facts:
    base = run(20, 65, last=(21, 21))
    members = [
        dataclasses.replace(m, state="T") if m.component == "orchestrator" else m
        for m in base.members
    ]
    return facts(dataclasses.replace(base, members=members))


@negative("run-stalled")
def stopped_for_half_a_step() -> Facts:
    base = run(20, 30, last=(21, 21))
    members = [
        dataclasses.replace(m, state="T") if m.component == "orchestrator" else m
        for m in base.members
    ]
    return facts(dataclasses.replace(base, members=members))


def starting(ago: float) -> Facts:
    events = [
        said("starting", "trainer", ago, "Starting training loop", what="loop"),
        said("ready", "orchestrator", ago),
    ]
    base = healthy(
        "prime-rl",
        trainer_side=Side(),
        orchestrator_side=Side(),
        median_step_s=None,
        events=events,
        started_m=NOW - ago - 60,
    )
    return facts(base)


@positive("run-stalled")
def no_first_step_in_45_minutes() -> Facts:
    return starting(2800)


@negative("run-stalled")
def models_load_for_half_an_hour() -> Facts:
    return starting(1800)


@negative("run-stalled")
def it_was_stopped_by_us() -> Facts:
    return facts(run(900, 900, stop_requested=True))


def barrier(ago: float) -> Facts:
    """The trainer's GPU computes all the time: it is slow, and the orchestrator waits for it."""
    base = run(
        ago + 5,
        ago + 5,
        said("barrier", "orchestrator", ago, checkpoint=22),
        trainer="prime-rl-2026-01",
    )
    holder = Holder(
        identity=identity(14),
        gpu=1,
        mem=1 << 30,
        cmdline=("rank",),
        run="demo",
        component="rank",
        dead_run=None,
        same_user=True,
    )
    return facts(
        base,
        gpus=GpuFacts(
            state="ok",
            pids="local",
            used={1: 1 << 30},
            total={1: 2 << 30},
            holders=[holder],
            util={1: 97.0},
            power={1: 0.8},
        ),
    )


@positive("async-barrier-wait")
@negative("run-stalled")
def barrier_for_four_steps_of_a_busy_trainer() -> Facts:
    return barrier(240)


@negative("async-barrier-wait")
def barrier_for_two_steps() -> Facts:
    return barrier(120)


def starved(count: int, *more: LogEvent) -> Facts:
    texts = [
        said(
            "waiting-batch",
            "trainer",
            10.0 * (count - n) + 1,
            "Timeout waiting for enough tokens to pack",
        )
        for n in range(count)
    ]
    return facts(
        run(10.0 * count + 20, 30, *texts, *more, trainer="prime-rl-2026-01", last=(20, 22))
    )


@positive("packer-starved")
def eleven_timeouts() -> Facts:
    return starved(11)


@negative("packer-starved")
def five_timeouts() -> Facts:
    return starved(5)


@negative("packer-starved")
def timeouts_of_many_steps() -> Facts:
    return starved(18, *[said("step", "trainer", 95.0, step=20)])


def draining(
    *events: LogEvent, alive: Sequence[str] = ("launcher", "inference", "orchestrator")
) -> Facts:
    paused = said(
        "holding",
        "orchestrator",
        1000,
        "Pausing dispatcher to prevent orchestrator from racing",
        dispatcher="paused",
    )
    members = [
        member(10 + n, name, name in alive)
        for n, name in enumerate(("launcher", "inference", "orchestrator", "rank"))
    ]
    return facts(run(1010, 1005, paused, *events, members=members))


@positive("drain-deadlock")
def the_trainer_has_finished() -> Facts:
    return draining(said("finished", "trainer", 990, "RL trainer finished!"))


@positive("drain-deadlock")
def the_trainer_is_gone() -> Facts:
    return draining()


@negative("drain-deadlock")
def paused_while_the_trainer_works() -> Facts:
    return draining(alive=("launcher", "inference", "orchestrator", "rank"))


@negative("drain-deadlock")
def the_gate_opened_again() -> Facts:
    return draining(
        said("finished", "trainer", 990, "RL trainer finished!"),
        said("holding", "orchestrator", 985, "Resuming dispatcher", dispatcher="resumed"),
    )


def transfer(*events: LogEvent, **config: Any) -> Facts:
    begun = said("policy-update", "orchestrator", 700, "Updating policy in-flight to v0", policy=0)
    loop = said(
        "starting",
        "trainer",
        705,
        "Broadcasting startup policy weights (v0) to inference engines",
        what="broadcast",
    )
    base = healthy(
        "prime-rl",
        trainer_side=Side(),
        orchestrator_side=Side(),
        median_step_s=None,
        events=[loop, begun, *events],
        started_m=NOW - 800,
    )
    return facts(dataclasses.replace(base, config=config))


@positive("nccl-startup-hang")
def first_transfer_over_nccl() -> Facts:
    return transfer(**{"weight_broadcast.type": "nccl"})


@positive("nccl-startup-hang")
def nccl_is_the_default() -> Facts:
    return transfer(**{"model.name": "Qwen/Qwen3-8B"})


@negative("nccl-startup-hang")
def first_transfer_by_files() -> Facts:
    return transfer(**{"weight_broadcast.type": "filesystem"})


@negative("nccl-startup-hang")
def an_adapter_goes_by_files() -> Facts:
    return transfer(**{"trainer.model.lora.rank": 8})


@negative("nccl-startup-hang")
def the_transfer_came_about() -> Facts:
    return transfer(
        said("heartbeat", "orchestrator", 690, have=0, target=64),
        **{"weight_broadcast.type": "nccl"},
    )
