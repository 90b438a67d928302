"""What the faults of a round act on, and what a kind of fault is."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from bs4_practice import tree
from tests.chaos.console import Console
from tests.chaos.link import Link
from tests.chaos.load import Load

T = TypeVar("T")

#: Seconds after which what must come is given up. This machine may be busy.
PATIENCE_S = 120.0
#: Seconds after which the answer to an order is no longer expected: a submission that has lost its
#: link gives up after 35 s.
ANSWER_S = 45.0
#: The errors with which a console says that the link is at fault, and not the pod.
_NO_LINK = ("Unreachable:", "ChannelLost:", "SessionFailed:", "HostKeyChanged:", "the console")


class Failed(Exception):
    """Raised if a round cannot go on; it says what was waited for in vain."""


class NotMet(Exception):
    """Raised if a fault could not be done; it is not counted then."""


async def until(condition: Callable[[], object], what: str, timeout: float = PATIENCE_S) -> None:
    """Wait for a condition. Raises Failed with `what`."""
    deadline = time.monotonic() + timeout
    while not await asyncio.to_thread(condition):
        if time.monotonic() > deadline:
            raise Failed(f"waited {timeout:g} s in vain for {what}")
        await asyncio.sleep(0.1)


@dataclass
class World:
    """What faults act on. `met` notes what really happened, and `problems` what a fault saw that
    must not be. `directory` is the console's.
    """

    load: Load
    link: Link
    console: Console
    rng: random.Random
    met: list[str]
    directory: Path
    problems: list[str] = field(default_factory=list)
    unmet: list[str] = field(default_factory=list)
    """What could not be done, and why."""
    orders: dict[str, int] = field(default_factory=dict)
    """How often each action was ordered, by kind and run."""
    load_since: float = 0.0
    """The monotonic second at which the load began, again after the pod was killed."""
    attempts: int = 1
    """How often the run that writes the log was to be started."""
    writer: tree.Process | None = None
    """The process that writes the log."""
    kept: dict[str, Any] = field(default_factory=dict)
    """What a kind has prepared, by its name."""
    power: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held by each fault while it does something inside the pod, and while the pod is off."""

    desk: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while there is no console, because there is never more than one."""

    async def inside(self, look: Callable[[], T]) -> T:
        """Return what `look` finds on the pod, which is on meanwhile."""
        async with self.power:
            return await asyncio.to_thread(look)

    async def answered(
        self, kind: str, run: str, body: dict[str, Any], patience: float = PATIENCE_S
    ) -> tuple[str, str]:
        """Order an action until the pod has answered. Return its key, or "" and the refusal. Raises
        Failed if there is no answer after `patience` seconds.
        """
        tag, deadline, why = f"{kind} {run}", time.monotonic() + patience, "no answer"
        while time.monotonic() < deadline:
            self.console.answers.pop(tag, None)
            # An answer that was lost may have been a yes.
            self.orders[tag] = self.orders.get(tag, 0) + 1
            life = self.console.kills
            self.console.order(do="submit", tag=tag, kind=kind, body={"run": run, **body})
            asked = time.monotonic()
            while tag not in self.console.answers and self.console.kills == life:
                if time.monotonic() > min(deadline, asked + ANSWER_S):
                    break
                await asyncio.sleep(0.05)
            key, why = self.console.answers.get(tag, ("", why))
            if key or not why.startswith((*_NO_LINK, "no answer")):
                return key, why
            await asyncio.sleep(0.2)
        raise Failed(f"waited {patience:g} s in vain for the answer to {tag}: {why}")

    async def ended(self, key: str, what: str) -> str:
        """Wait until the console knows that an action has ended, and return how."""
        await until(lambda: key in self.console.told.get("ended", {}), f"the end of {what}")
        return str(self.console.told["ended"][key])

    async def launched(self, run: str, body: dict[str, Any]) -> None:
        """Launch a run and wait until its program has started. Raises Failed."""
        before = len(self.load.starts(body["output_dir"]))
        key, why = await self.answered("launch", run, body)
        if not key or (why := await self.ended(key, f"the launch of {run}")) != "done":
            raise Failed(f"the launch of {run} ended as {why}")
        await until(
            lambda: len(self.load.starts(body["output_dir"])) > before, f"the start of {run}"
        )


Fault = Callable[[World, float], Awaitable[None]]
Settle = Callable[[World], Awaitable[list[str]]]


async def nothing(world: World) -> list[str]:
    """Prepare nothing, or find nothing wrong."""
    return []


@dataclass(frozen=True)
class Kind:
    """A kind of fault. `prepare` is awaited before the faults of a round begin, and `settle` after
    all of them: it does what is left to do and returns what is wrong.

    A round has at most `most` of the kinds with the same `group`.
    """

    name: str
    fault: Fault
    lasts: bool = True
    group: str = ""
    most: int = 1
    prepare: Settle = nothing
    settle: Settle = nothing
