"""The controller's hands on real HTTP: clouds that lose answers, a store with two controllers at
it.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from bs4_common.checkpoints.remote.b2 import B2Store
from bs4_common.checkpoints.remote.layout import Layout
from bs4_common.ids import ulid
from bs4_console import providers
from bs4_console.errors import RefusedError, Unreachable
from bs4_console.fleet.liveness_probe import beside_the_link
from bs4_console.pods.inventory import Inventory, Pod
from bs4_console.pods.liveness import judge
from bs4_console.providers.base import label_of
from bs4_console.provision.rent import Patience, Provisioner
from bs4_console.recovery.config import RunConfig
from bs4_console.recovery.lease import Grant, Lease, LeaseHeld
from bs4_console.recovery.recovery_io import KeyedBook, RealHands
from bs4_console.recovery.recovery_types import Absent, Doubt
from bs4_console.recovery.state import Where
from bs4_console.secret import Secret
from bs4_practice.b2.server import B2Server
from bs4_practice.cloud import Cloud, running
from tests.console.tui import fixtures

KEY = "01K0000000000000000000000A"
CONFIG = RunConfig(
    run="demo",
    pod="alpha",
    store="b2://practice-bucket/saved",
    trainer="prime-rl",
    gpu="H100",
    max_price=5.0,
    per_day=100.0,
    per_run=500.0,
    count=2,
    trust_first_key=True,
)


@pytest.fixture
def cloud() -> Iterator[Cloud]:
    with running() as found:
        yield found


def always() -> bool:
    return True


def hands(cloud: Cloud, place: Path, config: RunConfig = CONFIG, name: str = "vast") -> RealHands:
    @contextlib.asynccontextmanager
    async def provisioner(only: str) -> AsyncIterator[Provisioner]:
        async with httpx.AsyncClient() as client:
            address = {f"BS4_{name.upper()}_URL": cloud.url(name)}
            yield Provisioner(
                [providers.make(name, client, key=(Secret(cloud.KEY),), environment=address)],
                KeyedBook(place / "book"),
                "tester",
                patience=Patience(looks=2, every_s=0.1, end_s=5, poll_s=0.1),
            )

    nothing: Any = None
    return RealHands(
        config=config,
        store=nothing,
        reach=nothing,
        provisioner=provisioner,
        public_key="ssh-ed25519 AAAA test",
        inventory=Inventory(place / "pods.toml"),
    )


async def test_the_cheapest_under_the_cap_with_the_label_that_was_written_down(cloud, tmp_path):
    does = hands(cloud, tmp_path)
    chosen = await does.choose(5.0)
    assert chosen is not None
    assert chosen.provider == "vast"
    # 503 with its disk; 502 is dearer, 501 above the cap
    assert chosen.price == pytest.approx(3.96)
    label = label_of("demo", KEY)
    where = await does.create(chosen, label, always)
    assert [m.label for m in cloud.market.living()] == [label]
    assert (where.label, where.made, where.pod) == (label, True, "demo-00000a")
    assert await does.terminate(where, lambda: False) is False
    assert cloud.sent("vast", "terminate") == []
    assert await does.terminate(where, always) is True
    assert cloud.market.living() == []
    assert await does.terminate(where, always) is True, "gone is gone"


async def test_a_machine_that_is_not_listed_yet_is_neither_failed_nor_gone(cloud, tmp_path):
    """Lists lag behind a create: given up, it would go on costing, and another one would be rented
    beside it.
    """
    does = hands(cloud, tmp_path)
    chosen = await does.choose(5.0)
    assert chosen is not None
    cloud.fault("vast", "create", "lag", seconds=600)
    label = label_of("demo", ulid())
    where = await does.create(chosen, label, always)
    assert await does.set_up(where) is None
    assert await does.terminate(where, always) is False
    assert [m.label for m in cloud.market.living()] == [label]


async def test_no_offer_under_the_cap(cloud, tmp_path):
    assert await hands(cloud, tmp_path).choose(1.0) is None


@pytest.mark.parametrize("kind", ["500-after", "drop-after"])
async def test_a_create_whose_answer_was_lost_is_one_machine(cloud, tmp_path, kind):
    does = hands(cloud, tmp_path)
    chosen = await does.choose(5.0)
    assert chosen is not None
    cloud.fault("vast", "create", kind)
    label = label_of("demo", KEY)
    with contextlib.suppress(Doubt):
        await does.create(chosen, label, always)
    # Another machine's controller, which knows the label from the store alone.
    found = await hands(cloud, tmp_path / "other").find(label, "vast")
    assert [m.id for m in cloud.market.living()] == [found.instance]


async def test_nothing_is_asked_for_when_it_is_too_late(cloud, tmp_path):
    does = hands(cloud, tmp_path)
    chosen = await does.choose(5.0)
    assert chosen is not None
    with pytest.raises(Absent, match="too late"):
        await does.create(chosen, label_of("demo", KEY), lambda: False)
    assert cloud.sent("vast", "create") == []


async def test_what_was_never_made_is_absent(cloud, tmp_path):
    with pytest.raises(Absent):
        await hands(cloud, tmp_path).find(label_of("demo", KEY), "vast")


async def test_a_provider_that_does_not_answer_leaves_doubt(cloud, tmp_path):
    cloud.fault("vast", "*", "500", times=100)
    with pytest.raises(Doubt):
        await hands(cloud, tmp_path).find(label_of("demo", KEY), "vast")


async def test_only_the_machine_of_exactly_this_label_is_ended(cloud, tmp_path):
    """Defect 1.8 and 1.9: by the beginning of a label, run `a` also ended `a-v2`."""
    does = hands(cloud, tmp_path, replace(CONFIG, run="demo-v2"))
    chosen = await does.choose(5.0)
    assert chosen is not None
    where = await does.create(chosen, label_of("demo-v2", KEY), always)
    with pytest.raises(RefusedError, match="it is not the one"):
        await does.terminate(replace(where, label=label_of("demo", KEY)), always)
    assert len(cloud.market.living()) == 1


async def test_nothing_is_rented_whose_host_key_nobody_can_confirm(cloud, tmp_path):
    with pytest.raises(RefusedError, match="host key"):
        await hands(cloud, tmp_path, replace(CONFIG, trust_first_key=False), "prime").choose(5.0)


@pytest.mark.parametrize(
    ("state", "said"),
    [("stopped", "looked at again before that is believed"), ("running", "hung, or cut off")],
)
async def test_a_check_says_what_the_provider_says(cloud, tmp_path, monkeypatch, state, said):
    does = hands(cloud, tmp_path)
    chosen = await does.choose(5.0)
    assert chosen is not None
    where = await does.create(chosen, label_of("demo", KEY), always)
    cloud.market.rented[where.instance].state = state
    monkeypatch.setenv("BS4_VAST_URL", cloud.url("vast"))
    monkeypatch.setenv("VAST_API_KEY", cloud.KEY)
    monkeypatch.setenv("BS4_CONFIG_DIR", str(tmp_path / "config"))
    pod = Pod(name="alpha", host="192.0.2.1", provider="vast", instance=where.instance)
    assert said in await beside_the_link(pod, Unreachable("No answer.", "Wait."))
    assert (
        await beside_the_link(replace(pod, instance=None), Unreachable("No answer.", "Wait.")) == ""
    )


@pytest.mark.long
@pytest.mark.beside
async def test_the_lease_over_the_stores_own_api(tmp_path):
    ahead = 0.0
    with B2Server(tmp_path / "b2", clock=lambda: time.time() + ahead) as server:
        server.bucket("practice-bucket")
        key = server.key()
        limited = server.key("listBuckets", "listFiles", "readFiles", "writeFiles")

        def lease(owner: str, by: Any = key) -> Lease:
            store = B2Store.open("practice-bucket", by.id, by.secret, at=server.url)
            # By a clock that stands still here, as a busy machine is no slow store.
            return Lease(
                store,
                Layout("saved", "demo"),
                owner,
                ttl_s=600.0,
                settle_s=1.0,
                margin_s=60.0,
                clock=lambda: 0.0,
            )

        one, two = lease("one"), lease("two", limited)
        results = await asyncio.gather(one.take(), two.take(), return_exceptions=True)
        assert sum(isinstance(r, LeaseHeld) for r in results) >= 1, results
        for loser in (one, two):
            await loser.release()
        ahead += 700.0  # a key that may not delete leaves its claim, which ends by itself

        async def taken(by: Lease) -> Grant:
            async with asyncio.timeout(60):
                while True:
                    try:
                        return await by.take()
                    except LeaseHeld:
                        await asyncio.sleep(0.5)

        holder = lease("holder")
        await taken(holder)
        with pytest.raises(LeaseHeld, match="holder"):
            await lease("late").take()
        assert (await holder.guard()).left_s() > 0
        # It dies without a word: what it held ends by itself.
        ahead += 700.0
        assert (await taken(lease("next"))).left_s() > 0
        with pytest.raises(LeaseHeld):
            await holder.guard()


async def test_while_a_new_step_is_waited_for_each_incident_of_the_attempt_is_told_once(
    cloud: Cloud, tmp_path: Path
) -> None:
    pod = fixtures.connected("alpha", "root@192.0.2.41:22")
    fixtures.start_run(pod, "demo", "prime-rl", 400, 100)
    fixtures.start_run(pod, "demo", "prime-rl", 400, 60, attempt=2)
    for attempt, incident in ((1, "of-before"), (2, "of-now")):
        known = {
            "failure": "f",
            "title": "T",
            "run": "demo",
            "attempt": attempt,
            "severity": "critical",
        }
        fixtures.journal(pod, "incident", 50, event="opened", incident=incident, **known)

    class Near:
        @contextlib.asynccontextmanager
        async def linked(self, *_: Any, **__: Any) -> AsyncIterator[Any]:
            yield SimpleNamespace(state=pod)

    told: list[tuple[str, str]] = []
    reach: Any = Near()
    inventory = Inventory(tmp_path / "pods.toml")
    inventory.add(Pod(name="alpha", host="192.0.2.41"))
    does = replace(
        hands(cloud, tmp_path),
        reach=reach,
        inventory=inventory,
        tell=lambda name, incident: told.append((name, incident.id)),
    )
    for _ in range(2):
        assert await does.report(Where(pod="alpha")) is not None
    assert told == [("alpha", "of-now")]


async def test_a_run_that_a_person_stopped_is_not_said_to_have_failed(
    cloud: Cloud, tmp_path: Path
) -> None:
    pod = fixtures.connected("alpha", "root@192.0.2.41:22")
    fixtures.start_run(pod, "demo", "prime-rl", 400, 60)
    stop = {"event": "accepted", "action": "S", "kind": "stop", "run": "demo", "who": "root@vm"}
    fixtures.journal(pod, "action", 30, **stop)
    ended = {"event": "attempt-ended", "run": "demo", "attempt": 1, "code": 1, "good": False}
    fixtures.journal(pod, "run", 20, **ended)

    class Near:
        @contextlib.asynccontextmanager
        async def linked(self, *_: Any, **__: Any) -> AsyncIterator[Any]:
            yield SimpleNamespace(state=pod)

    reach: Any = Near()
    inventory = Inventory(tmp_path / "pods.toml")
    inventory.add(Pod(name="alpha", host="192.0.2.41"))
    does = replace(hands(cloud, tmp_path), reach=reach, inventory=inventory)
    signs = await does.signs(Where(pod="alpha"))
    assert judge("alpha", signs, does.clock()).sentence == "alpha answers; its run is stopped."
