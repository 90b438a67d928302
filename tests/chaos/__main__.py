"""Play rounds: `python -m tests.chaos --rounds N --seed S`. The exit code is 1 if one failed."""

from __future__ import annotations

import argparse
import asyncio
import shutil
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

from tests.chaos import report
from tests.chaos.round import Outcome, options, play
from tests.support.pods import Pods


def one(seed: str, always: tuple[str, ...]) -> tuple[Outcome, Path]:
    """Play the round of `seed` on a new pod. Return how it ended and the directory of its console,
    which is kept only if something was wrong.
    """
    maker = Pods()
    tools = maker.directory / "tools"
    tools.mkdir()
    if maker.kind != "namespaced":
        raise SystemExit(f"chaos needs pods in namespaces of their own: {maker.describe()}")
    directory = Path(tempfile.mkdtemp(prefix="bs4-chaos-"))
    try:
        (pod,) = maker(1, **options(tools))
        outcome = asyncio.run(play(pod, seed, directory, always))  # type: ignore[arg-type]
    finally:
        maker.close()
    if not outcome.problems:
        shutil.rmtree(directory)
    return outcome, directory


def rounds(
    seed: str,
    count: int,
    always: tuple[str, ...] = (),
    *,
    jobs: int = 1,
    first_failure: bool = False,
) -> list[Outcome]:
    """Play `count` rounds, each on a new pod, `jobs` of them at a time, and return how they ended,
    the first to end first. With `first_failure` none begins after one that failed.
    """
    outcomes = []
    with ProcessPoolExecutor(jobs) as pool:
        playing = [pool.submit(one, f"{seed}:{number}", always) for number in range(count)]
        for done in as_completed(playing):
            outcome, directory = done.result()
            outcomes.append(outcome)
            print(report.shown(outcome), flush=True)
            if outcome.problems:
                print(f"  what the console kept: {directory}", flush=True)
                if first_failure:
                    pool.shutdown(cancel_futures=True)
                    break
    return outcomes


def main() -> int:
    """Play the rounds that the command line asks for, print them, and write the result down."""
    parser = argparse.ArgumentParser(prog="chaos", description=__doc__)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--seed", default=str(round(time.time())))
    parser.add_argument("--jobs", type=int, default=1, help="rounds that are played at a time")
    parser.add_argument("--always", default="", help="kinds that every round has, with commas")
    parser.add_argument("--first-failure", action="store_true", help="end after one that failed")
    parser.add_argument("--no-record", action="store_true", help="add no line to the results")
    asked = parser.parse_args()
    always = tuple(asked.always.split(",")) if asked.always else ()
    started = time.time()
    outcomes = rounds(
        asked.seed, asked.rounds, always, jobs=asked.jobs, first_failure=asked.first_failure
    )
    print(f"met: {report.counted(outcomes)}")
    failed = [outcome.seed for outcome in outcomes if outcome.problems]
    print(f"{len(outcomes) - len(failed)} good, {len(failed)} failed {' '.join(failed)}")
    if not asked.no_record:
        report.record(report.line(outcomes, asked.seed, started, time.time() - started))
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
