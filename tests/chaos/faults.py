"""What goes wrong in a round. Each kind is a coroutine that does it for some seconds and mends it;
those without an end do it once.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import signal
import time
from collections.abc import Callable
from pathlib import Path

from bs4_practice import disks, tree
from tests.chaos.load import CLOCK
from tests.chaos.world import NotMet, World

#: Seconds in which a run opens a new log, and the agent sees it. After a kill of the pod a person
#: must accept its key first, and what a full disk has kept the agent from saving is tried later.
LOG_S = 60
#: Bytes that are left at first on a disk that is filled, in each try.
SPARED = (0, 1 << 18, 1 << 20, 1 << 22, 1 << 24)
#: Seconds in which the pod takes in an order whose answer is to be lost.
ARRIVAL_S = 5.0
_SSHD = "etc/bs4-pod/sshd_config"
HOSTILE = (
    b'{"step": 3, "loss/mean": ' + b"[" * 30_000 + b"]" * 30_000 + b"}\n",
    b'{"level": "ERROR", "message": "\\ud800", "timestamp": 1e999}\n',
    b"\x1b]0;owned\x07\x9b2J\xe2\x80\xae\x00 and a step\n",
    b"SUCCESS Step 99999999999999999999 | Time: nan | Loss: inf | Throughput: 1e400 tokens/s\n",
    b"\xff\xfe\xc0\xaf" * 2000 + b"\n",
)


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
    async with world.power:
        await asyncio.to_thread(world.load.pod.cut)
    try:
        await asyncio.sleep(seconds)
    finally:
        async with world.power:
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
    await _order_arrived(world)
    world.link.forget()
    world.link.hear()
    try:
        await asyncio.sleep(seconds)
    finally:
        world.link.remember()


async def _order_arrived(world: World) -> None:
    """Wait until the pod has taken in the order that is submitted at this moment, or for ARRIVAL_S.
    A busy machine takes it in late. While the pod is off, nobody can look.
    """
    deadline = time.monotonic() + ARRIVAL_S
    while time.monotonic() < deadline:
        async with world.power:
            if await asyncio.to_thread(world.load.actions, "launch", "second"):
                return
        await asyncio.sleep(0.1)


async def cut_in_frame(world: World, seconds: float) -> None:
    """Reset the connections after some bytes, three times."""
    for _ in range(3):
        world.link.budget = world.rng.randrange(1, 40_000)
        await asyncio.sleep(seconds / 3)
    world.link.budget = None


async def kill_sshd(world: World, seconds: float) -> None:
    """End every process of sshd that serves a connection."""
    async with world.power:
        for process in tree.below(world.load.init):
            if process.title.startswith("sshd"):
                tree.send(process, signal.SIGKILL)


async def one_session(world: World, seconds: float) -> None:
    """Let sshd allow one session for each connection, and make the console connect again."""
    await _limit_sessions(world, 10, 1)
    world.link.reset()
    try:
        await asyncio.sleep(seconds)
    finally:
        await _limit_sessions(world, 1, 10)


async def _limit_sessions(world: World, before: int, now: int) -> None:
    """Change sshd's limit. A pod that was killed and is back has the limit of the beginning."""
    async with world.power:
        path = world.load.pod.root / _SSHD
        text = path.read_text()
        path.write_text(text.replace(f"MaxSessions {before}\n", f"MaxSessions {now}\n"))
        assert f"MaxSessions {now}\n" in path.read_text()
        init = tree.look(world.load.init)
        assert init is not None
        tree.send(init, signal.SIGHUP)


async def kill_agent(world: World, seconds: float) -> None:
    """End the agent, as soon as there is one."""
    for _ in range(round(seconds / 0.1)):
        async with world.power:
            agent = await asyncio.to_thread(world.load.agent)
            if agent is not None and tree.send(agent, signal.SIGKILL):
                return
        await asyncio.sleep(0.1)
    raise NotMet("there was no agent to kill")


async def kill_console(world: World, seconds: float) -> None:
    """End the console, and start one again."""
    async with world.desk:
        await world.console.kill()
        await asyncio.sleep(min(seconds / 3, 2.0))
        world.console.start()


async def freeze(world: World, seconds: float) -> None:
    """Stop every process of the pod, and let them go on."""
    stopped: list[tree.Process] = []
    # What was started meanwhile is found by looking again.
    async with world.power:
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
    async with world.power:
        ballast = await asyncio.to_thread(filled, world.load.home)
    try:
        await asyncio.sleep(seconds)
    finally:
        async with world.power:
            (world.load.home / ballast.name).unlink()


def filled(directory: Path) -> Path:
    """Leave no byte free on the disk of a directory, and return the file that takes the room.
    Raises OSError if it cannot be written.

    A log grows there meanwhile, on a busy machine by much, and a file that is larger than what is
    free by then is not made at all. So it is made smaller each time, and grows at the end.
    """
    for leave in SPARED[:-1]:
        try:
            ballast = disks.fill(directory, leave)
            break
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
    else:
        ballast = disks.fill(directory, SPARED[-1])
    with ballast.open("ab", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(4096))
    return ballast


async def jump_clock(world: World, seconds: float) -> None:
    """Set the pod's clock an hour forward or back, and right again."""
    await set_clock(world, world.rng.choice((3600, -3600)))
    try:
        await asyncio.sleep(seconds)
    finally:
        await set_clock(world, 0)


async def set_clock(world: World, moved: int) -> None:
    """Move the wall clock of all that came by SSH by some seconds."""
    async with world.power:
        (world.load.pod.root / CLOCK.lstrip("/")).write_text(f"{moved:+d}\n")


async def truncate(world: World, seconds: float) -> None:
    """Cut the log to nothing in place."""

    def cut_to_nothing() -> None:
        with world.load.log.open("r+b") as log:
            log.truncate(0)

    await _to_the_log(world, cut_to_nothing)


async def rotate(world: World, seconds: float) -> None:
    """Rename the log, as logrotate does."""

    def rename() -> None:
        log = world.load.log
        log.rename(log.with_name(f"{log.name}.1"))

    await _to_the_log(world, rename)


async def delete(world: World, seconds: float) -> None:
    """Delete the log."""
    await _to_the_log(world, lambda: world.load.log.unlink())


async def _to_the_log(world: World, harm: Callable[[], object]) -> None:
    """Do something to the log. If it was just renamed or deleted, there will be another. Nobody can
    know what was in a log of which the agent has seen nothing, so it must have seen the beginning.
    """
    for _ in range(LOG_S * 10):
        async with world.power:
            if await asyncio.to_thread(world.load.log_is_known):
                harm()
                return
        await asyncio.sleep(0.1)
    raise NotMet("there was no log that the agent knew")


async def say_nonsense(world: World, seconds: float) -> None:
    """Put hostile lines into the log."""
    async with world.power:
        new = world.load.control / "hostile.new"
        new.write_bytes(b"".join(HOSTILE))
        new.rename(world.load.control / "hostile")
