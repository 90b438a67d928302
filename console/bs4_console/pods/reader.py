"""Read the records that a pod's agent writes (journal, steps, telemetry) into a PodState and its
mirror.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from typing import Any

from bs4_common.ids import ulid
from bs4_common.ledger import NOT_FOLDED
from bs4_common.streams.cursor import Chunk
from bs4_common.streams.segments import parse
from bs4_console import ceilings
from bs4_console.errors import ChannelLost, RemoteError
from bs4_console.pods.channel import Channel
from bs4_console.pods.gate import records, rules
from bs4_console.pods.mirror import Mirror
from bs4_console.pods.reading.greeting import Action, Call, query_call, read_call
from bs4_console.pods.state import PodState
from bs4_console.pods.streams import place, position, stream_names
from bs4_console.task_group import TaskGroup311
from bs4_console.turns import Turns
from bs4_console.waiting import at_most

#: Seconds that one read waits on the pod for new data. It only sets how often an idle stream is
#: read again.
WAIT_S = 20.0
#: How many telemetry samples are shown at once after connecting.
FIRST_SAMPLES = 120
#: Bytes of one read: the most that a frame carries.
READ_BYTES = 262144
#: Older telemetry is read beside the live streams: at most 64 KiB every tenth of a second.
BACKFILL_BYTES, BACKFILL_PAUSE_S = 65536, 0.1
#: How many reads of step streams wait at a time, and the seconds that each waits if there are more
#: streams than that.
STEP_READS, SHARED_S = 4, 1.0
#: Bytes of records that are taken in at a time, which takes some milliseconds.
PIECE_BYTES = 8192
#: Characters of a refused record's reason that are kept.
_REASON_LENGTH = 160
#: Seconds between two requests for the list of streams (new runs, new logs).
LIST_S = 2.0

#: Checks a record and takes it into the state.
Apply = Callable[[Any], None]


def _shared(stream: str) -> bool:
    """Return True if the stream shares a few places for reads with others of its kind."""
    return stream.startswith("steps/")


def pieces(chunk: Chunk) -> Iterator[Chunk]:
    """Yield the data of `chunk`, which has whole lines, in smaller chunks of whole lines. Each has
    at most about PIECE_BYTES (8192) bytes, or is one longer line. The last one ends where `chunk`
    ends, which may be in a later file of the stream. A chunk without data is yielded as it is.
    """
    generation, offset = position(chunk.start)
    data, at = chunk.data, 0
    while len(data) - at > PIECE_BYTES:
        end = data.rfind(b"\n", at, at + PIECE_BYTES) + 1 or data.find(b"\n", at) + 1
        if end in (0, len(data)):
            break
        start, until = (f"{generation}:{offset + place}" for place in (at, end))
        yield replace(chunk, start=start, next=until, data=data[at:end])
        at = end
    yield replace(chunk, start=f"{generation}:{offset + at}", data=data[at:])


class PodReader:
    """Reads the record streams of one pod (the journal, which is the agent's log of actions and
    incidents, the telemetry, and the training steps of each run) into its PodState and into the
    mirror, the copy of the pod's data on this machine. After a reconnect or a restart it continues
    where the mirror ends, so that only the missing bytes are read.
    """

    def __init__(self, state: PodState, mirror: Mirror) -> None:
        self.state, self.mirror = state, mirror
        self.turns: Turns | None = None
        """The turns that this pod takes in what it reads, shared with other pods."""
        self._one_of_ours = asyncio.Lock()
        """Held by the stream that has the pod's turn or waits for it, so that a pod with many
        streams gets no more turns than others.
        """
        self.sampled = asyncio.Event()
        """Set once telemetry has arrived over this connection."""
        self._look = asyncio.Event()
        """Set when a new run appears, so that its streams are looked up at once."""
        self._step_reads = asyncio.Semaphore(STEP_READS)
        self._backfilled = False
        self._replayed = False
        self._refused: dict[str, tuple[int, str]] = {}
        """The number of records that were left out, and what was wrong with the first of them, by
        stream.
        """

    def replay(self) -> None:
        """Fill the pod's state from the mirror, the copy of the pod's data on this machine, with
        what was known when a console last read from the pod. Every fact keeps its age. Calling it
        again does nothing.
        """
        if self._replayed:
            return
        self._replayed = True
        for record in self.mirror.records("journal"):
            self._apply("journal", self._put_journal, record)
        for run in list(self.state.runs):
            for record in self.mirror.records(f"steps/{run}"):
                self._apply(f"steps/{run}", functools.partial(self._put_step, run), record)
        for record in self.mirror.tail("telemetry", FIRST_SAMPLES):
            self._apply("telemetry", functools.partial(self._put_telemetry, kept=True), record)

    def begin_anew(self) -> None:
        """Clear the pod's state and fill it again from the mirror, the copy of the pod's data on
        this machine. This is for the moment at which another agent answers for the pod, or at which
        the mirror was emptied because the disk of its agent was set back to an earlier state.
        """
        self.state.forget()
        self._refused.clear()
        self._replayed = self._backfilled = False
        self.replay()
        self.state.changed()

    def questions(self) -> list[Call]:
        """Return the requests that are sent to the pod first on each connection, together with the
        greeting. They are a read of the journal (the agent's log of actions and incidents) from the
        place where the mirror (the copy of the pod's data on this machine) ends, a read of the
        newest telemetry, and the query for the list of streams.
        """
        journal = read_call("journal", self.mirror.cursor("journal") or "start", READ_BYTES)
        telemetry = query_call("telemetry", "seek-line", line=-FIRST_SAMPLES)
        names = query_call("*", "list", after="")
        return [journal, telemetry, names, names]

    def start(self, channel: Channel, loops: TaskGroup311) -> None:
        """Start tasks in the group `loops` that follow the pod's journal (the agent's log of
        actions and incidents), its telemetry and the training steps of its runs over `channel`.
        Each task runs until it fails, for example because the channel is lost.
        """
        loops.start(self.release(channel))
        loops.start(self._follow(channel, "journal", self._apply_journal))
        loops.start(self._follow_telemetry(channel, loops))
        loops.start(self._discover(channel, loops))

    # -- one stream

    async def _follow(
        self, channel: Channel, stream: str, apply: Apply, first: str = "start"
    ) -> None:
        cursor = self.mirror.cursor(stream) or first
        # No wait until the end was reached once, so that an empty stream has its cursor at once.
        wait = 0.0
        while True:
            # Few step streams are read at a time, and what was read is held until it is taken in.
            async with self._step_reads if _shared(stream) else contextlib.nullcontext():
                chunk = await self._read(channel, stream, cursor, READ_BYTES, wait)
                if chunk.gap:
                    self.mirror.note_gap(stream, chunk.gap)
                for piece in pieces(chunk):
                    async with self._turn():
                        self._take_in(stream, apply, piece)
            if chunk.data or chunk.next != cursor:
                self.state.changed()
            if (
                stream == "journal"
                and cursor != first
                and position(chunk.start)[0] > position(cursor)[0]
            ):
                await self.release(channel)
            wait = 0.0 if chunk.data or chunk.gap else WAIT_S
            cursor = chunk.next

    @contextlib.asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        """Wait for this pod's turn, and keep it while the block runs."""
        if self.turns is None:
            yield
            return
        async with self._one_of_ours, self.turns.turn():
            yield

    def _take_in(self, stream: str, apply: Apply, chunk: Chunk) -> None:
        """Save the records of a chunk and put them into the state. Nothing may interrupt this: the
        mirror's cursor says what the state has taken in.
        """
        self.mirror.append(stream, chunk.start, chunk.next, chunk.data)
        for line in chunk.data.split(b"\n"):
            if line:
                self._apply(stream, apply, parse(line))
        self._note_mirror()

    async def _read(
        self, channel: Channel, stream: str, cursor: str, limit: int, wait: float
    ) -> Chunk:
        try:
            return await self._waiting_turn(channel, stream, cursor, limit, wait)
        except RemoteError as error:
            if error.type != "bad-cursor":
                raise
            # The agent's disk was set back to an earlier state (a restored snapshot): what we hold
            # is from a past that it does not know.
            self.mirror.start_anew()
            self.begin_anew()
            raise ChannelLost(
                f"{self.state.name} does not know what was read of it before.", "It is read anew."
            ) from None

    async def _waiting_turn(
        self, channel: Channel, stream: str, cursor: str, limit: int, wait: float
    ) -> Chunk:
        """Read a stream, waiting for a free place on the agent.

        An agent lets sixteen reads of a connection wait, and the open logs of the screen need most
        of them. So the step streams of many runs share a few, and a refusal for too many reads is a
        pause.
        """
        if _shared(stream) and sum(map(_shared, self.state.streams)) > STEP_READS:
            wait = min(wait, SHARED_S)
        while True:
            try:
                return await channel.read(stream, cursor, limit=limit, wait=wait)
            except RemoteError as error:
                if error.type != "too-many-calls":
                    raise
            await asyncio.sleep(SHARED_S)

    def _apply(self, stream: str, apply: Apply, record: Any) -> None:
        """Put one record into the state. A pod can send anything: a record that is not understood
        is counted and left out, and the watch goes on.
        """
        try:
            apply(record)
        except rules.RecordRefused as error:
            self._refuse(stream, str(error))
        except NOT_FOLDED as error:
            # The check has accepted the record, and the state cannot take it.
            self._refuse(stream, f"{type(error).__name__}: {error}")

    def _refuse(self, stream: str, reason: str) -> None:
        """Count a record that was left out, and note in the state how many there are and what was
        wrong with the first. From a hundred on the note has two digits of the count: a sentence
        that changes with each record of a flood would have all rows of its pod painted again.
        """
        count, first = self._refused.get(stream, (0, reason[:_REASON_LENGTH]))
        count += 1
        self._refused[stream] = count, first
        told = str(count)
        if count >= 100:
            unit = 10 ** (len(told) - 2)
            told = f"at least {count // unit * unit:,}"
        self.state.notes[stream] = (
            f"{told} records of {stream} were refused, the first because {first}; "
            "the pod's agent is newer than this console, or not one."
        )

    def _note_mirror(self) -> None:
        told = [*([self.mirror.stopped] if self.mirror.stopped else []), *self.mirror.over.values()]
        if told:
            self.state.notes["mirror"] = " ".join(told)

    # -- the journal

    def _put_journal(self, record: Any) -> None:
        self.state.apply_journal(records.journal(record))

    def _apply_journal(self, record: Any) -> None:
        known = len(self.state.runs)
        self._put_journal(record)
        if len(self.state.runs) > known:
            self._look.set()

    async def release(self, channel: Channel) -> None:
        """Tell the agent, over `channel`, up to which cursor the mirror (the copy of the pod's data
        on this machine) holds the journal (the agent's log of actions and incidents), so that the
        agent may delete the oldest part of a journal that is full (64 MB). Do nothing if the mirror
        saves nothing or the pod is read-only.
        """
        cursor = self.mirror.secure("journal")
        self._note_mirror()
        if cursor is None or self.state.read_only:
            return
        try:
            kept = {"stream": "journal", "cursor": cursor}
            await channel.submit(Action(ulid(), "release", kept))
        except RemoteError:
            # An older agent does not know this action and refuses it. Its journal then stays as it
            # is.
            return

    # -- telemetry

    async def _follow_telemetry(self, channel: Channel, loops: TaskGroup311) -> None:
        """Follow the telemetry, beginning with the last two minutes, so that the screen is right at
        once. The time between those and what is held is read beside it.
        """
        last = await channel.query("telemetry", "seek-line", line=-FIRST_SAMPLES)
        begin = place(last["cursor"])
        held = self.mirror.cursor("telemetry")
        if self.mirror.keeps_telemetry:
            if self._backfilled and held:
                start = held
            else:
                start = place((await channel.query("telemetry", "stat"))["start"])
            loops.start(self._backfill(channel, start, begin))
        if held is None or position(held) < position(begin):
            self.mirror.append("telemetry", begin, begin, b"")
        await self._follow(channel, "telemetry", self._apply_telemetry, begin)

    def _put_telemetry(self, record: Any, *, kept: bool = False) -> None:
        self.state.apply_telemetry(records.telemetry(record), kept=kept)

    def _apply_telemetry(self, record: Any) -> None:
        self._put_telemetry(record)
        self.sampled.set()

    async def _backfill(self, channel: Channel, cursor: str, goal: str) -> None:
        """Keep the telemetry that was written while nobody watched. It is read slowly: a day of 8
        GPUs is 140 MB, and the link is for new data.
        """
        while self.mirror.keeps_telemetry and position(cursor) < position(goal):
            held = self.mirror.hole("telemetry", cursor)
            # The held range may end at the end of that segment. Reading one byte finds out; a whole
            # chunk would read the next segment's bytes again.
            chunk = await self._read(
                channel, "telemetry", held, BACKFILL_BYTES if held == cursor else 1, 0.0
            )
            if chunk.next == held:
                break
            if chunk.gap:
                self.mirror.note_gap("telemetry", chunk.gap)
            self.mirror.keep("telemetry", chunk.start, chunk.data)
            self._note_mirror()
            cursor = chunk.next
            await asyncio.sleep(BACKFILL_PAUSE_S)
        self._backfilled = self.mirror.keeps_telemetry

    def _put_step(self, run: str, record: Any) -> None:
        self.state.apply_step(run, records.training_step(record))

    # -- which streams there are

    async def _discover(self, channel: Channel, loops: TaskGroup311) -> None:
        following: set[str] = set()
        while True:
            self._look.clear()
            self.state.streams = await stream_names(channel)
            if len(self.state.streams) > ceilings.STREAMS:
                self.state.notes["streams"] = (
                    f"It names more than {ceilings.STREAMS:,} streams; the rest of the list is not "
                    "asked for."
                )
            self._follow_new(channel, loops, following)
            await at_most(self._look.wait(), LIST_S)
            # The list may have come before the journal that names the run, and asking again costs a
            # round trip.
            self._follow_new(channel, loops, following)

    def _follow_new(self, channel: Channel, loops: TaskGroup311, following: set[str]) -> None:
        """Start to follow the step streams of the runs that are known and not yet followed."""
        for stream in self.state.streams:
            run = stream.removeprefix("steps/")
            if stream.startswith("steps/") and stream not in following and run in self.state.runs:
                following.add(stream)
                loops.start(self._follow_steps(channel, stream, following))

    async def _follow_steps(self, channel: Channel, stream: str, following: set[str]) -> None:
        try:
            await self._follow(
                channel,
                stream,
                functools.partial(self._put_step, stream.removeprefix("steps/")),
            )
        except RemoteError as error:
            if error.type != "unknown-stream":
                raise
            following.discard(stream)  # the run was removed; one of that name may come again
