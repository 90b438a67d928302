"""One pod kept up to date: connect, follow its streams from where they were left, come back after every loss."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import math
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from bs4_agent.errors import AgentError
from bs4_agent.ids import ulid
from bs4_agent.streams.cursor import Chunk, Cursor
from bs4_agent.streams.segments import parse
from bs4_console import __version__
from bs4_console.core.channel import Channel
from bs4_console.core.errors import ChannelLost, ConsoleError, ProtocolMismatch, RefusedError, RemoteError, Unreachable, UsageError
from bs4_console.core.mirror import Mirror
from bs4_console.core.state import ActionView, PodState
from bs4_console.core.together import Together
from bs4_console.core.transport import Transport

__all__ = ["Chunk", "PodSession"]

#: Seconds before the first, second, ... retry; the last repeats. Each is spread by +-30 % so that 200 pods do not come back in one instant.
BACKOFF = (1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)
#: How long one read waits on the pod for something new. It bounds only how often an idle stream is asked again.
WAIT_S = 20.0
PING_S = 5.0
#: Telemetry samples shown at once on contact.
FIRST_SAMPLES = 120
#: One read, the most that a frame carries.
READ_BYTES = 262144
#: Older telemetry is fetched beside the live streams at no more than 64 KiB every tenth of a second.
BACKFILL_BYTES, BACKFILL_PAUSE_S = 65536, 0.1
#: How long a call waits for a link that is just being made, and a submission whose link was lost under it for another.
CONNECT_S, RESUBMIT_S = 5.0, 30.0
#: Streams that a pod can have here; one that names more is not believed.
STREAMS_LIMIT = 10_000
#: Reads of step streams that wait at a time, and how long each waits when there are more streams than that.
STEP_READS, SHARED_S = 4, 1.0
#: Before every place.
NOWHERE = "0:0"
#: Pause before asking again after a link was lost in the middle of an answer.
LOOK_S = 0.05
#: Any file of the pod is a stream: this and its path. Nothing of it is kept here.
FILE = "file/"
#: How often the list of streams is asked for (new runs, new logs).
LIST_S = 2.0

Apply = Callable[[dict[str, Any]], None]


class PodSession:
    """Owns a PodState. Reading resumes from the mirror's cursors, so a reconnect or a restarted console asks only for what it lacks."""

    def __init__(self, state: PodState, transport: Callable[[], Transport], mirror: Mirror, who: str, *, deploy: bool = True) -> None:
        self.state = state
        self.mirror = mirror
        self._transport = transport
        self._who = who
        self._deploy = deploy
        self._channel: Channel | None = None
        self._up = asyncio.Event()
        self._sampled = asyncio.Event()
        """Telemetry of this connection has arrived."""
        self._look = asyncio.Event()
        """A run that was not known: its streams are wanted now."""
        self._step_reads = asyncio.Semaphore(STEP_READS)
        self._backfilled = False
        self._replayed = False
        self._stop_retrying: ConsoleError | None = None
        self._wake = asyncio.Event()

    async def run(self) -> None:
        """Until cancelled. An error that trying again cannot mend (changed host key, refused key) stops the retries, not the session."""
        self.replay()
        while True:
            try:
                await self._connected_life()
            except RemoteError as error:
                self._note_down(Unreachable(f"The agent answered with an error: {error.message}", "It is asked again shortly."))
            except ConsoleError as error:
                self._note_down(error)
            await self._pause()

    async def run_once(self, patience: float = 0.0) -> None:
        """For commands, which wait for something instead of watching: raises the first error of the link before it was ever up, and later
        one that trying again for `patience` seconds did not mend."""
        self.replay()
        while True:
            try:
                await self._connected_life()
            except ConsoleError as error:
                link = self.state.link
                last_up = link.last_up if link.state != "up" else time.monotonic()
                if not error.retry or last_up is None or time.monotonic() - last_up >= patience:
                    raise
                self._note_down(error)
            await self._pause()

    def retry_now(self) -> None:
        """Ends a pause, also one without end: the person mended what was wrong."""
        self._stop_retrying = None
        self._wake.set()

    def replay(self) -> None:
        """Fill the state from the mirror: what was known when the console was last open, its age included. Once only."""
        if self._replayed:
            return
        self._replayed = True
        for record in self.mirror.records("journal"):
            self._apply("journal", self.state.apply_journal, record)
        for run in list(self.state.runs):
            for record in self.mirror.records(f"steps/{run}"):
                self._apply(f"steps/{run}", functools.partial(self.state.apply_step, run), record)
        for record in self.mirror.tail("telemetry", FIRST_SAMPLES):
            self._apply("telemetry", functools.partial(self.state.apply_telemetry, kept=True), record)

    async def _connected_life(self) -> None:
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
                self._sampled.clear()
                await channel.close()
        finally:
            await transport.close()

    def _meet(self, channel: Channel) -> None:
        """The agent has greeted: is it the one whose streams we know?"""
        self.state.hello = channel.hello
        self._channel = channel
        if isinstance(theirs := channel.hello.get("t"), (int, float)):
            self.state.link.clock_offset = theirs - time.time()
        if self.mirror.use(str(channel.hello.get("home") or "")):
            self._begin_anew()

    def _begin_anew(self) -> None:
        self.state.forget()
        self._replayed = self._backfilled = False
        self.replay()
        self.state.changed()

    async def _follow_everything(self, channel: Channel) -> None:
        """Runs until one of the loops fails; a lost channel fails all of them at once."""
        loops = Together()
        loops.start(self._follow_journal(channel))
        loops.start(self._follow_telemetry(channel, loops))
        loops.start(self._ping(channel))
        loops.start(self._discover(channel, loops))
        await loops.wait()

    async def _follow(self, channel: Channel, stream: str, apply: Apply, first: str = "start") -> None:
        cursor = self.mirror.cursor(stream) or first
        wait = 0.0  # until the end was met once: an empty stream has its place at once, not after a wait
        while True:
            chunk = await self._read(channel, stream, cursor, READ_BYTES, wait)
            if chunk.gap:
                self.mirror.note_gap(stream, chunk.gap)
            self.mirror.append(stream, chunk.start, chunk.next, chunk.data)
            for line in chunk.data.split(b"\n"):
                if line:
                    self._apply(stream, apply, parse(line))
            self._note_mirror()
            if chunk.data or chunk.next != cursor:
                self.state.changed()
            if stream == "journal" and cursor != first and _position(chunk.start)[0] > _position(cursor)[0]:
                await self._release(channel)
            wait = 0.0 if chunk.data or chunk.gap else WAIT_S
            cursor = chunk.next

    async def _read(self, channel: Channel, stream: str, cursor: str, limit: int, wait: float) -> Chunk:
        try:
            return await self._waiting_turn(channel, stream, cursor, limit, wait)
        except RemoteError as error:
            if error.type != "bad-cursor":
                raise
            # The agent's disk was set back to an earlier state (a restored snapshot): what we hold is of a past that it does not know.
            self.mirror.start_anew()
            self._begin_anew()
            raise ChannelLost(f"{self.state.name} does not know what was read of it before.", "It is read anew.") from None

    async def _waiting_turn(self, channel: Channel, stream: str, cursor: str, limit: int, wait: float) -> Chunk:
        """An agent lets sixteen reads of a connection wait; the open logs of the screen need most of them. So the steps of many runs share
        a few, and a refusal for too many is a pause."""
        shared = stream.startswith("steps/")
        if shared and sum(name.startswith("steps/") for name in self.state.streams) > STEP_READS:
            wait = min(wait, SHARED_S)
        while True:
            try:
                async with self._step_reads if shared else contextlib.nullcontext():
                    return await channel.read(stream, cursor, limit=limit, wait=wait)
            except RemoteError as error:
                if error.type != "too-many-calls":
                    raise
            await asyncio.sleep(SHARED_S)

    def _apply(self, stream: str, apply: Apply, record: dict[str, Any] | None) -> None:
        """One record into the state. A pod can send anything: what is not understood is noted and left out, and the watch goes on."""
        try:
            if record is None:
                raise ValueError("it is no JSON object")
            apply(record)
        except (ValueError, TypeError, KeyError, AttributeError, IndexError) as error:
            self.state.notes[stream] = (
                f"A record of {stream} was not understood ({type(error).__name__}: {error}); the console may be too old."
            )

    async def _follow_journal(self, channel: Channel) -> None:
        await self._release(channel)
        await self._follow(channel, "journal", self._apply_journal)

    def _apply_journal(self, record: dict[str, Any]) -> None:
        known = len(self.state.runs)
        self.state.apply_journal(record)
        if len(self.state.runs) > known:
            self._look.set()

    async def _release(self, channel: Channel) -> None:
        """The agent keeps the oldest part of a full journal (64 MB) until a console holds it. One that keeps nothing says nothing."""
        cursor = self.mirror.secure("journal")
        self._note_mirror()
        if cursor is None or self.state.read_only:
            return
        try:
            await channel.submit({"key": ulid(), "kind": "release", "stream": "journal", "cursor": cursor})
        except RemoteError:
            # An agent from before this action refuses it; its journal then simply stays.
            return

    async def _follow_telemetry(self, channel: Channel, loops: Together) -> None:
        """Begins with the last two minutes: the screen is true at once. What lies between that and what is held is fetched beside it."""
        begin = _place(await channel.query("telemetry", "seek-line", line=-FIRST_SAMPLES), "cursor")
        held = self.mirror.cursor("telemetry")
        if self.mirror.keeps:
            start = held if self._backfilled and held else _place(await channel.query("telemetry", "stat"), "start")
            loops.start(self._backfill(channel, start, begin))
        if held is None or _position(held) < _position(begin):
            self.mirror.append("telemetry", begin, begin, b"")
        await self._follow(channel, "telemetry", self._apply_telemetry, begin)

    def _apply_telemetry(self, record: dict[str, Any]) -> None:
        self.state.apply_telemetry(record)
        self._sampled.set()

    async def _backfill(self, channel: Channel, cursor: str, goal: str) -> None:
        """Keep the telemetry that was written while nobody watched, slowly: a day of 8 GPUs is 140 MB, and the link is for what is new."""
        while self.mirror.keeps and _position(cursor) < _position(goal):
            held = self.mirror.hole("telemetry", cursor)
            # Behind what is held may be the end of that segment: one record tells, a whole chunk would fetch the next segment's again.
            chunk = await self._read(channel, "telemetry", held, BACKFILL_BYTES if held == cursor else 1, 0.0)
            if chunk.next == held:
                break
            if chunk.gap:
                self.mirror.note_gap("telemetry", chunk.gap)
            self.mirror.keep("telemetry", chunk.start, chunk.data)
            self._note_mirror()
            cursor = chunk.next
            await asyncio.sleep(BACKFILL_PAUSE_S)
        self._backfilled = self.mirror.keeps

    async def _discover(self, channel: Channel, loops: Together) -> None:
        following: set[str] = set()
        while True:
            self._look.clear()
            self.state.streams = await _stream_names(channel)
            for stream in self.state.streams:
                run = stream.removeprefix("steps/")
                if stream.startswith("steps/") and stream not in following and run in self.state.runs:
                    following.add(stream)
                    loops.start(self._follow_steps(channel, stream, following))
            await _at_most(self._look.wait(), LIST_S)

    async def _follow_steps(self, channel: Channel, stream: str, following: set[str]) -> None:
        try:
            await self._follow(channel, stream, functools.partial(self.state.apply_step, stream.removeprefix("steps/")))
        except RemoteError as error:
            if error.type != "unknown-stream":
                raise
            following.discard(stream)  # the run was removed; one of that name may come again

    async def _ping(self, channel: Channel) -> None:
        while True:
            await channel.ping()
            self.state.link.rtt, self.state.link.clock_offset = channel.rtt, channel.clock_offset
            self.state.changed()
            await asyncio.sleep(PING_S)

    def _note_mirror(self) -> None:
        if self.mirror.stopped:
            self.state.notes["mirror"] = self.mirror.stopped

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
        delay = BACKOFF[min(max(link.attempts - 1, 0), len(BACKOFF) - 1)] * random.uniform(0.7, 1.3)  # noqa: S311 (jitter, not a secret)
        link.retry_at = None if self._stop_retrying else time.monotonic() + delay
        self._wake.clear()
        await _at_most(self._wake.wait(), None if self._stop_retrying else delay)

    async def connected(self, timeout: float) -> Channel:
        """The live channel, waiting up to `timeout` seconds for it; the link's own error when there is none."""
        link = self.state.link
        if not self._up.is_set() and self._stop_retrying is None:
            await _at_most(self._up.wait(), timeout)
            if not self._up.is_set():
                raise Unreachable(
                    link.detail or f"{self.state.name} did not answer within {math.ceil(timeout)} s.",
                    link.next_step or "Check that the pod runs, and its address.",
                )
        if self._channel is None:
            if self._stop_retrying is not None:
                raise Unreachable(f"There is no link to {self.state.name}: {self._stop_retrying.message}", self._stop_retrying.next_step)
            raise ChannelLost(f"The connection to {self.state.name} ended.", "It is being made again.")
        return self._channel

    async def synced(self, timeout: float = 30.0) -> None:
        """Until journal and steps as they stand on the pod now have been read, and one telemetry sample. A link that is lost meanwhile is
        waited for: it is made again by `run`. Unreachable after `timeout` s, or at once for what trying again cannot mend."""
        clock = asyncio.get_running_loop().time
        deadline = clock() + timeout
        while True:
            try:
                channel = await self.connected(max(0.0, deadline - clock()))
                async with asyncio.timeout_at(deadline):
                    return await self._read_everything_up_to_now(channel)
            except TimeoutError:
                raise Unreachable(
                    f"{self.state.name} was reached but did not send its state within {timeout:.0f} s.", "Try again."
                ) from None
            except Unreachable:
                if self._stop_retrying is not None or clock() >= deadline:
                    raise
            # A channel whose calls fail is still here for a moment.
            await asyncio.sleep(LOOK_S)

    async def _read_everything_up_to_now(self, channel: Channel) -> None:
        await self._read_up_to_now(channel, "journal")
        for stream in await _stream_names(channel):
            if stream.startswith("steps/") and stream.removeprefix("steps/") in self.state.runs:
                await self._read_up_to_now(channel, stream)
        await self._still(channel, self._sampled.is_set)

    async def _read_up_to_now(self, channel: Channel, stream: str) -> None:
        goal = _position(_place(await channel.query(stream, "stat"), "end"))
        await self._still(channel, lambda: _position(self.mirror.cursor(stream) or NOWHERE) >= goal)

    async def _still(self, channel: Channel, reached: Callable[[], bool]) -> None:
        """Until `reached`, over this very channel: what was asked over another may be of another pod. ChannelLost when it has gone."""
        while not reached():
            if self._channel is not channel:
                raise ChannelLost(f"The connection to {self.state.name} ended.", "It is being made again.")
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

    async def read_log(self, stream: str, cursor: str, limit: int = READ_BYTES, wait: float = 0.0, *, seen: int = 0) -> Chunk:
        """One Chunk of a log stream, kept in the mirror as well (an unfinished line only when it is whole). `seen`: as in Channel.read."""
        chunk = await (await self.connected(CONNECT_S)).read(stream, cursor, limit=limit, wait=wait, seen=seen)
        if not chunk.repeats and not stream.startswith(FILE):
            self.mirror.keep(stream, chunk.start, chunk.data)
            if chunk.gap:
                self.mirror.note_gap(stream, chunk.gap)
        return chunk

    async def query(self, stream: str, op: str, **parameters: Any) -> dict[str, Any]:
        return await (await self.connected(CONNECT_S)).query(stream, op, **parameters)

    async def streams(self) -> list[str]:
        """The names of the pod's streams as they are now."""
        self.state.streams = await _stream_names(await self.connected(CONNECT_S))
        return self.state.streams

    async def seek_line(self, stream: str, line: int) -> str:
        """The cursor at which line `line` begins (negative: from the end), however many slices of time the agent needs to find it."""
        result = await self.query(stream, "seek-line", line=line)
        while isinstance(further := result.get("next"), dict):
            result = await self.query(stream, "seek-line", **further)
        return _place(result, "cursor")

    async def submit(self, kind: str, *, payload: bytes = b"", **body: Any) -> str:
        """Submit an action; returns its key. Progress is in the journal, so in `state.ledger.actions[key]`. `payload` is in no journal."""
        if self.state.read_only and kind != "plan":
            raise RefusedError(
                f"{self.state.name} is read-only here.", "Remove read_only from the pod, or start without --read-only, to act."
            )
        action = {"key": ulid(), "kind": kind, **body}
        secret = (payload,) if payload else ()
        try:
            await (await self.connected(CONNECT_S)).submit(action, *secret)
        except ChannelLost:
            # It may have arrived or not. The same key again is the same action: nothing happens twice.
            await self._submit_again(action, *secret)
        return str(action["key"])

    async def _submit_again(self, action: dict[str, Any], *secret: bytes) -> None:
        """Over the next link that holds: the one that was lost may still be the one at hand for a moment."""
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
        """Yields the ActionView each time it changed, ending when it ended. Survives reconnects: it only watches the journal."""
        seen: tuple[Any, ...] = ()
        while True:
            action = self.state.ledger.actions.get(key)
            if action is not None:
                now = (action.state, action.updated_t, tuple((s.state, s.detail) for s in action.steps))
                if now != seen:
                    seen = now
                    yield action
                    continue  # the one who was given it may have waited: look again
                if action.ended:
                    return
            await self._changed()

    async def close(self) -> None:
        self.mirror.close()


async def _at_most(waiting: Awaitable[object], seconds: float | None) -> None:
    """Until `waiting` ends, for `seconds` at most. (Not wait_for: Python 3.11's swallows a Ctrl-C that comes just as `waiting` ends.)"""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await waiting


async def _stream_names(channel: Channel) -> list[str]:
    """All streams of the pod, page by page."""
    names: list[str] = []
    after = ""
    while True:
        page = await channel.query("*", "list", after=after)
        entries, further = page.get("streams"), page.get("next")
        names += [str(entry.get("name")) for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []
        if not isinstance(further, dict) or len(names) > STREAMS_LIMIT:
            return sorted(names)
        after = str(further.get("after"))


def file_stream(path: str) -> str:
    """The stream of any file of a pod; UsageError for a path that is not whole."""
    if not path.startswith(("/", "~/")):
        raise UsageError(f"{path!r} is no whole path of the pod.", "Begin it with / or ~/.")
    return FILE + path


def _place(result: dict[str, Any], key: str) -> str:
    """A cursor in the answer to a query, checked: it becomes a file name and a position here."""
    try:
        return str(Cursor.parse(str(result.get(key))))
    except AgentError:
        raise ProtocolMismatch(
            "What answers on the pod does not speak the agent's protocol: its answer holds no cursor.", "Deploy the agent again."
        ) from None


def _position(cursor: str) -> tuple[int, int]:
    generation, offset = cursor.split(":")
    return int(generation), int(offset)
