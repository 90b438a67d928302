"""A fleet has the pods that its inventory has, also when another terminal or an editor changes the
file.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bs4_console.fleet import watched as module
from bs4_console.fleet.watched import Fleet, Source
from bs4_console.pods.inventory import Inventory, Pod
from bs4_console.pods.state import PodState
from bs4_console.turns import Turns


class Session:
    """Stands in for a PodSession: says whether it runs, and with which entry it was made."""

    def __init__(self, pod: Pod) -> None:
        self.pod, self.state = pod, PodState(name=pod.name, address=pod.address)
        self.running = self.closed = False

    def take_turns(self, turns: Turns) -> None:
        """It reads nothing."""

    async def run(self) -> None:
        self.running = True
        try:
            await asyncio.Event().wait()
        finally:
            self.running = False

    async def close(self) -> None:
        self.closed = True


async def until(condition: Callable[[], Any]) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.005)


@pytest.fixture
def inventory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Inventory:
    monkeypatch.setattr(module, "LOOK_S", 0.01)
    made = Inventory(tmp_path / "pods.toml")
    made.add(Pod(name="first", host="127.0.0.1", port=1))
    return made


async def test_pods_that_are_added_changed_and_removed_elsewhere_are_followed(
    inventory: Inventory,
) -> None:
    made: list[Session] = []

    def make(pod: Pod) -> Any:
        made.append(Session(pod))
        return made[-1]

    fleet = Fleet(source=Source(inventory, make))
    changed: list[str] = []
    problems: list[str] = []
    fleet.on_change(lambda state: changed.append(state.name))
    fleet.on_problem(problems.append)
    assert list(fleet.sessions) == ["first"]
    fleet.start()
    try:
        await until(lambda: made[0].running)
        inventory.add(Pod(name="second", host="127.0.0.1", port=2))
        await until(lambda: "second" in fleet.sessions and made[1].running)
        assert "second" in changed
        assert made[0].running, "the others go on"

        before = inventory.path.read_text()
        inventory.path.write_text(before + "[pods.third\n")
        await until(lambda: problems)
        assert list(fleet.sessions) == ["first", "second"]
        assert problems[0].startswith(
            "The inventory was changed and cannot be read; the pods stay as they were."
        )
        assert len(problems) == 1, "once for each change"

        inventory.path.write_text(before.replace("port = 2", "port = 3"))
        await until(lambda: len(made) == 3 and made[2].running)
        await until(lambda: made[1].closed)
        assert not made[1].running
        assert made[2].pod.port == 3

        inventory.remove("first")
        await until(lambda: made[0].closed)
        assert not made[0].running
        assert "first" not in fleet.sessions
        inventory.path.unlink()
        await until(lambda: not fleet.sessions)
    finally:
        await fleet.stop()
    assert not any(session.running for session in made)
