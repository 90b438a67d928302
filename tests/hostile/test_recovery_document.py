"""A pod with a key for the store can write `recovery.json`, by which a controller with the keys of
the providers acts. What stands there names no machine of another run, leads to no other pod, and
forgets nothing that was paid for.
"""

from __future__ import annotations

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
from bs4_console.errors import RefusedError
from bs4_console.pods.inventory import Pod
from bs4_console.providers.base import label_of
from bs4_console.recovery.recovery_io import RealHands
from bs4_console.recovery.recovery_types import Absent
from bs4_console.recovery.state import Attempt, Records, State, Where
from bs4_practice.cloud import Cloud, running
from tests.console.recovery.recovering import FIRST, LAYOUT, World, WorldStore
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
    assert Records(store, LAYOUT, tmp_path).save(replace(SOUND, attempts=(paid,)))
    cheap, other = replace(paid, price=0.0, t=5000.0), replace(paid, label="other", price=1.0)
    for attempts in ((), (cheap,), (replace(paid, instance=""),)):
        # A controller that is started anew on this machine.
        known = Records(store, LAYOUT, tmp_path).paid((*attempts, other))
        spent = replace(SOUND, attempts=known).spent(0.0, 1000.0 + 3600.0)
        assert spent == pytest.approx(7.0)


@pytest.fixture
def cloud() -> Iterator[Cloud]:
    with running() as found:
        yield found


class Near:
    """Keeps the pods that were connected to and the keys that were pinned."""

    def __init__(self) -> None:
        self.linked_to: list[Pod] = []
        self.keys: dict[str, str] = {}

    @contextlib.asynccontextmanager
    async def linked(self, pod: Pod, **_: Any) -> AsyncIterator[Any]:
        self.linked_to.append(pod)
        yield SimpleNamespace(state=SimpleNamespace(runs={}))

    def pinned(self, pod: str) -> list[str]:
        return [self.keys[pod]] if pod in self.keys else []

    def pin(self, pod: str, key: str) -> None:
        self.keys[pod] = key


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
