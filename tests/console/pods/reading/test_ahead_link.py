"""A log is read ahead from a real SSH server over a link that is cut in the middle of the reads,
and beside the streams that a session follows.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bs4_console import ceilings
from bs4_console.errors import LinkError
from bs4_console.pods.channel import Channel
from bs4_console.pods.mirror import Mirror
from bs4_console.pods.reader import READ_BYTES
from bs4_console.pods.session import PodSession
from bs4_console.pods.state import PodState
from bs4_console.pods.streams import file_stream
from tests.chaos.link import Link
from tests.support.distance import distance
from tests.support.pod import TestPod
from tests.support.transports import transport

pytestmark = [pytest.mark.long, pytest.mark.beside]

SIZE = 24_000_000


def big_log(pod: TestPod) -> tuple[str, str]:
    """Write a log in the pod's home. Returns its stream and its SHA-256."""
    lines = []
    for number in range(SIZE // 96):
        lines.append(b"%010d " % number + b"x" * 84 + b"\n")
    data = b"".join(lines)
    (pod.root / pod.home.lstrip("/") / "big.log").write_bytes(data)
    return file_stream(f"{pod.home}/big.log"), hashlib.sha256(data).hexdigest()


@contextlib.asynccontextmanager
async def session_over(port: int, pod: TestPod, directory: Path) -> AsyncIterator[PodSession]:
    """A session with the pod through a port of this machine."""
    session = PodSession(
        PodState(name=pod.name),
        lambda: transport(pod, directory, host="127.0.0.1", port=port),
        Mirror(directory / "mirror"),
        "tester",
    )
    life = asyncio.create_task(session.run())
    try:
        await session.synced(60)
        yield session
    finally:
        life.cancel()
        await asyncio.gather(life, return_exceptions=True)


@pytest.fixture
def most_under_way(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many calls waited for a reply, each time that a read was added to them."""
    numbers: list[int] = []
    read = Channel.read

    async def counted(self: Channel, *args: object, **options: object) -> object:
        numbers.append(len(self._waiting))
        return await read(self, *args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(Channel, "read", counted)
    return numbers


@pytest.mark.timeout(300)
async def test_a_cut_in_the_middle_of_many_reads_loses_and_doubles_nothing(
    pod: TestPod, tmp_path: Path, most_under_way: list[int]
) -> None:
    stream, sha256 = big_log(pod)
    link = Link(pod.address, pod.port)
    await link.open()
    breaks = 0
    digest, size, cursor, more = hashlib.sha256(), 0, "start", True
    async with session_over(link.port, pod, tmp_path) as session:
        while more:
            if link.budget is None and breaks < 4:
                link.budget = 5_000_000 + 111_111 * breaks  # not where a piece ends
            try:
                chunk = await session.read_log(stream, cursor, ahead=True)
            except LinkError:
                breaks += 1
                session.retry_now()
                await asyncio.sleep(0.1)
                continue
            assert not chunk.repeats
            assert chunk.gap is None
            digest.update(chunk.data)
            size += len(chunk.data)
            cursor, more = chunk.next, chunk.more
    await link.close()
    assert size == SIZE // 96 * 96
    assert digest.hexdigest() == sha256
    assert link.carried >= 5, "the link was not cut four times"
    assert max(most_under_way) > 3, "nothing was read ahead"


@pytest.mark.timeout(300)
async def test_a_ping_beside_a_long_read_is_answered(
    pod: TestPod, tmp_path: Path, most_under_way: list[int]
) -> None:
    """At 100 Mbit/s and 60 ms a window of all reads would hold a ping up for a third of a second,
    and reads one at a time would carry 4 MB a second.
    """
    stream, sha256 = big_log(pod)
    with distance(pod.address, pod.port, 0.06, 100.0) as port:
        async with session_over(port, pod, tmp_path) as session:
            # Others may use this machine in one half of a round.
            for _ in range(3):
                alone, beside, share = await read_beside_pings(session, stream, sha256)
                if beside < alone + 0.5 and share < 0.75:
                    break
    assert max(most_under_way) <= ceilings.READS_AHEAD + 8, "beside what a session follows"
    assert alone >= 0.06
    assert beside < alone + 0.5
    assert share < 0.75, "no faster than one at a time"


async def read_beside_pings(
    session: PodSession, stream: str, sha256: str
) -> tuple[float, float, float]:
    """Read the log while pings are sent. Returns the seconds of the quickest ping alone and of the
    usual one beside the reads, and the share of the time that reads one at a time would take.
    """
    channel = await session.connected(60.0)
    alone = min([await channel.ping() for _ in range(5)])
    single = await seconds_each(session, stream)
    pings: list[float] = []

    async def ping() -> None:
        while True:
            pings.append(await channel.ping())
            await asyncio.sleep(0.05)

    pinging = asyncio.create_task(ping())
    digest, cursor, more = hashlib.sha256(), "start", True
    began = asyncio.get_running_loop().time()
    while more:
        chunk = await session.read_log(stream, cursor, ahead=True)
        digest.update(chunk.data)
        cursor, more = chunk.next, chunk.more
    seconds = asyncio.get_running_loop().time() - began
    pinging.cancel()
    assert digest.hexdigest() == sha256
    beside = sorted(pings)[len(pings) // 2]
    print(
        f"{SIZE / seconds / 1e6:.1f} MB/s; ping {alone * 1000:.0f} ms, {beside * 1000:.0f} beside"
    )
    return alone, beside, seconds / (SIZE / READ_BYTES * single)


async def seconds_each(session: PodSession, stream: str, count: int = 12) -> float:
    """Read `count` pieces one after the other. Returns how long each took, on this machine as busy
    as it is.
    """
    began, cursor = time.monotonic(), "start"
    for _ in range(count):
        cursor = (await session.read_log(stream, cursor, READ_BYTES)).next
    return (time.monotonic() - began) / count
