"""This machine as a pod: the same agent by the same scripts, without SSH."""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import time
from pathlib import Path

import pytest

from bs4_console.errors import ChannelLost, DeployFailed, LinkError, NoAgent, Unreachable
from bs4_console.pods.inventory import Pod
from bs4_console.transport.local import LocalTransport
from tests.support import bundles, processes

POD = Pod(name="here", host="localhost", provider="local")


def quiet(_: str) -> None:
    return


@pytest.fixture
def local(tmp_path: Path) -> LocalTransport:
    return LocalTransport(
        POD, environment={"BS4_HOME": str(tmp_path / "a home")}, bundle=bundles.stub
    )


async def test_it_deploys_attaches_and_talks(local: LocalTransport, tmp_path: Path) -> None:
    with pytest.raises(NoAgent, match="No agent runs on this machine"):
        await local.open(quiet, deploy=False)
    assert not (tmp_path / "a home").exists()
    said: list[str] = []
    for phrases in (said, []):
        duplex = await local.open(phrases.append)
        greeting = json.loads(await duplex.read())
        await duplex.write(b"ping\n")
        assert await duplex.read() == b"echo ping\n"
        await duplex.close()
        assert greeting["bundle"].startswith(str(tmp_path / "a home" / "agent"))
        assert greeting["home"] == str(tmp_path / "a home")
    assert any("uploading" in phrase for phrase in said)
    assert not any("uploading" in phrase for phrase in phrases)


async def test_closing_ends_the_bridge(local: LocalTransport, tmp_path: Path) -> None:
    duplex = await local.open(quiet)
    pid = json.loads(await duplex.read())["pid"]
    await duplex.close()
    assert not Path(f"/proc/{pid}").exists()
    assert processes.marked(f"BS4_HOME={tmp_path / 'a home'}") == []


async def test_commands_have_a_status_a_limit_and_an_end(local: LocalTransport) -> None:
    done = await local.run(["sh", "-c", "cat; echo err >&2; exit 3"], stdin=b"in")
    assert (done.exit_status, done.stdout, done.stderr) == (3, b"in", b"err\n")
    assert (await local.run(["sh", "-c", "kill -9 $$"])).exit_status is None
    started = time.monotonic()
    with pytest.raises(Unreachable, match=r"did not end within 0\.2 s"):
        await local.run(["sleep", "20"], timeout=0.2)
    assert time.monotonic() - started < 15
    with pytest.raises(LinkError, match="cannot be started here"):
        await local.run(["no-such-program-here"])
    await local.close()


def test_a_command_that_was_ended_leaves_nothing_to_be_collected(
    local: LocalTransport, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What asyncio keeps of a child that outlives the loop raises when it is collected, in the
    middle of whatever runs then.
    """
    raised: list[str] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda told: raised.append(repr(told.exc_value)))
    gc.collect()  # what other tests have left
    raised.clear()

    async def ended() -> None:
        with pytest.raises(Unreachable):
            await local.run(["sleep", "20"], timeout=0.1)

    async def closed_in_its_close() -> None:
        pipe = await local.start(["sh", "-c", "trap '' TERM; exec sleep 20"])
        closing = asyncio.create_task(pipe.close())
        await asyncio.sleep(0.1)
        closing.cancel()
        await asyncio.gather(closing, return_exceptions=True)

    for work in (ended, closed_in_its_close):
        asyncio.run(work())
        gc.collect()
        assert raised == [], work.__name__


async def test_an_agent_that_ends_says_why(tmp_path: Path) -> None:
    local = LocalTransport(
        POD,
        environment={"BS4_HOME": str(tmp_path)},
        bundle=lambda: bundles.stub(main="import sys; sys.exit('the reason')"),
    )
    duplex = await local.open(quiet)
    with pytest.raises(ChannelLost, match="the reason"):
        await duplex.read()
    await duplex.write(b"into the void" * 100_000)
    await duplex.close()


async def test_a_home_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    local = LocalTransport(
        POD, environment={"BS4_HOME": str(tmp_path / "file" / "home")}, bundle=bundles.stub
    )
    with pytest.raises(DeployFailed, match="cannot be written"):
        await local.open(quiet)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
