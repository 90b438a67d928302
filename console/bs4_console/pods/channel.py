"""The console's end of the connection to one agent. Calls are numbered, replies may come in any
order, and memory is bounded whatever the pod sends.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from dataclasses import dataclass
from typing import Any

from bs4_common.errors import ProtocolError
from bs4_common.greeting import AgentGreeting
from bs4_common.streams.cursor import Chunk
from bs4_common.wire import PROTOCOLS, Decoder, Frame
from bs4_console import ceilings
from bs4_console.errors import (
    ChannelLost,
    ConsoleError,
    ProtocolMismatch,
    RemoteError,
    UsageError,
    described,
)
from bs4_console.pods.gate import records, replies, rules
from bs4_console.pods.port import Duplex
from bs4_console.pods.reading.greeting import (
    Action,
    Call,
    Greeting,
    greeting,
    query_call,
    read_call,
    submit_call,
)
from bs4_console.printable import one_line

#: Seconds for the agent's greeting. The pod's disk may still be busy with the deploy meanwhile.
HELLO_S = 20.0
#: Seconds that a call may take beyond its own wait. A live agent answers within milliseconds; a
#: slow link adds seconds.
ANSWER_S = 30.0
#: How many of the last round trips are kept. The shortest gives the best clock offset.
PINGS = 8
#: How many more answers than calls an agent may send before the link is ended.
UNASKED_MOST = 1_000


@dataclass(frozen=True)
class _Ping:
    rtt: float
    offset: float


class Channel:
    """The console's side of one connection to a pod's agent, over a pipe (Duplex): reads of
    streams, queries, actions and pings.

    Every method raises ChannelLost once the connection has ended, RemoteError if the agent answers
    with an error, and ProtocolMismatch if the answer does not follow the protocol. Cancelling an
    awaited call also stops that call on the pod.
    """

    def __init__(self, duplex: Duplex, pod: str) -> None:
        """Prepare a channel that has not greeted the agent. Use `Channel.open` in its place."""
        self._pod = pod
        self.hello: AgentGreeting = {}
        """The agent's greeting."""
        self._duplex = duplex
        self._decoder = Decoder()
        self._calls = self._answers = 0
        self._waiting: dict[int, asyncio.Future[Frame]] = {}
        self._writing = asyncio.Lock()
        self._places = asyncio.Semaphore(ceilings.REPLIES)
        self._lost: ConsoleError | None = None
        self._pings: deque[_Ping] = deque(maxlen=PINGS)
        self._receiver: asyncio.Task[None] | None = None
        self._writes: set[asyncio.Task[None]] = set()
        self._asked: dict[int, Call] = {}
        """The questions that were sent with our greeting and that no call has taken over yet."""

    @classmethod
    async def open(
        cls,
        duplex: Duplex,
        who: str,
        client: str,
        *,
        pod: str = "The pod",
        said: Greeting | None = None,
    ) -> Channel:
        """Greet the agent over the pipe `duplex` and return the open channel.

        `who` is the person, `client` the program with its version, and `pod` the pod's name for
        errors. `said` is our greeting if it was sent already, with some questions to the agent. The
        first call that asks one of these questions gets the answer that has come, without another
        round trip. But once a ping was answered, that answer is too old, and the pod is asked anew.

        Raises ProtocolMismatch if the two sides share no protocol version or if something other
        than an agent answers, and ChannelLost if the link ends or the greeting takes more than 20
        seconds (HELLO_S).
        """
        channel = cls(duplex, pod)
        try:
            async with asyncio.timeout(HELLO_S):
                if said is None:
                    said = greeting(who, client)
                    await duplex.write(said.data)
                channel._expect(said)
                await channel._greet()
        except TimeoutError:
            await duplex.close()
            raise ChannelLost(
                f"The agent did not greet within {HELLO_S:.0f} s.", "The link is made again."
            ) from None
        except ConsoleError:
            await duplex.close()
            raise
        channel._receiver = asyncio.create_task(channel._receive())
        return channel

    @property
    def rtt(self) -> float | None:
        """Return the shortest round trip among the last pings, in seconds, or None before the first
        ping.
        """
        return min((ping.rtt for ping in self._pings), default=None)

    @property
    def clock_offset(self) -> float | None:
        """Return by how many seconds the pod's wall clock is ahead of this machine's (negative:
        behind), or None before the first ping. It is taken from the ping with the shortest round
        trip.
        """
        if self._pings:
            return min(self._pings, key=lambda ping: ping.rtt).offset
        return None

    async def read(
        self, stream: str, cursor: str, limit: int = 262144, wait: float = 0.0, *, seen: int = 0
    ) -> Chunk:
        """Return the bytes of `stream` from `cursor` on, at most `limit` of them. If there are none
        yet, wait up to `wait` seconds (at most 30) for new ones; the chunk is empty if none came.
        `stream` is a name such as "journal" or "log/RUN/trainer". `cursor` is a place in it:
        GENERATION:OFFSET (the number of the stream's file and a byte offset in it), "start" or
        "end".

        `seen` is the number of bytes of an unfinished last line that the caller has already
        received (`Chunk.repeats`). That line is sent again only if it has grown. Raises RemoteError
        if the agent refuses the read, and a LinkError if the link is lost or no answer comes.
        """
        frame = await self._call(read_call(stream, cursor, limit, wait, seen), wait + ANSWER_S)
        return _chunk(frame)

    async def query(self, stream: str, op: str, **parameters: Any) -> dict[str, Any]:
        """Ask the agent one question about `stream`, a name such as "journal" or "log/RUN/trainer",
        and return the result, a dictionary. `op` is the question (stat, seek-line, seek-time,
        search, list and others), and `parameters` are its fields. If the result holds `next`, the
        agent has not finished the search: call again with the contents of `next` as the parameters.
        Raises RemoteError if the agent refuses the question, and a LinkError if the link is lost or
        no answer comes.
        """
        frame = await self._call(query_call(stream, op, **parameters))
        result: dict[str, Any] = frame.header["result"]
        return result

    async def submit(self, action: Action, payload: bytes = b"") -> str:
        """Submit an action to the agent and return the state that the agent answers: "accepted", or
        that of the action if it was submitted before. The same key submitted again starts nothing a
        second time.

        The agent writes the action to the pod's journal (the agent's log of actions and incidents).
        `payload` holds the secrets of a set-up and is not written there.
        """
        frame = await self._call(submit_call(action), payload=payload)
        return str(frame.header.get("state"))

    async def ping(self) -> float:
        """Send one ping to the agent, and keep its round trip and the clock offset that it shows.
        Return the round trip in seconds.
        """
        sent, wall = time.monotonic(), time.time()
        frame = await self._call(Call(call="ping"))
        rtt, theirs = time.monotonic() - sent, frame.header["t"]
        self._forget_asked()
        self._pings.append(_Ping(rtt, theirs - (wall + rtt / 2)))
        return rtt

    async def close(self) -> None:
        """Close the connection. Calls that are still waiting for an answer raise ChannelLost."""
        self._fail(ChannelLost("The connection was closed here.", "Connect again."))
        await self._duplex.close()
        tasks = [
            task
            for task in (self._receiver, *self._writes)
            if task is not None and task is not asyncio.current_task()
        ]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _expect(self, said: Greeting) -> None:
        """Hold places for the answers to the questions of our greeting."""
        self._asked = dict(said.questions)
        self._calls = len(self._asked)
        for number in self._asked:
            self._waiting[number] = asyncio.get_running_loop().create_future()

    def _forget_asked(self) -> None:
        """Drop the answers to questions of our greeting that no call has taken over."""
        for number in self._asked:
            self._waiting.pop(number).cancel()
        self._asked.clear()

    async def _greet(self) -> None:
        """Wait for the agent's greeting, check it, and take the answers that came with it."""
        frames: list[Frame] = []
        while not frames:
            data = await self._duplex.read()
            if not data:
                raise ChannelLost(
                    "The agent's channel closed before it greeted.",
                    "Look at agent.log on the pod, or deploy again.",
                )
            frames = self._decode(data)
        header = frames[0].header
        if "error" in header:
            raise _refusal(header["error"])
        hello = header.get("hello")
        if not isinstance(hello, dict) or hello.get("protocol") not in PROTOCOLS:
            raise _mismatch(f"it chose protocol {str(hello)[:60]}")
        try:
            self.hello = records.hello(hello)
        except rules.RecordRefused as error:
            raise _mismatch(f"in its greeting {error}") from None
        for frame in frames[1:]:
            self._deliver(frame)

    def _decode(self, data: bytes) -> list[Frame]:
        try:
            return self._decoder.feed(data)
        except ProtocolError as error:
            raise _mismatch(error.message) from None

    async def _call(self, call: Call, timeout: float = ANSWER_S, *, payload: bytes = b"") -> Frame:
        if self._lost is not None:
            raise self._lost
        async with self._places:
            return await self._called(call, timeout, payload)

    async def _called(self, call: Call, timeout: float, payload: bytes) -> Frame:
        """Send a request and return its reply, which the gate has checked."""
        if self._lost is not None:
            raise self._lost  # while this call waited for its place
        asked = self._take_over(call)
        if asked is not None:
            number, reply = asked, self._waiting[asked]
        else:
            number = self._next_number()
            reply = self._waiting[number] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(timeout):
                if asked is None:
                    await asyncio.shield(self._write(number, call, payload))
                frame: Frame = await reply
        except TimeoutError:
            self._say_cancel(number)
            raise ChannelLost(
                f"The agent did not answer a {call.call} within {timeout:.0f} s.",
                "The link is made again.",
            ) from None
        except asyncio.CancelledError:
            self._say_cancel(number)
            raise
        finally:
            del self._waiting[number]
            reply.cancel()
        if "error" in frame.header:
            raise _refusal(frame.header["error"])
        try:
            return replies.check(call, frame)
        except rules.RecordRefused as error:
            raise ProtocolMismatch(
                f"{self._pod} answered {replies.named(call)} with what no agent sends: {error}.",
                "Deploy the agent again.",
            ) from None

    def _take_over(self, asked: Call) -> int | None:
        """Return the id of the question of our greeting that is this very request, so that its
        answer is this call's. None if there is none.
        """
        for number, call in self._asked.items():
            if call == asked:
                del self._asked[number]
                return number
        return None

    def _next_number(self) -> int:
        self._calls += 1
        return self._calls

    def _write(self, number: int, call: Call, payload: bytes = b"") -> asyncio.Task[None]:
        """Start to send a request, and return the task that sends it.

        It is a task of its own so that a cancelled caller does not stop it: half a frame would put
        the channel out of step for good. Raises UsageError if the frame is too large.
        """

        async def write() -> None:
            async with self._writing:
                await self._duplex.write(data)

        try:
            data = call.encoded(number, payload)
        except ProtocolError as error:
            raise UsageError(
                f"That request is too large: {error.message}", "Ask for less at once."
            ) from None
        task = asyncio.create_task(write())
        self._writes.add(task)
        task.add_done_callback(self._written)
        return task

    def _written(self, task: asyncio.Task[None]) -> None:
        self._writes.discard(task)
        if not task.cancelled() and isinstance(error := task.exception(), ConsoleError):
            self._fail(error)

    def _say_cancel(self, number: int) -> None:
        """Tell the agent that nobody waits for call `number` any more. Nobody waits for an answer
        to this. A pod that takes no frames is given up when too many wait to be sent.
        """
        if len(self._writes) >= ceilings.FRAMES:
            self._fail(ChannelLost(f"{self._pod} takes no requests.", "The link is made again."))
        if self._lost is None:
            self._write(self._next_number(), Call(call="cancel", fields={"target": number}))

    async def _receive(self) -> None:
        """Give each reply to its caller until the link ends.

        A reply without a caller (cancelled, or invented by the pod) is dropped at once. So the pod
        can make us hold at most one payload for each of our calls.
        """
        try:
            while data := await self._duplex.read():
                for frame in self._decode(data):
                    self._deliver(frame)
            self._fail(ChannelLost("The agent's channel closed.", "The link is made again."))
        except ConsoleError as error:
            self._fail(error)
            await self._duplex.close()
        except OSError as error:
            self._fail(
                ChannelLost(f"The agent's channel broke ({error}).", "The link is made again.")
            )
        except Exception as error:  # noqa: BLE001 (whatever it is, the calls that wait learn of it)
            # Without a receiver every call would wait until its time limit, and the pod would seem
            # connected.
            self._fail(
                ChannelLost(
                    f"What the agent sent cannot be taken ({described(error)}).",
                    "The link is made again.",
                )
            )
            await self._duplex.close()

    def _deliver(self, frame: Frame) -> None:
        self._answers += 1
        if self._answers > self._calls + UNASKED_MOST:
            # They would keep this machine busy for as long as the pod likes.
            raise _mismatch("it sends answers that nobody asked for")
        number = frame.header.get("id")
        if number is None and "error" in frame.header:
            raise _refusal(frame.header["error"])
        reply = None
        if type(number) is int:
            reply = self._waiting.get(number)
        if reply is not None and not reply.done():
            reply.set_result(frame)

    def _fail(self, error: ConsoleError) -> None:
        self._forget_asked()
        if self._lost is None:
            self._lost = error
        for reply in self._waiting.values():
            if not reply.done():
                reply.set_exception(self._lost)


def _chunk(frame: Frame) -> Chunk:
    """Return the answer to a read. The gate has checked its fields."""
    header = frame.header
    return Chunk(
        header["start"],
        header["next"],
        frame.payload,
        header.get("gap"),
        header.get("partial") is True,
        header.get("more") is True,
    )


def _refusal(error: Any) -> ConsoleError:
    if not isinstance(error, dict) or not isinstance(error.get("message"), str):
        return _mismatch("its error holds no message")
    word = one_line(str(error.get("type", "error")))
    message = one_line(error["message"])
    if word in ("protocol", "protocol-version"):
        return ProtocolMismatch(message, "Deploy this console's agent, or update the console.")
    return RemoteError(word, message)


def _mismatch(detail: str) -> ProtocolMismatch:
    return ProtocolMismatch(
        f"What answers on the pod does not speak the agent's protocol: {detail}.",
        "Look whether a shell start file on the pod prints something, then deploy the agent again.",
    )
