"""What the agent's telemetry costs a pod: CPU of one core and resident memory at 1 Hz, with 8 GPUs
and their processes.

    python benchmarks/agent_cost.py [--seconds 60] [--json FILE]

A sampler runs in a process of its own on this machine's real /proc, with NVML answered by a
compiled stand-in, a run of 24 live processes, two of which hold each GPU, and records written to a
file as NDJSON. The budget of the whole agent is 0.5 % of a core and 30 MB. A real driver's own time
per call is not in it: the stand-in answers at once. Bytecode is compiled beforehand, as it is in a
deployed bundle: compiling pynvml in the process itself leaves 14 MB behind that are never given
back.
"""

from __future__ import annotations

import argparse
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

from bs4_common.telemetry import Telemetry

ROOT = Path(__file__).resolve().parents[1]
RESULT = ROOT / "benchmarks" / "results" / "agent_cost.json"
GPUS, PROCESSES_A_GPU = 8, 3
BUDGET = {"cpu_percent": 0.5, "rss_mb": 30.0}
WARM_UP_S = (
    65.0  # processes are looked at more often in their first minute, and a run lives for hours
)


def sample_for_ever(dev: str, records: str, pids: list[str]) -> None:
    """The measured process: nothing but what a daemon would hold for telemetry."""
    import threading

    from bs4_agent.scope import Scope
    from bs4_agent.telemetry.background import GuardedGpus
    from bs4_agent.telemetry.gpus import open_gpus
    from bs4_agent.telemetry.processes import ProcessTable
    from bs4_agent.telemetry.sampler import RunMembers, Sampler
    from bs4_common.identity import Identity, own_pidns

    scope = Scope(os.getuid(), own_pidns(), None, Path(dev))
    members = [
        (identity, "rank") for pid in pids if (identity := Identity.of(int(pid))) is not None
    ]
    runs = [RunMembers("bench", 1, members)]
    with open(records, "a", encoding="utf-8") as file:

        def append(record: Telemetry) -> None:
            file.write(json.dumps(record, separators=(",", ":")) + "\n")
            file.flush()

        sampler = Sampler(
            scope,
            GuardedGpus(open_gpus(scope)),
            ProcessTable(scope),
            append,
            lambda: runs,
            lambda: [Path(records), Path("/")],
        )
        sampler.run(threading.Event())


@contextlib.contextmanager
def pod(directory: Path) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """GPUs, their holders, and the sampler that watches them."""
    sys.path.insert(0, str(ROOT))
    from tests.agent.telemetry import fake_nvml

    fake_nvml.build(directory)
    state = fake_nvml.state(directory / "state", GPUS)
    dev = directory / "dev"
    dev.mkdir()
    for name in (*(f"nvidia{index}" for index in range(GPUS)), "nvidiactl", "nvidia-uvm"):
        (dev / name).touch()
    holders = []
    for gpu in range(GPUS):
        paths = [dev / "nvidiactl", dev / "nvidia-uvm", dev / f"nvidia{gpu}"]
        holders += [_hold(paths) for _ in range(PROCESSES_A_GPU)]
        state.gpus[gpu].hold([(holder.pid, 20 << 30) for holder in holders[-2:]])
    environment = {
        **os.environ,
        "LD_LIBRARY_PATH": str(directory),
        "FAKE_NVML": str(directory / "state"),
        "PYTHONPATH": str(ROOT / "agents"),
        "PYTHONPYCACHEPREFIX": str(directory / "bytecode"),
    }
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    compiling = "import bs4_agent.telemetry.sampler, bs4_agent.telemetry.nvml, json"
    subprocess.run([sys.executable, "-c", compiling], env=environment, check=True)
    arguments = [
        "--measured",
        str(dev),
        str(directory / "records"),
        *[str(holder.pid) for holder in holders],
    ]
    sampler = subprocess.Popen([sys.executable, __file__, *arguments], env=environment)
    try:
        yield sampler, directory / "records"
    finally:
        for process in (sampler, *holders):
            process.kill()
            process.wait()


def _hold(paths: list[Path]) -> subprocess.Popen[bytes]:
    """A process with these files open and 200 more, as a rank has sockets and shared memory."""
    source = (
        "import os, sys; held = [open(path) for path in sys.argv[1:]]; more = [os.dup(0) for _ "
        "in range(200)]; sys.stdin.read()"
    )
    return subprocess.Popen(
        [sys.executable, "-S", "-E", "-c", source, *map(str, paths)], stdin=subprocess.PIPE
    )


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_mb(pid: int) -> dict[str, float]:
    sizes = {}
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        name, _, rest = line.partition(":")
        if name in ("Rss", "Pss"):
            sizes[f"{name.lower()}_mb"] = round(int(rest.split()[0]) * 1024 / 1e6, 1)
    return sizes


def measure(seconds: float) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as directory, pod(Path(directory)) as (sampler, records):
        time.sleep(WARM_UP_S)
        start, before = time.monotonic(), cpu_seconds(sampler.pid)
        first = len(records.read_bytes().splitlines())
        time.sleep(seconds)
        elapsed, used = time.monotonic() - start, cpu_seconds(sampler.pid) - before
        lines = records.read_bytes().splitlines()
        result: dict[str, Any] = {
            "schema": "bs4.agent-cost/1",
            "part": "telemetry",
            "seconds": round(elapsed, 1),
            "records": len(lines) - first,
            "bytes_a_record": len(lines[-1]),
            "cpu_percent": round(100 * used / elapsed, 2),
            **memory_mb(sampler.pid),
            "gpus": GPUS,
            "members": GPUS * PROCESSES_A_GPU,
            "processes_on_the_machine": sum(
                entry.name.isdigit() for entry in Path("/proc").iterdir()
            ),
            "python": sys.version.split()[0],
            "budget": BUDGET,
        }
    return {
        **result,
        "within_budget": all(float(result[name]) <= limit for name, limit in BUDGET.items()),
    }


def main() -> int:
    if sys.argv[1:2] == ["--measured"]:
        sample_for_ever(sys.argv[2], sys.argv[3], sys.argv[4:])
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--json", type=Path, default=RESULT)
    options = parser.parse_args()
    result = measure(options.seconds)
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps(result, indent=2))
    return 0 if result["within_budget"] else 1


if __name__ == "__main__":
    sys.exit(main())
