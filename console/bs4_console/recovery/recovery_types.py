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
    """The limits of one run's recoveries. Prices and budgets are in US dollars, `max_price` for an
    hour of the whole machine. After `recoveries` in a row without a new step no further one begins
    by itself. `ready_s` is the time in seconds from the rent to the first new step.
    """

    max_price: float
    per_day: float
    per_run: float
    recoveries: int = 2
    ready_s: float = 3600.0


@dataclass(frozen=True)
class Saved:
    """The newest step in the object store that is complete and verified. `bytes` is the size of its
    files.
    """

    step: int
    bytes: int


@dataclass(frozen=True)
class Chosen:
    """An offer as the plan shows it. `price` is in US dollars an hour. `offer` is the provider's
    own object, which `create` needs.
    """

    provider: str
    id: str
    gpu: str
    count: int
    price: float
    offer: Any = field(default=None, repr=False, compare=False)

    def as_dict(self) -> dict[str, Any]:
        """Return the fields without the provider's own `offer`, as a plan shows them."""
        shown = dict(vars(self))
        del shown["offer"]
        return shown


@dataclass(frozen=True)
class Report:
    """What the pod itself says of the run: its newest step, the newest step whose checkpoint is
    complete on its disk (`complete`), and whether the run ended well (`finished`).
    """

    step: int | None = None
    complete: int | None = None
    finished: bool = False
    failed: str = ""
    """Why the newest attempt ended badly. Empty while it runs or after a good end."""
    orders: tuple[Mapping[str, Any], ...] = ()
    """The run's standing orders on the pod (pods/carried_orders.py)."""


class Absent(ConsoleError):
    """Raised if there is surely no machine with the label."""


class Doubt(ConsoleError):
    """Raised if it is not known whether a machine with the label exists."""

    exit_code = UNREACHABLE


class Failed(ConsoleError):
    """Raised if a phase cannot succeed on this machine. The message says why."""


class Hands(Protocol):
    """The controller's actions on the world. Each call may be made again after it was cut off at
    any point. Any ConsoleError other than the named ones means "not now": the controller tries
    again at its next poll.
    """

    async def signs(self, where: Where) -> Sequence[Sign]:
        """Poll the machine once from all sides and return the signs of life. Their times are those
        of the controller's clock.
        """

    async def report(self, where: Where) -> Report | None:
        """Return what the pod says of the run, or None if the pod does not answer."""

    async def saved(self) -> Saved | None:
        """Return the newest valid step in the store, or None if there is none. A store that does
        not answer raises its error instead.
        """

    async def choose(self, most: float) -> Chosen | None:
        """Return the cheapest offer at or under `most` US dollars an hour, or None if there is
        none.
        """

    async def create(self, chosen: Chosen, label: str, may: Callable[[], bool]) -> Where:
        """Rent the chosen offer once, under `label`, and return the machine. `may` is called right
        before the request and must return True. Raises Absent if surely nothing was rented, and
        Doubt if something may have been.
        """

    async def find(self, label: str, provider: str) -> Where:
        """Return the machine with exactly this label. Raises Absent if there is surely none, and
        Doubt if this is not known.
        """

    async def set_up(self, where: Where) -> Where | None:
        """Set the machine up, so that a run can be restored on it. Return its place with its
        address when it is ready, or None while the set-up continues. Raises Failed if it cannot
        succeed.
        """

    async def restore(self, where: Where, step: int) -> bool:
        """Restore the step on the machine. Return True once it is complete there, and False while
        the work continues. Raises Failed if it cannot succeed.
        """

    async def launch(self, where: Where, step: int, orders: Sequence[Mapping[str, Any]]) -> bool:
        """Resume the run from the restored step, in the same W&B runs and with the same arguments.
        Return True once its processes run, and False while the work continues. Raises Failed if it
        cannot succeed.
        """

    async def order(self, where: Where, orders: Sequence[Mapping[str, Any]]) -> Sequence[str]:
        """Repeat on the new machine the standing orders that the run had, and in any case its
        checkpoint sync. Return the refusals as sentences. Raises Failed if the sync was refused.
        """

    async def terminate(self, where: Where, may: Callable[[], bool]) -> bool:
        """End the machine. Return True once the provider was seen to have it no longer. `may` is
        called right before the first order and must return True.
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
    """The result of one poll by the controller. `exit_code` is 0 if all is well, 1 if something was
    not achieved, 3 if the state is unknown, and 4 if a plan waits for its confirmation or another
    controller acts.
    """

    word: Word
    sentence: str
    exit_code: int
    verdict: Verdict | None = None
    plan: dict[str, Any] | None = None
