"""How long the agent takes from its start to its greeting, against the agent of an earlier commit,
in one run.

    python benchmarks/agent_start.py [COMMIT] [--pairs 20] [--json FILE]

Both bundles are unpacked and compiled as a deployment leaves them. In each pair both agents are
started as the console starts them (`attach --start`), each in a new home, and greeted. The seconds
run from the start of the command to the agent's greeting, so the first start of Python is in them.
The first pair is thrown away.
"""

from __future__ import annotations

import argparse
import compileall
import io
import json
import os
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.chaos import earlier  # noqa: E402

# The checkout's root must be importable for the sources of the earlier commit.
from bs4_common.wire import Decoder, encode  # noqa: E402
from bs4_practice import tree  # noqa: E402

RESULT = ROOT / "benchmarks" / "results" / "agent_start.json"
#: How much slower the agent may be, as a ratio of the medians: two runs of one agent differ so.
BUDGET = 1.05
HELLO = encode({"hello": {"protocols": [1], "client": "benchmark/0", "who": "bench@here"}})
_WRITE_BUNDLE = (
    "import sys; from bs4_console.transport.bundle import shipped; "
    "sys.stdout.buffer.write(shipped().data)"
)


def bundle(sources: Path, place: Path) -> Path:
    """Unpack and compile the agent of `sources` in `place`, and return `place`."""
    paths = f"{sources / 'console'}:{sources / 'agents'}"
    written = subprocess.run(
        [sys.executable, "-c", _WRITE_BUNDLE],
        cwd=sources,
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        check=True,
    )
    with tarfile.open(fileobj=io.BytesIO(written.stdout)) as archive:
        archive.extractall(place, filter="data")
    compileall.compile_dir(place, quiet=2)
    return place


def start(agent: Path) -> float:
    """Start the agent in a new home, greet it, stop it, and return the seconds to its greeting."""
    with tempfile.TemporaryDirectory(prefix="bs4-") as directory:
        home = Path(directory) / "h"
        words = [sys.executable, "-IS", str(agent / "bs4_agent" / "bootstrap.py")]
        begun = time.perf_counter()
        process = subprocess.Popen(
            [*words, "attach", "--start"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "BS4_HOME": str(home)},
        )
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(HELLO)
        process.stdin.flush()
        decoder = Decoder()
        while not (frames := decoder.feed(os.read(process.stdout.fileno(), 65536))):
            if process.poll() is not None:
                raise SystemExit("agent-start: the agent ended before its greeting.")
        seconds = time.perf_counter() - begun
        daemon = tree.look(int(frames[0].header["hello"]["pid"]))
        process.stdin.close()
        process.wait()
        if daemon is not None:
            tree.send(daemon, 15)
            while tree.alive(daemon):
                time.sleep(0.01)
    return seconds


def main() -> int:
    """Measure, print and write the result; return 1 if the agent starts too slowly."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("commit", nargs="?", default=earlier.BEFORE_THE_SPLIT)
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--json", type=Path, default=RESULT)
    options = parser.parse_args()
    commit, pairs = options.commit, options.pairs
    with tempfile.TemporaryDirectory(prefix="bs4-start-") as directory:
        place = Path(directory)
        agents = {
            "before": bundle(earlier.sources(commit, place), place / "before"),
            "now": bundle(ROOT, place / "now"),
        }
        seconds: dict[str, list[float]] = {"before": [], "now": []}
        for number in range(pairs + 1):
            for name, agent in agents.items():
                took = start(agent)
                if number:
                    seconds[name].append(round(took, 4))
    median = {name: round(statistics.median(values), 4) for name, values in seconds.items()}
    ratio = round(median["now"] / median["before"], 3)
    result = {
        "schema": "bs4.agent-start/1",
        "before": commit,
        "pairs": pairs,
        "median_s": median,
        "ratio": ratio,
        "budget": BUDGET,
        "within_budget": ratio <= BUDGET,
        "seconds": seconds,
    }
    options.json.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps({key: value for key, value in result.items() if key != "seconds"}, indent=1))
    return 0 if result["within_budget"] else 1


if __name__ == "__main__":
    sys.exit(main())
