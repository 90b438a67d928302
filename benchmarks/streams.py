"""How fast a log comes out of the agent, next to `cat` of the same file.

    .venv/bin/python benchmarks/streams.py [--megabytes 200] [--rounds 5]

Reads a log of 184-byte lines whole, from the page cache, in each of these ways, interleaved, and prints the median of each and its
ratio to the first:

* cat: `cat FILE` into a pipe that is read here in 64 KiB pieces and thrown away (what `ssh pod cat FILE` does, without ssh)
* socket: one client of the agent's socket, a read of 256 KiB after the other
* attach: the same through `attach` (the console's real way but for ssh), with the console's own Channel
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from bs4_agent.endpoint import connect
from bs4_agent.handover import Build, write_record
from bs4_agent.paths import Home
from bs4_agent.server import Server
from bs4_agent.streams.logs import LogStream
from bs4_agent.streams.registry import Streams
from bs4_agent.wire import Decoder, Frame, encode
from bs4_console.core.channel import Channel


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
            frame = ask({"id": number, "call": "read", "stream": "log/bench/t", "cursor": cursor, "limit": 262144, "wait": 5})
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
    log = LogStream("log/bench/t", home.root / "archive", home.root / "bench-state.json")
    log.follow(Path(settings["log"]), 1)
    streams.add("log/bench/t", log)
    server = Server(home.socket("bench"), streams, lambda action, who: {}, lambda: {"agent": "bench"})
    server.bind()
    write_record(home, server.path, Build("0.0.0", 0, "bench"))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdin.read()


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
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(Home(options.serve))
        return
    with tempfile.TemporaryDirectory() as directory:
        home, log = Home(Path(directory) / "home"), Path(directory) / "t.log"
        home.create()
        size = make_log(log, options.megabytes)
        (home.root / "bench.json").write_text(json.dumps({"log": str(log)}))
        with subprocess.Popen([sys.executable, __file__, "--serve", str(home.root)], stdin=subprocess.PIPE) as agent:
            while not home.agent_record.exists():
                assert agent.poll() is None
                time.sleep(0.01)
            times = measure(home, log, size, options.rounds)
            agent.communicate()
    base = statistics.median(times["cat"])
    for name, values in times.items():
        median = statistics.median(values)
        print(f"{name:8} {size / median / 1e6:8.0f} MB/s   {median / base:5.2f} x cat   ({min(values):.3f} to {max(values):.3f} s)")


if __name__ == "__main__":
    main()
