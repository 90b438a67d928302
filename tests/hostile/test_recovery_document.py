"""A pod with a key for the store can write `recovery.json`, by which a controller with the keys of
the providers acts. What stands there names no machine of another run, leads to no other pod, and
forgets nothing that was paid for.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bs4_common.checkpoints.remote.errors import StoreDamaged
from bs4_common.ids import ulid
from bs4_console.errors import HostKeyUnknown, LinkError, RefusedError
from bs4_console.pods import liveness
from bs4_console.pods.inventory import Pod
from bs4_console.pods.state import PodState
from bs4_console.providers.base import label_of
from bs4_console.providers.errors import NoKey
from bs4_console.provision.rent import Provisioner
from bs4_console.recovery.recovery_io import RealHands
from bs4_console.recovery.recovery_types import Absent, Limits, Outcome, Saved
from bs4_console.recovery.state import Attempt, Records, State, Where
from bs4_practice.cloud import Cloud, running
from tests.console.recovery.recovering import (
    FIRST,
    LAYOUT,
    Machine,
    World,
    WorldHands,
    WorldStore,
    controller,
)
from tests.console.recovery.test_recovery_io import CONFIG, always, hands

SOUND = State(
    run="demo",
    where=replace(FIRST, port=22, step=40),
    attempts=(Attempt(label="l", t=1.0, provider="vast", price=2.0, step_before=1),),
    before=FIRST,
    left=(FIRST,),
    orders=(
        {"kind": "sync", "to": "b2://practice-bucket/saved", "limit_mib": 1.5, "weights": True},
        {"kind": "launch", "overrides": ["--max-steps", "9"]},
        {"kind": "keep", "off": True},
    ),
)
DEEP = "[" * 30_000 + "]" * 30_000


def changed(*path: Any, to: Any) -> bytes:
    document = json.loads(SOUND.encode(""))
    inner = document
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = to
    return json.dumps(document).encode()


ODD = {
    "deep": SOUND.encode("").replace(b'"schema"', f'"why": {DEEP}, "schema"'.encode(), 1),
    "a pod that is a number": changed("where", "pod", to=7),
    "a machine that is a text": changed("where", to="alpha"),
    "made that is a text": changed("where", "made", to="yes"),
    "a price that is a text": changed("attempts", 0, "price", to="2"),
    "a price below 0": changed("attempts", 0, "price", to=-1e6),
    "a machine's price below 0": changed("where", "price", to=-0.5),
    "a rent at no provider": changed("where", to={"pod": "demo-1", "made": True}),
    "a rent of no machine": changed(
        "left", 0, to={"pod": "demo-1", "made": True, "provider": "vast"}
    ),
    "a rent without a recovery": replace(SOUND, phase="renting", attempts=()).encode(""),
    "a price that is none": changed("attempts", 0, "price", to=float("nan")),
    "a time of 400 digits": changed("attempts", 0, "t", to=10**400),
    "a step that is a part": changed("step", to=1.5),
    "a step that is true": changed("step", to=True),
    "a phase that is a list": changed("phase", to=[]),
    "an order without a kind": changed("orders", 0, to={"to": "b2://x"}),
    "an order that nests": changed("orders", 0, "to", to=["b2://x"]),
    "arguments that are numbers": changed("orders", 1, "overrides", to=[7]),
    "a launch without arguments": changed("orders", 1, to={"kind": "launch"}),
}


@pytest.mark.parametrize("odd", ODD)
def test_a_document_that_no_controller_writes_is_damaged(odd: str) -> None:
    with pytest.raises(StoreDamaged):
        State.decode(ODD[odd])


def test_a_document_is_read_as_it_was_written() -> None:
    assert State.decode(SOUND.encode("7")) == SOUND


def test_a_recovery_that_the_document_forgets_or_cheapens_is_paid_all_the_same(
    tmp_path: Path,
) -> None:
    store: Any = WorldStore(World())
    paid = Attempt(
        label="l", t=1000.0, provider="vast", price=6.0, step_before=1, instance="9", ended_t=None
    )
    assert Records(store=store, layout=LAYOUT, directory=tmp_path).save(
        replace(SOUND, attempts=(paid,))
    )
    cheap, other = replace(paid, price=0.0, t=5000.0), replace(paid, label="other", price=1.0)
    for attempts in ((), (cheap,), (replace(paid, instance=""),)):
        # A controller that is started anew on this machine.
        known = Records(store=store, layout=LAYOUT, directory=tmp_path).paid((*attempts, other))
        spent = replace(SOUND, attempts=known).spent(0.0, 1000.0 + 3600.0)
        assert spent == pytest.approx(7.0)


def test_a_recovery_costs_at_least_until_it_was_last_noted_in_use(tmp_path: Path) -> None:
    store: Any = WorldStore(World())
    now = 1000.0
    paid = Attempt(label="l", t=now, provider="vast", price=6.0, step_before=1, instance="9")

    def records() -> Records:
        return Records(store=store, layout=LAYOUT, directory=tmp_path, wall=lambda: now)

    def spent(attempt: Attempt) -> float:
        known = records().paid((attempt,))
        return replace(SOUND, attempts=known).spent(0.0, now)

    early = replace(paid, ended_t=1000.5)
    now += 3600.0
    noted = records()
    assert noted.save(replace(SOUND, attempts=(paid,)))
    now += 3600.0
    assert spent(paid) == pytest.approx(12.0), "in use, as far as anybody knows"
    assert spent(early) == pytest.approx(6.0)
    # This controller goes on from such a document, and so notes what stands in it.
    assert noted.load() is not None
    cheap = replace(early, price=0.1)
    assert noted.save(replace(SOUND, attempts=(cheap,)))
    assert spent(cheap) == pytest.approx(6.0)


def test_an_end_that_was_noted_is_the_end(tmp_path: Path) -> None:
    store: Any = WorldStore(World())
    paid = Attempt(
        label="l", t=0.0, provider="vast", price=6.0, step_before=1, instance="9", ended_t=7200.0
    )
    assert Records(store=store, layout=LAYOUT, directory=tmp_path, wall=lambda: 7200.0).save(
        replace(SOUND, attempts=(paid,))
    )
    for ended_t in (0.5, None, 36000.0):
        known = Records(store=store, layout=LAYOUT, directory=tmp_path).paid(
            (replace(paid, ended_t=ended_t),)
        )
        assert replace(SOUND, attempts=known).spent(0.0, 72000.0) == pytest.approx(12.0)


def test_what_another_run_of_the_same_name_has_cost_is_not_counted(tmp_path: Path) -> None:
    store: Any = WorldStore(World())
    paid = Attempt(
        label="l", t=0.0, provider="vast", price=6.0, step_before=1, instance="9", ended_t=3600.0
    )
    old = Records(
        store=store, layout=LAYOUT, directory=tmp_path, place="b2://one/saved/demo/recovery.json"
    )
    assert old.save(replace(SOUND, attempts=(paid,)))
    earlier = replace(paid, label="noted by an older console")
    document = json.loads(replace(SOUND, attempts=(earlier,)).encode())
    old.note("state", phase="watching", state=document)
    for place, labels in (
        (old.place, {paid.label, earlier.label}),
        ("b2://two/saved/demo/recovery.json", {earlier.label}),
    ):
        found = Records(store=store, layout=LAYOUT, directory=tmp_path, place=place).paid(())
        assert {attempt.label for attempt in found} == labels


async def test_an_order_that_could_not_be_read_again_is_not_saved(tmp_path: Path) -> None:
    sync = {"kind": "sync", "to": "b2://practice-bucket/saved"}
    odd = ({"kind": "sync", "every": [1]}, {"kind": "odd"}, sync, {"kind": "launch"})
    world = World()
    world.machines["7"].orders = odd
    for _ in range(2):
        assert (await controller(world, tmp_path / "here").poll()).word == "watching"
    found = Records(store=WorldStore(world), layout=LAYOUT, directory=tmp_path).load()
    assert found is not None
    assert found.orders == (sync,)


RENTED = Where(
    pod="demo-9", provider="vast", instance="9", label=label_of("demo", ulid()), made=True, step=0
)


def world_with_a_rented_machine(state: State) -> World:
    """Return a world in which the run trains on the machine RENTED, and `state` was written."""
    world = World(finished=state.phase == "finishing")
    world.machines["9"] = Machine(RENTED.label, "9", step=60)
    world.links["9"] = True
    world.complete = 60
    WorldStore(world).write(LAYOUT.recovery, state.encode())
    return world


UNDER_WAY = State(
    run="demo",
    where=RENTED,
    phase="setting-up",
    named="alpha",
    attempts=(
        Attempt(
            label=RENTED.label, t=1e6, provider="vast", price=2.0, step_before=35, instance="9"
        ),
    ),
    before=FIRST,
)
FORGED = {
    "a recovery that is set up": UNDER_WAY,
    "a rent": replace(UNDER_WAY, phase="renting", where=FIRST, before=None),
    "a launch": replace(UNDER_WAY, phase="launching"),
    "a recovery that took too long": replace(
        UNDER_WAY, attempts=(replace(UNDER_WAY.attempt, t=1.0),)
    ),
    "an end of what is not saved": State(
        run="demo", where=RENTED, phase="finishing", named="alpha", told=True
    ),
    "an earlier machine that may go": State(run="demo", where=FIRST, named="alpha", left=(RENTED,)),
}


@pytest.mark.parametrize("forged", FORGED)
async def test_in_mode_ask_nothing_is_done_that_nobody_has_confirmed_here(
    tmp_path: Path, forged: str
) -> None:
    world = world_with_a_rented_machine(FORGED[forged])
    for _ in range(3):
        outcome = await controller(world, tmp_path / "here", mode="ask").poll()
        assert outcome.word not in ("recovering", "recovered", "finished")
        world.now += 60.0
    machine = world.machines["9"]
    assert (machine.set_up, machine.restored, machine.launched) == (0, None, 0)
    assert (world.ended, world.creates) == ([], [])
    if FORGED[forged].phase in ("setting-up", "renting", "launching"):
        assert "nobody has confirmed that on this machine" in outcome.sentence


async def test_a_recovery_of_another_machine_is_gone_on_with_by_its_plan(tmp_path: Path) -> None:
    world = world_with_a_rented_machine(UNDER_WAY)
    world.lose()

    async def poll(**more: Any) -> Outcome:
        return await controller(world, tmp_path / "here", mode="ask", **more).poll()

    asked = await poll()
    plan = asked.sentence.partition("--plan ")[2][:16]
    assert (await poll(confirm="0" * 16)).word == "plan"
    assert (await poll(confirm=plan)).word == "recovered"
    assert world.machines["9"].launched == 1
    assert world.ended == []


async def test_in_mode_ask_what_was_confirmed_here_is_done_to_its_end(tmp_path: Path) -> None:
    """A recovery that fails ends its machine; the next one goes on over several looks, and the end
    of the run ends the machine of that one.
    """
    world = World(dies="OutOfMemory", trains=False)
    world.lose()

    async def poll(**more: Any) -> Outcome:
        world.now += 60.0
        return await controller(world, tmp_path / "here", mode="ask", **more).poll()

    asked = await poll()
    assert asked.plan is not None
    assert (await poll(confirm=asked.plan["hash"])).word == "stopped"
    assert world.ended == ["101"]
    world.dies, world.trains, world.way = "", True, "lost"
    asked = await poll()
    assert asked.plan is not None
    assert (await poll(confirm=asked.plan["hash"])).word == "waiting"
    assert (await poll()).word == "recovered"
    world.finished, world.saved = True, Saved(40, 10**9)
    assert (await poll()).word == "finished"
    assert world.ended == ["101", "102"]


async def test_what_waits_to_be_confirmed_says_what_it_costs_and_ends_once_it_is_confirmed(
    tmp_path: Path,
) -> None:
    world = world_with_a_rented_machine(UNDER_WAY)
    world.lose()

    async def poll(**more: Any) -> Outcome:
        return await controller(world, tmp_path / "here", mode="ask", **more).poll()

    world.now = UNDER_WAY.attempt.t + 600.0
    early = await poll()
    assert "rented 10 minutes ago at $2.00 an hour" in early.sentence
    assert "go on with recover --run demo --plan" in early.sentence
    world.now = UNDER_WAY.attempt.t + 75 * 60.0
    late = await poll()
    assert (late.word, world.ended) == ("plan", [])
    assert "rented 75 minutes ago at $2.00 an hour" in late.sentence
    assert "more than the 60 minutes" in late.sentence
    plan = late.sentence.partition("--plan ")[2][:16]
    assert (await poll(confirm=plan)).word == "stopped"
    assert world.ended == ["9"]


async def test_a_confirmed_recovery_goes_on_under_a_changed_price_cap_and_as_nothing_else(
    tmp_path: Path,
) -> None:
    """The document cannot say later that it began at another machine or step."""
    world = World(takes=1)
    world.lose()
    does = WorldHands(world)

    async def poll(**more: Any) -> Outcome:
        world.now += 60.0
        return await controller(world, tmp_path / "here", does, mode="ask", **more).poll()

    asked = await poll()
    assert asked.plan is not None
    assert (await poll(confirm=asked.plan["hash"])).word == "recovering"
    assert (await poll(limits=Limits(9.0, 100.0, 500.0))).word == "recovering"
    under_way = Records(store=WorldStore(world), layout=LAYOUT, directory=tmp_path).load()
    assert under_way is not None
    for forged in (
        replace(under_way, phase="renting", where=under_way.where, before=None),
        under_way.with_attempt(step_before=5),
    ):
        WorldStore(world).write(LAYOUT.recovery, forged.encode())
        assert (await poll()).word == "plan"
    assert world.ended == []


@pytest.mark.parametrize("told", [False, True])
async def test_a_finished_run_whose_machine_is_gone_is_finished_and_decides_nothing(
    tmp_path: Path, told: bool
) -> None:
    """It is asked for no last set. The label may be that of a machine which lives."""
    earlier = replace(RENTED, pod="demo-8", instance="8", label=label_of("demo", ulid()))
    world = world_with_a_rented_machine(
        State(
            run="demo", where=RENTED, phase="finishing", named="alpha", told=told, left=(earlier,)
        )
    )
    world.machines["8"] = Machine(earlier.label, "8", step=60)
    del world.machines["9"]
    world.links["9"] = False
    here = controller(world, tmp_path / "here", mode="ask")
    outcome = await here.poll()
    assert (outcome.word, outcome.exit_code) == ("finished", 1)
    assert "vast has demo-9 (vast 9) no longer" in outcome.sentence
    assert "demo-8 (vast 8)" in outcome.sentence
    assert world.ended == []
    assert not here.records.decided("end", RENTED.label)
    assert (await here.poll()).exit_code == 0


@pytest.fixture
def cloud() -> Iterator[Cloud]:
    with running() as found:
        yield found


class Near:
    """Keeps the pods that were connected to and the keys that were pinned."""

    def __init__(self) -> None:
        self.linked_to: list[Pod] = []
        self.keys: dict[str, str] = {}
        self.error: LinkError | None = None

    @contextlib.asynccontextmanager
    async def linked(self, pod: Pod, **_: Any) -> AsyncIterator[Any]:
        self.linked_to.append(pod)
        if self.error is not None:
            raise self.error
        yield SimpleNamespace(state=SimpleNamespace(runs={}))

    def pinned(self, pod: str) -> list[str]:
        return [self.keys[pod]] if pod in self.keys else []

    def pin(self, pod: str, key: str) -> None:
        self.keys[pod] = key

    def kept(self, pod: Pod) -> PodState:
        return PodState(name=pod.name)


async def rented(cloud: Cloud, place: Path, run: str) -> tuple[RealHands, Where]:
    does = hands(cloud, place / run, replace(CONFIG, run=run))
    chosen = await does.choose(5.0)
    assert chosen is not None
    return does, await does.create(chosen, label_of(run, ulid()), always)


def of_demo(cloud: Cloud, place: Path) -> tuple[RealHands, Near]:
    near: Any = Near()
    return replace(hands(cloud, place), reach=near), near


async def test_the_machine_of_another_run_is_neither_ended_nor_set_up_nor_taken_over(
    cloud: Cloud, tmp_path: Path
) -> None:
    _, theirs = await rented(cloud, tmp_path, "healthy")
    does, near = of_demo(cloud, tmp_path)
    with pytest.raises(RefusedError, match="not rented for demo"):
        await does.terminate(theirs, always)
    with pytest.raises(RefusedError, match="not rented for demo"):
        await does.set_up(replace(theirs, label=label_of("demo", ulid())))
    with pytest.raises(Absent):
        await does.find(theirs.label, "vast")
    assert [machine.label for machine in cloud.market.living()] == [theirs.label]
    assert cloud.sent("vast", "terminate") == []
    assert near.linked_to == []


async def test_the_name_of_another_pod_leads_to_no_other_pod(cloud: Cloud, tmp_path: Path) -> None:
    _, theirs = await rented(cloud, tmp_path, "demo")
    does, near = of_demo(cloud, tmp_path)
    does.inventory.add(Pod(name="healthy", host="192.0.2.41"))
    with pytest.raises(RefusedError, match="another machine"):
        await does.report(replace(theirs, pod="healthy", host="192.0.2.41", host_key="k"))
    assert (near.linked_to, near.keys) == ([], {})


async def test_an_address_in_the_document_is_not_believed(cloud: Cloud, tmp_path: Path) -> None:
    _, ours = await rented(cloud, tmp_path, "demo")
    does, near = of_demo(cloud, tmp_path)
    for _ in range(2):
        assert await does.report(replace(ours, host="192.0.2.66", port=22)) is not None
    assert near.linked_to
    assert "192.0.2.66" not in [pod.host for pod in near.linked_to]


async def test_the_machine_of_another_run_is_not_connected_to(cloud: Cloud, tmp_path: Path) -> None:
    _, theirs = await rented(cloud, tmp_path, "healthy")
    does, near = of_demo(cloud, tmp_path)
    with pytest.raises(RefusedError, match="not rented for demo"):
        await does.report(replace(theirs, label=label_of("demo", ulid()), host="192.0.2.66"))
    assert (near.linked_to, list(does.inventory.list())) == ([], [])


async def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer as an SSH server does at first."""
    writer.write(b"SSH-2.0-other\r\n")
    await writer.drain()
    writer.close()


@pytest.mark.parametrize(("shown", "verdict"), [("ssh-ed25519 B", "ended"), ("k", "unknown")])
async def test_a_machine_that_knows_no_host_key_sees_that_the_address_has_another_machine(
    cloud: Cloud,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    shown: str,
    verdict: str,
) -> None:
    """A job that starts with nothing: the pod is gone, and its address was given to another."""
    monkeypatch.setenv("BS4_VAST_URL", cloud.url("vast"))
    monkeypatch.setenv("VAST_API_KEY", cloud.KEY)
    monkeypatch.setenv("BS4_CONFIG_DIR", str(tmp_path / "config"))

    async with await asyncio.start_server(greet, "127.0.0.1", 0) as server:
        gone = Where(
            pod="demo-1",
            provider="vast",
            instance="987654",
            label=label_of("demo", ulid()),
            made=True,
            host="127.0.0.1",
            port=server.sockets[0].getsockname()[1],
            host_key="k",
        )
        store: Any = SimpleNamespace(entries=lambda root: [])
        now, found = 1000.0, []
        does, near = of_demo(cloud, tmp_path)
        does = replace(does, store=store, clock=lambda: now)
        near.error = HostKeyUnknown("New.", "Look.", "SHA256:x", shown, gone.pod)
        for _ in range(2):
            found += await does.signs(gone)
            now += 61.0
    assert liveness.judge(gone.pod, found, now).word == verdict
    assert (near.keys, list(does.inventory.list())) == ({}, [])


async def test_without_an_answer_of_the_provider_a_pod_is_looked_at_and_not_trusted(
    cloud: Cloud, tmp_path: Path
) -> None:
    @contextlib.asynccontextmanager
    async def none(_: str) -> AsyncIterator[Provisioner]:
        raise NoKey("vast", "There is no key.")
        yield

    _, ours = await rented(cloud, tmp_path, "demo")
    there = replace(ours, host="192.0.2.66", port=22, host_key="k")
    does, near = of_demo(cloud, tmp_path)
    does = replace(does, provisioner=none)
    assert await does.report(there) is not None
    with pytest.raises(NoKey):
        await does.launch(there, 1, ())
    assert [pod.host for pod in near.linked_to] == ["192.0.2.66"]
    assert (near.keys, list(does.inventory.list())) == ({}, [])


@pytest.mark.parametrize("label", ["a name of mine", None])
async def test_a_machine_that_was_renamed_is_looked_at_and_neither_set_up_nor_ended(
    cloud: Cloud, tmp_path: Path, label: str | None
) -> None:
    _, ours = await rented(cloud, tmp_path, "demo")
    cloud.market.rented[ours.instance].label = label
    there = replace(ours, host="192.0.2.66", port=22, host_key="k")
    does, near = of_demo(cloud, tmp_path)
    assert await does.report(there) is not None
    assert (near.keys, list(does.inventory.list())) == ({}, [])
    looks = len(near.linked_to)
    async with await asyncio.start_server(greet, "127.0.0.1", 0) as server:
        cloud.market.rented[ours.instance].state = "running"
        cloud.market.rented[ours.instance].address = server.sockets[0].getsockname()[:2]
        if label is None:
            assert await does.set_up(there) is None
        else:
            with pytest.raises(RefusedError, match="not rented for demo"):
                await does.set_up(there)
    for act in (does.launch(there, 1, ()), does.terminate(there, always)):
        with pytest.raises(RefusedError):
            await act
    assert len(near.linked_to) == looks
    assert cloud.sent("vast", "terminate") == []


async def test_a_pod_that_a_person_added_without_its_provider_is_the_machine_at_its_address(
    cloud: Cloud, tmp_path: Path
) -> None:
    _, ours = await rented(cloud, tmp_path, "demo")
    does, near = of_demo(cloud, tmp_path)
    async with does.provisioner("vast") as provisioner:
        # Until it runs, Vast tells the address of its own gateway in place of the machine's.
        async with asyncio.timeout(60):
            while True:
                machine = await provisioner.providers["vast"].machine(ours.instance)
                if machine is not None and machine.state == "running":
                    break
                await asyncio.sleep(0.05)
    assert machine.host is not None
    pod = Pod(name=ours.pod, host=machine.host, port=machine.port)
    does.inventory.add(pod)
    assert await does.report(replace(ours, host_key="k")) is not None
    assert (near.linked_to, near.keys) == ([pod], {ours.pod: "k"})


async def test_a_pod_that_a_person_added_is_used_for_no_machine_that_is_gone(
    cloud: Cloud, tmp_path: Path
) -> None:
    does, near = of_demo(cloud, tmp_path)
    pod = Pod(name="demo-1", host="192.0.2.41", port=22)
    does.inventory.add(pod)
    gone = replace(FIRST, pod="demo-1", instance="987654", made=True, host_key="k")
    with pytest.raises(RefusedError, match="another machine"):
        await does.report(replace(gone, host="192.0.2.66"))
    with pytest.raises(RefusedError, match="another machine"):
        await does.launch(replace(gone, host="192.0.2.41"), 1, ())
    assert near.linked_to == []
    assert await does.report(replace(gone, host="192.0.2.41")) is not None
    assert (near.linked_to, near.keys) == ([pod], {})
