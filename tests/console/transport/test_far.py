"""A connection to a pod that is far away: how many round trips it costs."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bs4_console.errors import ConsoleError
from bs4_console.pods.channel import Channel
from bs4_console.pods.mirror import Mirror
from bs4_console.pods.session import PodSession
from bs4_console.pods.state import PodState
from bs4_console.transport import bundle
from bs4_console.transport.ssh import SshTransport
from tests.support.distance import distance
from tests.support.pod import TestPod
from tests.support.transports import transport

pytestmark = [pytest.mark.long, pytest.mark.beside]

TRIP_S = 0.8
#: Makes the bundle in $1 one of the time before bytes could come with the command.
AS_BEFORE = """
cd "$1/bs4_agent/lifecycle" && rm ahead.py &&
sed -i "/import ahead/d; s/ahead.take()/bytes()/" attach.py && ! grep -q ahead attach.py
"""


@contextlib.asynccontextmanager
async def far_away(pod: TestPod, directory: Path) -> AsyncIterator[SshTransport]:
    """A transport to the pod through a long link."""
    with distance(pod.address, pod.port, TRIP_S) as port:
        connection = transport(pod, directory, host="127.0.0.1", port=port)
        try:
            yield connection
        finally:
            await connection.close()


@pytest.mark.timeout(600)
async def test_the_end_of_a_connection_waits_for_no_round_trip(
    pod: TestPod, tmp_path: Path
) -> None:
    clock = asyncio.get_running_loop().time
    async with far_away(pod, tmp_path) as connection:
        pipe = await connection.open(lambda _: None)
        channel = await Channel.open(pipe, "tester", "bs4-console/test")
        assert await channel.ping() >= TRIP_S
        began = clock()
        await channel.close()
        await connection.close()
        assert clock() - began < TRIP_S / 2


async def seconds_to_the_state(connection: SshTransport, name: str) -> float:
    """Return how long it takes, behind the login, until a pod's state is read."""
    clock = asyncio.get_running_loop().time
    await connection.connect()
    began = clock()
    session = PodSession(PodState(name=name), lambda: connection, Mirror(None), "t", deploy=False)
    life = asyncio.create_task(session.run_once())
    try:
        await session.synced()
        return clock() - began
    finally:
        life.cancel()
        await asyncio.gather(life, return_exceptions=True)


@pytest.mark.timeout(600)
async def test_three_round_trips_behind_the_login_bring_the_state_of_a_pod_and_four_of_an_older_one(
    pod: TestPod, tmp_path: Path
) -> None:
    """Three are the session, the command and, with what its answers name, the telemetry. A bundle
    that knows nothing of bytes that come with the command is greeted behind it.
    """
    try:
        name = bundle.shipped().name
    except ConsoleError as error:
        pytest.skip(str(error))
    near = transport(pod, tmp_path)
    channel = await Channel.open(await near.open(lambda _: None), "tester", "bs4-console/test")
    await channel.read("telemetry", "start", wait=10.0)
    await channel.close()
    await near.close()
    async with far_away(pod, tmp_path) as connection:
        took = await seconds_to_the_state(connection, pod.name)
        assert 3 * TRIP_S <= took < 4 * TRIP_S
        made_older = pod.run(["sh", "-c", AS_BEFORE, "sh", f"{pod.home}/.bs4/agent/{name}"])
        assert made_older.returncode == 0, made_older.stderr
        took = await seconds_to_the_state(connection, pod.name)
        assert 4 * TRIP_S <= took < 5 * TRIP_S
