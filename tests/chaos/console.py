"""The handle of a console process: start it, give it orders, kill it, start it again."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from pathlib import Path
from typing import Any

from tests.support import processes

ROOT = Path(__file__).resolve().parents[2]
#: Bytes of one line that a console says.
LINE_BYTES = 1 << 20


class Console:
    """One console of a pod; after a kill the next one goes on with the same directory."""

    def __init__(self, order: dict[str, Any], errors: Path, tree: Path = ROOT) -> None:
        self._order, self._errors = order, errors
        self._process: Any = None
        self._listening: asyncio.Task[None] | None = None
        self.told: dict[str, Any] = {}
        """The last state that the console told."""
        self.accepted: list[str] = []
        self.answers: dict[str, tuple[str, str]] = {}
        """The key of each accepted action, or "" and why it was refused, by the tag of the
        order.
        """
        self.build = 0
        """The build number that the console's bundle is to have; 0: that of its sources."""
        self.tree = tree
        """The sources that the next console is started from."""
        self.synced: set[int] = set()
        self.kills = 0

    @property
    def pid(self) -> int:
        """The process id of the living console."""
        return int(self._process.pid)

    @property
    def alive(self) -> bool:
        """Whether the console lives."""
        return self._process.poll() is None

    def start(self) -> None:
        """Start a console. It dies with this process."""
        paths = (self.tree / "console", self.tree / "agents", self.tree)
        environment = {**os.environ, "PYTHONPATH": ":".join(map(str, paths))}
        if self.build:
            environment["SOURCE_DATE_EPOCH"] = str(self.build)
        with self._errors.open("ab") as errors:
            self._process = processes.spawn(
                [sys.executable, "-m", "tests.chaos.reader", json.dumps(self._order)],
                cwd=self.tree,
                stdin=-1,
                stdout=-1,
                stderr=errors,
                env=environment,
            )
        self._listening = asyncio.create_task(self._listen(self._process))

    async def kill(self) -> None:
        """End the console with SIGKILL."""
        self.kills += 1
        self._process.kill()
        await asyncio.to_thread(self._process.wait)
        if self._listening is not None:
            await self._listening
        with contextlib.suppress(BrokenPipeError):  # an order that nobody has read
            self._process.stdin.close()
        self._process.stdout.close()
        self.told = {}

    def order(self, **what: Any) -> None:
        """Give an order. A console that has just died hears nothing."""
        try:
            self._process.stdin.write(json.dumps(what).encode() + b"\n")
            self._process.stdin.flush()
        except (BrokenPipeError, ValueError):
            if "tag" in what:
                self.answers[what["tag"]] = ("", "the console was dead")

    async def _listen(self, process: Any) -> None:
        while line := await asyncio.to_thread(process.stdout.readline, LINE_BYTES):
            if not line.endswith(b"\n"):
                return  # it was killed in the middle of a line
            said = json.loads(line)
            if "accepted" in said:
                self.accepted.append(said["accepted"])
                self.answers[said["tag"]] = (said["accepted"], "")
            elif "refused" in said:
                self.answers[said["tag"]] = ("", said["refused"])
            elif "synced" in said:
                self.synced.add(said["synced"])
            else:
                self.told = said
