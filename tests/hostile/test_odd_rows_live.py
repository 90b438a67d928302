"""Odd rows under a real agent: a healthy run goes on being recorded, and nothing that may act by
itself acts.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from bs4_practice import faults, tree
from bs4_practice.stage import Stage, staged
from tests.support.trees import below

pytestmark = [pytest.mark.long, pytest.mark.beside, pytest.mark.timeout(600)]

#: The parts of a run that live as long as it does; a pod's other processes come and go.
PARTS = ("launcher", "inference", "engine", "orchestrator", "rank")
#: Steps that must be recorded after the odd row: a stall opened within fewer before.
STEPS = 40


def named(name: str, stage: Stage) -> Path:
    return next(path for path in below(stage.pod.project) if path.name == name)


async def odd_row(stage: Stage) -> None:
    """Write a row, or a step line, as no healthy trainer does."""
    if stage.trainer == "prime-rl":
        metrics = named("metrics.jsonl", stage)
        row = (
            b'{"step":3,"time":%.1f,"time/step":1.0,"loss/mean":NaN,"optim/lr":1e-6}\n'
            % time.time()
        )
        deep = (
            b'{"step":4,"time":1,"time/step":1.0,"loss/mean":'
            + b"[" * 30_000
            + b"]" * 30_000
            + b"}\n"
        )
        with metrics.open("ab") as file:
            file.write(row + deep)
        return
    # The trainer's next line would be written over this one: its log is not opened to append.
    ranks = faults.find(stage.pod, "rank")
    for rank in ranks:
        faults.pause(rank)
    try:
        odd_line(named("trainer.stdout", stage))
        run = stage.session.state.runs["demo"]
        await stage.until(
            lambda: any(step.get("throughput") == "inf" for step in run.trainer_steps),
            60,
            "a record of the odd line",
        )
    finally:
        for rank in ranks:
            faults.resume(rank)


def odd_line(log: Path) -> None:
    """Say the newest step line of `log` again, with a throughput that is too large for a float."""
    lines = [line for line in log.read_bytes().splitlines() if b"Throughput: " in line]
    before, _, after = lines[-1].partition(b"Throughput: ")
    with log.open("ab") as file:
        file.write(before + b"Throughput: 1e400 " + after.partition(b" ")[2] + b"\n")


def stalls(stage: Stage) -> list[str]:
    return [one.id for one in stage.ledger.open_incidents() if one.failure == "run-stalled"]


@pytest.mark.parametrize("trainer", ["prime-rl-2026-01", "prime-rl"])
async def test_a_healthy_run_survives_an_odd_row_while_stalls_are_mended_by_themselves(
    trainer: str,
) -> None:
    async with staged(trainer) as stage:
        await stage.launch()
        await stage.until(lambda: len(stage.steps()) >= 3, 60, "the first steps")
        run = stage.session.state.runs["demo"]
        processes = [faults.find(stage.pod, part)[0] for part in PARTS]
        await odd_row(stage)
        # A trainer that is held for seconds is a stall and is said, before stalls are mended.
        reached = len(run.trainer_steps) + 1
        await stage.until(lambda: len(run.trainer_steps) >= reached, 60, "a step after the odd row")
        await stage.until(lambda: not stalls(stage), 60, "the end of the stall of the held trainer")
        before = set(stage.ledger.incidents)
        assert {stage.ledger.incidents[one].failure for one in before} <= {
            "nan-loss",
            "run-stalled",
        }
        await stage.must("mode", run="demo", playbook="run-stalled", mode="auto")
        reached = len(run.trainer_steps) + STEPS
        await stage.until(lambda: len(run.trainer_steps) >= reached, 150, f"{STEPS} recorded steps")
        # A loss that is NaN is one, and is said; it asks for nothing to be done.
        new = [one for name, one in stage.ledger.incidents.items() if name not in before]
        assert {incident.failure for incident in new} <= {"nan-loss"}
        assert [
            action.kind for action in stage.ledger.actions.values() if action.kind == "playbook"
        ] == []
        assert list(stage.ledger.runs["demo"].attempts) == [1]
        assert [process for process in processes if not tree.alive(process)] == []
        assert stage.ledger.faults == []
