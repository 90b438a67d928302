"""The trainers that this program knows, and which of them a checkout is."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from bs4_console.errors import UNREACHABLE, ConsoleError
from bs4_console.trainers import prime_rl, prime_rl_2026_01, verl
from bs4_console.trainers.belief import Believed
from bs4_console.trainers.checking import State, Verdict, check
from bs4_console.trainers.checkout import Checkout

BELIEVED: dict[str, Believed] = {
    prime_rl_2026_01.BELIEVED.id: prime_rl_2026_01.BELIEVED,
    prime_rl.BELIEVED.id: prime_rl.BELIEVED,
    verl.BELIEVED.id: verl.BELIEVED,
}
#: Exit codes, as those of `check`.
OK, WARNING, CRITICAL, UNKNOWN = 0, 1, 2, 3


class NoTrainer(ConsoleError):
    """Raised when a directory is the source of no trainer that is known. Exit code 3."""

    exit_code = UNREACHABLE


@dataclass(frozen=True)
class Checked:
    """The check of a checkout against what is believed of one trainer."""

    trainer: Believed
    verdicts: list[Verdict]

    @property
    def counts(self) -> dict[State, int]:
        """Return how many beliefs are in each state."""
        counted = Counter(verdict.state for verdict in self.verdicts)
        states: tuple[State, ...] = ("holds", "moved", "gone", "unknown")
        return {state: counted[state] for state in states}

    @property
    def weaker(self) -> dict[str, int]:
        """Return the features of this program that are weaker with this checkout, each with the
        number of beliefs that do not hold for it, most first.
        """
        counted = Counter(verdict.weaker for verdict in self.verdicts if verdict.weaker)
        return dict(counted.most_common())

    @property
    def code(self) -> int:
        """Return the exit code: 2 if a belief is gone, else 3 if one is unknown, else 1 if one has
        moved and a feature is weaker for it, else 0.
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
        """Return one line that says how well this checkout is understood."""
        counts = self.counts
        others = []
        for state in ("moved", "gone", "unknown"):
            if counts[state]:
                others.append(f"{counts[state]} {state}")
        text = f"{self.trainer.title}: {counts['holds']} of {len(self.verdicts)} beliefs hold"
        return ", ".join([text, *others]) + "."


def checked(path: Path, trainer: str = "") -> Checked:
    """Hold the source in the directory `path` against what is believed of the trainer with the id
    `trainer`. With "" it is the trainer of which most beliefs hold.

    Raises UsageError if `path` is no directory, and NoTrainer if no belief holds of any trainer.
    """
    checkout = Checkout(path)
    if trainer:
        believed = BELIEVED[trainer]
        return Checked(believed, check(checkout, believed))
    best: Checked | None = None
    for believed in BELIEVED.values():
        one = Checked(believed, check(checkout, believed))
        if best is None or one.counts["holds"] > best.counts["holds"]:
            best = one
    if best is None or not best.counts["holds"]:
        raise NoTrainer(
            f"{path} is the source of no trainer that is known here.",
            "Name the top directory of the trainer's checkout, or the trainer with --trainer.",
        )
    return best
