"""A log of five million lines: how long until what one asked for is on the screen, next to less,
lnav and Toolong.

    .venv/bin/python benchmarks/biglog.py [--lines 5000000] [--rounds 3] [--toolong PATH] [--json
    FILE]

Every program runs in tmux, 180x50, on the same file in memory; a key is sent and the screen is
looked at until the wanted line is on it (the moment something was written). The console reads
through its agent and the real `attach`; the others open the file itself. Measured are

* end: the newest line. The console is running already and opens the log (`enter`); the others are
  started on it and sent to its end
* line: any line of the middle, by its number
* first: the nearest match of a text that occurs once, at the other end of the file
* all: the number of lines with a text, all of them counted; the anchor is `grep -c -F`
* painted: bytes a second that reach the terminal while 20,000 lines a second come and the end is
  followed, in remote mode and not
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn

from bs4_agent.paths import Home
from bs4_common.clock import boot_id
from bs4_console.errors import ConsoleError
from bs4_console.fleet.watched import Fleet
from bs4_console.pods.channel import Channel
from bs4_console.pods.state import PodState
from bs4_console.tui.app import ConsoleApp

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.streams import AttachDuplex, serve
from benchmarks.terminal import PATIENCE_S, Terminal

SIZE = (180, 50)
#: Texts to look for: at the start of the file once, in every line, in one line of 97, in none.
ONCE, EVERY, SOME, NEVER = "lr 0000007 tokens", "tokens batch", "WARNING", "Traceback"


def make_log(path: Path, lines: int) -> None:
    """Lines of 95 bytes as a trainer writes them, 60 a second, over a day and more."""
    with path.open("wb") as handle:
        for begin in range(0, lines, 20_000):
            handle.write("".join(map(line, range(begin, min(begin + 20_000, lines)))).encode())


def line(n: int) -> str:
    s = n // 60
    level = "INFO" if n % 97 else "WARNING"
    return (
        f"{s // 3600 % 24:02}:{s // 60 % 60:02}:{s % 60:02} {level:>7} Step {n} | Time: "
        f"{n % 9}.{n % 97:02}s | Loss: 0.{n * 7919 % 100000:05} | lr {n:07} tokens batch ok "
        f"{n % 65536:05}\n"
    )


class BenchSession:
    """Stands where a PodSession stands: an agent of this machine, through `attach`."""

    def __init__(self, home: Home) -> None:
        self.state = PodState(name="bench")
        self._home = home
        self._channel: asyncio.Future[Channel] = asyncio.get_running_loop().create_future()
        stamp = {"t": time.time(), "m": time.monotonic(), "b": boot_id()}
        for seq, event in enumerate(("registered", "attempt-started"), 1):
            record: Any = {
                **stamp,
                "seq": seq,
                "prev": "0" * 64,
                "type": "run",
                "event": event,
                "run": "bench",
                "attempt": 1,
                "trainer": "prime-rl",
                "output_dir": "/tmp",
                "cwd": "/tmp",
                "argv": [],
                "config": "",
            }
            self.state.apply_journal(record)
        self.state.streams = ["log/bench/trainer"]

    async def run(self) -> None:
        """Until cancelled. What ends it earlier, and what `attach` says, stands in the file that
        the benchmark looks at.
        """
        with said_by(self._home, "attach").open("ab", buffering=0) as said:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "bs4_agent", "attach"),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=said,
                env={**os.environ, "BS4_HOME": str(self._home.root)},
                limit=1 << 20,
            )
            try:
                self._channel.set_result(
                    await Channel.open(AttachDuplex(process), "benchmark", "benchmark")
                )
                self.state.link.state = "up"
                said.write(
                    f"attach ended by itself with exit code {await process.wait()}\n".encode()
                )
            except ConsoleError as error:
                said.write(f"{error}\n".encode())

    async def close(self) -> None:
        await (await self._channel).close()

    def retry_now(self) -> None: ...

    def take_turns(self, turns: object) -> None:
        """There is no other session to take turns with."""

    async def read_log(
        self,
        stream: str,
        cursor: str,
        limit: int = 262144,
        wait: float = 0.0,
        *,
        seen: int = 0,
        ahead: bool = False,
    ) -> Any:
        return await (await asyncio.shield(self._channel)).read(
            stream, cursor, limit=limit, wait=wait, seen=seen
        )

    async def query(self, stream: str, op: str, **parameters: Any) -> dict[str, Any]:
        return await (await asyncio.shield(self._channel)).query(stream, op, **parameters)


async def screen(home: Home) -> None:
    """The console over that agent."""
    fleet = Fleet()
    fleet.add(BenchSession(home))  # type: ignore[arg-type]
    await ConsoleApp(fleet).run_async()


def said_by(home: Home, who: str) -> Path:
    """Standard error of a helper of the benchmark, beside the home, which is removed after each
    program.
    """
    return home.root.with_name(f"{who}.stderr")


class Agent:
    """The agent's process. Whoever waits for a screen asks `check`: a wait for something that
    cannot come is no measurement.
    """

    def __init__(self, home: Home, process: subprocess.Popen[bytes]) -> None:
        self._home, self._process = home, process

    def check(self) -> None:
        """SystemExit with exit code and last words, when it or the console's `attach` has ended."""
        if (code := self._process.poll()) is not None:
            raise SystemExit(
                f"the agent ended by itself with exit code {code}: {self._words('agent')}"
            )
        if words := self._words("attach"):
            raise SystemExit(f"the console lost the agent: {words}")

    def _words(self, who: str) -> str:
        path = said_by(self._home, who)
        return path.read_text(errors="replace")[-2000:].strip() if path.exists() else ""


@contextlib.contextmanager
def agent(home: Home, log: Path) -> Iterator[Agent]:
    home.create()
    (home.root / "bench.json").write_text(json.dumps({"logs": {"trainer": str(log)}}))
    said_by(home, "attach").unlink(missing_ok=True)
    argv = [sys.executable, __file__, "--serve", str(home.root)]
    with (
        said_by(home, "agent").open("wb") as said,
        subprocess.Popen(argv, stdin=subprocess.PIPE, stderr=said) as process,
    ):
        running = Agent(home, process)
        try:
            while not home.agent_record.exists():
                running.check()
                time.sleep(0.01)
            yield running
        finally:
            process.communicate()


class ConsoleTerminal(Terminal):
    """The console on the bench's log, watched together with its agent."""

    def __init__(
        self, home: Home, running: Agent, environment: Mapping[str, str] | None = None
    ) -> None:
        super().__init__([sys.executable, __file__, "--screen", str(home.root)], SIZE, environment)
        self._agent = running

    def until(self, holds: Callable[[str], object], seconds: float = PATIENCE_S) -> float | None:
        def look(screen: str) -> object:
            self._agent.check()
            return holds(screen)

        return super().until(look, seconds)

    def open_run(self) -> None:
        """From the fleet to the run; its name alone stands on the fleet too, and so does the word
        "logs".
        """
        self.wait("bench")
        self.press("Enter")
        if self.wait("bench › bench") is None:
            self.give_up("the run")

    def give_up(self, wanted: str) -> NoReturn:
        shown = "\n".join(line.rstrip() for line in self.shown().splitlines() if line.strip())
        raise SystemExit(
            f"{wanted} is not on the console's screen after {PATIENCE_S:.0f} s, which "
            f"shows:\n{shown}"
        )


Times = dict[str, float | None]


def console(home: Home, lines: int, running: Agent) -> Times:
    times: Times = {}
    terminal = ConsoleTerminal(home, running)
    try:
        terminal.open_run()
        times["end"] = terminal.enter(":logs trainer", rf"Step {lines - 1} ")
        if times["end"] is None:
            terminal.give_up("the end of the log")
        # The pod counts its lines once while somebody looks: a person needs longer than this to
        # type a number.
        times["line, counted for the first time"] = terminal.enter(
            f":go {lines // 2}", rf"Step {lines // 2 - 1} "
        )
        for n in (lines // 10 * 9, lines // 10, lines // 3):
            times["line"] = max(
                times.get("line") or 0, terminal.enter(f":go {n}", rf"Step {n - 1} ") or PATIENCE_S
            )
        terminal.type("G")
        terminal.wait(rf"Step {lines - 1} ")
        times["first"] = terminal.enter(f":find {ONCE}", r"Step 7 ")
        terminal.type("G")
        terminal.wait(rf"Step {lines - 1} ")
        times["all, every line"] = terminal.enter(f":find {EVERY}", rf"batch {lines:,} lines(?!…)")
        times["all, one line of 97"] = terminal.enter(
            f":find {SOME}", rf"{SOME} {-(-lines // 97):,} lines(?!…)"
        )
        times["filter, the only line that passes"] = terminal.enter(f":filter {ONCE}", r"Step 7 ")
    finally:
        terminal.close()
    return times


def less(log: Path, lines: int) -> Times:
    times: Times = {}
    terminal = Terminal(["less", str(log)], SIZE)
    try:
        times["start"] = terminal.first("Step 0 ")
        times["end"] = terminal.after("G", rf"Step {lines - 1} ")
        terminal.type(str(lines // 2))
        times["line"] = terminal.after("g", rf"Step {lines // 2 - 1} ")
        terminal.press("G")
        terminal.wait(rf"Step {lines - 1} ")
        times["first"] = terminal.enter(f"?{ONCE}", r"Step 7 ")
    finally:
        terminal.close()
    return times


def lnav(log: Path, lines: int) -> Times:
    times: Times = {}
    home = tempfile.TemporaryDirectory(prefix="bs4-lnav-")
    terminal = Terminal(["lnav", str(log)], SIZE, {"HOME": home.name})
    try:
        times["start"] = terminal.first(r"Step \d+ ")
        # it follows to the end by itself, indexing
        times["end"] = terminal.first(rf"Step {lines - 1} ")
        times["line"] = terminal.enter(f":goto {lines // 2}", rf"Step {lines // 2} ")
        terminal.type("g")
        terminal.wait("Step 0 ")
        last = ONCE.replace("0000007", f"{lines - 1:07}")
        times["first"] = terminal.enter(f"/{last}", rf"Step {lines - 1} ")
    finally:
        terminal.close()
        home.cleanup()
    return times


def toolong(program: str, log: Path, lines: int) -> Times:
    times: Times = {}
    terminal = Terminal([program, str(log)], SIZE)
    try:
        times["end"] = terminal.first(rf"Step {lines - 1} ")
        terminal.press("C-g")
        # its box, in which a number stands already; it goes there with every digit
        terminal.wait("▊")
        terminal.press("C-u")
        number = str(lines // 2)
        terminal.type(number[:-1])
        time.sleep(1.0)
        times["line"] = terminal.after(number[-1], rf"Step {lines // 2 - 1} ")
    finally:
        terminal.close()
    return times


def grep(log: Path) -> dict[str, float]:
    times = {}
    for name, text in (
        ("first", ONCE),
        ("all, every line", EVERY),
        ("all, one line of 97", SOME),
        ("all, none", NEVER),
    ):
        began = time.perf_counter()
        # Not into /dev/null: grep stops at the first match there.
        subprocess.run(["grep", "-c", "-F", text, str(log)], check=False, stdout=subprocess.PIPE)
        times[name] = time.perf_counter() - began
    return times


async def on_the_pod(home: Home) -> Times:
    """The same questions without a screen: what the agent itself needs, through attach."""
    session = BenchSession(home)
    running = asyncio.create_task(session.run())
    times: Times = {}

    async def whole(op: str, **arguments: Any) -> int:
        lines: int = 0
        while True:
            answer = await session.query("log/bench/trainer", op, **arguments)
            lines += sum(int(stretch[3]) for stretch in answer.get("stretches", []))
            if answer["next"] is None or answer.get("hits"):
                return lines
            arguments |= answer["next"]

    await session.query("log/bench/trainer", "stat")
    questions: dict[str, Callable[[], Any]] = {
        "first": lambda: whole("search", pattern=ONCE, limit=1, backwards=True),
        "all, every line": lambda: whole("count", pattern=EVERY),
        "all, one line of 97": lambda: whole("count", pattern=SOME),
        "all, none": lambda: whole("count", pattern=NEVER),
        "all, none, either case": lambda: whole("count", pattern=NEVER, ignore_case=True),
    }
    for name, ask in questions.items():
        began = time.perf_counter()
        await ask()
        times[name] = time.perf_counter() - began
    running.cancel()
    await session.close()
    return times


def painted(
    home: Home, log: Path, seconds: float, running: Agent, **environment: str
) -> dict[str, float]:
    """Bytes a second on the terminal while the end of a growing log is followed."""
    stop = threading.Event()

    def grow() -> None:
        with log.open("ab", buffering=0) as handle:
            n = 10_000_000
            while not stop.wait(0.05):
                handle.write("".join(map(line, range(n, n + 1000))).encode())
                n += 1000

    terminal = ConsoleTerminal(home, running, environment)
    writer = threading.Thread(target=grow)
    try:
        terminal.open_run()
        terminal.type(":logs trainer")
        terminal.press("Enter")
        terminal.wait("following")
        writer.start()
        time.sleep(2)
        before, painted_before = terminal.shown(), terminal.painted
        time.sleep(seconds)
        moved = terminal.shown() != before
        return {
            "KiB/s": round((terminal.painted - painted_before) / 1024 / seconds, 1),
            "moved": float(moved),
        }
    finally:
        stop.set()
        if writer.ident is not None:
            writer.join()
        terminal.close()


def with_agent(home: Home, log: Path, measure: Callable[[Agent], Times]) -> Callable[[], Times]:
    """With a fresh agent each time: one that has the line index already would flatter the first
    jump.
    """

    def measured() -> Times:
        with agent(Home(home.root), log) as running:
            times = measure(running)
        shutil.rmtree(home.root)  # made below this benchmark's own temporary directory
        return times

    return measured


def version(program: str) -> str:
    """The first line that the program says of itself."""
    if not program:
        return "not installed"
    said = subprocess.run(
        [program, "--version"],
        check=False,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    return (said.stdout or said.stderr).strip().partition("\n")[0]


def medians(rounds: list[Times]) -> Times:
    names = dict.fromkeys(name for times in rounds for name in times)
    found: Times = {}
    for name in names:
        values = [value for times in rounds if (value := times.get(name)) is not None]
        found[name] = round(statistics.median(values), 3) if values else None
    return found


#: Rows of the page: what it is called there.
ROWS = {
    "start": "first screen",
    "end": "the newest line",
    "line, counted for the first time": "any line, the first time",
    "line": "any line after that",
    "first": "first hit of a text",
    "all, one line of 97": "all hits, one line of 97",
    "all, every line": "all hits, every line",
    "filter, the only line that passes": "filter, the only line that passes",
}


def table(result: dict[str, Any]) -> str:
    """For docs/logs.md. A program that is not installed here says so; "–": it has no such thing, or
    was not asked.
    """
    seconds: dict[str, Times] = result["seconds"]
    missing = [name for name, said in result.get("others", {}).items() if said == "not installed"]
    names = [*sorted(seconds, key=lambda name: name != "bs4-console"), *missing]
    rows = [
        f"| | {' | '.join(f'`{name}`' if name.startswith('grep') else name for name in names)} |",
        "|---" * (len(names) + 1) + "|",
    ]
    for row, title in ROWS.items():
        cells = []
        for name in names:
            asked = seconds.get(name, {})
            value = asked.get(row)
            never = f"not in {PATIENCE_S:.0f} s" if row in asked else "–"
            cells.append(
                "not installed"
                if name in missing
                else f"{value:.3g} s"
                if value is not None
                else never
            )
        rows.append(f"| {title} | {' | '.join(cells)} |")
    return "\n".join(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--lines", type=int, default=5_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--toolong", default=shutil.which("tl") or "", help="Toolong's program")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--only", default="", help="parts to run: pod, console, others, painted")
    parser.add_argument("--screen", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(Home(options.serve))
        return
    if options.screen:
        asyncio.run(screen(Home(options.screen)))
        return
    # Ended from outside it still closes its terminals and ends its agent.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    parts = options.only.split(",") if options.only else ["pod", "console", "others", "painted"]
    with tempfile.TemporaryDirectory(
        dir="/dev/shm" if Path("/dev/shm").is_dir() else None
    ) as directory:
        home, log = Home(Path(directory) / "home"), Path(directory) / "trainer.log"
        make_log(log, options.lines)
        result: dict[str, Any] = {
            "lines": options.lines,
            "bytes": log.stat().st_size,
            "rounds": options.rounds,
            "cores": os.cpu_count(),
            "load": os.getloadavg()[0],
        }
        programs: dict[str, Callable[[], Times]] = {"grep -c -F": lambda: dict(grep(log))}
        if "pod" in parts:
            programs["agent, without a screen"] = with_agent(
                home, log, lambda _: asyncio.run(on_the_pod(home))
            )
        if "console" in parts:
            programs["bs4-console"] = with_agent(
                home, log, lambda running: console(home, options.lines, running)
            )
        if "others" in parts:
            others: dict[str, tuple[str, Callable[[], Times]]] = {
                "less": (shutil.which("less") or "", lambda: less(log, options.lines)),
                "lnav": (shutil.which("lnav") or "", lambda: lnav(log, options.lines)),
                "Toolong": (options.toolong, lambda: toolong(options.toolong, log, options.lines)),
            }
            result["others"] = {name: version(program) for name, (program, _) in others.items()}
            programs |= {name: measure for name, (program, measure) in others.items() if program}
        rounds: dict[str, list[Times]] = {name: [] for name in programs}
        for _ in range(options.rounds):
            for name, program in programs.items():
                rounds[name].append(program())
        result["seconds"] = {name: medians(times) for name, times in rounds.items()}
        if "painted" in parts:
            with agent(Home(home.root), log) as running:
                result["painted"] = {
                    "remote": painted(
                        home, log, 10.0, running, SSH_CONNECTION="192.0.2.1 1 192.0.2.2 22"
                    ),
                    "local": painted(home, log, 10.0, running),
                }
    text = json.dumps(result, indent=2)
    print(text)
    print(table(result), file=sys.stderr)
    if options.json:
        options.json.write_text(text + "\n")


if __name__ == "__main__":
    main()
