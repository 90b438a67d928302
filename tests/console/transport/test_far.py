"""A connection to a pod that is far away: no round trip is spent on its end."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from bs4_console.pods.channel import Channel
from tests.support.distance import distance
from tests.support.pod import TestPod
from tests.support.transports import transport

pytestmark = [pytest.mark.long, pytest.mark.beside]

TRIP_S = 0.8


@pytest.mark.timeout(120)
async def test_the_end_of_a_connection_waits_for_no_round_trip(
    pod: TestPod, tmp_path: Path
) -> None:
    clock = asyncio.get_running_loop().time
    with distance(pod.address, pod.port, TRIP_S) as port:
        connection = transport(pod, tmp_path, host="127.0.0.1", port=port)
        pipe = await connection.open(lambda _: None)
        channel = await Channel.open(pipe, "tester", "bs4-console/test")
        assert await channel.ping() >= TRIP_S
        began = clock()
        await channel.close()
        await connection.close()
        assert clock() - began < TRIP_S / 2
