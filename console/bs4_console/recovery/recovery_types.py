"""The types between the controller and its actions on the world: limits, what is saved, offered and
reported, and the errors of an action that failed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from bs4_console.errors import UNREACHABLE, ConsoleError
from bs4_console.pods.liveness import Sign, Verdict
from bs4_console.recovery.state import Where


@dataclass(frozen=True)
class Limits:
    """What the recovery controller may spend on one run. Prices and budgets are in US dollars;
    `max_price` is per hour for the whole machine. After `recoveries` recoveries in a row in which
    the run made no new training step, a person has to start the next one. A recovery has `ready_s`
    seconds from the rent of its machine to the first new training step.
    """

    max_price: float
    per_day: float
    per_run: float
    recoveries: int = 2
    ready_s: float = 3600.0


@dataclass(frozen=True)
class Saved:
    """The newest training step of a run whose checkpoint in the object store is complete and
    verified. `bytes` is the size of that checkpoint's files.
    """

    step: int
    bytes: int


@dataclass(frozen=True)
class Chosen:
    """The offer that a recovery plan would rent. `price` is in US dollars an hour. `offer` is the
    object that `create` needs to rent it; it is not shown.
    """

    provider: str
    id: str
    gpu: str
    count: int
    price: float
    offer: Any = field(default=None, repr=False, compare=False)

    def as_dict(self) -> dict[str, Any]:
        """Return the fields for showing the plan, as a dictionary without `offer`."""
        shown = dict(vars(self))
        del shown["offer"]
        return shown


@dataclass(frozen=True)
class Report:
    """What the pod itself says of the run. `step` is the run's newest training step, and `complete`
    the newest step whose checkpoint is complete on the pod's disk; None means unknown. `finished`
    is True if the run ended well, and `failed` says why its newest attempt ended badly ("" if it
    did not).
    """

    step: int | None = None
    complete: int | None = None
    finished: bool = False
    failed: str = ""
    """Why the newest attempt ended badly. Empty while it runs or after a good end."""
    orders: tuple[Mapping[str, Any], ...] = ()
    """The run's standing orders on the pod (pods/carried_orders.py)."""


class Absent(ConsoleError):
    """Raised if the provider surely has no machine with the label for which `create` or `find` was
    called.
    """


class Doubt(ConsoleError):
    """Raised if it cannot be determined whether the provider has a machine with the label for which
    `create` or `find` was called.
    """

    exit_code = UNREACHABLE


class Failed(ConsoleError):
    """Raised if a part of a recovery (set-up, restore, launch) cannot succeed on this machine. The
    message says why.
    """


class Hands(Protocol):
    """The actions that the recovery controller can take on providers, pods and stores for one run.
    `where` is always the machine on which to act. Each method may be called again if an earlier
    call was interrupted at any point. A ConsoleError other than those that the method names means
    that the action is not possible now; the controller tries again at its next poll.
    """

    async def signs(self, where: Where) -> Sequence[Sign]:
        """Poll the machine `where` once through every source (its link, the provider and others)
        and return the signs from which it is judged whether the machine is lost. Their times are in
        seconds of the controller's clock.
        """

    async def report(self, where: Where) -> Report | None:
        """Return what the pod says of the run: its newest step, its state, and its standing orders
        (what a person wants done for it until further notice, such as a checkpoint sync). Return
        None if the pod does not answer.
        """

    async def saved(self) -> Saved | None:
        """Return the newest training step of the run whose checkpoint in the object store is
        complete and verified, or None if the store holds none. If the store does not answer, its
        error is raised.
        """

    async def choose(self, most: float) -> Chosen | None:
        """Return the cheapest offer for at most `most` US dollars an hour, or None if there is no
        such offer.
        """

    async def create(self, chosen: Chosen, label: str, may: Callable[[], bool]) -> Where:
        """Rent the chosen offer once, under `label`, and return the new machine. `may` is called
        just before the request; if it returns False, nothing is sent. Raises Absent if surely
        nothing was rented, and Doubt if a machine may exist.
        """

    async def find(self, label: str, provider: str) -> Where:
        """Find the machine with exactly this label at the provider and return it. Raises Absent if
        no machine has the label, and Doubt if this cannot be determined.
        """

    async def set_up(self, where: Where) -> Where | None:
        """Continue to prepare a new machine so that a run can be restored on it. Return the machine
        with its address once it is ready, or None while the work continues. Raises Failed if it
        cannot succeed.
        """

    async def restore(self, where: Where, step: int) -> bool:
        """Continue to fetch the checkpoint of the training step `step` from the object store to the
        machine. Return True once it is complete there, and False while the work continues. Raises
        Failed if it cannot succeed.
        """

    async def launch(self, where: Where, step: int, orders: Sequence[Mapping[str, Any]]) -> bool:
        """Resume the run on the machine from the restored training step `step`, in the same W&B
        runs and with the same arguments. `orders` are the run's standing orders, which may hold
        further launch arguments. Return True once its processes run, and False while the work
        continues. Raises Failed if it cannot succeed.
        """

    async def order(self, where: Where, orders: Sequence[Mapping[str, Any]]) -> Sequence[str]:
        """Give the run on its new machine the standing orders that it had before, `orders`: what a
        person wants done for it until further notice. They include a checkpoint sync in any case.
        Return a sentence for each order that the pod refused; the sequence is empty if none was.
        Raises Failed if the sync was refused.
        """

    async def terminate(self, where: Where, may: Callable[[], bool]) -> bool:
        """End the machine. Return True once the provider no longer has it, and False if it may
        still exist. `may` is called just before the first order; if it returns False, no order is
        sent.
        """


Word = Literal[
    "watching",
    "plan",
    "waiting",
    "recovering",
    "recovered",
    "stopped",
    "held",
    "finishing",
    "finished",
]


@dataclass(frozen=True)
class Outcome:
    """The result of one poll by the recovery controller: a word, a sentence for a person, and an
    exit code. `exit_code` is 0 if all is well, 1 if something was not achieved, 3 if the state is
    unknown, and 4 if a plan waits for a person's confirmation or another controller holds the
    lease. `verdict` says what became of the machine and `plan` what would be done about it; each is
    None if the poll made none. `lost` is the name of the pod that was lost, if the poll found it
    lost or went on with its recovery, or "".
    """

    word: Word
    sentence: str
    exit_code: int
    verdict: Verdict | None = None
    plan: dict[str, Any] | None = None
    lost: str = ""
