"""Two or three controllers, every order of what they do, calls that hang, machines that die: never
two act at once.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bs4_common.checkpoints.remote.errors import StoreAuth
from bs4_common.checkpoints.remote.layout import Layout
from bs4_common.checkpoints.remote.store import Entry
from bs4_console.recovery.lease import Lease, LeaseHeld

LAYOUT = Layout("prefix", "demo")
TTL, SETTLE, MARGIN = 900.0, 10.0, 180.0


@dataclass
class World:
    """Time as the store has it, and one file's versions. A write has its time before it can be
    listed.
    """

    now: float = 1e9
    versions: dict[str, list[Entry]] = field(default_factory=dict)
    content: dict[str, bytes] = field(default_factory=dict)
    may_delete: bool = True
    count: int = 0

    def stamped(self, name: str, size: int) -> Entry:
        self.count += 1
        return Entry(name, size, None, self.now, f"{self.count:08d}")

    def list(self, name: str) -> list[Entry]:
        return sorted(self.versions.get(name, []), key=lambda e: (e.t, e.version), reverse=True)

    def delete(self, entry: Entry) -> None:
        if not self.may_delete:
            raise StoreAuth("This key may not delete.")
        self.versions[entry.name] = [
            e for e in self.versions.get(entry.name, []) if e.version != entry.version
        ]


class _Pause:
    """Gives the turn back to whoever steps the party: `seconds` must pass at least."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.seconds = seconds

    def __await__(self) -> Generator[float, None, None]:
        yield self.seconds


class Remote:
    """The store as one party reaches it: every call takes time before and after what it does."""

    def __init__(self, world: World, slowness: Callable[[], float]) -> None:
        self.world, self.slowness = world, slowness

    async def call(self, method: Callable[..., Any], *arguments: Any) -> Any:
        await _Pause(self.slowness())
        if method.__name__ == "write":
            name, data = arguments
            entry = self.world.stamped(name, len(data))
            await _Pause(self.slowness())
            self.world.versions.setdefault(name, []).append(entry)
            self.world.content[name] = data
            await _Pause(self.slowness())
            return entry
        result = method(*arguments)
        await _Pause(self.slowness())
        return result

    def write(self, name: str, data: bytes) -> Entry:
        raise NotImplementedError("done in `call`, in two halves")

    def versions(self, name: str) -> list[Entry]:
        return self.world.list(name)

    def read(self, name: str, most: int) -> bytes:
        return self.world.content[name]

    def delete(self, entry: Entry) -> None:
        self.world.delete(entry)


@dataclass
class Party:
    """A controller that acts for 60 s whenever it may. Its own clock is off by any amount."""

    name: str
    world: World
    work: Any = None
    wakes: float = 0.0
    acts: list[tuple[float, float]] = field(default_factory=list)
    held: int = 0

    def begin(self, slowness: Callable[[], float], offset: float, rounds: int) -> None:
        remote = Remote(self.world, slowness)

        def clock() -> float:
            return self.world.now + offset

        async def sleep(seconds: float) -> None:
            await _Pause(seconds)

        async def live() -> None:
            lease = Lease(remote, LAYOUT, self.name, call=remote.call, clock=clock, sleep=sleep)  # type: ignore[arg-type]
            for _ in range(rounds):
                try:
                    grant = await lease.take()
                    for _ in range(3):
                        await _Pause(slowness())
                        await self._act(grant)
                        await sleep(240.0)
                        grant = await lease.guard()
                    await lease.release()
                except LeaseHeld:
                    self.held += 1
                    await sleep(100.0)

        self.work = live()

    async def _act(self, grant: Any) -> None:
        if grant.left_s() >= 60.0:
            self.acts.append((self.world.now, self.world.now + 60.0))
            await _Pause(60.0)


def play(
    world: World, parties: list[Party], pick: Callable[[int], int], die: float | None = None
) -> None:
    """Steps whoever is due; `pick` chooses among those."""
    alive = list(parties)
    for _ in range(4000):
        if not alive:
            return
        due = [p for p in alive if p.wakes <= world.now]
        if not due:
            world.now = min(p.wakes for p in alive)
            continue
        party = due[pick(len(due))]
        if die is not None and party is parties[0] and world.now - 1e9 >= die:
            party.work.close()
            alive.remove(party)
            continue
        try:
            party.wakes = world.now + party.work.send(None)
        except StopIteration:
            alive.remove(party)


def overlaps(parties: list[Party]) -> list[tuple[str, str]]:
    acts = sorted((begin, end, p.name) for p in parties for begin, end in p.acts)
    return [(a[2], b[2]) for a, b in itertools.pairwise(acts) if b[0] < a[1] and a[2] != b[2]]


@settings(max_examples=400)
@given(
    seed=st.integers(0, 2**32),
    count=st.integers(2, 3),
    slow=st.sampled_from([0.2, 3.0, 8.0, 60.0]),
    may_delete=st.booleans(),
)
def test_never_two_at_once(seed, count, slow, may_delete):
    draw = random.Random(seed)
    world = World(may_delete=may_delete)
    parties = [Party(f"c{n}", world) for n in range(count)]

    def slowness() -> float:
        return draw.choice([0.0, 0.05, draw.uniform(0, slow)])

    for party in parties:
        party.wakes = world.now + draw.choice([0.0, draw.uniform(0, 3), draw.uniform(0, 1200)])
        party.begin(slowness, draw.uniform(-1e6, 1e6), rounds=5)
    play(world, parties, draw.randrange, die=draw.choice([None, draw.uniform(0, 2000)]))
    assert overlaps(parties) == []


def begin_all(world: World, count: int, rounds: int) -> list[Party]:
    parties = [Party(f"c{n}", world) for n in range(count)]
    for party in parties:
        party.wakes = world.now
        party.begin(lambda: 0.1, 0.0, rounds)
    return parties


def test_somebody_acts():
    world = World()
    parties = begin_all(world, 3, 4)
    play(world, parties, lambda n: 0)
    assert sum(len(p.acts) for p in parties) >= 3
    assert overlaps(parties) == []


def test_the_lease_of_a_dead_controller_ends():
    world = World()
    parties = begin_all(world, 2, 30)
    parties[1].wakes = world.now + 60.0
    play(world, parties, lambda n: 0, die=100.0)
    last, first = max(t for t, _ in parties[0].acts), min(t for t, _ in parties[1].acts)
    assert parties[1].held > 0
    assert last + MARGIN < first < last + 2 * TTL


class Plain:
    """The same world with calls that take no time, for what is looked at closely."""

    def __init__(self, world: World) -> None:
        self.world = world

    def write(self, name: str, data: bytes) -> Entry:
        entry = self.world.stamped(name, len(data))
        self.world.versions.setdefault(name, []).append(entry)
        self.world.content[name] = data
        return entry

    def versions(self, name: str) -> list[Entry]:
        return self.world.list(name)

    def read(self, name: str, most: int) -> bytes:
        return self.world.content[name]

    def delete(self, entry: Entry) -> None:
        self.world.delete(entry)


def plain(world: World, owner: str = "me", **more: Any) -> Lease:
    async def sleep(seconds: float) -> None:
        world.now += seconds

    return Lease(Plain(world), LAYOUT, owner, clock=lambda: world.now, sleep=sleep, **more)  # type: ignore[arg-type]


async def test_who_holds_it_is_said_with_the_time_it_ends():
    world = World()
    await plain(world, "alice@desk").take()
    world.now += 100
    with pytest.raises(LeaseHeld, match=r"alice@desk\).*ends in 8\d\d s"):
        await plain(world, "bob").take()


async def test_a_name_from_the_store_cannot_drive_the_terminal():
    world = World()
    await plain(world, "\x1b]0;x\x07eve").take()
    with pytest.raises(LeaseHeld) as caught:
        await plain(world).take()
    assert "\x1b" not in str(caught.value)


async def test_one_that_slept_through_its_lease_finds_out_before_it_spends():
    world = World()
    mine = plain(world)
    await mine.take()
    world.now += TTL + 1
    await plain(world, "other").take()
    with pytest.raises(LeaseHeld):
        await mine.guard()


async def test_one_that_slept_alone_has_to_take_it_anew():
    """Another's claim may be on its way to the list: the one just written proves nothing before it
    has settled.
    """
    world = World()
    mine = plain(world)
    await mine.take()
    world.now += TTL + 100
    with pytest.raises(LeaseHeld, match="long enough"):
        await mine.guard()
    assert (await mine.take()).left_s() == MARGIN


async def test_a_claim_that_is_next_in_line_ends_the_hold_in_time():
    """A loser's claim that could not be deleted is the oldest once ours ends: the act must not
    reach that far.
    """
    world = World()
    mine = plain(world)
    await mine.take()
    first = min(world.list(LAYOUT.lease), key=lambda e: e.t)
    world.now = first.t + 5
    Plain(world).write(LAYOUT.lease, b"{}")
    world.now = first.t + TTL - MARGIN - 1
    await mine.guard()
    world.now = first.t + TTL - MARGIN + 1
    with pytest.raises(LeaseHeld):
        await mine.guard()


async def test_who_asks_in_vain_again_and_again_does_not_take_it_from_its_holder():
    """A controller that is restarted at every look knows its own versions from its journal, and
    renews before it looks who holds it.
    """
    world, told = World(), ["one of before"]
    holder = plain(world, "holder")
    await holder.take()
    while world.now < 1e9 + 3 * TTL:
        world.now += 60
        await holder.guard()
        with pytest.raises(LeaseHeld):
            await plain(world, "restarted", mine=told, note=told.append).hold()


async def test_a_grant_runs_out():
    world = World()
    grant = await plain(world).take()
    assert grant.left_s() == MARGIN
    world.now += MARGIN + 1
    assert grant.left_s() < 0


async def test_a_restarted_controller_goes_on_with_its_own_versions():
    world, told = World(), []
    await plain(world, note=told.append).take()
    with pytest.raises(LeaseHeld):
        await plain(world).take()
    assert (await plain(world, mine=told).take()).left_s() == MARGIN


async def test_without_the_right_to_delete_the_claims_of_a_loser_end_by_themselves():
    world = World(may_delete=False)
    first = plain(world, "first")
    await first.take()
    await first.release()
    with pytest.raises(LeaseHeld):
        await plain(world, "second").take()
    world.now += TTL + 1
    await plain(world, "second").take()


async def test_a_write_that_hangs_counts_for_nobody():
    world = World()
    slow = Plain(world)

    async def call(method: Callable[..., Any], *arguments: Any) -> Any:
        result = method(*arguments)
        world.now += 30 if method.__name__ == "write" else 0
        return result

    async def sleep(seconds: float) -> None:
        world.now += seconds

    lease = Lease(slow, LAYOUT, "slow", call=call, clock=lambda: world.now, sleep=sleep)  # type: ignore[arg-type]
    with pytest.raises(LeaseHeld, match="too slow"):
        await lease.take()
    assert world.list(LAYOUT.lease) == []


def test_times_that_could_not_work_are_refused():
    with pytest.raises(ValueError, match="margin"):
        Lease(Plain(World()), LAYOUT, "me", ttl_s=100, margin_s=95)  # type: ignore[arg-type]
