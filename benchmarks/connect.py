"""How long until a pod's first telemetry is here, against what a person would type instead: `ssh
host true`, in the same run.

    python benchmarks/connect.py [--pairs 10] [--json FILE]

Each pair is one clean `ssh host true` process, one connect to a pod that has never seen the agent
(upload, install, start, first record), and one connect to a pod whose agent runs, on namespaced
pods (real OpenSSH servers, no network delay). What counts are the ratios of the medians: at most 3
with deploy, at most 2 with the agent there. The console's time counts from `connect` in a running
console, as a person with the screen open sees it; what starting a console's Python costs is told
beside it, once, and is not in the ratios. The parts of that time are told beside the whole: the
login and the command that attaches (with the upload, where there is no agent), the greeting, the
first record.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.support.pod import TestPod  # noqa: E402
from tests.support.pods import Pods  # noqa: E402
from tests.support.transports import transport, trusting  # noqa: E402

# The checkout's root must be importable for the test pods.
from bs4_console.pods.channel import Channel  # noqa: E402
from bs4_console.transport import bundle  # noqa: E402

RESULT = ROOT / "benchmarks" / "results" / "connect.json"
BUDGET = {"deploy": 3.0, "attach": 2.0}


def ssh_true(pod: TestPod, known_hosts: Path) -> float:
    """Seconds of a whole `ssh host true` process."""
    options = [
        f"UserKnownHostsFile={known_hosts}",
        f"HostKeyAlias={pod.name}",
        "StrictHostKeyChecking=yes",
        "BatchMode=yes",
        "IdentitiesOnly=yes",
    ]
    argv = [
        "ssh",
        "-F",
        "none",
        "-i",
        str(pod.key),
        "-p",
        str(pod.port),
        *(word for option in options for word in ("-o", option)),
    ]
    started = time.perf_counter()
    subprocess.run(
        [*argv, f"{pod.user}@{pod.address}", "true"], check=True, stdin=subprocess.DEVNULL
    )
    return time.perf_counter() - started


#: The parts of the way to the first record, in their order.
PARTS = ("login and attach", "greeting", "first record")


async def first_telemetry(pod: TestPod, directory: Path) -> list[float]:
    """Seconds of each part of the way from `connect` to the first telemetry record in our hands."""
    connection = transport(pod, directory)
    at = [time.perf_counter()]
    try:
        pipe = await connection.open(lambda _: None)
        at.append(time.perf_counter())
        channel = await Channel.open(pipe, "bench@here", "bs4-console/benchmark")
        at.append(time.perf_counter())
        chunk = await channel.read("telemetry", "start", wait=10.0)
        at.append(time.perf_counter())
        assert json.loads(chunk.data.splitlines()[0])["host"]["mem_total"]
        await channel.close()
    finally:
        await connection.close()
    return [end - begin for begin, end in pairwise(at)]


async def measure(pods: Pods, pairs: int, directory: Path) -> dict[str, list[list[float]]]:
    """The parts of each way, by what was done. Interleaved, the first round thrown away: page
    cache, the bundle's own build, a cold agent.
    """
    (steady,) = pods(1)
    trusting(directory, steady)
    await first_telemetry(steady, directory)
    parts: dict[str, list[list[float]]] = {"ssh": [], "deploy": [], "attach": []}
    for number in range(pairs + 1):
        (fresh,) = pods(1)
        row = {
            "ssh": [ssh_true(steady, directory / "known_hosts")],
            "deploy": await first_telemetry(fresh, directory),
            "attach": await first_telemetry(steady, directory),
        }
        fresh.close()
        if number:
            for name, values in row.items():
                parts[name].append(values)
    return parts


def split(rounds: list[list[float]]) -> list[str]:
    """The median of each part, as lines."""
    columns = zip(PARTS, zip(*rounds, strict=True), strict=True)
    return [f"{statistics.median(values):6.3f} s  {part}" for part, values in columns]


def start_of_python() -> float:
    """Seconds to start a Python and import what connecting needs."""
    started = time.perf_counter()
    subprocess.run(
        [sys.executable, "-c", "import bs4_console.transport.ssh, bs4_console.pods.channel"],
        check=True,
        cwd=ROOT,
    )
    return time.perf_counter() - started


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--json", type=Path, default=RESULT)
    options = parser.parse_args()
    if shutil.which("ssh") is None:
        print("connect: no ssh client on this machine; nothing to compare with.")
        return 2
    pods = Pods()
    try:
        if pods.kind != "namespaced":
            print(f"connect: needs namespaced pods. {'; '.join(pods.reasons)}")
            return 2
        shipped = bundle.shipped()
        with tempfile.TemporaryDirectory() as directory:
            parts = asyncio.run(measure(pods, options.pairs, Path(directory)))
    finally:
        pods.close()
    seconds = {name: [sum(values) for values in rounds] for name, rounds in parts.items()}
    median = {name: statistics.median(values) for name, values in seconds.items()}
    ratio = {name: round(median[name] / median["ssh"], 2) for name in BUDGET}
    result = {
        "schema": "bs4.bench-connect/1",
        "pairs": options.pairs,
        "median_s": {name: round(value, 4) for name, value in median.items()},
        "seconds": {
            name: [round(value, 4) for value in values] for name, values in seconds.items()
        },
        "ratio_to_ssh_true": ratio,
        "budget": BUDGET,
        "within": {name: ratio[name] <= BUDGET[name] for name in BUDGET},
        "profile": {name: split(parts[name]) for name in BUDGET},
        "start_of_python_s": round(start_of_python(), 3),
        "bundle_bytes": len(shipped.data),
        "machine": {
            "cpus": os.cpu_count(),
            "load1": round(os.getloadavg()[0], 2),
            "python": platform.python_version(),
        },
    }
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(result, indent=1) + "\n")
    print(f"`ssh host true`                 {median['ssh'] * 1000:6.0f} ms")
    print(
        f"first telemetry, with deploy    {median['deploy'] * 1000:6.0f} ms   "
        f"x{ratio['deploy']} (at most {BUDGET['deploy']:g})"
    )
    print(
        f"first telemetry, agent is there {median['attach'] * 1000:6.0f} ms   "
        f"x{ratio['attach']} (at most {BUDGET['attach']:g})"
    )
    return 0 if all(result["within"].values()) else 1


if __name__ == "__main__":
    sys.exit(main())
