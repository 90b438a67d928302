"""A world in which pods are lost: one provider, one store, one clock, and a controller that may be
killed at every touch of it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from bs4_common.checkpoints.remote.errors import NotThere
from bs4_common.checkpoints.remote.layout import Layout
from bs4_common.checkpoints.remote.store import Entry
from bs4_console.errors import Unreachable
from bs4_console.pods.liveness import Sign
from bs4_console.recovery.controller import Controller
from bs4_console.recovery.lease import Lease
from bs4_console.recovery.recovery_types import Absent, Chosen, Doubt, Failed, Limits, Report, Saved
from bs4_console.recovery.state import Records, Where

RUN = "demo"
LAYOUT = Layout("saved", RUN)
FIRST = Where(pod="alpha", provider="vast", instance="7", price=2.0)


class Killed(BaseException):
    """kill -9, as far as code can feel it."""


@dataclass
class Machine:
    label: str
    instance: str
    state: str = "running"
    set_up: int = 0
    restored: int | None = None
    launched: int = 0
    step: int | None = None
    orders: tuple[Mapping[str, Any], ...] = ()


@dataclass
class World:
    """`links` by instance: whether it can be reached. `ways` of create: ok, lost (it exists, and no
    answer comes), refused.
    """

    now: float = 1_000_000.0
    versions: dict[str, list[tuple[Entry, bytes]]] = field(default_factory=dict)
    numbers: Iterator[int] = field(default_factory=itertools.count)
    machines: dict[str, Machine] = field(default_factory=lambda: {"7": Machine("", "7", step=40)})
    links: dict[str, bool] = field(default_factory=lambda: {"7": True})
    saved: Saved | None = field(default_factory=lambda: Saved(35, 10**9))
    price: float | None = 2.5
    way: str = "ok"
    trains: bool = True
    finished: bool = False
    dies: str = ""
    complete: int = 40
    network: bool = True
    heart: bool = False
    ended: list[str] = field(default_factory=list)
    creates: list[str] = field(default_factory=list)
    touch: Callable[[str], None] = lambda what: None
    takes: int = 0
    """Looks that a phase on the new machine goes on for."""

    def lose(self, instance: str = "7", state: str = "stopped") -> None:
        self.machines[instance].state = state
        self.links[instance] = False

    def paid(self) -> list[Machine]:
        """Rented by a controller, and not ended."""
        return [m for m in self.machines.values() if m.label and m.state == "running"]


class WorldStore:
    def __init__(self, world: World) -> None:
        self.world = world

    def write(self, name: str, data: bytes) -> Entry:
        self.world.touch(f"write {name}")
        rows = self.world.versions.setdefault(name, [])
        entry = Entry(name, len(data), None, self.world.now, f"{next(self.world.numbers):06d}")
        rows.append((entry, data))
        self.world.touch(f"written {name}")
        return entry

    def versions(self, name: str) -> list[Entry]:
        self.world.touch(f"list {name}")
        return [entry for entry, _ in reversed(self.world.versions.get(name, []))]

    def read(self, name: str, most: int) -> bytes:
        rows = self.world.versions.get(name)
        if not rows:
            raise NotThere(f"There is no {name}.")
        return rows[-1][1]

    def content(self, entry: Entry, most: int) -> bytes:
        return next(
            data
            for there, data in self.world.versions[entry.name]
            if there.version == entry.version
        )

    def delete(self, entry: Entry) -> None:
        self.world.versions[entry.name] = [
            row
            for row in self.world.versions.get(entry.name, [])
            if row[0].version != entry.version
        ]


@dataclass
class WorldHands:
    world: World
    going: dict[str, int] = field(default_factory=dict)

    async def signs(self, where: Where) -> Sequence[Sign]:
        self.world.touch("signs")
        world, machine = self.world, self.world.machines.get(where.instance)
        up = world.network and world.links.get(where.instance, False)
        state = "unknown" if not world.network else "gone" if machine is None else machine.state
        found = [
            Sign(world.now, "ssh", "up" if up else "unreachable"),
            Sign(world.now, "provider", state),
        ]
        found.append(Sign(world.now, "network", "up" if world.network else "down"))
        if world.heart:
            found.append(Sign(world.now, "wandb", "running", seen_t=world.now))
        return found

    async def report(self, where: Where) -> Report | None:
        machine = self.world.machines.get(where.instance)
        if machine is None or not self.world.links.get(where.instance):
            return None
        if machine.launched and self.world.trains:
            machine.step = (machine.restored or 0) + 1
        return Report(
            machine.step,
            self.world.complete,
            self.world.finished,
            self.world.dies if machine.launched else "",
            machine.orders,
        )

    async def saved(self) -> Saved | None:
        if not self.world.network:
            raise Unreachable("No store.", "Wait.")
        return self.world.saved

    async def choose(self, most: float) -> Chosen | None:
        price = self.world.price
        return None if price is None or price > most else Chosen("vast", "offer", "H100", 2, price)

    async def create(self, chosen: Chosen, label: str, may: Callable[[], bool]) -> Where:
        self.world.touch("create")
        if not may():
            raise Absent("It was too late.", "Look again.")
        self.world.creates.append(label)
        if self.world.way == "refused":
            raise Absent("No capacity.", "Search again.")
        instance = str(100 + len(self.world.creates))
        self.world.machines[instance] = Machine(label, instance)
        self.world.links[instance] = True
        self.world.touch("created")
        if self.world.way == "lost":
            raise Doubt("The answer was lost.", "Look for it.")
        return Where(pod=f"demo-{instance}", provider="vast", instance=instance, label=label)

    async def find(self, label: str, provider: str) -> Where:
        self.world.touch("find")
        for machine in self.world.machines.values():
            if machine.label == label:
                return Where(
                    pod=f"demo-{machine.instance}",
                    provider=provider,
                    instance=machine.instance,
                    label=label,
                )
        raise Absent("No machine has that label.", "Begin anew.")

    def _done(self, where: Where, what: str) -> bool:
        self.world.touch(what)
        key = f"{what} {where.instance}"
        self.going[key] = self.going.get(key, 0) + 1
        return self.going[key] > self.world.takes

    async def set_up(self, where: Where) -> Where | None:
        if self.world.way == "bare":
            raise Failed("The disk is too small.", "Take another.")
        self.world.machines[where.instance].set_up += 1
        return where if self._done(where, "set-up") else None

    async def restore(self, where: Where, step: int) -> bool:
        self.world.machines[where.instance].restored = step
        return self._done(where, "restore")

    async def launch(self, where: Where, step: int, orders: Sequence[Mapping[str, Any]]) -> bool:
        machine = self.world.machines[where.instance]
        assert machine.restored == step, "launched without its step"
        machine.launched = 1
        return self._done(where, "launch")

    async def order(self, where: Where, orders: Sequence[Mapping[str, Any]]) -> Sequence[str]:
        self.world.touch("order")
        assert self.world.machines[where.instance].launched, "ordered for a run that is not there"
        if self.world.way == "unsaved":
            raise Failed("The sync was refused.", "Look at it.")
        self.world.machines[where.instance].orders = tuple(orders)
        self.world.touch("ordered")
        return ["no such playbook."] if self.world.way == "refuses" else []

    async def terminate(self, where: Where, may: Callable[[], bool]) -> bool:
        assert where.made, "what was not rented here is never ended"
        self.world.touch("terminate")
        if not may():
            return False
        self.world.ended.append(where.instance)
        self.world.machines.pop(where.instance, None)
        self.world.links[where.instance] = False
        self.world.touch("terminated")
        return True


#: The records of all controllers that a test has made. conftest.py closes them after it.
OPENED: list[Records] = []


def controller(
    world: World, place: Path, hands: WorldHands | None = None, **more: Any
) -> Controller:
    async def sleep(seconds: float) -> None:
        world.now += seconds

    store = WorldStore(world)
    records = Records(store=store, layout=LAYOUT, directory=place, wall=lambda: world.now)
    OPENED.append(records)
    mine, note = records.leases(), lambda version: records.note("lease", version=version)
    lease = Lease(
        store,
        LAYOUT,
        place.name,
        mine=mine,
        note=note,
        clock=lambda: world.now,
        sleep=sleep,
    )
    settings: dict[str, Any] = {
        "mode": "auto",
        "limits": Limits(5.0, 100.0, 500.0),
        "first": FIRST,
    } | more
    return Controller(
        records=records,
        lease=lease,
        hands=hands or WorldHands(world),
        clock=lambda: world.now,
        wall=lambda: world.now,
        sleep=sleep,
        **settings,
    )


def changed(limits: Limits, **changes: Any) -> Limits:
    return replace(limits, **changes)
