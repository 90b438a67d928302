"""The real agent, deployed to real pods over real SSH, greeted and read through the console's own
channel.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from bs4_console.errors import ConsoleError, NoAgent
from bs4_console.pods.channel import Channel
from bs4_console.transport import bundle
from bs4_console.transport.ssh import SshTransport
from tests.support.pod import TestPod
from tests.support.pods import Pods
from tests.support.transports import transport


def quiet(_: str) -> None:
    return


@pytest.fixture(scope="module")
def shipped() -> bundle.Bundle:
    try:
        return bundle.shipped()
    except ConsoleError as error:
        pytest.skip(str(error))


async def greet(
    connection: SshTransport, *, deploy: bool = True
) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the agent said of itself, and its first telemetry record."""
    channel = await Channel.open(
        await connection.open(quiet, deploy=deploy), "tester@test", "bs4-console/test"
    )
    try:
        data = b""
        async with asyncio.timeout(60):
            while not data:
                data = (await channel.read("telemetry", "start", wait=10.0)).data
        return channel.hello, json.loads(data.splitlines()[0])
    finally:
        await channel.close()


async def test_the_agent_starts_answers_and_outlives_the_connection(
    pod: TestPod, tmp_path: Path, shipped: bundle.Bundle
) -> None:
    connection = transport(pod, tmp_path)
    try:
        first, telemetry = await greet(connection)
        assert first["bundle"] == shipped.name
        assert telemetry["host"]["mem_total"] > 0
        assert telemetry["gpus"]["state"] in ("absent", "ok")
        await connection.close()
        again, _ = await greet(connection)
        assert again["pid"] == first["pid"]
        assert (await greet(connection, deploy=False))[0]["pid"] == first["pid"]
    finally:
        await connection.close()
    bytecode = pod.run(
        ["find", f"{pod.home}/.bs4/agent/{shipped.name}/lib/__pycache__", "-name", "pynvml*.pyc"]
    )
    assert bytecode.stdout.count(b"\n") == 1


async def test_an_installed_agent_that_does_not_run_is_no_agent_until_one_may_start_it(
    pods: Pods, tmp_path: Path, shipped: bundle.Bundle
) -> None:
    (pod,) = pods(1)
    connection = transport(pod, tmp_path)
    try:
        first, _ = await greet(connection)
        await connection.close()
        pod.kill()
        pod.start()
        with pytest.raises(NoAgent, match="No agent runs"):
            await greet(connection, deploy=False)
        again, _ = await greet(connection)
        assert again["bundle"] == first["bundle"]
    finally:
        await connection.close()
        pod.close()


@pytest.mark.parametrize("options", [{"noexec_home": True}, {"python": "3.10"}])
async def test_it_runs_from_a_noexec_home_and_under_python_3_10(
    pods: Pods, tmp_path: Path, shipped: bundle.Bundle, options: dict[str, Any]
) -> None:
    (pod,) = pods(1, **options)
    connection = transport(pod, tmp_path)
    try:
        hello, telemetry = await greet(connection)
        assert telemetry["host"]["mem_total"] > 0
        if "python" in options:
            assert hello["python"].startswith("3.10.")
    finally:
        await connection.close()
        pod.close()
