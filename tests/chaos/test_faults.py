"""What a round does to a log whose agent has not seen all of it."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import random
import resource
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, cast

import psutil
import pytest

from bs4_common.streams.logs import LogStream
from bs4_practice import disks, tree
from tests.chaos import faults
from tests.chaos.load import LOG_STATE, STREAM, Load
from tests.chaos.world import NotMet, World
from tests.e2e import journals


def lines(first: int, last: int) -> bytes:
    """Return numbered lines."""
    text = b"line %08d of a log that is long enough to look real\n"
    return b"".join(text % number for number in range(first, last))


class Pod:
    """A directory in place of a pod: as much of one as `Load` needs to look at files."""

    def __init__(self, root: Path) -> None:
        self.root, self.home = root, "/root"


class Followed:
    """The log of a round, which an agent follows that looks only when it is told to."""

    def __init__(self, root: Path) -> None:
        self.load = Load(cast("Any", Pod(root)))
        self.log = self.load.log
        self.log.parent.mkdir(parents=True)
        self.log.touch()
        # The further name that the writer gives to the log.
        (self.log.parent / ".current").hardlink_to(self.log)
        home = self.load.home
        self.stream = LogStream(STREAM, home / "archive", home / LOG_STATE)
        self.stream.follow(self.log, 1)
        self.world = World(
            self.load, cast("Any", None), cast("Any", None), random.Random(0), [], root
        )

    def write(self, lines: bytes) -> None:
        """Add lines to the log."""
        with self.log.open("ab") as log:
            log.write(lines)

    def read(self) -> tuple[bytes, int]:
        """Return all bytes that can be read of the log, and how many gaps come between."""
        self.stream.poll()
        cursor, data, gaps = "start", b"", 0
        while True:
            chunk = self.stream.read(cursor, 1 << 18)
            data, gaps = data + chunk.data, gaps + bool(chunk.gap)
            if not chunk.gap and not chunk.data:
                return data, gaps
            cursor = chunk.next


@pytest.fixture
def followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Followed]:
    monkeypatch.setattr(faults, "LOG_S", 1)
    found = Followed(tmp_path)
    yield found
    found.stream.close()


@pytest.mark.parametrize("fault", [faults.truncate, faults.rotate, faults.delete])
async def test_a_log_of_which_the_agent_has_seen_no_byte_is_left_alone(
    followed: Followed, fault: Callable[[World, float], Awaitable[None]]
) -> None:
    # The agent has its link, made while the log was empty. Of what is written now and cut before
    # the agent's next look, nobody could say that it was ever there: this was w4:5.
    followed.write(lines(0, 50))
    with pytest.raises(NotMet):
        await fault(followed.world, 0.0)
    assert followed.read() == (lines(0, 50), 0)


async def test_what_is_cut_after_the_agent_has_seen_the_beginning_lies_in_a_gap(
    followed: Followed,
) -> None:
    followed.write(lines(0, 50))
    followed.stream.poll()
    followed.write(lines(50, 100))
    await faults.truncate(followed.world, 0.0)
    assert followed.log.stat().st_size == 0
    followed.write(lines(100, 250))
    assert followed.read() == (lines(100, 250), 1)


async def test_a_new_log_is_waited_for_until_the_agent_has_seen_its_beginning(
    followed: Followed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(faults, "LOG_S", 60)
    followed.write(lines(0, 50))
    followed.stream.poll()
    await faults.rotate(followed.world, 0.0)
    assert not followed.load.log_is_known()
    harm = asyncio.create_task(faults.truncate(followed.world, 0.0))
    followed.write(lines(50, 100))
    while not harm.done():
        await asyncio.to_thread(followed.stream.poll)
        await asyncio.sleep(0.01)
    await harm
    followed.write(lines(100, 250))
    # The renamed file is read before the new one, and may still grow for a second.
    deadline = asyncio.get_running_loop().time() + 60.0
    while followed.read() != (lines(0, 50) + lines(100, 250), 1):
        assert asyncio.get_running_loop().time() < deadline
        await asyncio.sleep(0.05)


def test_a_process_that_has_got_the_pid_of_a_dead_agent_is_no_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # At x1:76 a round itself killed such a process, and said that the agent had done it.
    load, pid = Load(cast("Any", Pod(tmp_path))), os.getpid()
    monkeypatch.setattr(load, "process", tree.look)
    directory = journals.directory(load.home)
    directory.mkdir(parents=True)
    before, now = psutil.Process().create_time() - psutil.boot_time() - 1.0, time.monotonic()
    for m, expected in ((before, None), (now, tree.look(pid))):
        record = {"type": "agent", "event": "started", "pid": pid, "m": m}
        (directory / "00000001.ndjson").write_text(json.dumps(record) + "\n")
        found = load.agent()
        assert (found and found.pid) == (expected and expected.pid)


def test_a_disk_is_full_though_its_log_grows_while_it_is_filled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = []

    def fill(directory: Path, leave: int) -> Path:
        tried.append(leave)
        if leave < 1 << 20:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        (directory / "ballast").write_bytes(b"x")
        return directory / "ballast"

    monkeypatch.setattr(disks, "fill", fill)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, hard))
    try:
        ballast = faults.filled(tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert tried == [0, 1 << 18, 1 << 20]
    assert ballast.stat().st_size == 1 << 16
