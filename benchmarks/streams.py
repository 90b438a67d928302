"""How fast a log comes out of the agent, next to `cat` of the same file.

    .venv/bin/python benchmarks/streams.py [--megabytes 200] [--rounds 5] [--json FILE]

Reads a log of 184-byte lines whole, from the page cache, in each of these ways, interleaved, and
prints the median of each and its ratio to the first:

* cat: `cat FILE` into a pipe that is read here in 64 KiB pieces and thrown away (what `ssh pod cat
  FILE` does, without ssh)
* socket: one client of the agent's socket, a read of 256 KiB after the other
* attach: the same through `attach` (the console's real way but for ssh), with the console's own
  Channel

    .venv/bin/python benchmarks/streams.py --flood 60 [--rate 100000] [--json FILE]

Two pods whose logs together grow by `rate` lines a second and are rotated on the way, followed by
the feed that fills the log view. Then everything is read back: the hash of each log's whole range
must be the writer's, and lines asked for by number must be those lines.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bs4_agent.channel.endpoint import connect
from bs4_agent.channel.server import Server
from bs4_agent.lifecycle.handover import Build, write_record
from bs4_agent.paths import Home
from bs4_agent.streams.registry import Streams
from bs4_common.streams.logs import LogStream
from bs4_common.wire import Decoder, Frame, encode
from bs4_console.logs.feed import LogFeed
from bs4_console.logs.store import LogStore
from bs4_console.pods.channel import Channel

#: What writes the growing logs, as for benchmarks/screen.py.
WRITER = Path(__file__).with_name("flood.py")
FIRST_LINES = 1000


def make_log(path: Path, megabytes: int) -> int:
    with path.open("wb") as handle:
        for n in range(megabytes * 1_000_000 // 184):
            handle.write(b"%010d " % n + b"x" * 172 + b"\n")
    return path.stat().st_size


def cat(path: Path, size: int) -> None:
    with subprocess.Popen(["cat", str(path)], stdout=subprocess.PIPE, bufsize=0) as process:
        assert process.stdout is not None
        received = 0
        while data := process.stdout.read(65536):
            received += len(data)
    assert received == size


def over_socket(home: Home, size: int) -> None:
    with connect(home.socket("bench")) as connection:
        decoder = Decoder()

        def ask(header: dict[str, object]) -> Frame:
            connection.sendall(encode(header))
            frames: list[Frame] = []
            while not frames:
                frames = decoder.feed(connection.recv(262144))
            return frames[0]

        ask({"hello": {"protocols": [1], "client": "benchmark", "who": "benchmark"}})
        cursor, received, number = "start", 0, 0
        while received < size:
            number += 1
            frame = ask(
                {
                    "id": number,
                    "call": "read",
                    "stream": "log/bench/t",
                    "cursor": cursor,
                    "limit": 262144,
                    "wait": 5,
                }
            )
            received += len(frame.payload)
            cursor = str(frame.header["next"])


class AttachDuplex:
    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def read(self) -> bytes:
        assert self._process.stdout is not None
        return await self._process.stdout.read(262144)

    async def write(self, data: bytes) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(data)
        await self._process.stdin.drain()

    async def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        await self._process.wait()


async def over_attach(home: Home, size: int) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bs4_agent", "attach"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "BS4_HOME": str(home.root)},
        limit=1 << 20,
    )
    channel = await Channel.open(AttachDuplex(process), "benchmark", "benchmark")
    cursor, received = "start", 0
    while received < size:
        chunk = await channel.read("log/bench/t", cursor, wait=5)
        received += len(chunk.data)
        cursor = chunk.next
    await channel.close()


def serve(home: Home) -> None:
    """The agent, as its own process."""
    settings = json.loads((home.root / "bench.json").read_text())
    streams = Streams()
    for name, path in settings["logs"].items():
        log = LogStream(
            f"log/bench/{name}", home.root / "archive", home.root / f"{name}-state.json"
        )
        log.follow(Path(path), 1)
        streams.add(log.name, log)
    server = Server(
        home.socket("bench"), streams, lambda action, who: {}, lambda: {"agent": "bench"}
    )
    server.bind()
    write_record(home, server.path, Build("0.0.0", 0, "bench"))

    def until_told() -> None:
        sys.stdin.read()
        server.stop()

    # What goes wrong in the server ends the process, with its traceback and exit code.
    threading.Thread(target=until_told, daemon=True).start()
    server.serve_forever()


class Pod:
    """An agent in a process of its own, and a channel to it. `reader` is what a LogFeed asks."""

    def __init__(self, root: Path, name: str) -> None:
        self.name, self.home, self.log = (
            name,
            Home(root / name / "home"),
            root / name / "trainer.stdout",
        )
        self.home.create()
        self.log.touch()
        (self.home.root / "bench.json").write_text(json.dumps({"logs": {name: str(self.log)}}))
        self.agent = subprocess.Popen(
            [sys.executable, __file__, "--serve", str(self.home.root)], stdin=subprocess.PIPE
        )
        while not self.home.agent_record.exists():
            time.sleep(0.01)
        self.store = LogStore()
        self.feed = LogFeed(self, self.store, lambda: None)

    @property
    def stream(self) -> str:
        return f"log/bench/{self.name}"

    async def connect(self) -> None:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "bs4_agent", "attach"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env={**os.environ, "BS4_HOME": str(self.home.root)},
            limit=1 << 20,
        )
        self.channel = await Channel.open(AttachDuplex(process), "benchmark", "benchmark")

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
        return await self.channel.read(stream, cursor, limit=limit, wait=wait, seen=seen)

    async def query(self, stream: str, op: str, **parameters: Any) -> dict[str, Any]:
        return await self.channel.query(stream, op, **parameters)

    async def read_back(self) -> tuple[str, int]:
        """(SHA-256 of the whole stream, its lines)."""
        digest, lines, cursor = hashlib.sha256(), 0, "start"
        while True:
            chunk = await self.channel.read(self.stream, cursor)
            if chunk.gap is not None:
                raise SystemExit(f"{self.name}: {chunk.gap}")
            digest.update(chunk.data)
            lines += chunk.data.count(b"\n")
            cursor = chunk.next
            if not chunk.more:
                return digest.hexdigest(), lines

    async def line(self, number: int) -> bytes:
        arguments: dict[str, Any] = {"line": number}
        while (answer := await self.channel.query(self.stream, "seek-line", **arguments))[
            "next"
        ] is not None:
            arguments = answer["next"]
        return (await self.channel.read(self.stream, answer["cursor"], limit=200)).data.split(
            b"\n"
        )[0]

    async def close(self) -> None:
        await self.channel.close()
        self.agent.communicate()


def rss() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def _wrote(path: Path) -> dict[str, Any]:
    while not path.exists():
        await asyncio.sleep(0.05)
    told: dict[str, Any] = json.loads(path.read_text())
    return told


async def flood(root: Path, seconds: float, rate: int) -> dict[str, Any]:
    pods = [Pod(root, name) for name in ("one", "two")]
    for pod in pods:
        await pod.connect()
    followers = [asyncio.create_task(pod.feed.run([pod.stream])) for pod in pods]
    writers = [
        await asyncio.create_subprocess_exec(
            sys.executable, str(WRITER), str(pod.log.parent), str(rate // 2), str(FIRST_LINES)
        )
        for pod in pods
    ]
    for pod in pods:
        pod.log.with_name("go").touch()
    memory, cpu, late = [], time.process_time(), 0.0
    for _ in range(int(seconds)):
        began = time.monotonic()
        await asyncio.sleep(1.0)
        late = max(late, time.monotonic() - began - 1.0)
        memory.append(rss())
    cpu = time.process_time() - cpu
    for pod in pods:
        pod.log.with_name("go").unlink()
    written = [await _wrote(pod.log.with_name("wrote")) for pod in pods]
    for writer in writers:
        writer.terminate()
        await writer.wait()
    await asyncio.sleep(2.5)  # a rotated file is finished when it was quiet for a second
    result: dict[str, Any] = {
        "schema": "bs4.bench-flood/1",
        "seconds": seconds,
        "rate": rate,
        "pods": {},
    }
    for pod, wrote in zip(pods, written, strict=True):
        digest, lines = await pod.read_back()
        numbers = random.Random(1).sample(range(lines), min(200, lines))
        right = sum([b"rollout %d of" % number in await pod.line(number) for number in numbers])
        where = await pod.query(pod.stream, "where")
        last = pod.store.line(pod.store.end - 1)[1]
        result["pods"][pod.name] = {
            **wrote,
            "same_hash": digest == wrote["sha256"],
            "lines_read_back": lines,
            "lines_counted": where["lines"],
            "by_number": f"{right}/{len(numbers)}",
            "followed_to_the_end": b"rollout %d of" % (wrote["lines"] - 1) in last,
            "passed_over_mb": round(pod.feed.left_out / 1e6, 1),
            "held_lines": len(pod.store),
        }
    half = len(memory) // 2
    result |= {
        "cpu_share": round(cpu / seconds, 3),
        "longest_stall_s": round(late, 3),
        "rss_mb_half": round(memory[half] / 1e6, 1),
        "rss_mb_end": round(memory[-1] / 1e6, 1),
    }
    for task in followers:
        task.cancel()
    await asyncio.gather(*followers, return_exceptions=True)
    for pod in pods:
        await pod.close()
    return result


def measure(home: Home, log: Path, size: int, rounds: int) -> dict[str, list[float]]:
    ways: dict[str, Callable[[], None]] = {
        "cat": lambda: cat(log, size),
        "socket": lambda: over_socket(home, size),
        "attach": lambda: asyncio.run(over_attach(home, size)),
    }
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            began = time.perf_counter()
            way()
            times[name].append(time.perf_counter() - began)
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--megabytes", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--flood",
        type=float,
        default=0.0,
        metavar="SECONDS",
        help="follow two growing logs for so long instead",
    )
    parser.add_argument("--rate", type=int, default=100_000, help="lines a second of both together")
    parser.add_argument("--json", type=Path, help="where to write the result")
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(Home(options.serve))
        return
    if options.flood:
        with tempfile.TemporaryDirectory(
            dir="/dev/shm" if Path("/dev/shm").is_dir() else None
        ) as directory:
            text = json.dumps(
                asyncio.run(flood(Path(directory), options.flood, options.rate)), indent=2
            )
        print(text)
        if options.json:
            options.json.write_text(text + "\n")
        return
    with tempfile.TemporaryDirectory() as directory:
        home, log = Home(Path(directory) / "home"), Path(directory) / "t.log"
        home.create()
        size = make_log(log, options.megabytes)
        (home.root / "bench.json").write_text(json.dumps({"logs": {"t": str(log)}}))
        with subprocess.Popen(
            [sys.executable, __file__, "--serve", str(home.root)], stdin=subprocess.PIPE
        ) as agent:
            while not home.agent_record.exists():
                assert agent.poll() is None
                time.sleep(0.01)
            times = measure(home, log, size, options.rounds)
            agent.communicate()
    base = statistics.median(times["cat"])
    rows = {}
    for name, values in times.items():
        median = statistics.median(values)
        rows[name] = {"median_s": round(median, 4), "ratio": round(median / base, 2)}
        print(
            f"{name:8} {size / median / 1e6:8.0f} MB/s   {median / base:5.2f} x cat   "
            f"({min(values):.3f} to {max(values):.3f} s)"
        )
    if options.json:
        result = {"schema": "bs4.bench-streams/1", "bytes": size, "ways": rows}
        options.json.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
