"""Keep one pod up to date: connect, follow its streams from the mirror's cursors, and connect again
after every loss. Queries and actions go over the same link.
"""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

from bs4_common.foreign_json import wall_second
from bs4_common.ids import ulid
from bs4_common.streams.cursor import Chunk
from bs4_console import __version__, ceilings
from bs4_console.errors import (
    ChannelLost,
    ConsoleError,
    EndlessAnswer,
    LooksOnly,
    RefusedError,
    RemoteError,
    SessionFailed,
    Unreachable,
)
from bs4_console.pods.channel import Channel
from bs4_console.pods.mirror import Mirror
from bs4_console.pods.port import Transport
from bs4_console.pods.reader import READ_BYTES, PodReader
from bs4_console.pods.reading.ahead import ReadAhead
from bs4_console.pods.reading.greeting import Action, greeting
from bs4_console.pods.state import ActionView, PodState
from bs4_console.pods.streams import FILE, NOWHERE, place, position, stream_ends, stream_names
from bs4_console.task_group import TaskGroup311
from bs4_console.turns import Turns
from bs4_console.waiting import at_most

__all__ = ["Chunk", "PodSession"]

#: Seconds before the first, second, ... retry; the last value repeats. Each is varied by +-30 % so
#: that 200 pods do not connect again in one instant.
BACKOFF = (1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)
PING_S = 5.0
#: Seconds that a call waits for a link that is being made, and seconds that a submission waits for
#: another link after its own was lost.
CONNECT_S, RESUBMIT_S = 5.0, 30.0
#: Seconds that a pod which answers may keep an accepted action out of its journal. An agent writes
#: it there before it accepts it.
JOURNALLED_S = 60.0
#: Seconds before trying again after a link was lost in the middle of an answer.
LOOK_S = 0.05


class PodSession:
    """The console's session with one pod: it connects, keeps a PodState up to date, and sends
    queries and actions. What is read is also saved on this machine, in a copy that is called the
    mirror. Reading continues where the mirror ends, so that a reconnect or a restarted console
    reads only the missing bytes.
    """

    def __init__(
        self,
        state: PodState,
        transport: Callable[[], Transport],
        mirror: Mirror,
        who: str,
        *,
        deploy: bool = True,
    ) -> None:
        self.state = state
        self.mirror = mirror
        self._transport = transport
        self._who = who
        self._deploy = deploy
        self._read_only = state.read_only
        self._channel: Channel | None = None
        self._ahead: ReadAhead | None = None
        self._up = asyncio.Event()
        self._reader = PodReader(state, mirror)
        self._stop_retrying: ConsoleError | None = None
        self._wake = asyncio.Event()

    def take_turns(self, turns: Turns) -> None:
        """Make this session process what its pod sends only when `turns`, which other sessions
        share, gives it its turn.
        """
        self._reader.turns = turns

    async def run(self) -> None:
        """Connect to the pod, follow its streams, and reconnect after every loss, until cancelled.
        After an error that a retry cannot fix (changed host key, refused key), the session waits
        until `retry_now` is called.
        """
        while True:
            try:
                self.replay()
                await self._connected_life()
            except RemoteError as error:
                self._note_down(
                    Unreachable(
                        f"The agent answered with an error: {error.message}",
                        "It is asked again shortly.",
                    )
                )
            except ConsoleError as error:
                self._note_down(error)
            await self._pause()

    async def run_once(self, patience: float = 0.0) -> None:
        """Connect to the pod, follow its streams and reconnect after a loss, until cancelled.
        Commands use this to wait for something on the pod.

        Raises the ConsoleError that says why the link is down: at once if the link was never up or
        a retry cannot help, else when the link has been down for `patience` seconds.
        """
        self.replay()
        while True:
            try:
                await self._connected_life()
            except ConsoleError as error:
                link = self.state.link
                if link.state != "up":
                    last_up = link.last_up
                else:
                    last_up = time.monotonic()
                if not error.retry or last_up is None or time.monotonic() - last_up >= patience:
                    raise
                self._note_down(error)
            await self._pause()

    def retry_now(self) -> None:
        """Try to connect at once, without waiting for the end of the pause before the next attempt.
        This works also after an error that a retry could not fix; call it when a person has removed
        the cause.
        """
        self._stop_retrying = None
        self._wake.set()

    def replay(self) -> None:
        """Fill the pod's state from the mirror (the copy of the pod's data on this machine), with
        what was known when a console last read from the pod. Every fact keeps its age. No link is
        needed.
        """
        self._reader.replay()

    async def _connected_life(self) -> None:
        """Connect and follow the streams until the connection ends. It always ends with a
        ConsoleError.
        """
        try:
            await self._connection()
        except ConsoleError:
            raise
        except Exception as error:
            # Any other error of one pod's session is shown on that pod, and the connection is tried
            # again: it must not end in silence.
            raise SessionFailed(self.state.name, error) from error

    async def _connection(self) -> None:
        link = self.state.link
        self._stop_retrying = None
        link.attempts += 1
        if link.state == "new":
            link.set("connecting")  # later tries do not hide what is wrong, nor since when
        self.state.changed()
        transport = self._transport()
        try:
            client = f"bs4-console/{__version__}"
            said = greeting(self._who, client, self._reader.questions())
            duplex = await transport.open(self._progress, deploy=self._deploy, first=said.data)
            channel = await Channel.open(duplex, self._who, client, pod=self.state.name, said=said)
            try:
                self._meet(channel)
                link.set("up")
                self._up.set()
                self._progress("")
                await self._follow_everything(channel)
            finally:
                self._channel = None
                self._up.clear()
                self._reader.sampled.clear()
                await channel.close()
                await self._leave_ahead()
        finally:
            await transport.close()

    def _meet(self, channel: Channel) -> None:
        """Take over the agent's greeting. If it is another agent than before, forget what was
        known.
        """
        self.state.hello = channel.hello
        self.state.looks_only = channel.hello.get("look") is True
        self.state.read_only = self._read_only or self.state.looks_only
        self._channel = channel
        self._ahead = ReadAhead(channel)
        theirs = wall_second(channel.hello.get("t"))
        if theirs is not None:
            self.state.link.clock_offset = theirs - time.time()
        if self.mirror.use(str(channel.hello.get("home") or "")):
            self._reader.begin_anew()

    async def _leave_ahead(self) -> None:
        """Throw away what was read ahead over the channel that has ended."""
        if self._ahead is not None:
            await self._ahead.close()
            self._ahead = None

    async def _follow_everything(self, channel: Channel) -> None:
        """Follow all streams until one of the loops fails. A lost channel fails all of them at
        once.
        """
        loops = TaskGroup311()
        self._reader.start(channel, loops)
        loops.start(self._ping(channel))
        await loops.wait()

    async def _ping(self, channel: Channel) -> None:
        while True:
            await channel.ping()
            self.state.link.rtt, self.state.link.clock_offset = channel.rtt, channel.clock_offset
            self.state.changed()
            if self._ahead is not None:
                self._ahead.expire()
            await asyncio.sleep(PING_S)

    def _progress(self, phrase: str) -> None:
        self.state.progress = phrase
        self.state.changed()

    def _note_down(self, error: ConsoleError) -> None:
        self.state.link.set(error.link_state, error.message, error.next_step)
        self.state.progress = ""
        self._stop_retrying = None if error.retry else error
        self.state.changed()

    async def _pause(self) -> None:
        link = self.state.link
        # This is jitter and no secret.
        spread = random.uniform(0.7, 1.3)  # noqa: S311
        delay = BACKOFF[min(max(link.attempts - 1, 0), len(BACKOFF) - 1)] * spread
        if self._stop_retrying:
            link.retry_at = None
        else:
            link.retry_at = time.monotonic() + delay
        self._wake.clear()
        await at_most(self._wake.wait(), None if self._stop_retrying else delay)

    async def connected(self, timeout: float) -> Channel:
        """Return the open channel to the agent. If the pod is not connected, wait up to `timeout`
        seconds until it is. Raises Unreachable, with the reason, if it is not connected by then, or
        at once if the last error is one that a retry cannot fix. Raises ChannelLost if the
        connection ends in the very moment of this call.
        """
        link = self.state.link
        if not self._up.is_set() and self._stop_retrying is None:
            await at_most(self._up.wait(), timeout)
            if not self._up.is_set():
                raise Unreachable(
                    link.detail
                    or f"{self.state.name} did not answer within {math.ceil(timeout)} s.",
                    link.next_step or "Check that the pod runs, and its address.",
                )
        if self._channel is None:
            if self._stop_retrying is not None:
                raise Unreachable(
                    f"There is no link to {self.state.name}: {self._stop_retrying.message}",
                    self._stop_retrying.next_step,
                )
            raise ChannelLost(
                f"The connection to {self.state.name} ended.", "It is being made again."
            )
        return self._channel

    async def bring_store_library(self, progress: Callable[[str], None]) -> None:
        """Install b2sdk, the library with which the agent reads and writes an object store, on the
        pod. Nothing is installed if the pod has it already. A connection of its own is opened for
        this and closed afterwards. `progress` is called with short phrases for a person. Raises a
        LinkError, such as NoSpace or NoAgent, if that fails.
        """
        transport = self._transport()
        try:
            await transport.bring_store_library(progress)
        finally:
            await transport.close()

    async def synced(self, timeout: float = 30.0) -> None:
        """Wait until the pod's state holds everything that its journal (the agent's log of actions
        and incidents) and its records of training steps contain now, and at least one new telemetry
        record.

        If the link is lost meanwhile, `run` connects again and the wait continues. Raises
        Unreachable after `timeout` seconds, or at once if a retry cannot fix the link.
        """
        clock = asyncio.get_running_loop().time
        deadline = clock() + timeout
        while True:
            try:
                channel = await self.connected(max(0.0, deadline - clock()))
                async with asyncio.timeout_at(deadline):
                    return await self._read_everything_up_to_now(channel)
            except TimeoutError:
                raise Unreachable(
                    f"{self.state.name} was reached but did not send its state within "
                    f"{timeout:.0f} s.",
                    "Try again.",
                ) from None
            except Unreachable:
                if self._stop_retrying is not None or clock() >= deadline:
                    raise
            # A channel whose calls fail may stay for a moment.
            await asyncio.sleep(LOOK_S)

    async def _read_everything_up_to_now(self, channel: Channel) -> None:
        """Wait until everything is read that the journal and the steps hold now. One question asks
        for all ends, because each round trip to a distant pod counts.
        """
        ends = await stream_ends(channel)
        await self._read_up_to(channel, "journal", ends.get("journal"))
        for stream, end in sorted(ends.items()):
            if stream.startswith("steps/") and stream.removeprefix("steps/") in self.state.runs:
                await self._read_up_to(channel, stream, end)
        await self._still(channel, self._reader.sampled.is_set)

    async def _read_up_to(
        self, channel: Channel, stream: str, goal: tuple[int, int] | None
    ) -> None:
        """Wait until `stream` is read up to `goal`. None means that the list of streams did not say
        where it ends, so the pod is asked.
        """
        if goal is None:
            goal = position(place((await channel.query(stream, "stat"))["end"]))
        await self._still(channel, lambda: position(self.mirror.cursor(stream) or NOWHERE) >= goal)

    async def _still(self, channel: Channel, reached: Callable[[], bool]) -> None:
        """Wait until `reached` returns True, over this very channel, because data over another
        channel may be of another pod. Raises ChannelLost if this channel has gone.
        """
        while not reached():
            if self._channel is not channel:
                raise ChannelLost(
                    f"The connection to {self.state.name} ended.", "It is being made again."
                )
            await self._changed()

    async def _changed(self) -> None:
        changed = asyncio.Event()

        def wake(_: PodState) -> None:
            changed.set()

        self.state.listeners.append(wake)
        try:
            await changed.wait()
        finally:
            self.state.listeners.remove(wake)

    async def read_log(
        self,
        stream: str,
        cursor: str,
        limit: int = READ_BYTES,
        wait: float = 0.0,
        *,
        seen: int = 0,
        ahead: bool = False,
    ) -> Chunk:
        """Return the next chunk of a log from `cursor` on, at most `limit` bytes, and save it in
        the mirror (the copy of the pod's data on this machine). If nothing has been written after
        `cursor`, wait up to `wait` seconds for new bytes. An unfinished last line is returned too,
        but saved only when it is complete. `seen` is the number of bytes of that line which the
        caller already has; it is sent again only if it has grown.

        `ahead` is for a consumer who reads on and on at `Chunk.next`: several reads of READ_BYTES
        are then kept under way, so that a long log comes as fast as the link allows. Raises
        Unreachable or ChannelLost if there is no link. Raises RemoteError if the agent refuses the
        read.
        """
        channel = await self.connected(CONNECT_S)
        if ahead and self._ahead is not None and self._ahead.channel is channel:
            chunk = await self._ahead.read(stream, cursor, wait, seen=seen)
        else:
            chunk = await channel.read(stream, cursor, limit=limit, wait=wait, seen=seen)
        if not chunk.repeats and not stream.startswith(FILE):
            self.mirror.keep(stream, chunk.start, chunk.data)
            if chunk.gap:
                self.mirror.note_gap(stream, chunk.gap)
        return chunk

    async def query(self, stream: str, op: str, **parameters: Any) -> dict[str, Any]:
        """Ask the pod's agent one question about `stream`, a name such as "journal" or
        "log/RUN/trainer", and return the result, a dictionary. `op` is the question, such as "stat"
        or "search", and `parameters` are its fields. Raises Unreachable or ChannelLost if there is
        no link. Raises RemoteError if the agent refuses the question.
        """
        return await (await self.connected(CONNECT_S)).query(stream, op, **parameters)

    async def streams(self) -> list[str]:
        """Ask the pod for the names of all its streams, store them in the state and return them,
        sorted. Raises Unreachable or ChannelLost if there is no link.
        """
        self.state.streams = await stream_names(await self.connected(CONNECT_S))
        return self.state.streams

    async def seek_line(self, stream: str, line: int) -> str:
        """Return the cursor at which line number `line` of the log `stream` begins. A negative
        number counts from the end. The agent may need several queries for a long log; they are sent
        until the line is found. Raises EndlessAnswer if the agent asks for another query 1,000
        times (ceilings.PAGES). Raises Unreachable or ChannelLost if there is no link, and
        ProtocolMismatch if the answer is no cursor. Raises RemoteError if the agent refuses the
        question.
        """
        further: dict[str, Any] = {"line": line}
        for _ in range(ceilings.PAGES):
            result = await self.query(stream, "seek-line", **further)
            if result.get("next") is None:
                return place(result["cursor"])
            further = result["next"]
        raise EndlessAnswer(stream, "seek-line", ceilings.PAGES)

    @property
    def home(self) -> str:
        """Return the id of the home directory of the agent that answered last, which tells one
        machine from another. Return "" if no agent ever answered.
        """
        return str(self.state.hello.get("home") or self.mirror.home)

    async def submit(self, kind: str, *, payload: bytes = b"", **body: Any) -> str:
        """Submit an action to the pod and return its key. `kind` is the action's kind (launch,
        stop, plan, ...) and `body` holds its fields. After a lost link the action is submitted
        again under the same key, so that it never runs twice; its progress is in
        `state.ledger.actions[key]`. `payload` holds secrets and is written to no journal (log of
        actions and incidents).

        The action says for which agent it is, by the id of that agent's home: `body["home"]`, else
        that of the agent that made the plan, else that of the agent that answered last. If another
        machine answers at the pod's address by then, it refuses the action.

        Raises LooksOnly if the SSH key of this login may only read on the pod, and RefusedError if
        the pod is read-only for this console and `kind` is not "plan". Raises Unreachable if there
        is no link; the action may have arrived then.
        """
        if self.state.looks_only:
            raise LooksOnly(self.state.name)
        if self.state.read_only and kind != "plan":
            raise RefusedError(
                f"{self.state.name} is read-only here.",
                "Remove read_only from the pod, or start without --read-only, to act.",
            )
        plan = self.state.ledger.plans.get(str(body.get("plan_hash")))
        planned = plan.home if plan is not None else ""
        home = body.pop("home", "") or planned or self.home
        if home:  # else no agent has answered yet, so nobody saw anything of it
            body["home"] = home
        action = Action(body.pop("key", "") or ulid(), kind, body)
        secret = (payload,) if payload else ()
        try:
            await (await self.connected(CONNECT_S)).submit(action, *secret)
        except ChannelLost:
            # The action may have arrived or not. The same key is the same action, so nothing
            # happens twice.
            await self._submit_again(action, *secret)
        return action.key

    async def _submit_again(self, action: Action, *secret: bytes) -> None:
        """Submit the action over the next link that holds. For a moment the link that was lost may
        still be the current one.
        """
        clock = asyncio.get_running_loop().time
        deadline = clock() + RESUBMIT_S
        while True:
            try:
                await (await self.connected(max(0.0, deadline - clock()))).submit(action, *secret)
            except ChannelLost:
                if clock() >= deadline:
                    raise
            else:
                return
            await asyncio.sleep(LOOK_S)

    async def follow_action(self, key: str) -> AsyncIterator[ActionView]:
        """Yield the state of the action with this key each time it changes, until the action has
        ended. A lost link only delays the next state. Raises Unreachable if the pod's journal (the
        agent's log of actions and incidents) does not show the action after 60 seconds with a link
        (JOURNALLED_S).
        """
        await self._journalled(key)
        seen: tuple[Any, ...] = ()
        while True:
            action = self.state.ledger.actions[key]
            now = (action.state, action.updated_t, [(s.state, s.detail) for s in action.steps])
            if now != seen:
                seen = now
                yield action
                continue  # the reader may have waited: look again
            if action.ended:
                return
            await self._changed()

    async def _journalled(self, key: str) -> None:
        """Wait until the journal shows the action `key`. Only time with a link counts."""
        waited = 0.0
        while key not in self.state.ledger.actions:
            began = time.monotonic()
            await at_most(self._changed(), 1.0)
            if self.state.link.up:
                waited += time.monotonic() - began
            if waited > JOURNALLED_S:
                raise Unreachable(
                    f"{self.state.name} has accepted the action {key} and its journal does not "
                    f"show it after {JOURNALLED_S:.0f} s.",
                    f"Look there with `bs4-console check --pod {self.state.name}` before you "
                    "submit it again.",
                )

    async def close(self) -> None:
        """Close the mirror, the copy of the pod's data on this machine. The connection to the pod
        is closed not here but when `run` or `run_once` is cancelled.
        """
        self.mirror.close()
