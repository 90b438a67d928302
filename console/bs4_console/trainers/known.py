"""The trainers that this program knows, and which of them a checkout is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from bs4_console.errors import UNREACHABLE, ConsoleError
from bs4_console.trainers import prime_rl, prime_rl_2026_01, verl
from bs4_console.trainers.belief import Believed
from bs4_console.trainers.checking import State, Verdict, check
from bs4_console.trainers.checkout import Checkout, Code

BELIEVED: dict[str, Believed] = {
    prime_rl_2026_01.BELIEVED.id: prime_rl_2026_01.BELIEVED,
    prime_rl.BELIEVED.id: prime_rl.BELIEVED,
    verl.BELIEVED.id: verl.BELIEVED,
}
#: Exit codes, as those of `check`.
OK, WARNING, CRITICAL, UNKNOWN = 0, 1, 2, 3


class NoTrainer(ConsoleError):
    """Raised when a directory has the source of no trainer that this program knows. The command
    then ends with exit code 3.
    """

    exit_code = UNREACHABLE


class OtherSource(ConsoleError):
    """Raised when a directory does not have the source of the trainer that a person named. The
    command then ends with exit code 2.
    """

    exit_code = CRITICAL


@dataclass(frozen=True)
class Checked:
    """The result of comparing a trainer's source on disk with the beliefs (statements about the
    source) of `trainer`. `verdicts` has one verdict for each belief.
    """

    trainer: Believed
    verdicts: list[Verdict]

    @property
    def counts(self) -> dict[State, int]:
        """Return how many beliefs (statements about the trainer's source) are in each state, as
        {state: number}. The states are "holds", "moved", "gone" and "unknown"; see `Verdict`.
        """
        counted = Counter(verdict.state for verdict in self.verdicts)
        states: tuple[State, ...] = ("holds", "moved", "gone", "unknown")
        return {state: counted[state] for state in states}

    @property
    def weaker(self) -> dict[str, int]:
        """Return the features of this program that work worse with this source, as {feature:
        number}, the highest number first. The number counts the beliefs (statements about the
        source) because of which the feature works worse.
        """
        counted = Counter(verdict.weaker for verdict in self.verdicts if verdict.weaker)
        return dict(counted.most_common())

    @property
    def code(self) -> int:
        """Return the exit code: 2 if something is gone from the source that a belief (a statement
        about it) expects; else 3 if a belief could not be checked; else 1 if something has moved
        and a feature works worse because of that; else 0.
        """
        weaker = {verdict.state for verdict in self.verdicts if verdict.weaker}
        if "gone" in weaker:
            return CRITICAL
        if "unknown" in weaker:
            return UNKNOWN
        if weaker:
            return WARNING
        return OK

    @property
    def headline(self) -> str:
        """Return one line for a person that says how many of the beliefs (statements about the
        trainer's source) are true of this checkout.
        """
        counts = self.counts
        others = []
        for state in ("moved", "gone", "unknown"):
            if counts[state]:
                others.append(f"{counts[state]} {state}")
        text = f"{self.trainer.title}: {counts['holds']} of {len(self.verdicts)} beliefs hold"
        return ", ".join([text, *others]) + "."


def files(trainers: Iterable[Believed]) -> list[str]:
    """Return the paths, sorted, of the files of the source that are named in the beliefs
    (statements about the source) of these trainers.
    """
    return sorted({belief.place.file for one in trainers for belief in one.beliefs})


def checked(path: Path, trainer: str = "") -> Checked:
    """Compare the source in the directory `path` with the beliefs (statements about the source) of
    the trainer with the id `trainer`, and return the result. If `trainer` is "", the trainer with
    the most true beliefs is taken.

    Raises UsageError if `path` is no directory, NoTrainer if no belief of any trainer is true, and
    OtherSource if a trainer is named and the source has nothing of it: none of the Python files
    that its beliefs name, and nothing else that they expect.
    """
    return held(Checkout(path), str(path), trainer)


def held(code: Code, name: str, trainer: str = "") -> Checked:
    """Compare the source `code` with the beliefs (statements about the source) of the trainer with
    the id `trainer`, and return the result. `name` is the name of the source in error messages. If
    `trainer` is "", the trainer with the most true beliefs is taken.

    Raises NoTrainer if no belief of any trainer is true, and OtherSource if a trainer is named and
    the source has nothing of it: none of the Python files that its beliefs name, and nothing else
    that they expect.
    """
    if trainer:
        found = _one(code, BELIEVED[trainer])
        if found is None:
            raise OtherSource(
                f"{name} is no checkout of {trainer}: none of its files that are looked at is "
                "there.",
                "Name the top directory of a checkout, or another trainer.",
            )
        return found
    best: Checked | None = None
    for believed in BELIEVED.values():
        one = _one(code, believed)
        if one is not None and (best is None or one.counts["holds"] > best.counts["holds"]):
            best = one
    if best is None or not best.counts["holds"]:
        raise NoTrainer(
            f"{name} is the source of no trainer that is known here.",
            "Name the top directory of the trainer's checkout, or the trainer with --trainer.",
        )
    return best


def _one(code: Code, believed: Believed) -> Checked | None:
    """Return the check of a source against one trainer, or None if nothing of the trainer is there:
    none of the Python files that beliefs name, and nothing that a belief is about elsewhere.
    """
    found = Checked(believed, check(code, believed))
    there = any(code.has(file) for file in files([believed]) if file.endswith(".py"))
    if there or found.counts["holds"] or found.counts["moved"]:
        return found
    return None
