"""Play rounds: `python -m tests.chaos --rounds N --seed S`. The exit code is 1 if one failed."""

from __future__ import annotations

import argparse
import asyncio
import shutil
import sys
import tempfile
import time
import traceback
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

from tests.chaos import earlier, report
from tests.chaos.console import ROOT
from tests.chaos.round import Outcome, options, play
from tests.chaos.staged import UPGRADE
from tests.support.pods import Pods


def one(seed: str, always: tuple[str, ...], before: str) -> tuple[Outcome, Path | None]:
    """Play the round of `seed` on a new pod, which begins with the console and agent of the commit
    `before` if one is named. Return how it ended, and the directory of its console if something was
    wrong; otherwise it is removed.
    """
    maker = Pods()
    tools = maker.directory / "tools"
    tools.mkdir()
    if maker.kind != "namespaced":
        raise SystemExit(f"chaos needs pods in namespaces of their own: {maker.describe()}")
    directory = Path(tempfile.mkdtemp(prefix="bs4-chaos-"))
    try:
        (pod,) = maker(1, **options(tools))
        tree = earlier.sources(before, maker.directory) if before else ROOT
        outcome = asyncio.run(play(pod, seed, directory, always, tree))  # type: ignore[arg-type]
    finally:
        maker.close()
    if outcome.problems:
        return outcome, directory
    shutil.rmtree(directory)
    return outcome, None


def rounds(
    seed: str,
    count: int,
    always: tuple[str, ...] = (),
    *,
    before: str = "",
    jobs: int = 1,
    first_failure: bool = False,
) -> list[Outcome]:
    """Play `count` rounds, each on a new pod, `jobs` of them at a time, and return how they ended,
    the first to end first. With `first_failure` none begins after one that failed.
    """
    outcomes = []
    with ProcessPoolExecutor(jobs) as pool:
        playing = {}
        for number in range(count):
            name = f"{seed}:{number}"
            playing[pool.submit(one, name, always, before)] = name
        for done in as_completed(playing):
            if (error := done.exception()) is not None:
                # The round itself broke. It counts as a failure, and the others go on.
                told = "".join(traceback.format_exception(error))
                outcome, directory = Outcome(playing[done], [], problems=[told]), None
            else:
                outcome, directory = done.result()
            outcomes.append(outcome)
            print(report.shown(outcome), flush=True)
            if directory is not None:
                print(f"  what the console kept: {directory}", flush=True)
            if outcome.problems and first_failure:
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
    parser.add_argument(
        "--before", default="", metavar="COMMIT", help="begin each round with its agent and console"
    )
    parser.add_argument("--first-failure", action="store_true", help="end after one that failed")
    parser.add_argument("--no-record", action="store_true", help="add no line to the results")
    asked = parser.parse_args()
    always = tuple(asked.always.split(",")) if asked.always else ()
    if asked.before:
        always = tuple(dict.fromkeys((*always, UPGRADE.name)))
    started = time.time()
    outcomes = rounds(
        asked.seed,
        asked.rounds,
        always,
        before=asked.before,
        jobs=asked.jobs,
        first_failure=asked.first_failure,
    )
    print(f"met: {report.counted(outcomes)}")
    failed = [outcome.seed for outcome in outcomes if outcome.problems]
    print(f"{len(outcomes) - len(failed)} good, {len(failed)} failed {' '.join(failed)}")
    if not asked.no_record:
        report.record(
            report.line(outcomes, asked.seed, started, time.time() - started, asked.before)
        )
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
