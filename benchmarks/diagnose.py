"""diagnose against `grep -E` with as many alternatives, over the same files in the same minute.

    python benchmarks/diagnose.py [--megabytes 100] [--json FILE]

Five logs are made: a healthy run's orchestrator log, a failing one in which every third line
belongs to an error, one in which every third line is of another failure's own cases, near misses
and all, the same in pure ASCII, and random printable text. grep gets one text for every signature
that ships (what the signature needs) and counts; diagnose does all of its work, start-up and
reading the playbooks included. Its modules are compiled once, as those of an installed console are,
also where PYTHONDONTWRITEBYTECODE is set. Each pair is run three times in turn, and the ratio of
the fastest two counts: the machine is shared. The limit is 15; 10 is the aim.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import yaml

from bs4_console.failures.patterns import literals
from bs4_console.failures.playbooks import lint

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks import profiles  # noqa: E402 (the checkout's root must be importable)

RESULT = ROOT / "benchmarks" / "results" / "diagnose.json"
LIMIT, ROUNDS = 15.0, 3
_CLI = "import sys; from bs4_console.cli.main import main; sys.exit(main())"


def _clock(number: int) -> str:
    second = number // 2 % 86400
    return f"{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}"


def healthy() -> Iterator[str]:
    """What an orchestrator of the current generation writes: mostly heartbeats, now and then a
    step, an evaluation, a checkpoint.
    """
    rng = random.Random(1)
    number = 0
    while True:
        number += 1
        clock = _clock(number)
        if number % 30 == 0:
            yield (
                f"{clock} SUCCESS Step {number // 30} | 31.{number % 10}s | Reward "
                f"{rng.random():.4f} | Trainable 120/128 (93.8%)"
                " | Turns 3.1 | Branches 1.0 | Max Off-Policy 1 | Error 0.0% | Cancelled 0.0% | "
                "Truncation 1.2%"
            )
        elif number % 300 == 7:
            yield f"{clock}    INFO Saving checkpoint at step {number // 30}"
        elif number % 30 == 1:
            yield f"{clock}    INFO Updating policy in-flight to v{number // 30}"
        elif number % 50 == 3:
            yield (
                f"{clock} WARNING Cancelled {number % 5} train episodes past "
                "max_off_policy_steps=8. Consider increasing it."
            )
        else:
            yield (
                f"{clock}    INFO Train batch {number % 128}/128 ({number % 100}.0%) "
                f"(+{number % 9} buffered); {number % 50} inflight"
                f" episodes (train={number % 40}, eval=0, groups={number % 12})"
            )


def failing() -> Iterator[str]:
    """Every third line belongs to an error that some rule knows, with its traceback; the others are
    a healthy run's.
    """
    lines = healthy()
    number = 0
    while True:
        number += 1
        yield next(lines)
        yield next(lines)
        yield (
            f"{_clock(number)}   ERROR Rollout failed: APIConnectionError('Connection error.')",
            "Traceback (most recent call last):",
            (
                '  File "/app/.venv/lib/python3.11/site-packages/httpx/_transports/default.py", '
                "line 118, in map_httpcore_exceptions"
            ),
            "httpx.ConnectError: All connection attempts failed",
            (
                f"{_clock(number)} WARNING Inference server was not reached after {number % 600} "
                "seconds (Error: x) on http://127.0.0.1:8000"
            ),
            "OSError: [Errno 28] No space left on device",
        )[number % 6]


def mixed() -> Iterator[str]:
    """Every third line is one of the cases of all failures that an orchestrator's log shows: what
    must fire and what must not, in turn.
    """
    lines, cases = healthy(), []
    for path in sorted((ROOT / "playbooks").glob("*/*.yaml")):
        given = yaml.safe_load(path.read_text()).get("cases", {})
        cases += [
            case["log"]
            for side in ("positive", "negative")
            for case in given.get(side, ())
            if case["source"] == "orchestrator"
        ]
    while True:
        for case in cases:
            for line in case.splitlines():
                yield next(lines)
                yield next(lines)
                yield line


def ascii_mixed() -> Iterator[str]:
    """The same in pure ASCII, which neither side needs to decode."""
    for line in mixed():
        yield line.encode("ascii", "ignore").decode()


def noise() -> Iterator[str]:
    rng = random.Random(2)
    words = [
        "".join(rng.choices("etaoinshrdlucmfwypvbgkjqxz", k=rng.randint(2, 9))) for _ in range(3000)
    ]
    words += (
        [word.upper() for word in words[:100]]
        + [str(n) for n in range(200)]
        + ["Error", "failed", "{", "}", "==", "//"]
    )
    while True:
        yield " ".join(rng.choices(words, k=14))


def make(path: Path, lines: Callable[[], Iterator[str]], size: int) -> None:
    with path.open("w") as file:
        written = 0
        for line in lines():
            written += file.write(line + "\n")
            if written >= size:
                return


def alternatives(path: Path) -> int:
    """One text a signature, as an extended regular expression."""
    texts = []
    for entry in lint()[0]:
        for signature in entry.get("detect", {}).get("logs", ()):
            found = literals(signature["pattern"])
            if found:
                texts.append(
                    re.sub(r"([\[\].*+?(){}|^$\\])", r"\\\1", found[0].removeprefix("(?i)"))
                )
    path.write_text("|".join(texts))
    return len(texts)


def timed(command: list[str]) -> tuple[float, float, bytes]:
    """(wall, CPU) seconds of a child and what it printed."""
    before = os.times()
    started = time.perf_counter()
    done = subprocess.run(
        command,
        capture_output=True,
        check=False,
        env={**profiles.compiled(None), "LC_ALL": "C.UTF-8"},
    )
    wall = time.perf_counter() - started
    after = os.times()
    if done.returncode not in (0, 1):
        raise SystemExit(f"{command[0]} failed: {done.stderr.decode()[-500:]}")
    used = (
        after.children_user + after.children_system - before.children_user - before.children_system
    )
    return wall, used, done.stdout


def measure(directory: Path, megabytes: int) -> dict[str, Any]:
    pattern = directory / "alternatives"
    count = alternatives(pattern)
    rows = {}
    for name, lines in (
        ("healthy", healthy),
        ("failing", failing),
        ("mixed", mixed),
        ("ascii", ascii_mixed),
        ("noise", noise),
    ):
        log = directory / f"{name}.log"
        make(log, lines, megabytes << 20)
        grep = ["grep", "-c", "-E", "-f", str(pattern), str(log)]
        words = ["diagnose", "--source", "orchestrator", "--json", str(log)]
        ours = [sys.executable, "-c", _CLI, *words]
        pairs = [(timed(grep), timed(ours)) for _ in range(ROUNDS)]
        found = [finding["id"] for finding in json.loads(pairs[0][1][2])["findings"]]
        wall = [min(pair[side][0] for pair in pairs) for side in (0, 1)]
        cpu = [min(pair[side][1] for pair in pairs) for side in (0, 1)]
        rows[name] = {
            "grep_s": round(wall[0], 3),
            "diagnose_s": round(wall[1], 3),
            "ratio": round(wall[1] / wall[0], 1),
            "grep_cpu_s": round(cpu[0], 3),
            "diagnose_cpu_s": round(cpu[1], 3),
            "cpu_ratio": round(cpu[1] / cpu[0], 1),
            "findings": found,
            "profile": profiles.calls(words),
        }
        print(
            f"{name:8} grep {wall[0]:.2f} s, diagnose {wall[1]:.2f} s: {wall[1] / wall[0]:.1f} "
            f"times (CPU {cpu[1] / cpu[0]:.1f}); {found}"
        )
        log.unlink()
    return {"megabytes": megabytes, "alternatives": count, "limit": LIMIT, "logs": rows}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--megabytes", type=int, default=100)
    parser.add_argument("--json", type=Path, default=RESULT)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        result = measure(Path(directory), options.megabytes)
    options.json.write_text(json.dumps(result, indent=2) + "\n")
    return 0 if all(row["ratio"] <= LIMIT for row in result["logs"].values()) else 1


if __name__ == "__main__":
    sys.exit(main())
