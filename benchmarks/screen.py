"""The screen that people keep open: how fast it is there, how fast it answers while logs pour in,
and that nothing is lost meanwhile.

    .venv/bin/python benchmarks/screen.py [--minutes 10] [--rate 100000] [--json FILE]

The real console in a real terminal (tmux, 200x60) on two pods: real OpenSSH servers, the agent that
the console deploys, a run that it launches. Each run writes half of `rate` lines a second into its
trainer's log, in memory, rotated every 100 MB. The log of one pod is on the screen, the other's is
followed in the same process by what feeds a log view, so that both come into it. Measured in one
run:

* first paint: from the start of the program to its first screen, next to a minimal Textual app's,
  turn about
* keys: from pressing a key to its answer on the screen, on an idle log and then for `minutes` on
  the growing one, the same keys
* memory: what the console holds resident where its windows are equally full, around the middle of
  that and at its end
* painted: bytes a second to the terminal with the log's end on the whole screen, in remote mode,
  worst second
* lines: the SHA-256 of all that was written and of all that is read back over SSH, and lines by
  their number through the pod's index
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import hashlib
import json
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks import flood, profiles  # noqa: E402 (the checkout's root must be importable)
from benchmarks.terminal import Terminal  # noqa: E402
from tests.support.pod import TestPod  # noqa: E402
from tests.support.pods import Pods  # noqa: E402
from tests.support.transports import transport  # noqa: E402

from bs4_console.cli.sessions import fleet, linked  # noqa: E402
from bs4_console.logs.feed import LogFeed  # noqa: E402
from bs4_console.logs.pages import split  # noqa: E402
from bs4_console.logs.store import LogStore  # noqa: E402
from bs4_console.pods.channel import Channel  # noqa: E402
from bs4_console.pods.inventory import Inventory, Pod  # noqa: E402
from bs4_console.pods.session import PodSession  # noqa: E402
from bs4_console.transport.hostkeys import HostKeys  # noqa: E402
from bs4_console.tui.app import configured  # noqa: E402
from bs4_console.tui.widgets.log_canvas import LogCanvas  # noqa: E402

SIZE = (200, 60)
STREAM = "log/flood/trainer"
#: Lines of each log before the flood: more than any screen and any page.
FIRST_LINES = 20_000
#: So far apart two windows are as full as each other: what comes in within two seconds.
ALIKE_MB = 8.0
BUDGET = {
    "first_paint_ratio": 1.5,
    "p95_ratio": 2.0,
    "p95_ms": 100.0,
    "painted_kib_s": 100.0,
    "grown_mb": 1.0,
}
MINIMAL = """
from textual.app import App
from textual.widgets import Static
class Minimal(App):
    def compose(self):
        yield Static("minimal app")
Minimal().run()
"""
CONSOLE = "import sys; from bs4_console.cli.main import main; sys.exit(main())"


# -- the pods, and the console's own files


class World:
    """Two pods, or `pods`, on each of which a run waits to pour out its log, which has `first`
    lines by then, and a console's directories that know them.
    """

    def __init__(self, root: Path, rate: int, pods: int = 2, first: int = FIRST_LINES) -> None:
        self.rate, self.first = rate // pods, first
        self.environment = {
            f"BS4_{name}_DIR": str(root / name.lower()) for name in ("CONFIG", "DATA", "STATE")
        }
        os.environ.update(self.environment)
        for name in ("TMUX", "TMUX_PANE", "COLUMNS", "LINES", "SSH_CONNECTION", "SSH_TTY"):
            os.environ.pop(name, None)
        self.maker = Pods()
        self.pods = self.maker(pods)
        for pod in self.pods:
            entry = Pod(
                name=pod.name,
                host=pod.address,
                port=pod.port,
                user=pod.user,
                identity_file=str(pod.key),
                ssh_config=False,
            )
            Inventory().add(entry)
            HostKeys().pin(pod.name, pod.host_key)
            self._prepare(pod)
        for pod in self.pods:
            asyncio.run(_launch(pod.name))

    def home(self, pod: TestPod) -> Path:
        return pod.root / pod.home[1:]

    def logs(self, pod: TestPod) -> Path:
        return self.home(pod) / "prime-rl" / "outputs" / "logs"

    def _prepare(self, pod: TestPod) -> None:
        """The program that a launch of prime-rl starts writes the log instead of training."""
        home = self.home(pod)
        self.logs(pod).mkdir(parents=True)
        (home / "flood.py").write_text(Path(flood.__file__).read_text())
        (home / "prime-rl" / "rl.toml").write_text("max_steps = 1000\n")
        uv = home / ".local" / "bin" / "uv"
        uv.parent.mkdir(parents=True)
        uv.write_text(
            f'#!/bin/sh\nexec python3 "{pod.home}/flood.py" "{pod.home}/prime-rl/outputs/logs" '
            f"{self.rate} {self.first}\n"
        )
        uv.chmod(0o755)

    def pour(self) -> None:
        for pod in self.pods:
            (self.logs(pod) / "go").touch()

    def stop(self) -> list[dict[str, Any]]:
        """What each has written."""
        for pod in self.pods:
            (self.logs(pod) / "go").unlink()
        told = []
        for pod in self.pods:
            while not (self.logs(pod) / "wrote").exists():
                time.sleep(0.05)
            told.append(json.loads((self.logs(pod) / "wrote").read_text()))
        return told

    def close(self) -> None:
        self.maker.close()


async def _launch(pod: str) -> None:
    """As the console does it, without its look at GPUs and model: there are none."""
    async with linked(Inventory().get(pod)) as session:
        spec: dict[str, Any] = {
            "run": "flood",
            "trainer": "prime-rl-2026-01",
            "config": "rl.toml",
            "cwd": "prime-rl",
            "output_dir": "outputs",
        }
        async for action in session.follow_action(
            await session.submit("launch", **spec, wait=False)
        ):
            if action.ended and action.state != "done":
                raise SystemExit(f"the run was not started on {pod}: {action}")


# -- the console, with a second log


async def console(second: str, told: Path) -> None:
    """The screen as `bs4-console` opens it, and the log of pod `second` followed beside it; `told`
    says what came in so far.
    """
    live = fleet()
    taken = dict.fromkeys(live.sessions, 0)
    for name, session in live.sessions.items():
        _count(session, name, taken)
    store = LogStore()
    feed = LogFeed(live.sessions[second], store, lambda: None)

    async def beside() -> None:
        await live.sessions[second].synced(60)
        await feed.run([STREAM])

    async def tell() -> None:
        with memory_of(told).open("w", buffering=1) as held:
            while True:
                told.write_text(json.dumps({"taken": taken, "second_left_out": feed.left_out}))
                windows = [
                    store,
                    *(
                        canvas.store
                        for screen in app.screen_stack
                        for canvas in screen.query(LogCanvas)
                    ),
                ]
                held.write(
                    f"{time.monotonic()} {resident_mb()} "
                    f"{sum(window.bytes for window in windows) / 1e6}\n"
                )
                await asyncio.sleep(0.5)

    app = configured(live)
    tasks = [asyncio.create_task(beside()), asyncio.create_task(tell())]
    await app.run_async()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _count(session: PodSession, name: str, taken: dict[str, int]) -> None:
    read = session.read_log

    async def counted(*arguments: Any, **named: Any) -> Any:
        chunk = await read(*arguments, **named)
        taken[name] += len(chunk.data)
        return chunk

    session.read_log = counted  # type: ignore[method-assign]


# -- keys and their answers

Holds = Callable[[str, str], object]
"""(the screen before the key, the screen now) -> whether that is the answer."""


def _has(text: str) -> Holds:
    return lambda before, now: text in now


def _gone(text: str) -> Holds:
    return lambda before, now: text not in now


def _pointer_moved(before: str, now: str) -> bool:
    def row(screen: str) -> int:
        return next((y for y, line in enumerate(screen.splitlines()) if line.startswith("▸")), -1)

    return row(now) not in (-1, row(before))


def _scrolled(before: str, now: str) -> bool:
    return before.splitlines()[2:40] != now.splitlines()[2:40]


#: What a person does at a log, most of it while the end is followed; the last one leaves the screen
#: as the first found it.
KEYS: tuple[tuple[str, Holds], ...] = (
    (":", _has("type a command")),
    ("l", _has("\n :l")),
    ("o", _has("\n :lo")),
    ("Escape", _gone("\n :lo")),
    ("?", _has("ON THIS SCREEN")),
    ("Escape", _gone("ON THIS SCREEN")),
    ("/", _has("\n /")),
    ("r", _has("· /r ")),
    ("o", _has("· /ro ")),
    ("BSpace", _has("· /r ")),
    ("BSpace", _gone("· /r ")),
    ("Escape", _gone("\n /")),
    ("f", _has("\n find")),
    ("9", _has("· find 9 ")),
    ("BSpace", _gone("· find 9 ")),
    ("Escape", _gone("\n find")),
    ("v", _has("info and up")),
    ("v", _has("warning and up")),
    ("v", _has("error and up")),
    ("v", _gone("and up")),
    ("Space", _has("‖ paused")),
    ("k", _pointer_moved),
    ("k", _pointer_moved),
    ("j", _pointer_moved),
    ("PageUp", _scrolled),
    ("PageDown", _scrolled),
    ("G", _has("· following")),
)


@dataclass
class Answers:
    """Seconds from key to answer, in the order of the keys."""

    waits: list[float] = field(default_factory=list)
    by_key: dict[str, list[float]] = field(default_factory=dict)

    def add(self, key: str, wait: float) -> None:
        self.waits.append(wait)
        self.by_key.setdefault(key, []).append(wait)

    @property
    def p95(self) -> float:
        return statistics.quantiles(self.waits, n=20)[-1]

    def as_dict(self) -> dict[str, Any]:
        slowest = sorted(
            self.by_key, key=lambda key: statistics.median(self.by_key[key]), reverse=True
        )[:5]
        return {
            "keys": len(self.waits),
            "p50_ms": round(1000 * statistics.median(self.waits), 1),
            "p95_ms": round(1000 * self.p95, 1),
            "max_ms": round(1000 * max(self.waits), 1),
            "slowest_keys": {
                key: round(1000 * statistics.median(self.by_key[key]), 1) for key in slowest
            },
        }


def press_keys(terminal: Terminal, seconds: float, chance: random.Random) -> Answers:
    """Key after key for so long, whole rounds of them, a person's pause between two. SystemExit
    where one is not answered.
    """
    answers, until = Answers(), time.monotonic() + seconds
    while time.monotonic() < until:
        for number, (key, holds) in enumerate(KEYS):
            time.sleep(chance.uniform(0.15, 0.45))
            before = terminal.shown()
            began = time.perf_counter()
            terminal.press(key)
            if terminal.until(lambda now, holds=holds, before=before: holds(before, now)) is None:  # type: ignore[misc]
                raise SystemExit(
                    f"{key!r} (key {number} of a round) is not answered; the screen shows:\n"
                    f"{terminal.shown()}"
                )
            answers.add(f"{number:02} {key}", time.perf_counter() - began)
    return answers


@contextlib.contextmanager
def opened(world: World, told: Path, **environment: str) -> Iterator[Terminal]:
    """The console with the log of the first pod on the screen."""
    first, second = (pod.name for pod in world.pods)
    argv = [sys.executable, __file__, "--beside", second, "--told", str(told)]
    state = tempfile.mkdtemp(dir=told.parent)  # of its own: the console comes up where it was left
    terminal = Terminal(argv, SIZE, {**world.environment, **environment, "BS4_STATE_DIR": state})
    try:
        for what, wanted in (
            ("", rf"{first} .*flood +prime-rl"),
            (f":run {first}/flood", "› flood"),
            (":logs trainer", "· following"),
        ):
            waited = terminal.enter(what, wanted) if what else terminal.wait(wanted)
            if waited is None:
                raise SystemExit(f"{wanted!r} does not come; the screen shows:\n{terminal.shown()}")
        yield terminal
    finally:
        terminal.close()


# -- what is measured


def first_paints(world: World, minimal: Path, rounds: int) -> dict[str, Any]:
    """Seconds from the start of each program to its first screen, turn about, medians; and the
    processor's seconds up to then, which say the same where others use the machine. Both run from
    bytecode, as what pip installs does: PYTHONDONTWRITEBYTECODE would have only the console
    compiled anew at every start.
    """
    minimal.write_text(MINIMAL)
    programs = (("minimal", [str(minimal)], "minimal app"), ("console", ["-c", CONSOLE], "› fleet"))
    environment = {
        **world.environment,
        "PYTHONDONTWRITEBYTECODE": "",
        "PYTHONPYCACHEPREFIX": str(minimal.parent / "bytecode"),
    }
    times: dict[str, list[tuple[float, float]]] = {"minimal": [], "console": []}
    for turn in range(rounds + 1):
        for name, program, wanted in programs:
            terminal = Terminal([sys.executable, *program], SIZE, environment)
            took = terminal.first(wanted), cpu_seconds(terminal.pid)
            if turn:  # the first one writes the bytecode
                times[name].append(took)
            terminal.close()
    (one, one_cpu), (ours, ours_cpu) = (
        (statistics.median(column) for column in zip(*times[name], strict=True)) for name in times
    )
    wall = {"minimal_s": round(one, 3), "console_s": round(ours, 3), "ratio": round(ours / one, 2)}
    return {
        **wall,
        "profile": profiles.imports(
            "import bs4_console.cli.main, bs4_console.tui.app", {**os.environ, **environment}
        ),
        "minimal_cpu_s": round(one_cpu, 3),
        "console_cpu_s": round(ours_cpu, 3),
        "cpu_ratio": round(ours_cpu / one_cpu, 2),
    }


class Look(NamedTuple):
    """At a console's memory, megabytes: all that is resident, and the lines of its windows; `at` is
    of time.monotonic.
    """

    at: float
    resident: float
    windows: float


def memory_of(told: Path) -> Path:
    """Beside what a console tells: a line for each Look."""
    return told.with_suffix(".memory")


def resident_mb() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def memory(told: Path, since: float) -> dict[str, float]:
    """What is resident where the windows hold as much: medians of a fifth of the time each, before
    the middle and at the end. The windows may hold 64 MiB each, and a jump to the end may empty
    one: how full they are says which keys were pressed last and not what is kept. The peaks are
    those of all looks.
    """
    looks = [Look(*map(float, line.split())) for line in memory_of(told).read_text().splitlines()]
    looks = [look for look in looks if look.at >= since]
    usual = statistics.median(look.windows for look in looks)
    fifth, half = max(1, len(looks) // 5), len(looks) // 2

    def typical(some: list[Look]) -> float:
        return statistics.median(
            look.resident for look in some if abs(look.windows - usual) <= ALIKE_MB
        )

    middle, end = typical(looks[half - fifth : half + 1]), typical(looks[-fifth:])
    found = {
        "windows_mb": usual,
        "half_mb": middle,
        "end_mb": end,
        "grown_mb": end - middle,
        "peak_first_half_mb": max(look.resident for look in looks[:half]),
        "peak_last_half_mb": max(look.resident for look in looks[half:]),
    }
    return {name: round(value, 1) for name, value in found.items()}


def keys_and_memory(terminal: Terminal, world: World, told: Path, seconds: float) -> dict[str, Any]:
    """The same keys on the log at rest and while it grows."""
    chance = random.Random(7)
    # a first round that does not count: pages are loaded, expressions compiled
    press_keys(terminal, 1.0, chance)
    idle = press_keys(terminal, max(20.0, seconds / 10), chance)
    world.pour()
    began, before, cpu = time.monotonic(), json.loads(told.read_text()), cpu_seconds(terminal.pid)
    busy = press_keys(terminal, seconds, chance)
    took, after = time.monotonic() - began, json.loads(told.read_text())
    taken = {
        name: round((after["taken"][name] - before["taken"][name]) / 1e6 / took, 2)
        for name in after["taken"]
    }
    flood = {
        **busy.as_dict(),
        "seconds": round(took, 1),
        "taken_in_mb_s": taken,
        "console_cpu_share": round((cpu_seconds(terminal.pid) - cpu) / took, 2),
        "passed_over_mb": round(after["second_left_out"] / 1e6, 1),
        "load": round(os.getloadavg()[0], 2),
    }
    return {
        "idle": idle.as_dict(),
        "flood": flood,
        "p95_ratio": round(busy.p95 / idle.p95, 2),
        "memory": memory(told, began),
    }


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def painted(terminal: Terminal, seconds: int) -> dict[str, float]:
    """KiB a second that reach the terminal."""
    each = []
    for _ in range(seconds):
        before = terminal.painted
        time.sleep(1.0)
        each.append((terminal.painted - before) / 1024)
    return {"mean_kib_s": round(statistics.mean(each), 1), "worst_kib_s": round(max(each), 1)}


async def read_back(
    pod: TestPod, directory: Path, rate: int, wrote: dict[str, Any]
) -> dict[str, Any]:
    """The whole log over SSH, in order, and ranges of it by the numbers of their lines."""
    connection = transport(pod, directory)
    try:
        channel = await Channel.open(
            await connection.open(lambda _: None), "bench@here", "bs4-console/benchmark"
        )
        digest, lines, gaps, cursor, grown = hashlib.sha256(), 0, 0, "start", time.monotonic()
        while True:
            chunk = await channel.read(STREAM, cursor, wait=1.0)
            digest.update(chunk.data)
            lines += chunk.data.count(b"\n")
            gaps += chunk.gap is not None
            cursor = chunk.next
            if chunk.data:
                grown = time.monotonic()
            # A rotated file is finished when it was quiet for a second; what has not come long
            # after that is missing.
            if not chunk.more and (lines >= wrote["lines"] or time.monotonic() - grown > 20.0):
                break
        right = 0
        places = random.Random(1).sample(range(wrote["lines"] - 1000), 50)
        for line in places:
            begin, end = [await _line(channel, number) for number in (line, line + 1000)]
            right += (
                await _between(channel, begin, end)
                == hashlib.sha256(flood.lines(line, line + 1000, rate)).hexdigest()
            )
        await channel.close()
    finally:
        await connection.close()
    return {
        **wrote,
        "lines_read_back": lines,
        "gaps": gaps,
        "same_hash": digest.hexdigest() == wrote["sha256"],
        "ranges_by_number": f"{right}/{len(places)}",
        "whole": digest.hexdigest() == wrote["sha256"] and right == len(places) and not gaps,
    }


async def _line(channel: Channel, number: int) -> str:
    arguments: dict[str, Any] = {"line": number}
    while (answer := await channel.query(STREAM, "seek-line", **arguments))["next"] is not None:
        arguments = answer["next"]
    return str(answer["cursor"])


async def _between(channel: Channel, begin: str, end: str) -> str:
    digest, (generation, offset) = hashlib.sha256(), split(end)
    cursor = begin
    while split(cursor) < (generation, offset):
        chunk = await channel.read(STREAM, cursor, limit=65536, wait=1.0)
        here, at = split(chunk.start)
        digest.update(chunk.data[: max(0, offset - at)] if here == generation else chunk.data)
        cursor = chunk.next
    return digest.hexdigest()


def measure(options: argparse.Namespace, directory: Path) -> dict[str, Any]:
    world, told = World(directory, options.rate), directory / "told.json"
    try:
        result: dict[str, Any] = {
            "schema": "bs4.bench-screen/1",
            "minutes": options.minutes,
            "rate": options.rate,
            "size": SIZE,
            "pods": world.maker.kind,
            "cores": os.cpu_count(),
            "load_before": round(os.getloadavg()[0], 2),
            "first_paint": first_paints(world, directory / "minimal.py", options.rounds),
        }
        with opened(world, told) as terminal:
            result |= keys_and_memory(terminal, world, told, 60 * options.minutes)
        with opened(world, told, SSH_CONNECTION="192.0.2.1 1 192.0.2.2 22") as terminal:
            time.sleep(2.0)
            result["painted_remote"] = painted(terminal, options.painted)
        wrote = world.stop()
        # ten minutes of measuring are not lost with a link while all is read back
        print(json.dumps(result), file=sys.stderr)
        result["lines"] = {
            pod.name: asyncio.run(read_back(pod, directory, world.rate, what))
            for pod, what in zip(world.pods, wrote, strict=True)
        }
    finally:
        world.close()
    result["budget"] = BUDGET
    result["kept"] = {
        "first paint": result["first_paint"]["ratio"] <= BUDGET["first_paint_ratio"],
        "p95 against idle": result["p95_ratio"] <= BUDGET["p95_ratio"],
        "p95": result["flood"]["p95_ms"] < BUDGET["p95_ms"],
        "no line missing": all(pod["whole"] for pod in result["lines"].values()),
        "memory": result["memory"]["grown_mb"] <= BUDGET["grown_mb"],
        "painted": result["painted_remote"]["worst_kib_s"] < BUDGET["painted_kib_s"],
    }
    return result


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument(
        "--minutes", type=float, default=10.0, help="how long the logs pour in (default: 10)"
    )
    parser.add_argument(
        "--rate", type=int, default=100_000, help="lines a second of both pods together"
    )
    parser.add_argument("--rounds", type=int, default=15, help="first paints of each program")
    parser.add_argument(
        "--painted", type=int, default=20, help="seconds for which painted bytes are counted"
    )
    parser.add_argument("--json", type=Path)
    parser.add_argument("--beside", help=argparse.SUPPRESS)
    parser.add_argument("--told", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.beside:
        asyncio.run(console(options.beside, options.told))
        return 0
    with tempfile.TemporaryDirectory(prefix="bs4-") as directory:
        result = measure(options, Path(directory))
    text = json.dumps(result, indent=2)
    print(text)
    if options.json:
        options.json.write_text(text + "\n")
    return 0 if all(result["kept"].values()) else 1


if __name__ == "__main__":
    sys.exit(main())
