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

from bs4_agent.ids import ulid
from bs4_agent.streams.cursor import Chunk
from bs4_console import __version__
from bs4_console.errors import (
    ChannelLost,
    ConsoleError,
    RefusedError,
    RemoteError,
    SessionFailed,
    Unreachable,
)
from bs4_console.pods.channel import Channel
from bs4_console.pods.gate import records
from bs4_console.pods.mirror import Mirror
from bs4_console.pods.port import Transport
from bs4_console.pods.reader import READ_BYTES, PodReader
from bs4_console.pods.state import ActionView, PodState
from bs4_console.pods.streams import FILE, NOWHERE, place, position, stream_names
from bs4_console.task_group import TaskGroup311
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
    """The session with one pod. It owns a PodState. Reading starts from the mirror's cursors, so a
    reconnect or a restarted console reads only what it lacks.
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
        self._channel: Channel | None = None
        self._up = asyncio.Event()
        self._reader = PodReader(state, mirror)
        self._stop_retrying: ConsoleError | None = None
        self._wake = asyncio.Event()

    async def run(self) -> None:
        """Connect and follow the streams until cancelled. After an error that trying again cannot
        mend (changed host key, refused key), the session waits for `retry_now`.
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
        """Connect and follow the streams, for a command that waits for something.

        Raises the first error of the link before it was ever up. Later errors are raised if trying
        again for `patience` seconds did not mend them.
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
        """End a pause at once, also one without end, because the person has mended the cause."""
        self._stop_retrying = None
        self._wake.set()

    def replay(self) -> None:
        """Fill the state from the mirror with what was known when the console was last open, with
        its age. Needs no link.
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
            duplex = await transport.open(self._progress, deploy=self._deploy)
            channel = await Channel.open(duplex, self._who, f"bs4-console/{__version__}")
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
        finally:
            await transport.close()

    def _meet(self, channel: Channel) -> None:
        """Take over the agent's greeting. If it is another agent than before, forget what was
        known.
        """
        self.state.hello = channel.hello
        self._channel = channel
        theirs = channel.hello.get("t")
        if theirs is not None and records.wall(theirs):
            self.state.link.clock_offset = theirs - time.time()
        if self.mirror.use(str(channel.hello.get("home") or "")):
            self._reader.begin_anew()

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
        """Return the live channel, waiting up to `timeout` seconds for it. Raises Unreachable or
        ChannelLost, with the reason of the link, if there is none.
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

    async def synced(self, timeout: float = 30.0) -> None:
        """Wait until journal and steps, as they are on the pod now, have been read, and one
        telemetry sample.

        A link that is lost meanwhile is made again by `run`. Raises Unreachable after `timeout`
        seconds, or at once if trying again cannot mend the link.
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
        await self._read_up_to_now(channel, "journal")
        for stream in await stream_names(channel):
            if stream.startswith("steps/") and stream.removeprefix("steps/") in self.state.runs:
                await self._read_up_to_now(channel, stream)
        await self._still(channel, self._reader.sampled.is_set)

    async def _read_up_to_now(self, channel: Channel, stream: str) -> None:
        goal = position(place(await channel.query(stream, "stat"), "end"))
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
        self, stream: str, cursor: str, limit: int = READ_BYTES, wait: float = 0.0, *, seen: int = 0
    ) -> Chunk:
        """Return one Chunk of a log stream, at most `limit` bytes. The mirror keeps it too, an
        unfinished line only once it is whole. `wait` and `seen` are those of Channel.read.
        """
        chunk = await (await self.connected(CONNECT_S)).read(
            stream, cursor, limit=limit, wait=wait, seen=seen
        )
        if not chunk.repeats and not stream.startswith(FILE):
            self.mirror.keep(stream, chunk.start, chunk.data)
            if chunk.gap:
                self.mirror.note_gap(stream, chunk.gap)
        return chunk

    async def query(self, stream: str, op: str, **parameters: Any) -> dict[str, Any]:
        """Return the `result` of a query to a stream of the pod (see Channel.query)."""
        return await (await self.connected(CONNECT_S)).query(stream, op, **parameters)

    async def streams(self) -> list[str]:
        """Return the names of the pod's streams as they are now."""
        self.state.streams = await stream_names(await self.connected(CONNECT_S))
        return self.state.streams

    async def seek_line(self, stream: str, line: int) -> str:
        """Return the cursor at which line number `line` begins. A negative number counts from the
        end. The question is repeated until the agent has found the line.
        """
        result = await self.query(stream, "seek-line", line=line)
        while isinstance(further := result.get("next"), dict):
            result = await self.query(stream, "seek-line", **further)
        return place(result, "cursor")

    async def submit(self, kind: str, *, payload: bytes = b"", **body: Any) -> str:
        """Submit an action and return its key. Its progress is in `state.ledger.actions[key]`, from
        the journal. `payload` is in no journal. Raises RefusedError if the pod is read-only here,
        except for a plan.
        """
        if self.state.read_only and kind != "plan":
            raise RefusedError(
                f"{self.state.name} is read-only here.",
                "Remove read_only from the pod, or start without --read-only, to act.",
            )
        action = {"key": ulid(), "kind": kind, **body}
        secret = (payload,) if payload else ()
        try:
            await (await self.connected(CONNECT_S)).submit(action, *secret)
        except ChannelLost:
            # The action may have arrived or not. The same key is the same action, so nothing
            # happens twice.
            await self._submit_again(action, *secret)
        return str(action["key"])

    async def _submit_again(self, action: dict[str, Any], *secret: bytes) -> None:
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
        """Yield the ActionView of the action `key` each time it changed, until it has ended. It
        only watches the journal, so a lost link does not end it. Raises Unreachable if the pod
        answers and its journal does not show the action within JOURNALLED_S seconds.
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
        """Close the mirror."""
        self.mirror.close()
