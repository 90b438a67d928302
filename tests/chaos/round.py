"""One round: a pod under load, faults that overlap, and the account at its end."""

from __future__ import annotations

import asyncio
import random
import shutil
import time
from collections.abc import Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bs4_practice import tree
from tests.chaos import account, faults
from tests.chaos.console import Console
from tests.chaos.link import Link
from tests.chaos.load import (
    HOME_SIZE,
    STREAM,
    Held,
    Load,
    excess,
    held,
    journal_lines,
    kept_lines,
    moving_clock,
    run_body,
    sshd_lines,
)
from tests.chaos.reader import whole
from tests.e2e import journals
from tests.support import transports
from tests.support.namespaced import NamespacedPod

#: Seconds of a round under load.
LOAD_S = 30.0
#: Seconds after which what must come is given up. This machine may be busy.
PATIENCE_S = 120.0
#: Bytes that an agent and a console may have more at the end than at the start.
AGENT_MEMORY, CONSOLE_MEMORY = 12 << 20, 48 << 20


@dataclass
class Outcome:
    """What a round was and how it ended. `problems` is empty for a good one."""

    seed: str
    drawn: list[str]
    met: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    lines: int = 0
    gaps: int = 0
    action: str = ""


class Failed(Exception):
    """Raised if a round cannot go on; it says what was waited for in vain."""


def options(directory: Path) -> dict[str, Any]:
    """Return the options of the pod of a round, with what it needs in `directory`, which it then
    sees at the same path.
    """
    clock = moving_clock(directory)
    return {"home_size": HOME_SIZE, "sshd": sshd_lines(clock), "bind": [directory]}


async def until(condition: Callable[[], object], what: str, timeout: float = PATIENCE_S) -> None:
    """Wait for a condition. Raises Failed with `what`."""
    deadline = time.monotonic() + timeout
    while not await asyncio.to_thread(condition):
        if time.monotonic() > deadline:
            raise Failed(f"waited {timeout:g} s in vain for {what}")
        await asyncio.sleep(0.1)


async def play(
    pod: NamespacedPod, seed: str, directory: Path, always: Sequence[str] = ()
) -> Outcome:
    """Play the round of `seed` on a new pod, and return how it ended."""
    rng = random.Random(seed)
    drawn = faults.draw(rng, tuple(always))
    outcome = Outcome(seed, [f"{d.kind.name} at {d.at:.1f} for {d.seconds:.1f} s" for d in drawn])
    load, link = Load(pod), Link(pod.address, pod.port)
    await asyncio.to_thread(load.furnish)
    async with _console(load, link, directory) as console:
        world = faults.World(load, link, console, rng, outcome.met)
        try:
            await _play(world, drawn, outcome, directory)
        except Failed as failed:
            outcome.problems.append(f"{failed}; the console last told {console.told}")
            outcome.problems += console.refused[-3:]
    return outcome


@asynccontextmanager
async def _console(load: Load, link: Link, directory: Path) -> Any:
    await link.open()
    transports.trusting(directory, load.pod)
    order = {
        "name": load.pod.name,
        "host": "127.0.0.1",
        "port": link.port,
        "user": load.pod.user,
        "key_path": str(load.pod.key),
        "known_hosts": str(directory / "known_hosts"),
        "mirror": str(directory / "mirror"),
        "readings": str(directory / "readings"),
        "stream": STREAM,
    }
    console = Console(order, directory / "console.err")
    console.start()
    try:
        yield console
    finally:
        await console.kill()
        await link.close()


async def _play(
    world: faults.World, drawn: list[faults.Drawn], outcome: Outcome, directory: Path
) -> None:
    load, console = world.load, world.console
    await _synced(console, -1)
    console.order(do="submit", kind="launch", body=run_body("flood", "out"))
    await until(lambda: console.accepted, "the launch")
    (first,) = console.accepted
    await until(lambda: first in console.told.get("ended", {}), "the end of the launch")
    if console.told["ended"][first] != "done":
        raise Failed(f"the launch ended as {console.told['ended'][first]}")
    await until(lambda: load.starts("out"), "the start of the run")
    await until(lambda: ":" in console.told.get("cursor", ""), "the first lines")
    writer = await asyncio.to_thread(load.writer)
    await _synced(console, 0)
    before = await _holdings(load, console)
    began = time.monotonic()

    running = [asyncio.create_task(_do(world, one, began)) for one in drawn]
    running.append(asyncio.create_task(_act(world, drawn, began)))
    results = await asyncio.gather(*running, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    await asyncio.sleep(max(0.0, began + LOAD_S - time.monotonic()))

    load.stop()
    await until(lambda: load.written is not None, "the end of the writing")
    outcome.lines = load.written or 0
    await _synced(console, 1)
    await until(lambda: _at_end(directory, outcome.lines), "the last line")
    # Once more, for what the run's end and the last retry have put into the journal.
    await _synced(console, 2)
    outcome.problems += await asyncio.to_thread(_judge, world, outcome, directory, writer)
    outcome.problems += await _held_too_much(load, console, before)


async def _synced(console: Console, number: int) -> None:
    """Wait until the console has all that the pod says; ask again whenever it had to give up."""
    deadline = time.monotonic() + PATIENCE_S
    while number not in console.synced:
        if time.monotonic() > deadline:
            raise Failed(f"waited {PATIENCE_S:g} s in vain for a console that is up to date")
        if not console.alive:
            raise Failed("the console ended by itself")
        console.order(do="sync", number=number)
        for _ in range(50):
            if number in console.synced:
                break
            await asyncio.sleep(0.1)


async def _do(world: faults.World, one: faults.Drawn, began: float) -> None:
    await asyncio.sleep(max(0.0, began + one.at - time.monotonic()))
    with faults.noted(world, one.kind.name):
        await one.kind.fault(world, one.seconds)


async def _act(world: faults.World, drawn: list[faults.Drawn], began: float) -> None:
    """Submit an action; if a link fails in this round, just then."""
    at = drawn[-1].at
    for one in drawn:
        if one.kind.name in faults.LINK_KINDS:
            at = one.at
            break
    await asyncio.sleep(max(0.0, began + at + world.rng.uniform(-0.05, 0.4) - time.monotonic()))
    world.console.order(do="submit", kind="launch", body=run_body("second", "second"))


def _at_end(directory: Path, written: int) -> bool:
    """Whether the last line has been read."""
    last = b"line %08d " % (written - 1)
    return any(last in data for _, data, _ in whole(directory / "readings"))


def _judge(world: faults.World, outcome: Outcome, directory: Path, writer: Any) -> list[str]:
    """Return all that is wrong at the end of a round."""
    load, console = world.load, world.console
    readings = [(head, data) for head, data, _ in whole(directory / "readings")]
    outcome.gaps = sum(head["gap"] is not None for head, _ in readings)
    lossy = {"log-truncated", "log-deleted"} & set(outcome.met)
    found = account.problems(readings, outcome.lines, faults.HOSTILE, bool(lossy))
    found += account.mirror_problems(directory / "mirror", readings)

    launches = load.launches()
    second = launches.pop("launch second", [])
    outcome.action = "not accepted"
    if second:
        outcome.action = "accepted"
    if len(second) > 1 or len(load.starts("second")) > 1:
        found.append(f"one action was accepted {len(second)} times: {load.starts('second')}")
    for refusal in console.refused:
        if second and refusal.startswith(("submit: RefusedError", "submit: RemoteError")):
            found.append(f"one action was accepted, and then refused as another: {refusal}")
    for key in console.accepted[1:]:
        if key not in second:
            found.append(f"the action {key} was accepted, and is not in the journal")
    if list(launches) != ["launch flood"] or len(launches["launch flood"]) != 1:
        found.append(f"somebody acted: {launches}")

    shutil.rmtree(directory / "journal", ignore_errors=True)
    found += journals.problems(load.home, directory)
    lines, kept = journal_lines(load.home), kept_lines(directory / "mirror")
    if lines[: len(kept)] != kept or len(kept) < len(lines) - 20:
        found.append(f"the console's journal has {len(kept)} records, the pod's {len(lines)}")

    found += load.damage()
    if len(load.starts("out")) != 1 or not tree.alive(writer):
        found.append(f"the run was started again or ended: {load.starts('out')}")
    return found


async def _holdings(load: Load, console: Console) -> tuple[Held, Held]:
    agent = await asyncio.to_thread(load.agent)
    if agent is None:
        raise Failed("there is no agent")
    return held(agent.pid), held(console.pid)


async def _held_too_much(load: Load, console: Console, before: tuple[Held, Held]) -> list[str]:
    """Return what agent and console still hold beyond the start, after some time to let it go."""
    deadline = time.monotonic() + 40.0
    while True:
        agent, own = await _holdings(load, console)
        found = [f"the agent has {what}" for what in excess(before[0], agent, AGENT_MEMORY)]
        found += [f"the console has {what}" for what in excess(before[1], own, CONSOLE_MEMORY)]
        if not found or time.monotonic() > deadline:
            return found
        await asyncio.sleep(0.5)
