"""What goes wrong in a round. Each kind is a coroutine that does it for some seconds and mends it;
those without an end do it once.
"""

from __future__ import annotations

import asyncio
import random
import shutil
import signal
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bs4_practice import disks, tree
from tests.chaos.console import Console
from tests.chaos.link import Link
from tests.chaos.load import CLOCK, Load

_SSHD = "etc/bs4-pod/sshd_config"
HOSTILE = (
    b'{"step": 3, "loss/mean": ' + b"[" * 30_000 + b"]" * 30_000 + b"}\n",
    b'{"level": "ERROR", "message": "\\ud800", "timestamp": 1e999}\n',
    b"\x1b]0;owned\x07\x9b2J\xe2\x80\xae\x00 and a step\n",
    b"SUCCESS Step 99999999999999999999 | Time: nan | Loss: inf | Throughput: 1e400 tokens/s\n",
    b"\xff\xfe\xc0\xaf" * 2000 + b"\n",
)


@dataclass
class World:
    """What faults act on. `met` notes what really happened."""

    load: Load
    link: Link
    console: Console
    rng: random.Random
    met: list[str]
    console_gone: int = 0


Fault = Callable[[World, float], Awaitable[None]]


async def cut(world: World, seconds: float) -> None:
    """Reset every connection and each new one."""
    world.link.cut()
    try:
        await asyncio.sleep(seconds)
    finally:
        world.link.mend()


async def flap(world: World, seconds: float) -> None:
    """Cut the link again and again, for parts of a second."""
    for _ in range(6):
        await cut(world, seconds / 18)
        await asyncio.sleep(seconds / 9)


async def lose_packets(world: World, seconds: float) -> None:
    """Take the pod's network device down: packets vanish, and nothing is refused."""
    await asyncio.to_thread(world.load.pod.cut)
    try:
        await asyncio.sleep(seconds)
    finally:
        await asyncio.to_thread(world.load.pod.restore)


async def delay(world: World, seconds: float) -> None:
    """Make everything 150 ms late, with two stalls."""
    world.link.delay = 0.15
    try:
        for _ in range(2):
            await asyncio.sleep(seconds / 4)
            world.link.stall()
            await asyncio.sleep(seconds / 4)
            world.link.flow()
    finally:
        world.link.flow()
        world.link.delay = 0.0


async def half_open(world: World, seconds: float) -> None:
    """Let the pod lose the connection without a word to the console. Before, orders still arrive
    and answers do not.
    """
    world.link.deafen()
    await asyncio.sleep(min(seconds / 4, 2.0))
    world.link.forget()
    world.link.hear()
    try:
        await asyncio.sleep(seconds)
    finally:
        world.link.remember()


async def cut_in_frame(world: World, seconds: float) -> None:
    """Reset the connections after some bytes, three times."""
    for _ in range(3):
        world.link.budget = world.rng.randrange(1, 40_000)
        await asyncio.sleep(seconds / 3)
    world.link.budget = None


async def kill_sshd(world: World, seconds: float) -> None:
    """End every process of sshd that serves a connection."""
    for process in tree.below(world.load.init):
        if process.title.startswith("sshd"):
            tree.send(process, signal.SIGKILL)


async def one_session(world: World, seconds: float) -> None:
    """Let sshd allow one session for each connection, and make the console connect again."""
    path = world.load.pod.root / _SSHD
    before = path.read_text()
    assert "MaxSessions 10\n" in before
    path.write_text(before.replace("MaxSessions 10\n", "MaxSessions 1\n"))
    await _reload(world)
    world.link.reset()
    try:
        await asyncio.sleep(seconds)
    finally:
        path.write_text(before)
        await _reload(world)


async def _reload(world: World) -> None:
    init = tree.look(world.load.init)
    assert init is not None
    tree.send(init, signal.SIGHUP)


async def kill_agent(world: World, seconds: float) -> None:
    """End the agent, as soon as there is one."""
    for _ in range(round(seconds / 0.1)):
        agent = await asyncio.to_thread(world.load.agent)
        if agent is not None and tree.send(agent, signal.SIGKILL):
            return
        await asyncio.sleep(0.1)
    raise NotMet("there was no agent to kill")


async def kill_console(world: World, seconds: float) -> None:
    """End the console, and start one again."""
    await world.console.kill()
    await asyncio.sleep(min(seconds / 3, 2.0))
    world.console.start()


async def freeze(world: World, seconds: float) -> None:
    """Stop every process of the pod, and let them go on."""
    stopped: list[tree.Process] = []
    # What was started meanwhile is found by looking again.
    for _ in range(3):
        for process in world.load.processes():
            if tree.send(process, signal.SIGSTOP):
                stopped.append(process)
    try:
        await asyncio.sleep(seconds)
    finally:
        for process in stopped:
            tree.send(process, signal.SIGCONT)


async def fill_disk(world: World, seconds: float) -> None:
    """Leave no byte free on the disk of the agent's spool and of the run."""
    ballast: list[Path] = []
    try:
        ballast.append(disks.fill(world.load.home, 0))
    except OSError:  # the log grew meanwhile
        ballast.append(disks.fill(world.load.home, 256 * 1024))
    try:
        await asyncio.sleep(seconds)
    finally:
        ballast[0].unlink()


async def jump_clock(world: World, seconds: float) -> None:
    """Set the pod's clock an hour forward or back, and right again."""
    path = world.load.pod.root / CLOCK.lstrip("/")
    path.write_text(world.rng.choice(("+3600\n", "-3600\n")))
    try:
        await asyncio.sleep(seconds)
    finally:
        path.write_text("+0\n")


async def truncate(world: World, seconds: float) -> None:
    """Cut the log to nothing in place."""
    with world.load.log.open("r+b") as log:
        log.truncate(0)


async def rotate(world: World, seconds: float) -> None:
    """Rename the log, as logrotate does."""
    world.load.log.rename(world.load.log.with_name("trainer.stdout.1"))


async def delete(world: World, seconds: float) -> None:
    """Delete the log."""
    world.load.log.unlink()


async def say_nonsense(world: World, seconds: float) -> None:
    """Put hostile lines into the log."""
    new = world.load.control / "hostile.new"
    new.write_bytes(b"".join(HOSTILE))
    new.rename(world.load.control / "hostile")


class NotMet(Exception):
    """Raised if a fault could not be done; it is not counted then."""


@dataclass(frozen=True)
class Kind:
    """A kind of fault. `group`: of kinds with the same group a round has one at most."""

    name: str
    fault: Fault
    lasts: bool = True
    group: str = ""


KINDS = (
    Kind("link-cut", cut),
    Kind("link-flapping", flap),
    Kind("packets-lost", lose_packets),
    Kind("delay-and-stalls", delay),
    Kind("half-open", half_open),
    Kind("cut-in-frame", cut_in_frame),
    Kind("sshd-killed", kill_sshd, lasts=False),
    Kind("max-sessions-1", one_session),
    Kind("agent-killed", kill_agent),
    Kind("console-killed", kill_console),
    Kind("pod-frozen", freeze),
    Kind("disk-full", fill_disk),
    Kind("clock-jump", jump_clock),
    Kind("log-truncated", truncate, lasts=False, group="log"),
    Kind("log-rotated", rotate, lasts=False, group="log"),
    Kind("log-deleted", delete, lasts=False, group="log"),
    Kind("hostile-lines", say_nonsense, lasts=False),
)
#: While one of these is in effect, the answer to a submission may be lost.
LINK_KINDS = ("half-open", "cut-in-frame", "link-cut", "link-flapping", "sshd-killed")


def kinds() -> tuple[Kind, ...]:
    """Return the kinds that are possible on this machine."""
    if shutil.which("cc") is None:
        return tuple(kind for kind in KINDS if kind.name != "clock-jump")
    return KINDS


@dataclass(frozen=True)
class Drawn:
    """A fault of a round: it begins `at` seconds after the start and lasts for `seconds`."""

    kind: Kind
    at: float
    seconds: float


def draw(rng: random.Random, always: tuple[str, ...] = ()) -> list[Drawn]:
    """Return three to five faults that all are in effect around the same moment, in the order of
    their beginnings. `always` names kinds that are among them.
    """
    possible = list(kinds())
    rng.shuffle(possible)
    possible.sort(key=lambda kind: kind.name not in always)
    count = max(rng.randint(3, 5), len(always))
    moment, found, groups = rng.uniform(5.0, 8.0), [], set()
    for kind in possible:
        if len(found) == count:
            break
        if kind.group and kind.group in groups:
            continue
        groups.add(kind.group)
        if kind.lasts:
            at = moment - rng.uniform(0.5, 3.0)
            seconds = moment - at + rng.uniform(1.0, 9.0)
        else:
            at, seconds = moment + rng.uniform(-0.5, 1.0), 0.0
        found.append(Drawn(kind, at, seconds))
    return sorted(found, key=lambda drawn: drawn.at)


@contextmanager
def noted(world: World, name: str) -> Iterator[None]:
    """Count a fault that was done; one that could not be done is left out."""
    try:
        yield
    except NotMet:
        return
    world.met.append(name)
