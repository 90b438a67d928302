"""Why nothing was rented, or why it is not known: each with the next thing to do."""

from __future__ import annotations

from collections.abc import Sequence

from bs4_console.errors import FINDING, UNREACHABLE, ConsoleError, RefusedError
from bs4_console.providers.base import Machine, Offer
from bs4_console.provision.book import Intent


class NoOffers(ConsoleError):
    """Nothing fits, or nothing that fits is cheap enough. `cheapest` is the best one above the
    cap.
    """

    exit_code = FINDING

    def __init__(self, message: str, next_step: str, cheapest: Offer | None) -> None:
        super().__init__(message, next_step)
        self.cheapest = cheapest


class OverBudget(RefusedError):
    """A price cap or a spend cap forbids it."""


class AlreadyThere(RefusedError):
    """The run has a machine, or may have one: another would be paid for and not needed. `intents`
    are those.
    """

    def __init__(self, message: str, next_step: str, intents: Sequence[Intent]) -> None:
        super().__init__(message, next_step)
        self.intents = tuple(intents)


class Unsettled(ConsoleError):
    """Whether a machine was made could not be learned: the provider did not answer, or two machines
    carry one label.
    """

    exit_code = UNREACHABLE

    def __init__(
        self, message: str, next_step: str, intent: Intent, machines: Sequence[Machine] = ()
    ) -> None:
        super().__init__(message, next_step)
        self.intent = intent
        self.machines = tuple(machines)


class NothingMade(ConsoleError):
    """A create ended in doubt, and look after look found nothing. Nobody tries again by
    themselves.
    """

    exit_code = FINDING


class NotUp(ConsoleError):
    """A rented machine did not come up. It exists and may cost."""

    exit_code = FINDING

    def __init__(self, message: str, next_step: str, machine: Machine | None) -> None:
        super().__init__(message, next_step)
        self.machine = machine


class Dearer(NotUp):
    """The provider charges more than was offered and agreed."""


class NotGone(ConsoleError):
    """An end was ordered and the machine is still there."""

    exit_code = FINDING
