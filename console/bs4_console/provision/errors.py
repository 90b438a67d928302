"""The errors of renting: nothing was rented, or the result is not known. Each has the next thing to
do.
"""

from __future__ import annotations

from collections.abc import Sequence

from bs4_console.errors import FINDING, UNREACHABLE, ConsoleError, RefusedError
from bs4_console.providers.base import Machine, Offer
from bs4_console.provision.book import Intent


class NoOffers(ConsoleError):
    """Raised if no offer fits the search, or if every offer that fits costs more than the price cap
    (the highest price that is allowed). `cheapest` is the cheapest offer above the cap that fits,
    or None if none fits at all.
    """

    exit_code = FINDING

    def __init__(self, message: str, next_step: str, cheapest: Offer | None) -> None:
        super().__init__(message, next_step)
        self.cheapest = cheapest


class OverBudget(RefusedError):
    """Raised if renting a machine would exceed the spend cap of its run, the most that may be spent
    on it in US dollars.
    """


class AlreadyThere(RefusedError):
    """Raised if the run has a machine already, may have one, or is just getting one, so that
    another would cost money without need. `intents` are the attempts to rent these machines that
    are in the journal of rented machines.
    """

    def __init__(self, message: str, next_step: str, intents: Sequence[Intent]) -> None:
        super().__init__(message, next_step)
        self.intents = tuple(intents)


class Unsettled(ConsoleError):
    """Raised if it cannot be found out whether a machine was made, because the provider did not
    answer or two machines have the same label. `intent` is the attempt to rent the machine, and
    `machines` are the machines that have its label.
    """

    exit_code = UNREACHABLE

    def __init__(
        self, message: str, next_step: str, intent: Intent, machines: Sequence[Machine] = ()
    ) -> None:
        super().__init__(message, next_step)
        self.intent = intent
        self.machines = tuple(machines)


class NothingMade(ConsoleError):
    """Raised if no machine was made. Either every offer of the plan has failed, or it was unclear
    whether a request had made a machine, and several searches have then found none. The console
    does not try again by itself.
    """

    exit_code = FINDING


class NotUp(ConsoleError):
    """Raised if a rented machine did not start or cannot be reached. `machine` is that machine,
    which still exists and may cost money, or None if it has ended.
    """

    exit_code = FINDING

    def __init__(self, message: str, next_step: str, machine: Machine | None) -> None:
        super().__init__(message, next_step)
        self.machine = machine


class Dearer(NotUp):
    """Raised if the provider charges more for a rented machine than the highest price that a person
    has allowed. The machine exists and costs money until a person ends it.
    """


class NotGone(ConsoleError):
    """Raised if a machine still exists, and may cost money, although the console has tried to end
    it.
    """

    exit_code = FINDING
