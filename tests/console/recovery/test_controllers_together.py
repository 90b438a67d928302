"""Two controllers of one run, killed, long asleep, without a store at any moment: no machine is
forgotten or paid beside another.
"""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from bs4_common.checkpoints.remote.errors import StoreUnreachable
from bs4_console.errors import ConsoleError
from bs4_console.recovery.recovery_types import Saved
from bs4_console.recovery.state import Records, State
from tests.console.recovery.recovering import (
    FIRST,
    LAYOUT,
    Killed,
    Machine,
    World,
    WorldHands,
    WorldStore,
    controller,
)


class Chaos:
    """What befalls each touch of the world. `rented`: machines that were rented while one was paid
    for already that nobody had given up.
    """

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        chance = self.chance
        self.world = World(
            way=chance.choice(["ok", "ok", "lost"]), takes=chance.choice([0, 0, 1, 2])
        )
        self.kill, self.sleep, self.away, self.back = (
            chance.choice([0.0, 0.0, 0.01, 0.03]) for _ in range(4)
        )
        self.rented: list[str] = []

    def touch(self, what: str) -> None:
        world, dice = self.world, self.chance.random
        if what == "create":
            left = {w.instance for w in self.state().left}
            self.rented += [m.instance for m in world.paid() if m.instance not in left]
        if dice() < self.kill:
            raise Killed
        if dice() < self.sleep:
            world.now += self.chance.choice([30, 130, 400, 1000])
        if dice() < self.away and what.split()[0] in ("write", "written", "list"):
            raise StoreUnreachable("The store is away.")
        if dice() < self.back / 5:
            world.machines["7"].state, world.links["7"] = "running", True

    def state(self) -> State:
        touch, self.world.touch = self.world.touch, lambda what: None
        found = Records(store=WorldStore(self.world), layout=LAYOUT, directory=Path()).load()
        self.world.touch = touch
        return found or State(run="demo", where=FIRST)

    async def lives(self, place: Path) -> None:
        """Of one controller after the other, on the same machine or on another."""
        world, chance = self.world, self.chance
        for life in range(6):
            one = controller(
                world, place if chance.random() < 0.7 else place.with_name(f"{place.name}{life}")
            )
            try:
                for _ in range(12):
                    try:
                        await one.poll()
                    except ConsoleError:
                        world.now += 5
                    world.now += chance.choice([5, 60, 60, 300])
                    for machine in list(world.machines.values()):
                        if machine.launched and chance.random() < 0.02:
                            world.lose(machine.instance)
                    if world.saved is not None and chance.random() < 0.05:
                        world.saved = Saved(world.saved.step + 1, 1)
            except Killed:
                world.now += 30


def paid_for_nothing(world: World, state: State) -> list[Machine]:
    known = {w.instance for w in (*state.left, state.where)}
    return [machine for machine in world.paid() if machine.instance not in known]


@pytest.mark.parametrize("seed", range(30))
async def test_no_machine_is_forgotten_and_none_paid_beside_another(
    tmp_path: Path, seed: int
) -> None:
    chaos = Chaos(seed)
    world = chaos.world
    await controller(world, tmp_path / "before").poll()
    world.lose()
    world.touch = chaos.touch
    names = ("one", "two") if chaos.chance.random() < 0.7 else ("one",)
    await asyncio.gather(*(chaos.lives(tmp_path / name) for name in names))
    world.touch = lambda what: None
    hands = WorldHands(world)
    for _ in range(60):
        outcome = await controller(world, tmp_path / "end", hands).poll()
        world.now += 120
    assert chaos.rented == []
    assert paid_for_nothing(world, chaos.state()) == []
    assert outcome.word in ("watching", "stopped"), outcome.sentence


def test_the_first_state_writes_nothing_where_the_tests_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert Chaos(0).state().where.pod == "alpha"
    assert list(tmp_path.iterdir()) == []
