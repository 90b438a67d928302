"""What the controller and its hands say to each other: limits, what is saved, offered and reported,
and why something cannot be done.
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
    """US dollars; `recoveries`: so many in a row without a new step end the loop. `ready_s`: from
    the rent to the first new step.
    """

    max_price: float
    per_day: float
    per_run: float
    recoveries: int = 2
    ready_s: float = 3600.0


@dataclass(frozen=True)
class Saved:
    """The newest step in the object store that is whole and verified. `bytes` of its files."""

    step: int
    bytes: int


@dataclass(frozen=True)
class Chosen:
    """An offer, as the plan names it. `offer` is the provider's own, for `create`."""

    provider: str
    id: str
    gpu: str
    count: int
    price: float
    offer: Any = field(default=None, repr=False, compare=False)


@dataclass(frozen=True)
class Report:
    """What the pod itself says of the run: its newest step, the newest complete set on its disk,
    and whether it ended well.
    """

    step: int | None = None
    complete: int | None = None
    finished: bool = False
    failed: str = ""
    """Why its newest attempt ended badly; empty while it runs or after a good end."""
    orders: tuple[Mapping[str, Any], ...] = ()
    """What was ordered for it there and stays in force (standing.of)."""


class Absent(ConsoleError):
    """No machine with that label exists, surely."""


class Doubt(ConsoleError):
    """It cannot be said whether a machine with that label exists."""

    exit_code = UNREACHABLE


class Failed(ConsoleError):
    """A phase cannot succeed on this machine; the sentence says why."""


class Hands(Protocol):
    """What the controller does to the world. Each call may be made again after it was cut off
    anywhere. Any ConsoleError other than the ones named means: not now; it is tried again at the
    next look.
    """

    async def signs(self, where: Where) -> Sequence[Sign]:
        """One look at everything. Times by the controller's clock."""
        ...

    async def report(self, where: Where) -> Report | None:
        """None where the pod does not answer."""
        ...

    async def saved(self) -> Saved | None:
        """The newest valid step; None when there is none (which is not: the store did not
        answer).
        """
        ...

    async def choose(self, most: float) -> Chosen | None:
        """The cheapest offer at or under `most` dollars an hour; None without one."""
        ...

    async def create(self, chosen: Chosen, label: str, may: Callable[[], bool]) -> Where:
        """Rent it, once; `may` is asked right before. Absent: surely nothing exists of it. Doubt:
        something may.
        """
        ...

    async def find(self, label: str, provider: str) -> Where:
        """The machine of exactly this label. Absent, or Doubt."""
        ...

    async def set_up(self, where: Where) -> Where | None:
        """Bring the machine to where a run can be restored. With its address when it is there;
        None: it goes on. Failed.
        """
        ...

    async def restore(self, where: Where, step: int) -> bool:
        """Put the step in its place. True: it is complete there; False: it goes on. Failed."""
        ...

    async def launch(self, where: Where, step: int, orders: Sequence[Mapping[str, Any]]) -> bool:
        """Resume from it, in the same W&B runs and with the same arguments. True: its processes
        run; False: it goes on. Failed.
        """
        ...

    async def order(self, where: Where, orders: Sequence[Mapping[str, Any]]) -> Sequence[str]:
        """Order for the run there what was ordered before, its sync in any case; what was refused,
        as sentences. Failed: the sync was.
        """
        ...

    async def terminate(self, where: Where, may: Callable[[], bool]) -> bool:
        """True when the provider was seen not to have it any more. `may` is asked right before the
        first order.
        """
        ...


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
    """Of one look. `exit_code` as everywhere: 0 all is well, 1 not achieved, 3 unknown, 4 a plan
    waits for its confirmation.
    """

    word: Word
    sentence: str
    exit_code: int
    verdict: Verdict | None = None
    plan: dict[str, Any] | None = None
