"""One pod kept up to date: connect, follow its streams from where they were left, come back after
every loss; ask and act meanwhile.
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
from bs4_console.task_group import Together
from bs4_console.waiting import at_most

__all__ = ["Chunk", "PodSession"]

#: Seconds before the first, second, ... retry; the last repeats. Each is spread by +-30 % so that
#: 200 pods do not come back in one instant.
BACKOFF = (1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)
PING_S = 5.0
#: How long a call waits for a link that is just being made, and a submission whose link was lost
#: under it for another.
CONNECT_S, RESUBMIT_S = 5.0, 30.0
#: How long a pod that answers may keep an accepted action out of its journal. An agent writes it
#: there before it accepts it.
JOURNALLED_S = 60.0
#: Pause before asking again after a link was lost in the middle of an answer.
LOOK_S = 0.05


class PodSession:
    """Owns a PodState. Reading resumes from the mirror's cursors, so a reconnect or a restarted
    console asks only for what it lacks.
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
        """Until cancelled. An error that trying again cannot mend (changed host key, refused key)
        stops the retries, not the session.
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
        """For commands, which wait for something instead of watching: raises the first error of the
        link before it was ever up, and later one that trying again for `patience` seconds did not
        mend.
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
        """Ends a pause, also one without end: the person mended what was wrong."""
        self._stop_retrying = None
        self._wake.set()

    def replay(self) -> None:
        """What was known when the console was last open, its age included; also without a link."""
        self._reader.replay()

    async def _connected_life(self) -> None:
        """One connection, from its making to its end, which is always a ConsoleError."""
        try:
            await self._connection()
        except ConsoleError:
            raise
        except Exception as error:
            # Whatever else happens in one pod's session is said on that pod and tried again: it
            # must not end in silence.
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
        """The agent has greeted: is it the one whose streams we know?"""
        self.state.hello = channel.hello
        self._channel = channel
        theirs = channel.hello.get("t")
        if theirs is not None and records.wall(theirs):
            self.state.link.clock_offset = theirs - time.time()
        if self.mirror.use(str(channel.hello.get("home") or "")):
            self._reader.begin_anew()

    async def _follow_everything(self, channel: Channel) -> None:
        """Runs until one of the loops fails; a lost channel fails all of them at once."""
        loops = Together()
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
        # Jitter, not a secret.
        spread = random.uniform(0.7, 1.3)  # noqa: S311
        delay = BACKOFF[min(max(link.attempts - 1, 0), len(BACKOFF) - 1)] * spread
        if self._stop_retrying:
            link.retry_at = None
        else:
            link.retry_at = time.monotonic() + delay
        self._wake.clear()
        await at_most(self._wake.wait(), None if self._stop_retrying else delay)

    async def connected(self, timeout: float) -> Channel:
        """The live channel, waiting up to `timeout` seconds for it; the link's own error when there
        is none.
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
        """Until journal and steps as they stand on the pod now have been read, and one telemetry
        sample. A link that is lost meanwhile is waited for: it is made again by `run`. Unreachable
        after `timeout` s, or at once for what trying again cannot mend.
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
            # A channel whose calls fail is still here for a moment.
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
        """Until `reached`, over this very channel: what was asked over another may be of another
        pod. ChannelLost when it has gone.
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
        """One Chunk of a log stream, kept in the mirror as well (an unfinished line only when it is
        whole). `seen`: as in Channel.read.
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
        return await (await self.connected(CONNECT_S)).query(stream, op, **parameters)

    async def streams(self) -> list[str]:
        """The names of the pod's streams as they are now."""
        self.state.streams = await stream_names(await self.connected(CONNECT_S))
        return self.state.streams

    async def seek_line(self, stream: str, line: int) -> str:
        """The cursor at which line `line` begins (negative: from the end), however many slices of
        time the agent needs to find it.
        """
        result = await self.query(stream, "seek-line", line=line)
        while isinstance(further := result.get("next"), dict):
            result = await self.query(stream, "seek-line", **further)
        return place(result, "cursor")

    async def submit(self, kind: str, *, payload: bytes = b"", **body: Any) -> str:
        """Submit an action; returns its key. Progress is in the journal, so in
        `state.ledger.actions[key]`. `payload` is in no journal.
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
            # It may have arrived or not. The same key again is the same action: nothing happens
            # twice.
            await self._submit_again(action, *secret)
        return str(action["key"])

    async def _submit_again(self, action: dict[str, Any], *secret: bytes) -> None:
        """Over the next link that holds: the one that was lost may still be the one at hand for a
        moment.
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
        self.mirror.close()
