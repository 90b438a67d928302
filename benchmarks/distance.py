"""How fast a pod is read that is far away, against what a person would type instead: a whole log
beside `ssh host cat`, and `check` beside `ssh host true`, through the same delaying link in the
same run.

    python benchmarks/distance.py [--pairs 3] [--mb 60] [--round-trips 0 30 150 300] [--mbit N]

The pod is a namespaced one (a real OpenSSH server) whose agent runs. The link is a process that
hands every byte on half a round trip late (the kernel here has no netem), and no more than --mbit
megabits a second of them. A log is printed as a person gets it, with its secrets searched for, and
with --raw. All programs are whole processes, their start included, and each round is one of each in
turn. What counts are the ratios of the medians and, where other programs disturb, the median of the
ratios of each round (`paired`). The log's lines are 95 bytes long, and every copy is compared by
its SHA-256.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.support.distance import distance  # noqa: E402
from tests.support.pod import TestPod  # noqa: E402
from tests.support.pods import Pods  # noqa: E402
from tests.support.transports import transport, trusting  # noqa: E402

from bs4_console.pods.channel import Channel  # noqa: E402

RESULT = ROOT / "benchmarks" / "results" / "distance.json"
#: Of programs that have the machine to themselves. On loopback the log may take 1.25.
GOAL = {"log": 1.05, "check": 1.5}
#: What each program is compared with.
PEER = {"log": "ssh cat", "raw log": "ssh cat", "check": "ssh true"}
CONSOLE = [str(Path(sys.executable).with_name("bs4-console"))]


@dataclass
class Far:
    """A pod behind a link: how it is reached by ssh, and the environment in which the console knows
    it.
    """

    ssh: Sequence[str]
    environment: Mapping[str, str]
    seconds: dict[str, list[float]] = field(default_factory=dict)

    def time(self, name: str, argv: Sequence[str], expected: str | None = None) -> None:
        """Run a program to its end and note its seconds. Raises AssertionError if its output does
        not have the SHA-256 `expected`.
        """
        digest = hashlib.sha256()
        began = time.perf_counter()
        with subprocess.Popen(
            argv, env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
        ) as process:
            assert process.stdout is not None
            while data := process.stdout.read(1 << 20):
                digest.update(data)
        seconds = time.perf_counter() - began
        if expected is not None:
            assert digest.hexdigest() == expected, f"{name}: the bytes are others"
        self.seconds.setdefault(name, []).append(seconds)


def make_log(path: Path, size: int) -> str:
    """Write a log of lines of 95 bytes, and return its SHA-256."""
    digest = hashlib.sha256()
    with path.open("wb") as handle:
        for number in range(size // 95):
            line = f"12:00:00    INFO Step {number:9d} | Time: 31.27s | Loss: 1.2000 | MFU: 12.3%"
            data = line.encode().ljust(94, b"x") + b"\n"
            digest.update(data)
            handle.write(data)
    return digest.hexdigest()


def far(pod: TestPod, port: int, directory: Path) -> Far:
    """Return the pod as it is reached through the link at `port`."""
    known = directory / "known_hosts"
    trusting(directory, pod)
    (directory / "pods.toml").write_text(
        f'[pods.{pod.name}]\nhost = "127.0.0.1"\nport = {port}\nuser = "{pod.user}"\n'
        f'identity_file = "{pod.key}"\nssh_config = false\n'
    )
    options = {
        "UserKnownHostsFile": str(known),
        "HostKeyAlias": pod.name,
        "StrictHostKeyChecking": "yes",
        "BatchMode": "yes",
        "IdentitiesOnly": "yes",
    }
    ssh = ["ssh", "-F", "none", "-i", str(pod.key), "-p", str(port)]
    for name, value in options.items():
        ssh += ["-o", f"{name}={value}"]
    kept = {name: str(directory) for name in ("BS4_CONFIG_DIR", "BS4_DATA_DIR", "BS4_STATE_DIR")}
    environment = {**os.environ, **kept}
    # An installed console has its modules compiled.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    return Far([*ssh, f"{pod.user}@127.0.0.1"], environment)


async def deploy(pod: TestPod, directory: Path) -> None:
    """Put the agent on the pod and start it."""
    connection = transport(pod, directory)
    try:
        pipe = await connection.open(lambda _: None)
        channel = await Channel.open(pipe, "bench@here", "bs4-console/benchmark")
        await channel.read("telemetry", "start", wait=10.0)
        await channel.close()
    finally:
        await connection.close()


def measure(there: Far, pod: TestPod, log: str, sha256: str, pairs: int) -> dict[str, object]:
    """Return the seconds of each program, the ratios of their medians, and the medians of the
    ratios of each round. The first round is thrown away.
    """
    at = ["--pod", pod.name]
    for _ in range(pairs + 1):
        there.time("ssh true", [*there.ssh, "true"])
        there.time("check", [*CONSOLE, "check", *at])
        there.time("ssh cat", [*there.ssh, "cat", log], sha256)
        whole = [*CONSOLE, "logs", *at, "--file", log, "-n", "0"]
        there.time("log", whole, sha256)
        there.time("raw log", [*whole, "--raw"], sha256)
    kept = {name: values[1:] for name, values in there.seconds.items()}
    median = {name: statistics.median(values) for name, values in kept.items()}
    ratios, paired = {}, {}
    for name, peer in PEER.items():
        ratios[name] = round(median[name] / median[peer], 2)
        rounds = zip(kept[name], kept[peer], strict=True)
        paired[name] = round(statistics.median(ours / theirs for ours, theirs in rounds), 2)
    return {
        "median_s": {name: round(value, 3) for name, value in median.items()},
        "seconds": {name: [round(value, 3) for value in values] for name, values in kept.items()},
        "ratio": ratios,
        "paired": paired,
    }


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--mb", type=int, default=60)
    parser.add_argument("--round-trips", type=float, nargs="+", default=[0.0, 30.0, 150.0, 300.0])
    parser.add_argument("--mbit", type=float)
    parser.add_argument("--json", type=Path, default=RESULT)
    return parser.parse_args()


def main() -> int:
    options = parsed()
    if shutil.which("ssh") is None:
        print("distance: no ssh client on this machine; nothing to compare with.")
        return 2
    pods = Pods()
    rows = {}
    try:
        if pods.kind != "namespaced":
            print(f"distance: needs namespaced pods. {'; '.join(pods.reasons)}")
            return 2
        (pod,) = pods(1)
        log = f"{pod.home}/big.log"
        sha256 = make_log(pod.root / log.lstrip("/"), options.mb * 1_000_000)
        for milliseconds in options.round_trips:
            with (
                tempfile.TemporaryDirectory() as name,
                distance(pod.address, pod.port, milliseconds / 1000, options.mbit) as port,
            ):
                directory = Path(name)
                there = far(pod, port, directory)
                asyncio.run(deploy(pod, directory))
                row = measure(there, pod, log, sha256, options.pairs)
            rows[f"{milliseconds:g}"] = row
            print(
                f"{milliseconds:4g} ms  {row['ratio']}  paired {row['paired']}  {row['median_s']}",
                flush=True,
            )
    finally:
        pods.close()
    result = {
        "schema": "bs4.bench-distance/1",
        "pairs": options.pairs,
        "log_mb": options.mb,
        "mbit": options.mbit,
        "round_trip_ms": rows,
        "goal": GOAL,
        "machine": {
            "cpus": os.cpu_count(),
            "load1": round(os.getloadavg()[0], 2),
            "python": platform.python_version(),
        },
    }
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(result, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
