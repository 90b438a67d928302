"""A home for tiny agents, and a client that reads from them as the console does, without
asyncio.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bs4_agent.lifecycle import handover
from bs4_agent.lifecycle.attach import live
from bs4_agent.paths import Home
from bs4_common.identity import Identity
from bs4_common.streams.logs import LogStream
from bs4_common.wire import Decoder, Frame, encode
from tests.support.processes import end_marked

SCRIPT = Path(__file__).with_name("tiny_agent.py")


def until(condition: Callable[[], Any], what: str, seconds: float = 60.0) -> Any:
    """What `condition` gives as soon as it is true."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.01)
    return value


def kill(stream: LogStream) -> None:
    """What kill -9 of the agent does to a stream: its descriptors are closed and nothing is
    saved.
    """
    for watch in stream._chain._watches.values():
        watch.close()
    stream._chain._watches.clear()


class TinyHome:
    """`close` ends whatever was started in it."""

    def __init__(self, root: Path) -> None:
        self.home = Home(root)
        self.home.create()
        self.mark = f"BS4_TEST_HOME={root}"
        self.environment = {**os.environ, "BS4_HOME": str(root), "BS4_TEST_HOME": str(root)}
        # A busy machine may take longer than the seconds that a console waits.
        self.environment["TINY_START_S"] = "60"

    def settings(self, **values: Any) -> None:
        (self.home.root / "tiny.json").write_text(json.dumps({"logs": {}, **values}))

    def start(self) -> subprocess.Popen[bytes]:
        """A daemon as our own child, listening."""
        process = subprocess.Popen([sys.executable, str(SCRIPT), "daemon"], env=self.environment)
        until(self.listens, "the tiny agent listens")
        return process

    def attach(self, *arguments: str, **environment: str) -> subprocess.Popen[bytes]:
        argv = [sys.executable, str(SCRIPT), "attach", *arguments]
        pipe = subprocess.PIPE
        return subprocess.Popen(
            argv,
            env={**self.environment, **environment},
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            bufsize=0,
        )

    def listens(self) -> bool:
        connection = live(self.home)
        if connection is None:
            return False
        connection.close()
        return True

    def identity(self) -> Identity:
        record = handover.read_record(self.home)
        assert record is not None
        return record.identity

    def client(self) -> Client:
        connection = live(self.home)
        assert connection is not None
        return Client(connection)

    def close(self) -> None:
        end_marked(self.mark)


class Client:
    """One call at a time over a socket; `send` and `receive` for everything else."""

    def __init__(self, connection: socket.socket, *, greet: bool = True) -> None:
        self.socket = connection
        self.socket.settimeout(60.0)
        self._decoder = Decoder()
        self._frames: list[Frame] = []
        self._number = 0
        if greet:
            self.send({"hello": {"protocols": [1], "client": "test/0", "who": "tester"}})
            self.hello = self.receive().header["hello"]

    def send(self, header: dict[str, Any]) -> None:
        self.socket.sendall(encode(header))

    def receive(self) -> Frame:
        while not self._frames:
            data = self.socket.recv(262144)
            if not data:
                raise ConnectionResetError("the agent closed the connection")
            self._frames = self._decoder.feed(data)
        return self._frames.pop(0)

    def call(self, call: str, **fields: Any) -> Frame:
        self._number += 1
        self.send({"id": self._number, "call": call, **fields})
        frame = self.receive()
        assert frame.header["id"] == self._number
        return frame

    def read(
        self, stream: str, cursor: str, limit: int = 262144, wait: float = 0.0, **fields: Any
    ) -> Frame:
        return self.call("read", stream=stream, cursor=cursor, limit=limit, wait=wait, **fields)

    def close(self) -> None:
        self.socket.close()
