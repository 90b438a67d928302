from __future__ import annotations

import asyncio
import os
import socket
import struct
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from bs4_agent.channel.endpoint import connect
from bs4_common.wire import AHEAD_LIMIT, HEADER_LIMIT, PAYLOAD_LIMIT, Decoder, encode
from bs4_console.errors import ChannelLost, ProtocolMismatch, RemoteError, UsageError
from bs4_console.pods import channel as channel_module
from bs4_console.pods.channel import Channel
from bs4_console.pods.port import Duplex
from bs4_console.pods.reading.greeting import Action, Call, query_call, read_call, submit_call
from bs4_console.pods.reading.greeting import greeting as said_first
from tests.agent.channel.test_server import Agent
from tests.agent.streams.tiny import TinyHome


class SocketDuplex:
    """A Duplex over a connected socket."""

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        self._socket = connection
        self.closed = False

    async def read(self) -> bytes:
        try:
            return await asyncio.get_running_loop().sock_recv(self._socket, 65536)
        except OSError:
            raise ChannelLost("The socket broke.") from None

    async def write(self, data: bytes) -> None:
        try:
            await asyncio.get_running_loop().sock_sendall(self._socket, data)
        except OSError:
            raise ChannelLost("The socket broke.") from None

    async def close(self) -> None:
        if not self.closed:
            self.closed = True
            try:
                self._socket.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            self._socket.close()


class ProcessDuplex:
    """A Duplex over the standard input and output of an attach."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    async def read(self) -> bytes:
        assert self.process.stdout is not None
        return await self.process.stdout.read(65536)

    async def write(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        await self.process.stdin.drain()

    async def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        await self.process.wait()


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Agent]:
    agent = Agent(tmp_path)
    yield agent
    agent.stop()


@asynccontextmanager
async def opened(agent: Agent) -> AsyncIterator[Channel]:
    channel = await Channel.open(
        SocketDuplex(connect(agent.server.path)), "alice@laptop", "bs4-console/0.1.0"
    )
    try:
        yield channel
    finally:
        await channel.close()


async def test_the_four_calls(agent: Agent) -> None:
    agent.telemetry.append({"t": 1})
    async with opened(agent) as channel:
        assert channel.hello["protocol"] == 1
        assert channel.hello["pid"] == os.getpid()
        chunk = await channel.read("telemetry", "start")
        assert (chunk.start, chunk.next, chunk.data, chunk.gap, chunk.more) == (
            "1:0",
            "1:8",
            b'{"t":1}\n',
            None,
            False,
        )
        assert (await channel.query("telemetry", "stat"))["end"] == "1:8"
        assert await channel.submit(Action("01J", "stop", {"run": "r"})) == "accepted"
        assert agent.submitted == [({"key": "01J", "kind": "stop", "run": "r"}, "alice@laptop")]
        assert 0 < await channel.ping() < 60


async def test_replies_out_of_order_reach_their_callers(agent: Agent) -> None:
    async with opened(agent) as channel:
        waiting = [
            # The start, which is the end too: nothing may come before it is asked for.
            asyncio.create_task(channel.read(name, "start", wait=20))
            for name in ("telemetry", "log/r/t", "telemetry")
        ]
        await asyncio.gather(*(channel.ping() for _ in range(20)))
        agent.telemetry.append({"t": 1})
        assert (await waiting[0]).data == (await waiting[2]).data == b'{"t":1}\n'
        assert not waiting[1].done()
        agent.log_path.write_text("line\n")
        assert (await waiting[1]).data == b"line\n"


async def test_what_the_agent_refuses_is_a_remote_error(agent: Agent) -> None:
    async with opened(agent) as channel:
        with pytest.raises(RemoteError, match="list the streams") as caught:
            await channel.read("nothing", "start")
        assert (caught.value.type, caught.value.exit_code) == ("unknown-stream", 2)
        with pytest.raises(RemoteError) as caught:
            await channel.submit(Action("01J", "busy"))
        assert (caught.value.type, caught.value.exit_code) == ("busy", 4)
        with pytest.raises(UsageError, match="too large"):
            await channel.submit(Action("01J", "note", {"text": "x" * HEADER_LIMIT}))
        assert await channel.ping() > 0


async def test_cancelling_a_call_stops_it_on_the_pod(agent: Agent) -> None:
    async with opened(agent) as channel:
        for _ in range(50):  # more than may wait at the same time
            task = asyncio.create_task(channel.read("telemetry", "end", wait=30))
            await asyncio.sleep(0)
            await channel.ping()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        agent.telemetry.append({"t": 1})
        assert (await channel.read("telemetry", "start", wait=20)).data == b'{"t":1}\n'


async def test_an_agent_that_dies_fails_every_waiter_at_once(agent: Agent) -> None:
    async with opened(agent) as channel:
        waiting = [asyncio.create_task(channel.read("telemetry", "end", wait=30)) for _ in range(5)]
        await channel.ping()
        await asyncio.to_thread(agent.server.stop)
        for task in waiting:
            with pytest.raises(ChannelLost):
                await asyncio.wait_for(task, 20)
        with pytest.raises(ChannelLost):
            await channel.ping()


async def test_close_fails_the_waiters(agent: Agent) -> None:
    async with opened(agent) as channel:
        waiting = asyncio.create_task(channel.read("telemetry", "end", wait=30))
        await channel.ping()
        await channel.close()
        with pytest.raises(ChannelLost, match="closed here"):
            await waiting


async def test_the_shortest_round_trip_measures_the_clock() -> None:
    """The pod's clock is 100 s ahead, and most of its answers are late: each of those alone would
    be 250 ms wrong. What the shortest round trip says is wrong by half of it at most.
    """
    pings = 0

    def answer(header: dict[str, Any]) -> bytes:
        nonlocal pings
        pings += 1
        reply = encode({"id": header["id"], "ok": True, "t": time.time() + 100, "m": 0.0})
        if pings not in (3, 6):
            time.sleep(0.5)
        return reply

    async with pod(greeting(answer)) as duplex:
        channel = await Channel.open(duplex, "a", "b")
        assert (channel.rtt, channel.clock_offset) == (None, None)
        trips = [await channel.ping() for _ in range(9)]
        assert channel.rtt == min(trips[-8:])
        assert channel.clock_offset is not None
        assert abs(channel.clock_offset - 100) <= channel.rtt / 2 + 0.01
        await channel.close()


async def test_a_whole_log_through_the_channel(agent: Agent) -> None:
    content = b"".join(b"%07d %s\n" % (n, b"x" * (n % 300)) for n in range(50_000))
    agent.log_path.write_bytes(content)
    async with opened(agent) as channel:
        received, cursor = [], "start"
        while sum(map(len, received)) < len(content):
            chunk = await channel.read("log/r/t", cursor, wait=20)
            received.append(chunk.data)
            cursor = chunk.next
    assert b"".join(received) == content


async def test_an_unfinished_line_is_not_sent_again_until_it_grows(agent: Agent) -> None:
    agent.log_path.write_text("whole\nunfin")
    async with opened(agent) as channel:
        cursor = (await channel.read("log/r/t", "start", wait=20)).next
        chunk = await channel.read("log/r/t", cursor, wait=20)
        assert (chunk.data, chunk.repeats) == (b"unfin", True)
        again = asyncio.create_task(channel.read("log/r/t", cursor, wait=20, seen=len(chunk.data)))
        await asyncio.sleep(1.2)
        assert not again.done()
        with agent.log_path.open("a") as handle:
            handle.write("ished\n")
        assert (await again).data == b"unfinished\n"


# Hostile pods: a server that says what a test tells it.


@asynccontextmanager
async def pod(answer: Callable[[dict[str, Any]], bytes | None]) -> AsyncIterator[SocketDuplex]:
    """Our end of a channel to a pod that answers each frame with the bytes `answer` gives (None
    closes).
    """
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)

    async def serve() -> None:
        loop = asyncio.get_running_loop()
        decoder = Decoder()
        while data := await loop.sock_recv(theirs, 65536):
            for frame in decoder.feed(data):
                reply = answer(frame.header)
                if reply is None:
                    theirs.close()
                    return
                await loop.sock_sendall(theirs, reply)

    task = asyncio.create_task(serve())
    duplex = SocketDuplex(ours)
    try:
        yield duplex
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await duplex.close()
        theirs.close()


def greeting(
    reply: Callable[[dict[str, Any]], bytes | None],
) -> Callable[[dict[str, Any]], bytes | None]:
    return lambda header: encode({"hello": {"protocol": 1}}) if "hello" in header else reply(header)


@pytest.mark.parametrize(
    "answer",
    [
        b"Welcome to pod 7!\nLast login: never\n" * 3,
        struct.pack(">II", HEADER_LIMIT + 1, 0),
        struct.pack(">II", 0, 2**31),
        encode({"hello": {"protocol": 7}}),
        encode({"hello": "hi"}),
        encode({"error": "no"}),
        encode(
            {
                "error": {
                    "type": "protocol-version",
                    "message": "This agent speaks protocol [9]; update the older of the two.",
                }
            }
        ),
    ],
)
async def test_who_does_not_greet_is_no_agent(answer: bytes) -> None:
    async with pod(lambda _: answer) as duplex:
        with pytest.raises(ProtocolMismatch) as caught:
            await Channel.open(duplex, "a", "b")
        assert caught.value.next_step
        assert duplex.closed


async def test_who_closes_instead_of_greeting_is_lost() -> None:
    async with pod(lambda _: None) as duplex:
        with pytest.raises(ChannelLost):
            await Channel.open(duplex, "a", "b")


async def test_who_never_greets_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channel_module, "HELLO_S", 0.2)
    async with pod(lambda _: b"") as duplex:
        with pytest.raises(ChannelLost, match="did not greet"):
            await Channel.open(duplex, "a", "b")


@pytest.mark.parametrize(
    "poison", [struct.pack(">II", 2**32 - 1, 0), struct.pack(">II", 3, 0) + b"[1]", b"\xff" * 100]
)
async def test_poison_fails_every_waiter_and_closes(poison: bytes) -> None:
    async with pod(greeting(lambda header: poison if header["call"] == "ping" else b"")) as duplex:
        channel = await Channel.open(duplex, "a", "b")
        waiting = [asyncio.create_task(channel.read("x", "start", wait=30)) for _ in range(3)]
        await asyncio.sleep(0.05)
        with pytest.raises(ProtocolMismatch):
            await channel.ping()
        for task in waiting:
            with pytest.raises(ProtocolMismatch):
                await asyncio.wait_for(task, 20)
        assert duplex.closed
        await channel.close()


@pytest.mark.parametrize(
    "reply",
    [
        {"ok": True},
        {"ok": True, "start": "../../etc:0", "next": "1:5"},
        {"ok": True, "start": "1:0", "next": 5},
        {"ok": True, "start": "1:0", "next": "1:5", "gap": "yes"},
        {"error": {"type": "x"}},
        {"error": []},
    ],
)
async def test_an_answer_of_the_wrong_shape_is_a_mismatch(reply: dict[str, Any]) -> None:
    async with pod(greeting(lambda header: encode({"id": header["id"], **reply}))) as duplex:
        channel = await Channel.open(duplex, "a", "b")
        with pytest.raises(ProtocolMismatch):
            await channel.read("x", "start")
        await channel.close()


async def test_replies_nobody_asked_for_cost_no_memory() -> None:
    import resource

    flood = [0]

    def answer(header: dict[str, Any]) -> bytes:
        if header["call"] == "ping":
            return encode({"id": header["id"], "ok": True, "t": 1.0, "m": 1.0})
        flood[0] += 1
        strangers = encode({"id": 10**6 + flood[0], "ok": True}, bytes(PAYLOAD_LIMIT)) + encode(
            {"id": "x"}, bytes(PAYLOAD_LIMIT)
        )
        return strangers * 20 + encode(
            {"id": header["id"], "ok": True, "start": "1:0", "next": "1:0"}
        )

    async with pod(greeting(answer)) as duplex:
        channel = await Channel.open(duplex, "a", "b")
        await channel.read("x", "start")
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for _ in range(20):
            await channel.read("x", "start")
        assert await channel.ping() > 0
        # kB, of 200 MB that came
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 30_000
        await channel.close()


async def test_an_agent_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channel_module, "ANSWER_S", 0.2)
    said: list[dict[str, Any]] = []
    async with pod(greeting(lambda header: said.append(header) or b"")) as duplex:
        channel = await Channel.open(duplex, "a", "b")
        with pytest.raises(ChannelLost, match="did not answer a read"):
            await channel.read("x", "start")
        async with asyncio.timeout(20):
            while len(said) < 2:
                await asyncio.sleep(0.01)
        assert [header["call"] for header in said] == ["read", "cancel"]
        assert said[1]["target"] == said[0]["id"]
        await channel.close()


async def test_through_attach_to_an_agent_killed_with_9(tmp_path: Path) -> None:
    tiny = TinyHome(tmp_path / "home")
    try:
        log = tmp_path / "t.log"
        tiny.settings(
            logs={"log/r/t": {"path": str(log), "attempt": 1, "archive": str(tmp_path / "archive")}}
        )
        log.write_text("one\n")
        cursor = "start"
        for expected, following in ((b"one\n", "two\n"), (b"two\n", "three\n"), (b"three\n", "")):
            script = Path(sys.modules["tests.agent.streams.tiny"].SCRIPT)
            pipe = asyncio.subprocess.PIPE
            attach = await asyncio.create_subprocess_exec(
                sys.executable,
                str(script),
                "attach",
                "--start",
                stdin=pipe,
                stdout=pipe,
                env=tiny.environment,
            )
            channel = await Channel.open(ProcessDuplex(attach), "a", "b")
            chunk = await channel.read("log/r/t", cursor, wait=20)
            assert chunk.data == expected
            cursor = chunk.next
            waiting = asyncio.create_task(channel.read("log/r/t", cursor, wait=30))
            await channel.ping()
            os.kill(channel.hello["pid"], 9)
            with pytest.raises(ChannelLost):
                await asyncio.wait_for(waiting, 20)
            with log.open("a") as handle:
                handle.write(following)
            await channel.close()
    finally:
        tiny.close()


# Questions that are sent with the greeting.

STAT = query_call("telemetry", "stat")


async def asked_ahead(duplex: Duplex, *questions: Call) -> Channel:
    """A channel whose greeting, with these questions, was sent before the agent had greeted."""
    said = said_first("a", "b", questions)
    await duplex.write(said.data)
    return await Channel.open(duplex, "a", "b", said=said)


async def test_a_question_that_came_with_the_greeting_is_asked_once(agent: Agent) -> None:
    agent.telemetry.append({"t": 1})
    ahead = read_call("telemetry", "start", 100)
    channel = await asked_ahead(SocketDuplex(connect(agent.server.path)), ahead)
    await channel.read("telemetry", "end")  # reads are answered in their order
    agent.telemetry.append({"t": 1})
    assert (await channel.read("telemetry", "start", 100)).next == "1:8", "the answer given ahead"
    assert (await channel.read("telemetry", "start", 100)).next == "1:16"
    await channel.close()


async def test_an_answer_given_ahead_is_not_used_late(agent: Agent) -> None:
    channel = await asked_ahead(SocketDuplex(connect(agent.server.path)), STAT, STAT)
    assert (await channel.query("telemetry", "stat"))["end"] == "1:0"
    agent.telemetry.append({"t": 1})
    await channel.ping()
    assert (await channel.query("telemetry", "stat"))["end"] == "1:8"
    await channel.close()


async def test_a_refusal_given_ahead_is_the_refusal_of_the_call(agent: Agent) -> None:
    nothing = query_call("nothing", "stat")
    channel = await asked_ahead(SocketDuplex(connect(agent.server.path)), nothing, nothing)
    with pytest.raises(RemoteError, match="list the streams"):
        await channel.query("nothing", "stat")
    await channel.close()


async def test_answers_given_ahead_pass_the_gate() -> None:
    def answer(header: dict[str, Any]) -> bytes:
        return encode({"id": header["id"], "ok": True, "result": {"end": 7}})

    async with pod(greeting(answer)) as duplex:
        channel = await asked_ahead(duplex, STAT)
        with pytest.raises(ProtocolMismatch, match="what no agent sends"):
            await channel.query("telemetry", "stat")
        await channel.close()


async def test_nothing_is_done_to_a_pod_before_it_has_greeted() -> None:
    with pytest.raises(ValueError, match="must wait until the agent has greeted"):
        said_first("a", "b", [submit_call(Action("01J", "stop"))])


async def test_a_greeting_is_never_longer_than_a_command_may_carry() -> None:
    long = query_call("log/r/trainer", "search", pattern="x" * 3000)
    said = said_first("a", "b", [long, long, STAT])
    assert len(said.data) <= AHEAD_LIMIT
    assert list(said.questions) == [1]
