"""What the whole agent costs a pod: CPU of one core and resident memory, deployed over SSH, with 8
GPUs, 1 Hz and quiet logs.

    python benchmarks/agent_whole.py [--seconds 60] [--json FILE]

A practice pod with 8 simulated GPUs runs a miniature run whose first step takes an hour, so that
its processes, its GPU memory and its five logs are there and nothing is written. The agent is the
deployed bundle, as the console starts it. It is measured alone and then with a console attached,
beside an interpreter of the same kind that only sleeps. The first 70 s are left out: processes are
looked at more often in their first minute, and a run lives for hours. A real driver's own time per
call is not in it: the simulated one answers at once.

The agent sleeps nearly all the time, and waking on a core that sleeps costs it up to a fifth more
than on one that works. A pod that trains has no sleeping cores, so every core is kept awake by a
process of the lowest priority; what an idle machine shows is told beside, and so is what each of
its threads took of the core.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bs4_practice import faults
from bs4_practice import pod as practice
from bs4_practice.stage import Stage, connect

ROOT = Path(__file__).resolve().parents[1]
RESULT = ROOT / "benchmarks" / "results" / "agent_whole.json"
GPUS = 8
BUDGET = {"cpu_percent": 0.5, "rss_mb": 30.0}
WARM_UP_S = 70.0


def cpu_seconds(pid: int) -> float:
    """By the scheduler's own count, in nanoseconds; threads that have ended are missing, so the
    clock ticks are asked as well.
    """
    running = 0.0
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(FileNotFoundError):
            running += int((task / "schedstat").read_text().split()[0]) / 1e9
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    ticks = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return max(running, ticks)


def by_thread(pid: int) -> dict[str, float]:
    """Seconds of CPU of each thread that is alive, by its number in the process: 0 is the first."""
    seconds = {}
    threads = sorted(Path(f"/proc/{pid}/task").iterdir(), key=lambda task: int(task.name))
    for number, task in enumerate(threads):
        with contextlib.suppress(FileNotFoundError):
            seconds[f"{number}"] = int((task / "schedstat").read_text().split()[0]) / 1e9
    return seconds


def memory_mb(pid: int) -> dict[str, float]:
    sizes = {}
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        name, _, rest = line.partition(":")
        if name in ("Rss", "Pss", "Private_Dirty"):
            sizes[f"{name.lower()}_mb"] = round(int(rest.split()[0]) * 1024 / 1e6, 1)
    return sizes


@contextlib.contextmanager
def awake() -> Iterator[None]:
    """No core sleeps."""
    cores = [
        subprocess.Popen(["nice", "-n", "19", sys.executable, "-IS", "-c", "while True: pass"])
        for _ in range(os.cpu_count() or 1)
    ]
    try:
        yield
    finally:
        for core in cores:
            core.kill()
            core.wait()


async def measure(pid: int, seconds: float) -> dict[str, float]:
    start, before = time.monotonic(), cpu_seconds(pid)
    await asyncio.sleep(seconds)
    used, elapsed = cpu_seconds(pid) - before, time.monotonic() - start
    return {"cpu_percent": round(100 * used / elapsed, 3), **memory_mb(pid)}


async def threads(pid: int, seconds: float) -> list[str]:
    """What each thread took of a core in so many seconds, the busiest first, as lines."""
    before = by_thread(pid)
    await asyncio.sleep(seconds)
    percent = {}
    for number, used in by_thread(pid).items():
        percent[number] = 100 * (used - before.get(number, 0.0)) / seconds
    busiest = sorted(percent, key=percent.__getitem__, reverse=True)
    return [f"{percent[number]:6.3f} %  thread {number}" for number in busiest[:8]]


async def main(seconds: float, hold: bool, target: Path) -> int:
    with tempfile.TemporaryDirectory(prefix="bs4-") as directory:
        root = Path(directory)
        pod = await practice.start("bench", "2026-01", root / "p", gpus=GPUS, step_seconds=3600.0)
        bare = subprocess.Popen([sys.executable, "-IS", "-c", "import time; time.sleep(100000)"])
        try:
            session = connect(pod, root / "known_hosts")
            life = asyncio.create_task(session.run())
            await session.synced(60)
            stage = Stage(pod, session, "prime-rl-2026-01")
            await stage.launch(wait=False)
            await faults.wait_for(pod, "rank", 1, 60)
            agent = int(session.state.hello["pid"])
            await asyncio.sleep(3.0)
            life.cancel()
            await asyncio.gather(life, return_exceptions=True)
            if hold:
                print(f"agent pid {agent}; Enter ends", flush=True)
                await asyncio.to_thread(sys.stdin.readline)
                return 0
            await asyncio.sleep(WARM_UP_S)
            idle = await measure(agent, seconds / 2)
            with awake():
                alone, beside, parts = await asyncio.gather(
                    measure(agent, seconds), measure(bare.pid, seconds), threads(agent, seconds)
                )
            life = asyncio.create_task(session.run())
            await session.synced(60)
            with awake():
                attached = await measure(agent, seconds)
            members = sum(len(run["components"]) for run in session.state.latest["runs"])
            life.cancel()
            await asyncio.gather(life, return_exceptions=True)
        finally:
            bare.kill()
            bare.wait()
            await pod.stop()
    result: dict[str, Any] = {
        "schema": "bs4.agent-whole/1",
        "seconds": seconds,
        "alone": alone,
        "alone_on_an_idle_machine": idle,
        "with_a_console": attached,
        "bare_python": beside,
        "profile": parts,
        "gpus": GPUS,
        "members": members,
        "python": sys.version.split()[0],
        "budget": BUDGET,
        "within_budget": all(alone[name] <= limit for name, limit in BUDGET.items()),
    }
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps(result, indent=2))
    return 0 if result["within_budget"] else 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--json", type=Path, default=RESULT)
    parser.add_argument("--hold", action="store_true", help="wait for Enter, for a profiler")
    options = parser.parse_args()
    sys.exit(asyncio.run(main(options.seconds, options.hold, options.json)))
