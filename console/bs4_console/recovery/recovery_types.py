"""The types between the controller and its actions on the world: limits, what is saved, offered and
reported, and the errors of an action that failed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NotRequired, Protocol, TypedDict

from bs4_console.errors import UNREACHABLE, ConsoleError
from bs4_console.pods.carried_orders import Order
from bs4_console.pods.liveness import Sign, Verdict
from bs4_console.recovery.state import Where


@dataclass(frozen=True)
class Limits:
    """What the recovery controller may spend on one run. Prices and budgets are in US dollars:
    `max_price` is per hour for the whole machine, and `per_day` and `per_run` are for a day and for
    the whole run. `recoveries` is how many recoveries in a row may go by without a new training
    step of the run; after that a person has to start the next one. A recovery may take `ready_s`
    seconds from renting its machine to the first new training step.
    """

    max_price: float
    per_day: float
    per_run: float
    recoveries: int = 2
    ready_s: float = 3600.0


@dataclass(frozen=True)
class Saved:
    """The newest training step of a run whose checkpoint in the object store is complete and
    verified (`step`). `bytes` is the size of that checkpoint.
    """

    step: int
    bytes: int


class ShownOffer(TypedDict):
    """The offer of a machine, as the plan of a recovery shows it. `provider` and `id` identify it,
    and `gpu` is the name of its GPU.
    """

    provider: str
    id: str
    gpu: str
    count: int
    """The number of GPUs."""
    price: float
    """US dollars an hour for the whole machine."""


class DecidedPlan(TypedDict):
    """The part of a recovery's plan on which a person decides, and of which the plan's hash is
    made. It says that `run` goes on on a new machine.
    """

    run: str
    lost: Sequence[str | None]
    """The lost machine: its name in the inventory, its provider and the provider's id."""
    step: int
    """The training step from which the run goes on."""
    recovery: int
    """The number of this recovery, from 1."""
    max_price: float
    """The most that the new machine may cost, in US dollars an hour."""


class RecoveryPlan(DecidedPlan):
    """The plan of one recovery: a run whose machine is lost goes on on a new one. A person confirms
    the plan by its `hash`.
    """

    hash: str
    most: float
    """The most that the new machine may cost now, within the budgets, in US dollars an hour."""
    bytes: int
    """The size in bytes of the checkpoint that has to be fetched from the object store."""
    steps_lost: int | None
    """How many training steps have to be done again, or None if it is not known how far the run
    was.
    """
    spent_today: float
    """What recoveries of the run have cost in the last 24 hours, in US dollars."""
    spent: float
    """What they have cost in all, in US dollars."""
    offer: NotRequired[ShownOffer | None]
    """The cheapest offer now, or None if there is none. It is missing if offers were not searched
    for.
    """


@dataclass(frozen=True)
class Chosen:
    """The offer of a machine that a recovery plan would rent. `price` is in US dollars an hour.
    `offer` is the object that `create` needs to rent it; it is not shown.
    """

    provider: str
    id: str
    gpu: str
    count: int
    price: float
    offer: Any = field(default=None, repr=False, compare=False)

    def as_dict(self) -> ShownOffer:
        """Return the offer as a dictionary of JSON values, by which the plan is shown. The field
        `offer` is left out.
        """
        return {
            "provider": self.provider,
            "id": self.id,
            "gpu": self.gpu,
            "count": self.count,
            "price": self.price,
        }


@dataclass(frozen=True)
class Report:
    """What a pod itself says of a run. `step` is the run's newest training step, and `complete` the
    newest step whose checkpoint is complete on the pod's disk; None means unknown. `finished` is
    True if the run ended well.
    """

    step: int | None = None
    complete: int | None = None
    finished: bool = False
    failed: str = ""
    """Why the newest attempt (life of the run's processes) ended badly. "" if it is alive or ended
    well.
    """
    orders: tuple[Order, ...] = ()
    """The run's standing orders on the pod: what a person wants done for it until further
    notice.
    """


class Absent(ConsoleError):
    """Raised if it is certain that the provider has no machine with the label for which `create` or
    `find` was called.
    """


class Doubt(ConsoleError):
    """Raised if it cannot be found out whether the provider has a machine with the label for which
    `create` or `find` was called.
    """

    exit_code = UNREACHABLE


class Failed(ConsoleError):
    """Raised if a part of a recovery (set-up, restore, launch) cannot succeed on this machine. The
    message says why.
    """


class Hands(Protocol):
    """The actions that the recovery controller can take on providers, pods and object stores for
    one run. `where` is always the machine on which to act. Each method may be called again if an
    earlier call was interrupted at any point. A ConsoleError that a method does not name means that
    the action is not possible now; the controller tries again at its next poll.
    """

    async def signs(self, where: Where) -> Sequence[Sign]:
        """Poll the machine `where` once through every source (its connection, the provider and
        others), and return what they showed as signs (who saw it, when, and in which state), from
        which it is judged if the machine is lost. Their times are in seconds of the controller's
        monotonic clock.
        """

    async def report(self, where: Where) -> Report | None:
        """Return what the pod on the machine `where` says of the run: its newest training step, if
        and how it has ended, and its standing orders (what a person wants done for it until further
        notice, such as copying its checkpoints). Return None if the pod does not answer.
        """

    async def saved(self) -> Saved | None:
        """Return the newest training step of the run whose checkpoint in the object store is
        complete and verified, with the size of the checkpoint. Return None if the object store has
        none. If the object store does not answer, its error is raised.
        """

    async def choose(self, most: float) -> Chosen | None:
        """Return the cheapest offer that fits the run and costs at most `most` US dollars an hour,
        or None if there is no such offer.
        """

    async def create(self, chosen: Chosen, label: str, may: Callable[[], bool]) -> Where:
        """Rent the machine of the offer `chosen` once, under the label `label`, and return it.
        `may` is called just before the request; if it returns False, nothing is sent, and Absent is
        raised. Raises Absent too if it is certain that nothing was rented, and Doubt if a machine
        may exist.
        """

    async def find(self, label: str, provider: str) -> Where:
        """Find the machine with exactly this label at the provider and return it. Raises Absent if
        no machine has the label, and Doubt if that cannot be found out.
        """

    async def set_up(self, where: Where) -> Where | None:
        """Do the next part of the preparation of the new machine `where`, so that a run can be
        restored on it. Return the machine with its address once it is ready, or None while there is
        more to do. Raises Failed if it cannot succeed.
        """

    async def restore(self, where: Where, step: int) -> bool:
        """Do the next part of fetching the checkpoint of the training step `step` from the object
        store to the machine `where`. Return True once the checkpoint is complete on the machine,
        and False while there is more to do. Raises Failed if it cannot succeed.
        """

    async def launch(self, where: Where, step: int, orders: Sequence[Order]) -> bool:
        """Resume the run on the machine `where` from the restored training step `step`, in the same
        W&B runs and with the same arguments. `orders` are the run's standing orders (what a person
        wants done for it until further notice), which may have further arguments. Return True if
        its processes run, and False if they do not yet; call it again then, which starts nothing a
        second time. Raises Failed if it cannot succeed.
        """

    async def order(self, where: Where, orders: Sequence[Order]) -> Sequence[str]:
        """Give the run on its new machine `where` the standing orders `orders`, which it had on its
        former machine: what a person wants done for it until further notice. The order to copy
        checkpoints to the object store is given in any case. Return a sentence for each order that
        the pod has refused, or an empty sequence if it has refused none. Raises Failed if it has
        refused to copy checkpoints.
        """

    async def terminate(self, where: Where, may: Callable[[], bool]) -> bool:
        """End the machine `where`. Return True once the provider no longer has it, and False if it
        may still exist. `may` is called just before the first request that ends it; if it returns
        False, no request is sent, and False is returned.
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
    """The result of one poll by the recovery controller: a `word` for a program, a `sentence` for a
    person, and an exit code. `exit_code` is 0 if all is well, 1 if something was not achieved, 3 if
    the state is unknown, and 4 if a plan waits for a person's confirmation or another controller
    may act for the run. `verdict` says what has become of the machine, and `plan` what would be
    done about it; each is None if the poll made none. `lost` is the name of the pod that was lost,
    if the poll found one lost or continued its recovery, else "".
    """

    word: Word
    sentence: str
    exit_code: int
    verdict: Verdict | None = None
    plan: RecoveryPlan | None = None
    lost: str = ""
