"""A pod that sends what no agent writes, beside a good one: the good one is judged and shown, the
rotten one says what was refused.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from bs4_console.errors import ConsoleError
from bs4_console.fleet.watched import Fleet
from bs4_console.pods.inventory import Pod
from bs4_console.pods.mirror import Mirror
from bs4_console.pods.session import PodSession
from bs4_console.pods.state import PodState
from bs4_console.transport.hostkeys import HostKeys
from bs4_console.transport.ssh import SshTransport
from bs4_console.tui.app import ConsoleApp
from bs4_console.tui.status import wrong
from tests.console.cli.conftest import Console
from tests.console.tui.driving import until
from tests.hostile.evil_pod import EvilPod, Lies, odd_journals
from tests.support import keys

CASES = dict(odd_journals())


@contextlib.asynccontextmanager
async def two_pods(lies: Lies, directory: Path) -> AsyncIterator[tuple[EvilPod, EvilPod]]:
    evil, good = (
        EvilPod(lies, directory / "evil"),
        EvilPod(Lies(home="goodhome1"), directory / "good"),
    )
    await evil.start()
    await good.start()
    try:
        yield evil, good
    finally:
        await evil.stop()
        await good.stop()


def session(name: str, pod: EvilPod, directory: Path) -> PodSession:
    known = HostKeys(directory / "known_hosts")
    known.pin(name, keys.public_line(pod.host_key))
    entry = Pod(
        name=name,
        host="127.0.0.1",
        port=pod.port,
        user="tester",
        identity_file=str(pod.user_key),
        ssh_config=False,
    )
    return PodSession(
        PodState(name=name, address=entry.address),
        lambda: SshTransport(entry, known),
        Mirror(directory / name),
        "tester",
    )


def shown(app: ConsoleApp) -> str:
    return "\n".join(str(strip.text) for strip in app.screen._compositor.render_strips())


def with_a_run(app: ConsoleApp) -> set[str]:
    """Return the pods whose row on the screen names their run, as it does once they were read."""
    rows = shown(app).splitlines()
    return {name for name in ("evil", "good") for row in rows if name in row and " r1 " in row}


async def said_by(console: Console, *words: str) -> dict[str, Any]:
    done = await asyncio.to_thread(console, *words, timeout=60.0)
    assert "Traceback" not in done.err, done.err
    found: dict[str, Any] = json.loads(done.out)
    return found


@pytest.mark.long
@pytest.mark.beside
@pytest.mark.parametrize("case", CASES)
async def test_check_has_a_verdict_for_each_pod(case: str, tmp_path: Path) -> None:
    console = Console(tmp_path)
    async with two_pods(CASES[case], tmp_path) as (evil, good):
        evil.join(console, "evil")
        good.join(console, "good")
        found = await said_by(console, "check", "--json")
        assert {pod["pod"] for pod in found["pods"]} == {"evil", "good"}
        assert next(pod for pod in found["pods"] if pod["pod"] == "good")["status"] in (
            "OK",
            "WARNING",
        )
        assert "r1" in [
            run["name"] for run in (await said_by(console, "runs", "list", "--json"))["runs"]
        ]


@pytest.mark.parametrize("case", CASES)
async def test_the_screen_shows_both_pods_now_and_at_the_next_start(
    case: str, tmp_path: Path
) -> None:
    async with two_pods(CASES[case], tmp_path) as (evil, good):
        for meeting in ("first", "from what was kept"):
            fleet = Fleet([session("evil", evil, tmp_path), session("good", good, tmp_path)])
            app = ConsoleApp(fleet)
            async with app.run_test(size=(140, 40)) as pilot:
                await until(
                    pilot,
                    lambda fleet=fleet: all(
                        "r1" in pod.runs and pod.runs["r1"].trainer_steps for pod in fleet.pods
                    ),
                )
                await until(pilot, lambda app=app: with_a_run(app) == {"evil", "good"})
                await pilot.press("question_mark")
                await until(pilot, lambda app=app: "ON THIS" in shown(app).upper())
                refused = " ".join(fleet.sessions["evil"].state.notes.values())
                # An unknown type is what a newer agent writes: it is nothing to complain of.
                if meeting == "first" and case != "a method's name for a type":
                    assert "were refused, the first because" in refused
                    state = fleet.sessions["evil"].state
                    assert any(
                        "were refused" in phrase
                        for phrase, _ in wrong(state, state.runs["r1"], app.clock)
                    )
                assert fleet.sessions["good"].state.notes == {}
            # The second round reads what the first one kept, with the evil pod gone.
            await evil.stop()


async def test_a_session_that_fails_says_so_and_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A defect of ours stands in for what nobody foresaw; before, the pod stayed "running,
    connected".
    """

    def broken(self: object, header: object) -> None:
        raise OverflowError("int too large to convert to float")

    async with two_pods(Lies(), tmp_path) as (evil, good):
        fleet = Fleet([session("evil", evil, tmp_path), session("good", good, tmp_path)])
        monkeypatch.setattr(fleet.sessions["evil"], "_meet", lambda channel: broken(None, channel))
        fleet.start()
        try:
            state, other = (fleet.sessions[name].state for name in ("evil", "good"))
            async with asyncio.timeout(30):
                while state.link.attempts < 2 or not other.link.up:
                    await asyncio.sleep(0.02)
            assert state.link.state == "failed"
            assert state.link.detail.startswith(
                "The session of evil failed: OverflowError at test_rotten_pod.py:"
            )
        finally:
            await fleet.stop()


async def test_a_session_that_ends_is_said_on_its_pod(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with two_pods(Lies(), tmp_path) as (evil, _):
        fleet = Fleet([session("evil", evil, tmp_path)])
        one = fleet.sessions["evil"]

        async def broken() -> None:
            raise ZeroDivisionError("a defect of ours")

        monkeypatch.setattr(one, "run", broken)
        fleet.start()
        async with asyncio.timeout(30):
            while one.state.link.state != "failed":
                await asyncio.sleep(0.01)
        assert "ZeroDivisionError" in one.state.link.detail
        await fleet.stop()


@pytest.mark.parametrize("t", [int("9" * 400), "soon", None, [1]])
async def test_a_ping_that_is_no_time_is_an_error_of_that_pod(t: object, tmp_path: Path) -> None:
    async with two_pods(Lies(pong={"t": t}), tmp_path) as (evil, _):
        one = session("evil", evil, tmp_path)
        life = asyncio.create_task(one.run_once())
        with pytest.raises(
            ConsoleError,
            match="evil answered a ping with what no agent sends: t is not a time",
        ):
            async with asyncio.timeout(30):
                await life
