"""How fast a checkpoint is in the store, against what a person would type instead: `b2 sync`, on
the same local server in the same run.

    python -m venv /tmp/b2 && /tmp/b2/bin/pip install b2
    python benchmarks/sync.py --b2 /tmp/b2/bin/b2 [--rounds 5] [--mib 512] [--json FILE]

Each round uploads the same checkpoint (four large shards and the small files that prime-rl writes)
twice, once by each, in turns, into an empty place, both at the priority that ours takes (nice 19,
ionice 2/7). Ours is the worker process as the agent starts it, from its start to its end: it hashes
every file first, writes a manifest, lists and compares everything afterwards and writes the
pointer; `b2 sync` does none of that. What counts is the ratio of the median throughputs: at least
0.9. CPU seconds and peak memory are the processes' own; the server's are not in them.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

# The checkout's root must be importable.
from bs4_agent.checkpoints.remote.process import command  # noqa: E402
from bs4_agent.paths import Home  # noqa: E402
from bs4_agent.runs.records import spec_as_dict  # noqa: E402
from bs4_agent.setup.credentials import store as store_credential  # noqa: E402
from bs4_common.trainers.base import LaunchSpec  # noqa: E402

RESULT = ROOT / "benchmarks" / "results" / "sync.json"
BUCKET, BUDGET = "bench-bucket", 0.9
SHARDS = 4


def checkpoint(root: Path, mib: int) -> tuple[LaunchSpec, int]:
    """Step 10 of a run of the current generation; (its spec, its bytes)."""
    step = root / "out" / "demo" / "checkpoints" / "step_10"
    (step / "trainer").mkdir(parents=True)
    (step / "orchestrator").mkdir()
    block = os.urandom(1 << 20)
    for shard in range(SHARDS):
        with (step / "trainer" / f"__{shard}_0.distcp").open("wb") as handle:
            for number in range(mib // SHARDS):
                handle.write(number.to_bytes(8, "little") + block[8:])
    (step / "trainer" / ".metadata").write_bytes(os.urandom(200_000))
    (step / "orchestrator" / "progress.pt").write_bytes(os.urandom(2000))
    (root / "rl.toml").write_text("max_steps = 10\n")
    size = sum(path.stat().st_size for path in step.rglob("*") if path.is_file())
    return LaunchSpec(
        run="demo", trainer="prime-rl", config=Path("rl.toml"), cwd=root, output_dir=root / "out"
    ), size


def measured(argv: list[str], environment: dict[str, str], told: bytes = b"") -> dict[str, float]:
    """Wall and CPU seconds and peak memory of one process; its input stays open until it ends."""
    with tempfile.TemporaryFile() as output:
        began = time.perf_counter()
        process = subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            env={**os.environ, **environment},
        )
        if process.stdin is None:
            raise RuntimeError("the process has no input")
        process.stdin.write(told)
        process.stdin.flush()
        _, status, used = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        process.stdin.close()
        if process.returncode:
            output.seek(0)
            raise RuntimeError(
                f"{argv[0]} ended with {process.returncode}: "
                f"{output.read()[-2000:].decode(errors='replace')}"
            )
    return {
        "wall_s": seconds,
        "cpu_s": used.ru_utime + used.ru_stime,
        "peak_mib": used.ru_maxrss / 1024,
    }


def ours(home: Home, spec: LaunchSpec, prefix: str, realm: str) -> dict[str, float]:
    # every round reads everything, as the first sync of a step does
    (home.run("demo") / "sync-hashes.json").unlink(missing_ok=True)
    job = {
        "run": "demo",
        "to": f"b2://{BUCKET}/{prefix}",
        "home": str(home.root),
        "spec": spec_as_dict(spec),
        "attempt": 1,
        "resumed": None,
        "wandb": {},
        "steps": [10],
        "point": True,
        "weights": False,
        "rate": None,
        "keep_remote": None,
        "milestones": 0,
        "others": {},
    }
    # as the agent does
    argv = [
        "ionice",
        "-c",
        "2",
        "-n",
        "7",
        *command(home, "bs4_agent.checkpoints.remote.worker"),
    ]
    return measured(argv, {"BS4_B2_REALM": realm}, json.dumps(job).encode() + b"\n")


def theirs(
    b2: str, spec: LaunchSpec, prefix: str, account: dict[str, str], scratch: Path
) -> dict[str, float]:
    environment = {
        "B2_APPLICATION_KEY_ID": account["key_id"],
        "B2_APPLICATION_KEY": account["key"],
        "B2_ENVIRONMENT": account["realm"],
        "B2_ACCOUNT_INFO": str(scratch / "account.sqlite"),
    }
    # The worker always gives way to the run like this; on a machine that others use too it would be
    # compared with itself otherwise.
    low = ["nice", "-n", "19", "ionice", "-c", "2", "-n", "7"]
    return measured(
        [*low, b2, "sync", "--no-progress", str(spec.output_dir), f"b2://{BUCKET}/{prefix}/"],
        environment,
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--b2",
        default=os.environ.get("B2") or shutil.which("b2"),
        help="the `b2` command, from an environment of its own (default: $B2, or that of PATH)",
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--mib", type=int, default=2048)
    parser.add_argument("--json", type=Path, default=RESULT)
    options = parser.parse_args()
    if options.b2 is None:
        print("sync: no `b2` command on this machine; nothing to compare with. Name one by --b2.")
        return 2
    rows: dict[str, list[dict[str, float]]] = {"ours": [], "b2": []}
    with tempfile.TemporaryDirectory(prefix="bs4-bench-") as directory:
        root = Path(directory)
        spec, size = checkpoint(root, options.mib)
        home = Home(root / "home")
        home.create()
        home.run("demo").mkdir(parents=True)
        for number in range(options.rounds):
            for name in ("ours", "b2") if number % 2 else ("b2", "ours"):
                # A server of its own each time, in its own process: its disk and its threads are as
                # empty for the one as for the other.
                server = [
                    sys.executable,
                    "-m",
                    "bs4_practice.b2",
                    "--bucket",
                    BUCKET,
                    "--part-size",
                    "100000000",
                ]
                with subprocess.Popen(
                    server, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT
                ) as process:
                    if process.stdout is None or process.stdin is None:
                        raise RuntimeError("the server has no pipes")
                    account: dict[str, str] = json.loads(process.stdout.readline())
                    store_credential(
                        "b2", {"key_id": account["key_id"], "key": account["key"]}, home
                    )
                    if name == "ours":
                        row = ours(home, spec, "a", account["realm"])
                    else:
                        (root / "account.sqlite").unlink(missing_ok=True)
                        row = theirs(options.b2, spec, "a", account, root)
                    process.stdin.close()
                row["mib_s"] = size / (1 << 20) / row["wall_s"]
                rows[name].append(row)
                print(
                    f"  {name:5} {row['wall_s']:6.2f} s  {row['mib_s']:6.1f} MiB/s  "
                    f"{row['cpu_s']:5.2f} s CPU  {row['peak_mib']:6.1f} MiB"
                )
    return told(options, size, rows)


def told(options: argparse.Namespace, size: int, rows: dict[str, list[dict[str, float]]]) -> int:
    median: dict[str, dict[str, Any]] = {
        name: {key: round(statistics.median(row[key] for row in found), 3) for key in found[0]}
        for name, found in rows.items()
    }
    ratio = round(median["ours"]["mib_s"] / median["b2"]["mib_s"], 3)
    result = {
        "schema": "bs4.bench-sync/1",
        "rounds": options.rounds,
        "bytes": size,
        "b2": subprocess.run(
            [options.b2, "version"], capture_output=True, text=True, check=True
        ).stdout.strip(),
        "median": median,
        "runs": {
            name: [{key: round(value, 3) for key, value in row.items()} for row in found]
            for name, found in rows.items()
        },
        "throughput_ratio": ratio,
        "budget": BUDGET,
        "within": ratio >= BUDGET,
        "cpu_s_per_gib": {
            name: round(median[name]["cpu_s"] / (size / (1 << 30)), 2) for name in median
        },
        "machine": {
            "cpus": os.cpu_count(),
            "load1": round(os.getloadavg()[0], 2),
            "python": platform.python_version(),
            "own_peak_mib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
        },
    }
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(result, indent=1) + "\n")
    for name in ("ours", "b2"):
        row = median[name]
        print(
            f"{name:5} {row['mib_s']:6.1f} MiB/s   {row['cpu_s']:.2f} s CPU   "
            f"{row['peak_mib']:.0f} MiB"
        )
    print(f"throughput {ratio} of `b2 sync` (at least {BUDGET})")
    return 0 if ratio >= BUDGET else 1


if __name__ == "__main__":
    sys.exit(main())
