"""A console that stays open says what became of a pod: from its own tries and from who else is
asked, never from one look.
"""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest

from bs4_console.fleet.liveness_probe import at_its_port
from bs4_console.fleet.liveness_watch import SILENT_S, WRONG_S, LostWatch, RealLooks
from bs4_console.fleet.watched import Fleet
from bs4_console.pods.liveness import Verdict
from bs4_console.pods.observer import Observation
from bs4_console.pods.state import Ledger, PodState
from bs4_console.providers.base import label_of
from bs4_practice.cloud import running
from tests.console.recovery.test_recovery_io import hands


class Looks:
    """What the world answers now."""

    def __init__(self) -> None:
        self.says: Observation | None = None
        self.greets: Any = None
        self.route = True
        self.asked: list[str] = []

    async def provider(self, pod: str) -> Observation | None:
        self.asked.append(pod)
        return self.says

    async def port(self, pod: str) -> Any:
        return self.greets

    def network(self) -> bool:
        return self.route


class World:
    """One pod, its watch and a clock that is moved by hand."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.pod = PodState(name="alpha", address="root@192.0.2.9")
        self.pods = [self.pod]
        self.looks = Looks()
        self.watch = LostWatch(lambda: self.pods, self.looks, clock=lambda: self.now)
        self.told = 0
        self.pod.listeners.append(lambda pod: setattr(self, "told", self.told + 1))
        self.link("up")

    def link(self, word: str) -> None:
        """One more try, and how it ended."""
        self.pod.link.attempts += 1
        self.pod.link.state = word
        self.pod.link.since = self.now

    async def pass_time(self, seconds: float, *, tries: bool = True) -> None:
        """In ticks of five seconds; a silent pod is tried again in each minute."""
        for number in range(int(seconds // 5)):
            self.now += 5
            if tries and not self.pod.link.up and number % 6 == 5:
                self.pod.link.attempts += 1
            self.watch.tick()
            await self.watch.settled()

    @property
    def verdict(self) -> Verdict:
        assert self.pod.lost is not None
        return self.pod.lost

    @property
    def word(self) -> str:
        return self.pod.lost.word if self.pod.lost is not None else ""

    def boot(self, boot: str) -> None:
        self.pod.telemetry.append({"b": boot, "t": 0.0, "m": 0.0})

    def run(self, name: str = "demo") -> Any:
        self.pod.apply_journal(
            {"type": "run", "event": "registered", "run": name, "t": 1.0, "seq": 1}
        )
        self.pod.apply_journal(
            {
                "type": "run",
                "event": "attempt-started",
                "run": name,
                "attempt": 1,
                "t": 2.0,
                "seq": 2,
            }
        )
        return self.pod.runs[name]


def gone(word: str = "outbid") -> Observation:
    return Observation(
        state="stopped",
        detail=f"vast says that machine 4711 is {word}.",
        seen_t=1.0,
        raw_state=word,
    )


async def test_taken_back_is_told_after_two_looks_and_a_minute_and_by_both_signs() -> None:
    world = World()
    world.looks.says = gone()
    await world.pass_time(60)
    assert world.looks.asked == [], "a pod that is well is nobody's business"
    assert world.pod.lost is None
    world.link("lost")
    await world.pass_time(45)
    assert world.word == "unknown"
    assert "looked at again" in world.verdict.sentence
    await world.pass_time(60)
    assert world.word == "reclaimed"
    assert {sign.source for sign in world.verdict.evidence} == {"ssh", "provider"}
    assert world.pod.provider is world.looks.says
    assert len(world.looks.asked) == pytest.approx(105 / SILENT_S, abs=1)
    world.link("up")
    await world.pass_time(5)
    assert world.pod.lost is None, "the pod itself knows better"


async def test_a_pause_between_two_tries_is_no_second_look() -> None:
    """The link was tried once: however long ago that is, nobody knows whether anything answers
    now.
    """
    world = World()
    world.looks.says = gone()
    world.link("unreachable")
    await world.pass_time(200, tries=False)
    assert world.word == "unknown"


async def test_what_is_no_silence_is_not_judged() -> None:
    world = World()
    world.looks.says = gone()
    world.link("auth failed")
    await world.pass_time(200)
    assert world.pod.lost is None
    assert world.looks.asked == []


async def test_weights_and_biases_that_hears_on_makes_it_the_link_alone() -> None:
    world = World()
    world.run()
    world.link("unreachable")
    await world.pass_time(30)
    for beat in (10.0, 70.0):
        world.pod.sights["demo"] = Observation(
            state="running", detail="", seen_t=beat, looked_t=beat + 1
        )
        await world.pass_time(30)
    assert world.word == "network-only"
    assert "goes on" in world.verdict.sentence


async def test_two_runs_of_which_one_was_heard_from_later_are_no_sign_of_life() -> None:
    world = World()
    world.link("unreachable")
    world.pod.sights = {"one": Observation(state="running", detail="", seen_t=10.0, looked_t=11.0)}
    await world.pass_time(30)
    world.pod.sights = {
        "two": Observation(state="running", detail="", seen_t=9.0, looked_t=71.0),
        "one": Observation(state="running", detail="", seen_t=10.0, looked_t=71.0),
    }
    await world.pass_time(30)
    assert world.word == "unknown"


async def test_a_machine_without_a_network_says_that_of_itself() -> None:
    world = World()
    world.looks.route = False
    world.link("unreachable")
    await world.pass_time(10)
    assert world.word == "network-only"
    assert "own network is down" in world.verdict.sentence
    other = PodState(name="beta")
    other.link.state = "up"
    world.pods.append(other)
    await world.pass_time(10)
    assert world.word == "unknown", "another pod answers: there is a network"


async def test_a_pod_that_takes_connections_without_a_word_hangs() -> None:
    world = World()
    world.looks.says, world.looks.greets = (
        Observation(
            state="running", detail="runpod says that it runs.", seen_t=1.0, raw_state="RUNNING"
        ),
        "mute",
    )
    world.link("unreachable")
    await world.pass_time(90)
    assert world.word == "hung"


async def test_another_boot_is_told_until_the_run_moves() -> None:
    world = World()
    run = world.run()
    world.boot("first")
    await world.pass_time(10)
    world.link("lost")
    await world.pass_time(30)
    world.link("up")
    world.boot("second")
    await world.pass_time(5)
    assert world.word == "rebooted"
    run.trainer_steps.append({"step": 3, "attempt": 1})
    run.step_seen = world.now
    await world.pass_time(5)
    assert world.pod.lost is None


async def test_another_machine_under_the_name_is_no_reboot() -> None:
    world = World()
    world.boot("first")
    await world.pass_time(10)
    world.pod.forget()
    world.pod.ledger = Ledger()
    world.boot("second")
    await world.pass_time(10)
    assert world.pod.lost is None


async def test_the_provider_is_asked_seldom_while_only_something_is_wrong() -> None:
    world = World()
    world.looks.says = Observation(state="running", detail="vast says that it runs.", seen_t=1.0)
    world.run()
    world.pod.apply_journal(
        {
            "type": "incident",
            "event": "opened",
            "incident": "i",
            "failure": "run-stalled",
            "run": "demo",
            "t": 3.0,
            "seq": 3,
        }
    )
    await world.pass_time(WRONG_S * 2 + 20)
    assert len(world.looks.asked) == 3
    assert world.pod.provider is world.looks.says
    assert world.pod.lost is None


async def test_nothing_is_told_where_nothing_has_changed() -> None:
    world = World()
    world.looks.says = None
    world.link("unreachable")
    await world.pass_time(5, tries=False)
    told = world.told
    for _ in range(4):
        world.now += 5
        world.watch.tick()
    assert world.told == told


@pytest.mark.parametrize(("says", "word"), [(b"SSH-2.0-x\r\n", "open"), (b"", "mute")])
async def test_who_answers_at_an_address(says: bytes, word: str) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(says)
        await reader.read()
        writer.close()

    with socket.socket() as place:
        # Bound and never listening: no other process gets the port once the server is gone.
        place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        place.bind(("127.0.0.1", 0))
        port = int(place.getsockname()[1])
        server = await asyncio.start_server(serve, "127.0.0.1", port, reuse_address=True)
        async with server:
            assert await at_its_port("127.0.0.1", port, 20.0 if says else 1.0) == word
        assert await at_its_port("127.0.0.1", port, 20.0) == "refused"


async def test_what_the_inventory_does_not_know_is_not_asked(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BS4_CONFIG_DIR", str(tmp_path))
    (tmp_path / "pods.toml").write_text(
        '[pods.alpha]\nhost = "192.0.2.1"\n[pods.beta]\nhost = "192.0.2.2"\njump = "gate"\n'
    )
    looks = RealLooks()
    assert await looks.provider("alpha") is None
    unknown = await looks.provider("gamma")
    assert unknown is not None
    assert (unknown.state, "gamma" in unknown.detail) == ("unknown", True)
    assert await looks.port("beta") is None, "behind a jump host its address says nothing"


async def test_the_provider_itself_over_http(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine that is rented, paused by its market, and no more there."""
    with running() as cloud:
        does = hands(cloud, tmp_path)
        chosen = await does.choose(5.0)
        assert chosen is not None
        where = await does.create(
            chosen, label_of("demo", "01K0000000000000000000000A"), lambda: True
        )
        monkeypatch.setenv("BS4_VAST_URL", cloud.url("vast"))
        monkeypatch.setenv("VAST_API_KEY", cloud.KEY)
        monkeypatch.setenv("BS4_CONFIG_DIR", str(tmp_path))
        (tmp_path / "pods.toml").write_text(
            '[pods.alpha]\nhost = "127.0.0.1"\nport = 1\nprovider = "vast"\ninstance = '
            f'"{where.instance}"\n'
        )
        world = World()
        world.watch = LostWatch(lambda: world.pods, RealLooks(), clock=lambda: world.now)
        cloud.market.rented[where.instance].state = "stopped"
        world.link("unreachable")
        await world.pass_time(120)
        assert world.word == "reclaimed"
        assert world.pod.provider is not None
        assert where.instance in world.pod.provider.detail


async def test_a_fleet_starts_it_and_ends_it(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BS4_CONFIG_DIR", str(tmp_path))
    fleet = Fleet(outside=True)
    before = asyncio.all_tasks()
    fleet.start()
    assert len(asyncio.all_tasks() - before) == 2
    await fleet.stop()
    assert asyncio.all_tasks() == before
