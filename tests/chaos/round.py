"""One round: a pod under load, faults that overlap, and the account at its end."""

from __future__ import annotations

import asyncio
import random
import shutil
import time
from collections.abc import Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bs4_practice import tree
from tests.chaos import account, faults, kinds, records
from tests.chaos.console import ROOT, Console
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
from tests.chaos.world import PATIENCE_S, Failed, World, until
from tests.e2e import journals
from tests.support import transports
from tests.support.namespaced import NamespacedPod

#: Seconds of a round under load.
LOAD_S = 30.0
#: Bytes that an agent and a console may have more at the end than at the start.
AGENT_MEMORY, CONSOLE_MEMORY = 12 << 20, 48 << 20


@dataclass
class Outcome:
    """What a round was and how it ended. `problems` is empty for a good one. `unmet` says of each
    fault that could not be done why not.
    """

    seed: str
    drawn: list[str]
    met: list[str] = field(default_factory=list)
    unmet: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    lines: int = 0
    gaps: int = 0
    action: str = ""


def options(directory: Path) -> dict[str, Any]:
    """Return the options of the pod of a round, with what it needs in `directory`, which it then
    sees at the same path.
    """
    clock = moving_clock(directory)
    return {"home_size": HOME_SIZE, "sshd": sshd_lines(clock), "bind": [directory]}


async def play(
    pod: NamespacedPod,
    seed: str,
    directory: Path,
    always: Sequence[str] = (),
    sources: Path = ROOT,
) -> Outcome:
    """Play the round of `seed` on a new pod, and return how it ended. The first console, and so the
    first agent, is that of `sources`, a tree of this repository.
    """
    rng = random.Random(seed)
    drawn = kinds.draw(rng, tuple(always))
    outcome = Outcome(seed, [f"{d.kind.name} at {d.at:.1f} for {d.seconds:.1f} s" for d in drawn])
    load, link = Load(pod), Link(pod.address, pod.port)
    await asyncio.to_thread(load.furnish)
    async with _console(load, link, directory, sources) as console:
        world = World(load, link, console, rng, outcome.met, directory)
        world.unmet = outcome.unmet
        try:
            await _play(world, drawn, outcome, directory)
        except Failed as failed:
            outcome.problems += [*world.problems, f"{failed}; the console last told {console.told}"]
            outcome.problems += [
                f"{tag}: {why}" for tag, (_, why) in console.answers.items() if why
            ]
        if outcome.problems:
            # What the agent said is the first thing that one looks at. A pod may be off, or full.
            with suppress(OSError, AssertionError):
                shutil.copy(load.home / ".bs4" / "agent.log", directory)
    return outcome


@asynccontextmanager
async def _console(load: Load, link: Link, directory: Path, sources: Path) -> Any:
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
    console = Console(order, directory / "console.err", sources)
    console.start()
    try:
        yield console
    finally:
        await console.kill()
        await link.close()


async def _play(world: World, drawn: list[kinds.Drawn], outcome: Outcome, directory: Path) -> None:
    load, console = world.load, world.console
    await _synced(console, -1)
    await world.launched("flood", run_body("flood", "out"))
    await until(lambda: ":" in console.told.get("cursor", ""), "the first lines")
    world.writer = await asyncio.to_thread(load.writer)
    for one in drawn:
        await one.kind.prepare(world)
    await _synced(console, 0)
    before = await _holdings(load, console)
    began = world.load_since = time.monotonic()

    running = [asyncio.create_task(_do(world, one, began)) for one in drawn]
    running.append(asyncio.create_task(_act(world, drawn, began)))
    results = await asyncio.gather(*running, return_exceptions=True)
    failed = [result for result in results if isinstance(result, BaseException)]
    if failed:
        for further in failed[1:]:
            failed[0].add_note(f"and {further!r}")
        raise failed[0]
    await asyncio.sleep(max(0.0, world.load_since + LOAD_S - time.monotonic()))
    for one in drawn:
        outcome.problems += await one.kind.settle(world)

    load.stop()
    await until(lambda: load.written is not None, "the end of the writing")
    outcome.lines = load.written or 0
    await _synced(console, 1)
    await until(lambda: _at_end(directory, outcome.lines), "the last line")
    # Once more, for what the run's end and the last retry have put into the journal.
    await _synced(console, 2)
    outcome.problems += world.problems
    outcome.problems += await asyncio.to_thread(_judge, world, outcome, directory)
    # One that waits for another's end is there for a while.
    await until(lambda: len(load.agents()) == 1, "the end of all agents but one")
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


async def _do(world: World, one: kinds.Drawn, began: float) -> None:
    await asyncio.sleep(max(0.0, began + one.at - time.monotonic()))
    with kinds.noted(world, one.kind.name):
        await one.kind.fault(world, one.seconds)


async def _act(world: World, drawn: list[kinds.Drawn], began: float) -> None:
    """Submit an action; if a link fails in this round, just then."""
    at = drawn[-1].at
    for one in drawn:
        if one.kind.name in kinds.LINK_KINDS:
            at = one.at
            break
    await asyncio.sleep(max(0.0, began + at + world.rng.uniform(-0.05, 0.4) - time.monotonic()))
    world.orders["launch second"] = 1
    world.console.order(
        do="submit", tag="launch second", kind="launch", body=run_body("second", "second")
    )


def _at_end(directory: Path, written: int) -> bool:
    """Whether the last line has been read."""
    last = b"line %08d " % (written - 1)
    return any(last in data for _, data, _ in whole(directory / "readings"))


def _judge(world: World, outcome: Outcome, directory: Path) -> list[str]:
    """Return all that is wrong at the end of a round."""
    load = world.load
    readings = [(head, data) for head, data, _ in whole(directory / "readings")]
    outcome.gaps = sum(head["gap"] is not None for head, _ in readings)
    lossy = {"log-truncated", "log-deleted"} & set(outcome.met)
    others = [*faults.HOSTILE, *load.torn()]
    found = account.problems(readings, outcome.lines, others, bool(lossy))
    found += account.mirror_problems(directory / "mirror", readings)
    found += _misdeeds(world, outcome)

    shutil.rmtree(directory / "journal", ignore_errors=True)
    found += records.journal_problems(journals.directory(load.home), directory)
    lines, kept = journal_lines(load.home), kept_lines(directory / "mirror")
    if lines[: len(kept)] != kept or len(kept) < len(lines) - 20:
        found.append(f"the console's journal has {len(kept)} records, the pod's {len(lines)}")

    found += load.damage()
    if len(load.starts("out")) != world.attempts:
        found.append(f"the run was started {len(load.starts('out'))} times")
    if world.writer is None or not tree.alive(world.writer):
        found.append("the run ended")
    return found


def _misdeeds(world: World, outcome: Outcome) -> list[str]:
    """Return what is wrong with the actions of a round."""
    load, console = world.load, world.console
    accepted = load.accepted()
    second = accepted.get("launch second", [])
    outcome.action = "not accepted"
    if second:
        outcome.action = "accepted"
    found = []
    if len(load.starts("second")) > 1:
        found.append(f"one action was carried out twice: {load.starts('second')}")
    refusal = console.answers.get("launch second", ("", ""))[1]
    if second and refusal.startswith(("RefusedError", "RemoteError")):
        found.append(f"one action was accepted, and then refused as another: {refusal}")
    journalled = {key for keys in accepted.values() for key in keys}
    for key in console.accepted:
        if key not in journalled:
            found.append(f"the action {key} was accepted, and is not in the journal")
    for what, keys in accepted.items():
        ordered = world.orders.get(what, 0)
        if not what.startswith("handover") and len(keys) > ordered:
            found.append(f"one action was accepted {len(keys)} times and ordered {ordered}: {what}")
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
