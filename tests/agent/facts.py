"""Facts to write detector and plan tests with: a healthy run, to be changed in one respect."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from bs4_common.failures.facts import Facts, LogEvent, RunFacts, Side
from bs4_common.identity import Identity
from bs4_common.runs.model import Member
from bs4_common.trainers.base import Checkpoint, Event, LaunchSpec, RunLayout

NOW = 1000.0
WALL = 1_790_000_000.0


def identity(pid: int) -> Identity:
    return Identity(pid, 10 * pid, "boot", 1)


def member(pid: int, component: str, alive: bool = True) -> Member:
    return Member(
        identity=identity(pid),
        component=component,
        cmdline=(component,),
        alive=alive,
        proof="descent",
        attempt=1,
    )


def spec(trainer: str = "prime-rl-2026-01", **changes: Any) -> LaunchSpec:
    base = LaunchSpec(
        run="demo",
        trainer=trainer,
        config=Path("rl.toml"),
        cwd=Path("/home/u/prime-rl"),
        output_dir=Path("/home/u/prime-rl/outputs"),
    )
    return dataclasses.replace(base, **changes)


def layout(root: Path = Path("/home/u/prime-rl/outputs")) -> RunLayout:
    default = root / "run_default"
    return RunLayout(
        output_dir=root,
        run_dir=default,
        trainer_checkpoints=root / "checkpoints",
        orchestrator_checkpoints=default / "checkpoints",
        broadcasts=default / "broadcasts",
        rollouts=default / "rollouts",
        weights=root / "weights",
    )


def checkpoint(step: int, complete: bool = True) -> Checkpoint:
    missing = () if complete else ("trainer",)
    return Checkpoint(
        step=step,
        parts={"orchestrator": Path(f"/c/step_{step}")},
        missing=missing,
        complete=complete,
        bytes=1,
        newest_mtime=WALL,
    )


def event(
    kind: str, side: str, text: str = "", step: int | None = None, m: float = NOW
) -> LogEvent:
    return LogEvent(
        event=Event(kind, side, {}, step),
        m=m,
        text=text or kind,
        source=side,
        stream=f"log/demo/{side}",
        cursor="1:0",
    )


def healthy(trainer: str = "prime-rl-2026-01", **changes: Any) -> RunFacts:
    members = [
        member(10, "launcher"),
        member(11, "inference"),
        member(12, "engine"),
        member(13, "orchestrator"),
        member(14, "trainer"),
    ]
    base = RunFacts(
        name="demo",
        spec=spec(trainer),
        layout=layout(),
        attempt=1,
        state="running",
        started_m=NOW - 100,
        started_t=WALL - 100,
        trainer_side=Side(5, NOW - 1, 6),
        orchestrator_side=Side(6, NOW - 1, 7),
        median_step_s=1.0,
        members=members,
        checkpoints=[checkpoint(5)],
    )
    return dataclasses.replace(base, **changes)


def trained(
    run: RunFacts,
    first: int,
    last: int,
    *,
    throughput: float = 13342.0,
    rollouts: float = 3116.4,
    taken: int = 99,
) -> RunFacts:
    """`run` after the trainer's steps `first` to `last`, each of a batch that was shipped before,
    the orchestrator being one step ahead.

    `throughput`: tokens/s of the trainer, which prints 0 for the first step of a process.
    `rollouts`: of the orchestrator (2026-01). `taken`: the newest policy that the inference server
    has taken at most.
    """
    old = run.spec.trainer == "prime-rl-2026-01"
    history: list[dict[str, Any]] = []
    events: list[LogEvent] = []
    for step in range(first, last + 1):
        history.append(
            {
                "side": "trainer",
                "step": step,
                "m": NOW,
                "throughput": 0.0 if step == first else throughput,
            }
        )
    for step in range(first, last + 2):
        history.append(
            {
                "side": "orchestrator",
                "step": step,
                "m": NOW,
                **({"throughput": rollouts} if old else {}),
            }
        )
        values = {"async_level": step - min(taken, step - 1)} if old else {"off_policy": 1}
        events.append(
            LogEvent(
                event=Event("step", "orchestrator", values, step),
                m=NOW,
                text=f"Step {step}",
                source="orchestrator",
            )
        )
        if not old and step - 2 <= taken:
            events.append(
                LogEvent(
                    event=Event("policy-update", "orchestrator", {"policy": step - 1}),
                    m=NOW,
                    text="Updating policy",
                    source="orchestrator",
                )
            )
    sides = {
        "trainer_side": Side(last, NOW, last + 1 - first),
        "orchestrator_side": Side(last + 1, NOW, last + 2 - first),
    }
    return dataclasses.replace(run, history=history, events=[*run.events, *events], **sides)


def facts(*runs: RunFacts, now: float = NOW, **changes: Any) -> Facts:
    return dataclasses.replace(Facts(now_m=now, now_t=WALL, runs=runs), **changes)
