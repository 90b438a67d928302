"""Faults that need something of their own before the round, such as a further run or a plan, and
whose effect is looked at when all faults are over.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from bs4_console.transport.hostkeys import fingerprint
from bs4_practice import limits, tree
from tests.chaos.console import ROOT
from tests.chaos.faults import set_clock
from tests.chaos.load import run_body
from tests.chaos.world import PATIENCE_S, Failed, Kind, NotMet, World, until

#: Seconds for which a console that has stopped is watched.
STILL_S = 3.0
#: Seconds in which an upgrade has to begin.
UPGRADE_S = 120.0
#: Runs beside the one that writes the log. Each has a program that only starts and stays.
PLANNED, VICTIM, HOG = "planned", "victim", "hog"
#: Bytes that a run may take before the kernel kills it.
SPARE_BYTES = 16 << 20

#: Waits until a pid is free, then starts a process with it that nobody may touch.
_TAKE_PID = """
import os, sys, time
wanted, deadline = int(sys.argv[1]), time.monotonic() + 20
while time.monotonic() < deadline:
    if not os.path.exists(f"/proc/{wanted}"):
        with open("/proc/sys/kernel/ns_last_pid", "w") as last:
            last.write(str(wanted - 1))
        child = os.fork()
        if child == 0:
            if os.getpid() != wanted:
                os._exit(1)
            os.setsid()
            null = os.open(os.devnull, os.O_RDWR)
            for fd in range(3):
                os.dup2(null, fd)
            os.chdir("/root/other")
            os.execvp("bash", ["bash", "-c", 'exec -a "$0" sleep 3600', sys.argv[2]])
        if child == wanted:
            sys.exit(0)
        os.waitpid(child, 0)
    time.sleep(0.0005)
sys.exit(1)
"""


# The pod killed, and back with another host key


async def _add_to_inventory(world: World) -> list[str]:
    await _command(world, *_described(world), "--no-connect")
    return []


async def _kill_pod(world: World, seconds: float) -> None:
    """Kill the pod and let it come back with another host key. The console must stop there until a
    person has accepted the key. Then the run is launched again.
    """
    load = world.load
    async with world.power:
        await asyncio.to_thread(load.pod.kill)
        load.pod.change_host_key()
        await asyncio.sleep(min(seconds / 3, 2.0))
        await asyncio.to_thread(load.pod.start)
        await asyncio.to_thread(load.start_decoy)
    await until(
        lambda: world.console.told.get("link") == "HOST KEY CHANGED" or _logins(world),
        "the console's stop at the changed host key",
    )
    watched = time.monotonic() + STILL_S
    while time.monotonic() < watched:
        if _logins(world):
            world.problems.append("the console logged in at a pod with another host key")
            break
        await asyncio.sleep(0.05)
    await _accept_key(world)
    await until(lambda: _retried(world), "the link after the new key was accepted")
    world.writer, world.attempts = None, 2
    await _launched_again(world)


def _logins(world: World) -> list[tree.Process]:
    """Return the processes of sshd that serve somebody who has logged in."""
    found = []
    for process in tree.below(world.load.init):
        if process.title.startswith(f"sshd: {world.load.pod.user}"):
            found.append(process)
    return found


async def _accept_key(world: World) -> None:
    """Do what a person does who knows that the pod was set up anew."""
    name, mark = world.load.pod.name, fingerprint(world.load.pod.host_key)
    await _command(world, "pods", "remove", name)
    code = await _command(world, *_described(world), "--fingerprint", mark)
    deadline = time.monotonic() + PATIENCE_S
    while code:  # the link may be cut at this moment
        if time.monotonic() > deadline:
            raise Failed(f"the new host key could not be accepted; the command ended with {code}")
        code = await _command(world, "pods", "test", name, "--fingerprint", mark)


def _retried(world: World) -> bool:
    """Ask the console to try again, and return whether there is a link."""
    up = world.console.told.get("link") == "up"
    if not up and world.console.alive:
        world.console.order(do="retry")
        time.sleep(1.0)
    return up


async def _launched_again(world: World) -> None:
    load, deadline = world.load, time.monotonic() + PATIENCE_S
    while world.writer is None:
        try:
            await world.launched("flood", run_body("flood", "out"))
        except Failed:
            # The agent refuses it until it knows that the run has ended.
            if time.monotonic() > deadline:
                raise
        world.writer = await asyncio.to_thread(load.writer)
    world.load_since = time.monotonic()


def _described(world: World) -> list[str]:
    pod = world.load.pod
    where = f"{pod.user}@127.0.0.1:{world.link.port}"
    return ["pods", "add", pod.name, where, "--identity", str(pod.key)]


async def _command(world: World, *words: str) -> int:
    """Run `bs4-console` with the console's own directories, and return its exit code."""
    places = {"BS4_CONFIG_DIR": str(world.directory), "BS4_DATA_DIR": str(world.directory)}
    with (world.directory / "commands.log").open("ab") as log:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            "import sys; from bs4_console.cli.main import main; sys.exit(main())",
            *words,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={**os.environ, **places},
        )
    return await process.wait()


# An agent killed in its own upgrade


async def _kill_in_upgrade(world: World, seconds: float) -> None:
    """Let a newer console replace the agent, and kill an agent in the middle of it. If the console
    was of an earlier commit, the next is of this one.
    """
    load, console = world.load, world.console
    old = await world.inside(load.bundle)
    async with world.desk:
        await console.kill()
        console.tree = ROOT
        console.build = round(time.time()) + 60
        console.start()
    uploaded, left, taken_over = (
        lambda: len(load.bundles()) > 1,
        lambda: load.actions("handover"),
        lambda: load.bundle() != old,
    )
    reached: Callable[[], object] = world.rng.choice((uploaded, left, taken_over))
    deadline = time.monotonic() + UPGRADE_S
    while time.monotonic() < deadline:
        async with world.power:
            agent = await asyncio.to_thread(load.agent)
            if agent is not None and reached() and tree.send(agent, signal.SIGKILL):
                return
        await asyncio.sleep(0.01)
    raise NotMet("no agent was met in its upgrade")


async def _upgraded(world: World) -> list[str]:
    """Return what is wrong if the pod does not have the newest agent in the end."""
    # An agent that a shim has started meanwhile is an old one; it leaves at the next connection.
    deadline = time.monotonic() + PATIENCE_S
    while world.load.build() != world.console.build:
        if time.monotonic() > deadline:
            return [f"the agent has the build {world.load.build()}, not {world.console.build}"]
        world.link.reset()
        await asyncio.sleep(5.0)
    return []


# The clock, while a plan waits for its confirmation


async def _plan(world: World) -> list[str]:
    key, why = await world.answered("plan", PLANNED, {"launch": run_body(PLANNED, PLANNED)})
    if not key or (why := await world.ended(key, "the plan")) != "done":
        raise Failed(f"the plan of a launch ended as {why}")
    for record in world.load.records("plan"):
        if record["action"] == key:
            world.kept[PLANNED] = record["plan_hash"]
    return []


async def _jump_and_confirm(world: World, seconds: float) -> None:
    """Let the clock jump an hour while the plan of a launch waits, and confirm it then."""
    await set_clock(world, world.rng.choice((3600, -3600)))
    try:
        await asyncio.sleep(seconds / 3)
        await _confirm(world, max(seconds, 20.0))
    except Failed:
        raise NotMet("the link was down all the time") from None
    finally:
        await set_clock(world, 0)


async def _confirm(world: World, patience: float) -> None:
    """Confirm the plan unless that was done. What was refused as too old is a problem; a full disk
    is waited for.
    """
    if await world.inside(lambda: world.load.actions("launch", PLANNED)):
        return
    body = {"plan_hash": world.kept[PLANNED]}
    deadline = time.monotonic() + patience
    key, why = await world.answered("launch", PLANNED, body, patience)
    while not key and " is full; " in why and time.monotonic() < deadline:
        await asyncio.sleep(0.5)
        key, why = await world.answered("launch", PLANNED, body, patience)
    if not key and not await world.inside(lambda: world.load.actions("launch", PLANNED)):
        world.problems.append(f"a plan that is minutes old was refused: {why}")


async def _confirmed(world: World) -> list[str]:
    """Confirm the plan if no link was there before, and return what is wrong."""
    if not world.problems:
        await _confirm(world, PATIENCE_S)
        await until(lambda: world.load.starts(PLANNED), "the start of the planned run")
    found = world.load.actions("launch", PLANNED)
    if len(found) != 1 or len(world.load.starts(PLANNED)) != 1:
        return [f"a plan was carried out {len(found)} times: {world.load.starts(PLANNED)}"]
    return []


# A pid that another process gets


async def _launch_victim(world: World) -> list[str]:
    await world.launched(VICTIM, run_body(VICTIM, VICTIM))
    return []


async def _reuse_pid(world: World, seconds: float) -> None:
    """Kill the program of a run, sometimes with its shim, or the agent, and give its pid to a
    process that nobody may touch.
    """
    who = world.rng.choice(("program", "program and shim", "agent"))
    async with world.power:
        if who == "agent":
            process = await asyncio.to_thread(world.load.agent)
        else:
            process = await asyncio.to_thread(world.load.process, world.load.starts(VICTIM)[-1])
        if process is None:
            raise NotMet("there was nobody to kill")
        pid = world.load.own_pid(process)
        if who == "program and shim" and (shim := tree.look(process.ppid)) is not None:
            tree.send(shim, signal.SIGKILL)
        taking = asyncio.to_thread(
            world.load.pod.run, ["python3", "-c", _TAKE_PID, str(pid), process.title], timeout=60
        )
        task = asyncio.create_task(taking)
        await asyncio.sleep(0.2)
        tree.send(process, signal.SIGKILL)
        done = await task
        innocent = world.load.process(pid)
    if done.returncode or innocent is None or not innocent.title.startswith(process.title):
        raise NotMet(f"nobody got the pid {pid}: {done.stderr.decode()}")
    world.kept[VICTIM] = innocent


async def _innocent(world: World) -> list[str]:
    """Stop the run whose program was killed, and return what is wrong."""
    innocent = world.kept.get(VICTIM)
    if innocent is None:
        return []
    key, why = await world.answered("stop", VICTIM, {})
    if not key:
        return [f"the stop of {VICTIM} was refused: {why}"]
    how = await world.ended(key, f"the stop of {VICTIM}")
    found = []
    if how != "done":
        found.append(f"the stop of {VICTIM} ended as {how}")
    if not tree.alive(innocent):
        found.append("a process was ended that had the pid of one that was gone")
    return found


# Out of memory in a control group


async def _launch_hog(world: World) -> list[str]:
    await world.launched(HOG, run_body(HOG, HOG))
    return []


async def _run_out_of_memory(world: World, seconds: float) -> None:
    """Let a run beside the one that is watched take more memory than its control group has."""
    process = await asyncio.to_thread(world.load.process, world.load.starts(HOG)[-1])
    if process is None:
        raise NotMet("there was nobody to kill")
    with limits.memory_group("chaos") as group:
        limits.confine(group, process, SPARE_BYTES)
        (world.load.control / HOG).touch()
        await until(lambda: tree.look(process.pid) is None, "the kernel's kill for memory")
        if not _kills(group):
            raise NotMet("the program ended by itself")


def _kills(group: Path) -> int:
    """Return how many processes the kernel has killed in a control group."""
    for name in ("memory.oom_control", "memory.events"):
        if (group / name).exists():
            for line in (group / name).read_text().splitlines():
                if line.startswith("oom_kill "):
                    return int(line.split()[1])
    return 0


async def _noticed(world: World) -> list[str]:
    """Return what is wrong with what the journal says of the run that was killed."""
    await until(lambda: _ends(world, HOG), "the end of the run that had too little memory")
    ends = _ends(world, HOG)
    if ends != [signal.SIGKILL]:
        return [f"a run that was killed for memory ended with the signals {ends}"]
    return []


def _ends(world: World, run: str) -> list[object]:
    """Return the signal of each end of an attempt that the journal has of a run."""
    found = []
    for record in world.load.records("run"):
        if record["run"] == run and record["event"] == "attempt-ended":
            found.append(record.get("signal"))
    return found


POD_KILLED = Kind(
    "pod-killed-other-host-key", _kill_pod, group="processes", prepare=_add_to_inventory
)
UPGRADE = Kind("agent-killed-in-upgrade", _kill_in_upgrade, settle=_upgraded)
PLAN = Kind(
    "clock-jump-before-confirmation",
    _jump_and_confirm,
    group="clock",
    prepare=_plan,
    settle=_confirmed,
)
PID_REUSED = Kind(
    "pid-reused",
    _reuse_pid,
    lasts=False,
    group="processes",
    prepare=_launch_victim,
    settle=_innocent,
)
OOM = Kind(
    "out-of-memory",
    _run_out_of_memory,
    lasts=False,
    group="processes",
    prepare=_launch_hog,
    settle=_noticed,
)
