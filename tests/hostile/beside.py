"""Two honest practice pods beside hostile ones, and the real console in a real terminal on all of
them: what its keys, its memory, its directory and its rows do meanwhile.

The honest pods are watched by the console from the beginning; `measure` presses keys, lets the
console meet the hostile pods, presses the same keys again and gives what it found.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import re
import shlex
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
from benchmarks.terminal import Terminal

from bs4_console.pods.channel import Channel
from bs4_console.pods.mirror import Mirror
from bs4_console.transport.hostkeys import HostKeys
from bs4_console.transport.ssh import SshTransport
from bs4_practice import pod as practice
from bs4_practice.stage import inventory_entry
from tests.console.cli.conftest import Console
from tests.hostile import liar
from tests.support import keys
from tests.support.plain import PlainPod
from tests.support.pod import Options

SIZE = (200, 60)
HONEST = ("honest-a", "honest-b")
RUN = "train"
#: What is claimed of the console with one hostile pod of each kind.
P95_MS, P95_RATIO, RESIDENT_MB, DISK_MB = 100.0, 2.0, 300.0, 2048.0
#: Seconds between two looks at memory and directory.
LOOK_S = 0.2


class HostilePod(PlainPod):
    """A real sshd that runs `liar.py KIND` in place of every command, at the lowest priority: what
    a pod elsewhere computes is not to be taken from this machine's console. Each login is a session
    of its own, so where the kernel shares the CPUs out by session, `nice` alone does not help.
    """

    def __init__(self, kind: str, directory: Path, key: Path, ca: Path) -> None:
        self.kind = kind
        super().__init__(directory, Options(), key, ca)

    def _login_script(self) -> Path:
        script = self._directory / "login.sh"
        argv = [sys.executable, liar.__file__, self.kind, str(self._directory)]
        script.write_text(
            f"#!/bin/sh\nexport BS4_TEST_POD={shlex.quote(str(self._directory))}\n"
            "{ echo 19 >/proc/self/autogroup; } 2>/dev/null\n"
            f"exec nice -n 19 {shlex.join(argv)}\n"
        )
        script.chmod(0o755)
        return script


@dataclass
class Answers:
    """Milliseconds from a key to its answer on the screen."""

    waits: list[float] = field(default_factory=list)
    unanswered: int = 0

    def as_dict(self) -> dict[str, Any]:
        return {
            "keys": len(self.waits),
            "unanswered": self.unanswered,
            "p50_ms": round(statistics.median(self.waits), 1),
            "p95_ms": round(statistics.quantiles(self.waits, n=20)[-1], 1),
            "max_ms": round(max(self.waits), 1),
        }


#: Keys of a person who looks at the fleet, each with what is on the screen afterwards, and whether
#: it is to be there.
KEYS: tuple[tuple[str, str, bool], ...] = (
    (":", "type a command", True),
    ("l", "\n :l", True),
    ("o", "\n :lo", True),
    ("Escape", "\n :lo", False),
    ("?", "ON THIS SCREEN", True),
    ("Escape", "ON THIS SCREEN", False),
    ("/", "\n /", True),
    ("h", "\n /h", True),
    ("o", "\n /ho", True),
    ("BSpace", "\n /ho", False),
    ("BSpace", "\n /h", False),
    ("Escape", "\n /", False),
)


def press_keys(terminal: Terminal, seconds: float, patience: float = 20.0) -> Answers:
    """Press whole rounds of KEYS for so long and return how long each took to be answered."""
    answers, until = Answers(), time.monotonic() + seconds
    while not answers.waits or time.monotonic() < until:
        for key, text, there in KEYS:
            time.sleep(0.15)
            began = time.perf_counter()
            terminal.press(key)
            found = terminal.until(lambda now, t=text, w=there: (t in now) is w, patience)  # type: ignore[misc]
            if found is None:
                answers.unanswered += 1
            answers.waits.append(1000 * (time.perf_counter() - began))
    return answers


class Weight:
    """The console's greatest memory and directory, looked at from a thread until `stop`."""

    def __init__(self, pid: int, directory: Path) -> None:
        self.resident_mb = self.disk_mb = 0.0
        self.by_pod: dict[str, float] = {}
        self._process, self._directory = psutil.Process(pid), directory
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._ended.wait(LOOK_S):
            with contextlib.suppress(psutil.Error):
                resident = self._process.memory_info().rss / 1e6
                self.resident_mb = max(self.resident_mb, resident)
            for pod in self._directory.glob("pods/*"):
                held = used(pod)
                self.by_pod[pod.name] = max(held, self.by_pod.get(pod.name, 0.0))
            self.disk_mb = max(self.disk_mb, used(self._directory))

    def stop(self) -> None:
        self._ended.set()
        self._thread.join()


def used(directory: Path) -> float:
    """Return the megabytes of all files below a directory by their length."""
    total = 0
    # A directory that is renamed meanwhile is left out.
    for place, _, names in os.walk(directory):
        for name in names:
            with contextlib.suppress(OSError):
                total += os.lstat(os.path.join(place, name)).st_size
    return total / 1e6


@dataclass
class World:
    """The pods, the console's directories and its terminal."""

    console: Console
    honest: list[practice.PracticePod]
    hostile: list[HostilePod]
    terminal: Terminal

    def rows(self, name: str) -> str:
        """Return the screen with the list filtered by a pod's name: its rows, and the pane below
        that shows the whole of what the first row says. Then take the filter back.
        """
        self.terminal.press("/")
        self.terminal.until(lambda now: "\n /" in now)
        self.terminal.type(name)
        self.terminal.wait(rf"/{name} +\d+ of [\d,]+ rows")
        found = [line for line in self.terminal.shown().splitlines()[3:] if line.strip(" ─")]
        self.terminal.press("Escape")
        self.terminal.until(lambda now: "\n /" not in now)
        return "\n".join([*found[:1], *found[-12:-3]])

    def meet(self) -> None:
        """Put the hostile pods into the inventory, which a running console follows."""
        for pod in self.hostile:
            self.console.add(pod.kind, pod.address, pod.port, pod.user, pod.key, pod.host_key)


@contextlib.contextmanager
def world(kinds: Sequence[str], names: Sequence[str] = HONEST) -> Iterator[World]:
    """Everything is started, the honest runs train and the console shows them; the hostile pods run
    and are not known to it yet. Everything is gone afterwards.
    """
    with contextlib.ExitStack() as stack:
        root = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bs4-")))
        console = Console(root)
        honest = []
        for name in names:
            pod = asyncio.run(
                practice.start(name, "current", root / name, step_seconds=0.5, pace=0.3)
            )
            stack.callback(_stop, pod)
            console.add(name, pod.host, pod.port, pod.user, pod.key_path, pod.known_host_key)
            done = console(*_launch(name))
            if done.code != 0:
                raise SystemExit(f"the honest run was not started: {done.out}{done.err}")
            honest.append(pod)
        key, ca = keys.private_key(root / "id_test"), keys.private_key(root / "ca")
        hostile = []
        for kind in kinds:
            hostile.append(HostilePod(kind, root / "hostile", key, ca))
            stack.callback(hostile[-1].close)
            hostile[-1].start()
        argv = [
            sys.executable,
            "-c",
            "import sys; from bs4_console.cli.main import main; sys.exit(main())",
        ]
        terminal = Terminal(argv, SIZE, console.environment)
        stack.callback(terminal.close)
        for name in names:
            if terminal.wait(rf"{name}.*{RUN}") is None:
                raise SystemExit(f"{name} does not come; the screen shows:\n{terminal.shown()}")
        yield World(console, honest, hostile, terminal)


def _stop(pod: practice.PracticePod) -> None:
    asyncio.run(pod.stop())


def _launch(pod: str) -> list[str]:
    words = ["configs/rl.toml", "--pod", pod, "--run", RUN, "--trainer", "prime-rl", "--yes"]
    return ["launch", *words, "--no-preflight", "--no-wait"]


def measure(here: World, seconds: float, tries: int = 1) -> dict[str, Any]:
    """Return the figures of one round: keys without and with the hostile pods, memory, directory,
    the rows of the hostile pods, and what the console lost of the honest ones. Keys that are late
    beside the hostile pods are pressed again, in `tries` rounds at most, as others may have used
    the machine for a while; the last round counts.
    """
    press_keys(here.terminal, 1.0)  # expressions are compiled, pages are loaded
    alone = press_keys(here.terminal, seconds / 3)
    weight = Weight(here.terminal.pid, here.console.data)
    here.meet()
    beside = press_keys(here.terminal, seconds)
    for _ in range(tries - 1):
        if in_time(alone.as_dict(), beside.as_dict()):
            break
        beside = press_keys(here.terminal, seconds)
    rows = {pod.kind: said(here, pod.kind) for pod in here.hostile}
    lost_of_honest = {pod.name: lost(pod, here.console) for pod in here.honest}
    weight.stop()
    before, after = alone.as_dict(), beside.as_dict()
    return {
        "kinds": len(here.hostile),
        "alone": before,
        "beside": after,
        "p95_ratio": round(after["p95_ms"] / before["p95_ms"], 2),
        "resident_mb": round(weight.resident_mb, 1),
        "disk_mb": round(weight.disk_mb, 1),
        "disk_by_pod_mb": {name: round(mb, 1) for name, mb in sorted(weight.by_pod.items())},
        "rows": rows,
        "lost_of_honest": lost_of_honest,
    }


def said(here: World, kind: str) -> str:
    """Return the row of a hostile pod, waiting a minute at most for what it is to say."""
    wanted = re.compile(liar.KINDS[kind])
    until = time.monotonic() + 60.0
    while not wanted.search(found := here.rows(kind)) and time.monotonic() < until:
        time.sleep(0.5)
    return " ".join(found.split())


def lost(pod: practice.PracticePod, console: Console) -> dict[str, int]:
    """Return how many records of an honest pod the console holds, and how many it lost."""
    return asyncio.run(_lost(pod, console))


async def _lost(pod: practice.PracticePod, console: Console) -> dict[str, int]:
    """Return how many records of each stream of an honest pod the console's mirror holds, and how
    many it lost or holds twice. The pod is asked over a connection of its own.
    """
    known = HostKeys(console.data / "known_hosts")
    transport = SshTransport(inventory_entry(pod), known)
    mirror = Mirror(console.data / "pods" / pod.name, write=False)
    found = {"held": 0, "lost": 0}
    try:
        duplex = await transport.open(lambda _: None, deploy=False)
        channel = await Channel.open(duplex, "test", "test")
        for stream in ("journal", f"steps/{RUN}"):
            theirs = await _whole(channel, stream)
            ours: list[Any] = []
            until = time.monotonic() + 30.0
            while len(ours) < len(theirs) and time.monotonic() < until:
                await asyncio.sleep(0.2)
                ours = list(mirror.records(stream))
            found["held"] += len(ours)
            found["lost"] += sum(
                one != other for one, other in itertools.zip_longest(theirs, ours[: len(theirs)])
            )
        await channel.close()
    finally:
        await transport.close()
    return found


async def _whole(channel: Channel, stream: str) -> list[Any]:
    data, cursor, more = b"", "start", True
    while more:
        chunk = await channel.read(stream, cursor)
        data, cursor, more = data + chunk.data, chunk.next, bool(chunk.data)
    return [json.loads(line) for line in data.splitlines()]


def in_time(alone: dict[str, Any], beside: dict[str, Any]) -> bool:
    """Return True if each key was answered, and soon enough beside the hostile pods. Where others
    use the machine, keys are late without hostile pods too.
    """
    limit = max(P95_MS, P95_RATIO * alone["p95_ms"])
    return not beside["unanswered"] and bool(beside["p95_ms"] <= limit)


def claims(result: dict[str, Any]) -> dict[str, bool]:
    """Return which of the claims hold."""
    rows = result["rows"]
    return {
        "keys": in_time(result["alone"], result["beside"]),
        "honest": all(pod["held"] and not pod["lost"] for pod in result["lost_of_honest"].values()),
        "memory": result["resident_mb"] <= RESIDENT_MB,
        "disk": all(mb <= DISK_MB * 1.048576 for mb in result["disk_by_pod_mb"].values()),
        "rows": all(re.search(liar.KINDS[kind], row) for kind, row in rows.items()),
    }
