"""How fast a pod is read that is far away, against what a person would type instead: a whole log
beside `ssh host cat`, and `check` beside `ssh host true`, through the same delaying link in the
same run.

    python benchmarks/distance.py [--pairs 3] [--mb 60] [--round-trips 0 30 150 300] [--mbit N]
                                  [--programs log raw-log check] [--beside] [--json FILE]
    python benchmarks/distance.py --memory 30 300 [--json FILE]

The pod is a namespaced one (a real OpenSSH server) whose agent runs. The link is a process that
hands every byte on half a round trip late (the kernel here has no netem), and no more than --mbit
megabits a second of each connection. A log is printed as a person gets it, with its secrets
searched for, and with --raw. All programs are whole processes, their start included, and each round
is one of each in turn. What counts are the ratios of the medians and, where other programs disturb,
the median of the ratios of each round (`paired`). The log's lines are 95 bytes long, and every copy
is compared by its SHA-256.

With --beside, two others read the same pod through the same link meanwhile, each over a connection
of its own: one follows a log that grows by 1,000 lines a second, the other takes 320 KB a second of
the long log. With --memory, logs of these sizes are printed one after the other, the smallest
first, and the most that console and agent ever held resident is told of each.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import hashlib
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks import profiles  # noqa: E402 (the checkout's root must be importable)
from tests.support.distance import distance  # noqa: E402
from tests.support.namespaced import NamespacedPod  # noqa: E402
from tests.support.pod import TestPod  # noqa: E402
from tests.support.pods import Pods  # noqa: E402
from tests.support.transports import transport, trusting  # noqa: E402

from bs4_console.pods.channel import Channel  # noqa: E402
from bs4_practice import tree  # noqa: E402

RESULT = ROOT / "benchmarks" / "results" / "distance.json"
#: Of programs that have the machine to themselves. On loopback the log may take 1.25.
GOAL = {"log": 1.05, "check": 1.5}
#: What each program is compared with.
PEER = {"log": "ssh cat", "raw-log": "ssh cat", "check": "ssh true"}
CONSOLE = [str(Path(sys.executable).with_name("bs4-console"))]
IMPORTS = {
    "check": "import bs4_console.cli.check, bs4_console.transport.ssh",
    "log": "import bs4_console.cli.logs, bs4_console.transport.ssh",
}
#: What the two readers beside the measured one take: lines that are written, and bytes that are
#: read, in each of these pauses.
PAUSE_S, GROWTH, SLOWLY = 0.1, 100, 32_000
#: Seconds within which both of them must have got something.
COMPANY_S = 60.0


@dataclass
class Far:
    """A pod behind a link: how it is reached by ssh, and the environment in which the console knows
    it. By program: seconds of each run, seconds of CPU, and the most that was resident, in MB.
    """

    ssh: Sequence[str]
    environment: Mapping[str, str]
    seconds: dict[str, list[float]] = field(default_factory=dict)
    cpu: dict[str, list[float]] = field(default_factory=dict)
    resident: dict[str, list[float]] = field(default_factory=dict)

    def time(self, name: str, argv: Sequence[str], expected: str | None = None) -> None:
        """Run a program to its end and note what it took. Raises AssertionError if its output does
        not have the SHA-256 `expected`.
        """
        digest, most = hashlib.sha256(), 0.0
        began = time.perf_counter()
        process = self.start(argv)
        assert process.stdout is not None
        while data := process.stdout.read(1 << 20):
            digest.update(data)
            most = max(most, peak_mb(process.pid))
        _, status, used = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        process.stdout.close()
        if expected is not None:
            assert digest.hexdigest() == expected, f"{name}: the bytes are others"
        self.seconds.setdefault(name, []).append(seconds)
        self.cpu.setdefault(name, []).append(used.ru_utime + used.ru_stime)
        self.resident.setdefault(name, []).append(most)

    def start(self, argv: Sequence[str]) -> subprocess.Popen[bytes]:
        """Start a program whose output is read here."""
        return subprocess.Popen(
            argv, env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
        )


def peak_mb(pid: int) -> float:
    """Return the most that a process ever held resident, in MB, or 0 if it has ended."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    for line in status.splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024 / 1e6
    return 0.0


def cpu_seconds(pid: int) -> float:
    """Return the seconds of CPU that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def agent_pid(pod: TestPod) -> int:
    """Return the pid, as it is seen from here, of the agent that runs on a namespaced pod."""
    assert isinstance(pod, NamespacedPod)
    for process in tree.below(pod.init):
        if "daemon" in process.cmdline:
            return process.pid
    raise RuntimeError(f"No agent runs on {pod.name}.")


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


@contextlib.contextmanager
def company(there: Far, pod: TestPod, log: str) -> Iterator[dict[str, int]]:
    """Have two others read the pod while the block runs. Yields a mapping that counts the bytes
    that each has got: "followed" and "slow".
    """
    got = {"followed": 0, "slow": 0}
    stop = threading.Event()
    growing = f"{pod.home}/growing.log"
    place = pod.root / growing.lstrip("/")
    place.touch()
    read = [*CONSOLE, "logs", "--pod", pod.name, "--file"]
    running: dict[str, subprocess.Popen[bytes]] = {}

    def grow() -> None:
        number = 0
        with place.open("ab", buffering=0) as handle:
            while not stop.wait(PAUSE_S):
                lines = []
                for _ in range(GROWTH):
                    number += 1
                    lines.append(f"12:00:00    INFO rollout {number} is done: reward 0.36\n")
                handle.write("".join(lines).encode())

    def take(name: str, argv: Sequence[str], pause: float) -> None:
        while not stop.is_set():  # again, where the log has ended
            process = running[name] = there.start(argv)
            assert process.stdout is not None
            while data := os.read(process.stdout.fileno(), SLOWLY):
                got[name] += len(data)
                if stop.wait(pause):
                    break
            process.terminate()
            process.wait()
            process.stdout.close()

    others = [
        threading.Thread(target=grow),
        threading.Thread(target=take, args=("followed", [*read, growing, "-f"], 0.0)),
        threading.Thread(target=take, args=("slow", [*read, log, "-n", "0"], PAUSE_S)),
    ]
    for other in others:
        other.start()
    try:
        began = time.monotonic()
        while not all(got.values()):
            if time.monotonic() - began > COMPANY_S:
                raise RuntimeError(f"A reader beside the measured one gets nothing: {got}")
            time.sleep(PAUSE_S)
        yield got
    finally:
        stop.set()
        for process in list(running.values()):
            process.terminate()
        for other in others:
            other.join()


def commands(there: Far, pod: TestPod, log: str, programs: Sequence[str]) -> dict[str, list[str]]:
    """Return the argv of each of these programs and of what it is compared with, peers first."""
    whole = [*CONSOLE, "logs", "--pod", pod.name, "--file", log, "-n", "0"]
    every = {
        "ssh true": [*there.ssh, "true"],
        "check": [*CONSOLE, "check", "--pod", pod.name],
        "ssh cat": [*there.ssh, "cat", log],
        "log": whole,
        "raw-log": [*whole, "--raw"],
    }
    wanted = {*programs, *(PEER[name] for name in programs)}
    return {name: argv for name, argv in every.items() if name in wanted}


def measure(
    there: Far, pod: TestPod, log: str, sha256: str, options: argparse.Namespace
) -> dict[str, object]:
    """Return the seconds of each program, the ratios of their medians, and the medians of the
    ratios of each round; and where the time goes. The first round is thrown away.
    """
    agent = agent_pid(pod)
    argvs = commands(there, pod, log, options.programs)
    agent_cpu: dict[str, list[float]] = {name: [] for name in argvs}
    for _ in range(options.pairs + 1):
        for name, argv in argvs.items():
            before = cpu_seconds(agent)
            there.time(name, argv, sha256 if log in argv else None)
            agent_cpu[name].append(cpu_seconds(agent) - before)
    kept = {name: values[1:] for name, values in there.seconds.items()}
    median = {name: statistics.median(values) for name, values in kept.items()}
    ratios, paired, split = {}, {}, {}
    for name in options.programs:
        peer = PEER[name]
        ratios[name] = round(median[name] / median[peer], 2)
        rounds = zip(kept[name], kept[peer], strict=True)
        paired[name] = round(statistics.median(ours / theirs for ours, theirs in rounds), 3)
        split[name] = [
            f"{median[name]:6.3f} s  in all, the median; `{peer}` {median[peer]:.3f} s",
            f"{statistics.median(there.cpu[name][1:]):6.3f} s  CPU of the console's process",
            f"{statistics.median(there.cpu[peer][1:]):6.3f} s  CPU of `{peer}`",
            f"{statistics.median(agent_cpu[name][1:]):6.3f} s  CPU of the agent",
            *profiles.imports(IMPORTS.get(name, IMPORTS["log"]), there.environment),
            *profiles.calls(argvs[name][len(CONSOLE) :], there.environment),
        ]
    return {
        "median_s": {name: round(value, 3) for name, value in median.items()},
        "seconds": {name: [round(value, 3) for value in values] for name, values in kept.items()},
        "ratio": ratios,
        "paired": paired,
        "profile": split,
    }


def memory(there: Far, pod: TestPod, sizes: Sequence[int]) -> dict[str, object]:
    """Return the most that console and agent ever held resident, in MB, by the size of the log that
    was printed, and by how much more that is for the longest log than for the shortest.
    """
    agent = agent_pid(pod)
    held: dict[str, dict[str, float]] = {}
    for size in sorted(sizes):
        log = f"{pod.home}/{size}.log"
        sha256 = make_log(pod.root / log.lstrip("/"), size * 1_000_000)
        argv = commands(there, pod, log, ["log"])["log"]
        there.time(f"{size} MB", argv, sha256)
        held[f"{size}"] = {
            "console_mb": round(there.resident[f"{size} MB"][0], 1),
            "agent_mb": round(peak_mb(agent), 1),
        }
        print(f"{size:4} MB  {held[str(size)]}", flush=True)
    small, large = held[f"{min(sizes)}"], held[f"{max(sizes)}"]
    return {
        "held": held,
        "shortest": small,
        "longest": large,
        "ratio": {name: round(large[name] / small[name], 3) for name in small},
    }


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--mb", type=int, default=60)
    parser.add_argument("--round-trips", type=float, nargs="+", default=[0.0, 30.0, 150.0, 300.0])
    parser.add_argument("--mbit", type=float)
    parser.add_argument("--programs", nargs="+", choices=tuple(PEER), default=list(PEER))
    parser.add_argument("--beside", action="store_true")
    parser.add_argument("--memory", type=int, nargs="+", metavar="MB")
    parser.add_argument("--json", type=Path, default=RESULT)
    return parser.parse_args()


@contextlib.contextmanager
def linked(pod: TestPod, milliseconds: float, mbit: float | None) -> Iterator[Far]:
    """Yield the pod as it is reached through a link, with the agent on it."""
    with (
        tempfile.TemporaryDirectory() as name,
        distance(pod.address, pod.port, milliseconds / 1000, mbit) as port,
    ):
        directory = Path(name)
        there = far(pod, port, directory)
        asyncio.run(deploy(pod, directory))
        yield there


def at_distances(pod: TestPod, options: argparse.Namespace) -> dict[str, object]:
    """Return what was measured at each round trip, by its milliseconds."""
    log = f"{pod.home}/big.log"
    sha256 = make_log(pod.root / log.lstrip("/"), options.mb * 1_000_000)
    rows: dict[str, object] = {}
    for milliseconds in options.round_trips:
        with linked(pod, milliseconds, options.mbit) as there:
            if options.beside:
                with company(there, pod, log) as got:
                    row = measure(there, pod, log, sha256, options)
                    row["beside_bytes"] = dict(got)
            else:
                row = measure(there, pod, log, sha256, options)
        rows[f"{milliseconds:g}"] = row
        print(
            f"{milliseconds:4g} ms  {row['ratio']}  paired {row['paired']}  {row['median_s']}",
            flush=True,
        )
    return rows


def main() -> int:
    options = parsed()
    if shutil.which("ssh") is None:
        print("distance: no ssh client on this machine; nothing to compare with.")
        return 2
    pods = Pods()
    result: dict[str, object] = {"schema": "bs4.bench-distance/1"}
    try:
        if pods.kind != "namespaced":
            print(f"distance: needs namespaced pods. {'; '.join(pods.reasons)}")
            return 2
        (pod,) = pods(1)
        if options.memory:
            with linked(pod, 0.0, options.mbit) as there:
                result["memory"] = memory(there, pod, options.memory)
        else:
            result |= {
                "pairs": options.pairs,
                "log_mb": options.mb,
                "mbit": options.mbit,
                "round_trip_ms": at_distances(pod, options),
                "goal": GOAL,
            }
    finally:
        pods.close()
    result["machine"] = {
        "cpus": os.cpu_count(),
        "load1": round(os.getloadavg()[0], 2),
        "python": platform.python_version(),
    }
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(result, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
