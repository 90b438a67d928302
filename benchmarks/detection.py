"""How soon the agent knows: a fact (a process gone, a line written) in the journal, the incident
after its hold, a stall in steps.

    python benchmarks/detection.py [--repeats 3] [--json FILE]

Each figure is taken on a practice pod of its own, with real processes and the deployed agent, for
both generations. The moment of the fault is taken beside the act itself, the moment of knowledge
from the journal's own wall time on the same machine:

* process: the inference engine is killed by force; `process-gone` is the fact, `vllm-silent-death`
  the incident;
* line: a line that a signature with no hold fires on is appended to the orchestrator's log by this
  program;
* stall: the trainer is stopped by signal, so that nothing fails and nothing is said; counted from
  the last finished step.

Beside it, from the same moment on, is what a person would have open instead (`peer_s`): `tail
--pid` of the process, `tail -F` of the log. `profile` has the figures of each repeat.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from bs4_console.failures.playbooks import compile_all
from bs4_practice import faults
from bs4_practice.scenarios import advance
from bs4_practice.stage import Stage, staged

ROOT = Path(__file__).resolve().parents[1]
RESULT = ROOT / "benchmarks" / "results" / "detection.json"
TRAINERS = ("prime-rl-2026-01", "prime-rl")
LIMITS = {"fact_s": 1.0, "after_hold_s": 1.0, "stall_steps": 3.0}
WARM_UP = 7
#: Of the stall alone: long enough for three steps to be longer than the few seconds below which no
#: silence counts.
STALL_STEP_S = 5.0
WAIT_S = 60.0
LINE = (
    "FileNotFoundError: Orchestrator checkpoint not found at "
    "outputs/none/step_0/orchestrator/progress.pt"
)


def journal(stage: Stage) -> list[dict[str, Any]]:
    """The pod's journal as it lies on disk."""
    files = sorted((stage.pod.home / ".bs4" / "state" / "journal").glob("*.ndjson"))
    return [json.loads(line) for path in files for line in path.read_text().splitlines()]


async def record(stage: Stage, what: str, fits: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """The first record that fits."""
    found: dict[str, Any] = await stage.until(
        lambda: next((r for r in journal(stage) if fits(r)), None), WAIT_S, what
    )
    return found


def opened(failure: str) -> Callable[[dict[str, Any]], bool]:
    return lambda r: r["type"] == "incident" and r["event"] == "opened" and r["failure"] == failure


def hold_of(failure: str) -> float:
    entries = json.loads(compile_all())["playbooks"]
    return float(next(e for e in entries if e["id"] == failure).get("detect", {}).get("for", 0.0))


async def waiting(*argv: str) -> asyncio.subprocess.Process:
    """What a person would have open instead, started."""
    return await asyncio.create_subprocess_exec(*argv, stdout=asyncio.subprocess.PIPE)


async def told(process: asyncio.subprocess.Process, at: float) -> float:
    """Seconds from `at` (since the epoch) until it says something or ends."""
    assert process.stdout is not None
    await asyncio.wait_for(process.stdout.readline(), WAIT_S)
    seconds = time.time() - at
    if process.returncode is None:
        process.terminate()
    await process.wait()
    return seconds


async def process_gone(stage: Stage) -> dict[str, float]:
    await faults.wait_generating(stage.pod)
    (engine, *_) = faults.find(stage.pod, "engine")
    peer = await waiting("tail", f"--pid={engine.pid}", "-f", "/dev/null")
    faults.kill(engine)
    at = time.time()
    seen = asyncio.create_task(told(peer, at))

    def gone(component: str) -> Callable[[dict[str, Any]], bool]:
        return lambda r: (
            r["type"] == "run" and r["event"] == "process-gone" and r["component"] == component
        )

    fact = await record(stage, "the engine's end in the journal", gone("engine"))
    server = await record(stage, "the server's end in the journal", gone("inference"))
    incident = await record(stage, "the incident", opened("vllm-silent-death"))
    return {
        "fact_s": fact["t"] - at,
        "after_hold_s": incident["t"] - server["t"] - hold_of("vllm-silent-death"),
        "peer_s": await seen,
    }


async def line_written(stage: Stage) -> dict[str, float]:
    old = stage.trainer == "prime-rl-2026-01"
    path = (
        stage.pod.output_dir / "logs" / "orchestrator.stdout"
        if old
        else stage.pod.output_dir / "demo/logs/latest/orchestrator.log"
    )
    text = (
        LINE
        if old
        else json.dumps(
            {"timestamp": "2026-08-21T10:00:00+00:00", "level": "ERROR", "message": LINE}
        )
    )
    # Its own writer holds still meanwhile: 2026-01's redirect does not append, and would write over
    # the line before anybody has read it.
    for process in faults.find(stage.pod, "orchestrator"):
        faults.pause(process)
    peer = await waiting("tail", "-n", "0", "-F", str(path))
    # `tail` has opened the log where the log is among its descriptors.
    await stage.until(lambda: _has_open(peer.pid, path), WAIT_S, "`tail -F`")
    with path.open("a") as log:
        log.write(text + "\n")
        log.flush()
        at = time.time()
    seen = asyncio.create_task(told(peer, at))
    incident = await record(stage, "the incident", opened("incomplete-resume-set"))
    return {
        "fact_s": incident["t"] - at,
        "after_hold_s": incident["t"] - at - hold_of("incomplete-resume-set"),
        "peer_s": await seen,
    }


def _has_open(pid: int, path: Path) -> bool:
    return any(held.resolve() == path.resolve() for held in Path(f"/proc/{pid}/fd").iterdir())


async def silent_stall(stage: Stage) -> dict[str, float]:
    pace = _pace(stage)
    for process in faults.find(stage.pod, "rank"):
        faults.pause(process)
    incident = await record(stage, "the incident", opened("run-stalled"))
    # By the witness; 2026-01's step lines have whole seconds, so that its figure may be up to one
    # second too long.
    quiet = incident["t"] - stage.steps()[-1][0]
    return {"stall_s": quiet, "median_step_s": pace, "stall_steps": quiet / pace}


def _pace(stage: Stage) -> float:
    """The run's median step by the witness, seconds: over a stretch of steps, because one line's
    time may be a whole second.
    """
    times = [t for t, _ in stage.steps()][1:]
    return (times[-1] - times[0]) / (len(times) - 1)


async def one(
    trainer: str, measure: Callable[[Stage], Awaitable[dict[str, float]]], step_seconds: float
) -> dict[str, float]:
    async with staged(trainer, step_seconds=step_seconds) as stage:
        await stage.launch()
        await advance(stage, "demo", WARM_UP)
        return await measure(stage)


async def main(repeats: int, target: Path) -> int:
    result: dict[str, Any] = {
        "schema": "bs4.detection/1",
        "repeats": repeats,
        "limits": LIMITS,
        "trainers": {},
    }
    worst: dict[str, float] = dict.fromkeys(LIMITS, 0.0)
    for trainer in TRAINERS:
        rows: dict[str, Any] = {}
        for measure, pace in (
            (process_gone, 0.3),
            (line_written, 0.3),
            (silent_stall, STALL_STEP_S),
        ):
            seen = [await one(trainer, measure, pace) for _ in range(repeats)]
            rows[measure.__name__] = {
                key: {
                    "median": round(statistics.median(s[key] for s in seen), 2),
                    "max": round(max(s[key] for s in seen), 2),
                }
                for key in seen[0]
            }
            rows[measure.__name__]["profile"] = [
                ", ".join(f"{key} {value:.3f}" for key, value in one_.items()) for one_ in seen
            ]
            for key in LIMITS:
                worst[key] = max(worst[key], *(s[key] for s in seen if key in s), 0.0)
            print(trainer, measure.__name__, rows[measure.__name__], flush=True)
        result["trainers"][trainer] = rows
    result["within_limits"] = all(worst[key] <= limit for key, limit in LIMITS.items())
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps(result, indent=2))
    return 0 if result["within_limits"] else 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", type=Path, default=RESULT)
    options = parser.parse_args()
    sys.exit(asyncio.run(main(options.repeats, options.json)))
