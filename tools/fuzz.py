"""Fuzz our code: `python tools/fuzz.py SECONDS [TARGET ...]`.

Each target (tests/fuzz/targets) gets SECONDS of a process of its own. An input that breaks a
contract is copied to tests/fuzz/corpus/TARGET/, where a test tries it from then on, and the exit
code is 1. Each call adds one line to benchmarks/results/rounds.ndjson: when, which commit, whether
the tree had changes that are not in it, for how long, with which engine, how many inputs each
target got, and what was found.

atheris guides the search by the code that an input reaches. It is optional: it has builds for few
Pythons, and no test needs it. `pip install --group fuzz` adds it. Without it hypothesis makes the
inputs, and this says so.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import secrets
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tools.rounds import RESULTS, git  # noqa: E402

CORPUS = ROOT / "tests" / "fuzz" / "corpus"
#: What inputs reached in earlier rounds, so that a round goes on where the last one ended.
KEPT = ROOT / "build" / "fuzz"
#: Exit codes of tests/fuzz/engine.py and of libFuzzer for a broken contract.
FOUND = frozenset({70, 77})
#: Seconds that a process may take beyond its time: to start, and for an input that hangs.
SLACK_S = 120


@dataclass(frozen=True)
class Outcome:
    """The result of fuzzing one target, a part of our code to which inputs are fed. `engine` is the
    fuzzer (atheris or hypothesis), and `inputs` is how many inputs it has tried. `found` are the
    files with the inputs for which the target raised an error (a documented error for bad input
    does not count) or crashed. `message` is the end of the process's standard error.
    """

    engine: str
    inputs: int
    found: tuple[Path, ...]
    message: str


class FuzzerFailed(Exception):
    """The fuzzer itself ended without a result. Its text is the end of what it printed."""


def names() -> list[str]:
    """Return the names of all targets. A target is a part of the code that can be fuzzed by itself,
    such as "configs"; its module is in tests/fuzz/targets/.
    """
    script = "from tests.fuzz import targets; print(*targets.NAMES)"
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return done.stdout.split()


def engine() -> str:
    """Return which fuzzer this Python has: atheris or hypothesis."""
    if importlib.util.find_spec("atheris") is None:
        return "hypothesis"
    return "atheris"


def fuzz(
    target: str,
    seconds: float,
    directory: Path,
    *,
    seed: int,
    inputs: int | None = None,
    root: Path = ROOT,
    environment: Mapping[str, str] | None = None,
) -> Outcome:
    """Fuzz one target in a process of its own, and return how many inputs it tried and which of
    them broke the target's contract. The process runs the code of the tree at `root`, with the
    environment variables `environment` (None: those of this process). It ends after `seconds`, or
    after `inputs` inputs if that is earlier (None: any number). `seed` is the seed of the random
    inputs.

    Inputs that break the contract are written to the folder `found` in `directory`, which is
    emptied first. Raises FuzzerFailed if the process fails, or has not ended 120 seconds after its
    time.
    """
    shutil.rmtree(directory / "found", ignore_errors=True)
    words = [target, str(seconds), str(directory), str(seed)]
    if inputs is not None:
        words.append(str(inputs))
    try:
        done = subprocess.run(
            [sys.executable, "-m", "tests.fuzz.engine", *words],
            cwd=root,
            env=environment,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=seconds + SLACK_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise FuzzerFailed(f"{target} did not end {SLACK_S} s after its time.") from None
    current = directory / "current"
    if done.returncode < 0 and current.exists():
        # The input ended the process itself, by a segmentation fault for example.
        current.rename(directory / "found" / f"signal-{-done.returncode}")
    found = tuple(sorted((directory / "found").glob("*")))
    if (done.returncode > 0 and done.returncode not in FOUND) or (done.returncode and not found):
        raise FuzzerFailed(f"{target} ended with {done.returncode}: {done.stderr[-2000:]}")
    told: dict[str, Any] = {"engine": engine(), "inputs": 0}
    for line in done.stdout.splitlines():
        if line.startswith('{"engine"'):
            told = json.loads(line)
    return Outcome(told["engine"], told["inputs"], found, done.stderr[-3000:])


def main(arguments: Sequence[str] | None = None) -> int:
    """Fuzz each target that the command line names, or all, for the given number of seconds. Print
    the results and add them to the file RESULTS. Return 1 if an input broke something, else 0.
    """
    parser = argparse.ArgumentParser(description="Fuzz our code.")
    parser.add_argument("seconds", type=float, help="seconds for each target")
    parser.add_argument("targets", nargs="*", help="names of targets; all where none is given")
    given = parser.parse_args(arguments)
    known = names()
    unknown = sorted(set(given.targets) - set(known))
    if unknown:
        parser.error(f"there is no target {unknown[0]}; choose from {', '.join(known)}")
    if engine() == "hypothesis":
        print(
            "atheris is not installed, so hypothesis makes the inputs and nothing guides the "
            "search. `.venv/bin/python -m pip install --group fuzz` adds it."
        )
    commit, changed = git("rev-parse", "--short", "HEAD"), bool(git("status", "--porcelain"))
    started = time.time()
    inputs: dict[str, int] = {}
    broken: dict[str, list[str]] = {}
    for target in given.targets or known:
        outcome = fuzz(target, given.seconds, KEPT / target, seed=secrets.randbits(31))
        inputs[target] = outcome.inputs
        print(f"{target:12} {outcome.engine:10} {outcome.inputs:>9,} inputs", flush=True)
        if outcome.found:
            broken[target] = _kept(target, outcome)
    line = {
        "t": round(started),
        "commit": commit,
        "changed": changed,
        "fuzz": engine(),
        "seconds_each": given.seconds,
        "inputs": inputs,
        "found": broken,
        "seconds": round(time.time() - started),
    }
    with RESULTS.open("a") as results:
        results.write(json.dumps(line) + "\n")
    print(f"{RESULTS.relative_to(ROOT)}: {line}")
    return int(bool(broken))


def _kept(target: str, outcome: Outcome) -> list[str]:
    """Copy what was found to the corpus, say why each is one, and return the names."""
    place = CORPUS / target
    place.mkdir(exist_ok=True)
    kept = []
    for path in outcome.found:
        shutil.copyfile(path, place / path.name)
        kept.append(path.name)
    print(outcome.message)
    print(
        f"{target}: tests/fuzz/corpus/{target}/{kept[0]} breaks the contract. Mend the code, then "
        "run tests/fuzz/test_corpus.py, and commit the input with the change."
    )
    return kept


if __name__ == "__main__":
    sys.exit(main())
