"""The errors of renting: nothing was rented, or the result is not known. Each has the next thing to
do.
"""

from __future__ import annotations

from collections.abc import Sequence

from bs4_console.errors import FINDING, UNREACHABLE, ConsoleError, RefusedError
from bs4_console.providers.base import Machine, Offer
from bs4_console.provision.book import Intent


class NoOffers(ConsoleError):
    """Raised if no offer fits, or no fitting offer is cheap enough. `cheapest` is the best offer
    above the cap, or None.
    """

    exit_code = FINDING

    def __init__(self, message: str, next_step: str, cheapest: Offer | None) -> None:
        super().__init__(message, next_step)
        self.cheapest = cheapest


class OverBudget(RefusedError):
    """Raised if a price cap or a spend cap forbids the rent."""


class AlreadyThere(RefusedError):
    """Raised if the run has a machine or may have one, so that another would cost money without
    need. `intents` are the intents of these machines.
    """

    def __init__(self, message: str, next_step: str, intents: Sequence[Intent]) -> None:
        super().__init__(message, next_step)
        self.intents = tuple(intents)


class Unsettled(ConsoleError):
    """Raised if it could not be learned whether a machine was made: the provider did not answer, or
    two machines carry the same label. `intent` is the rent in doubt, and `machines` are the
    machines with its label.
    """

    exit_code = UNREACHABLE

    def __init__(
        self, message: str, next_step: str, intent: Intent, machines: Sequence[Machine] = ()
    ) -> None:
        super().__init__(message, next_step)
        self.intent = intent
        self.machines = tuple(machines)


class NothingMade(ConsoleError):
    """Raised if no machine was made: every offer of the plan failed, or several scans after a
    create in doubt found no machine. Nothing is tried again automatically.
    """

    exit_code = FINDING


class NotUp(ConsoleError):
    """Raised if a rented machine did not come up. Unless `machine` is None the machine still exists
    and may cost money.
    """

    exit_code = FINDING

    def __init__(self, message: str, next_step: str, machine: Machine | None) -> None:
        super().__init__(message, next_step)
        self.machine = machine


class Dearer(NotUp):
    """Raised if the provider charges more for a machine than the price cap allows."""


class NotGone(ConsoleError):
    """Raised if the end of a machine was ordered and the machine still exists."""

    exit_code = FINDING
