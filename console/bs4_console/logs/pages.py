"""Fetch pages of one pod's log streams, before or after a place: raw lines, or lines that pass the
pod's prefilter. Dead links and busy agents are waited for.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeVar, overload

from bs4_common.streams.cursor import Chunk
from bs4_console import ceilings
from bs4_console.errors import EndlessAnswer, LinkError, RemoteError, StandingAnswer
from bs4_console.logs.answers import Counted, Found, LineNumber, Sifted, Sought
from bs4_console.logs.filter import LogFilter
from bs4_console.logs.merge import rows_of
from bs4_console.logs.store import MARK, Row

#: The number of queries at a time. An agent runs four of one connection, and the session needs one
#: itself.
QUERIES = 2
#: Seconds of the pause after the agent answered that too many calls are waiting.
BUSY_S = 0.2
#: Seconds of the pause before asking again over a dead link. The session itself reconnects.
RETRY_S = 1.0
#: Bytes of one read.
PAGE_BYTES = 262144
#: Bytes that a page may reach back, even if it then begins inside a long line. Two thousand lines
#: of a log take 0.3 MB.
ROOM_BYTES = 2 * 1024 * 1024
#: The number of lines that a filter returns in one answer. A frame has room for about 150 lines of
#: 120 characters.
SIFTED_LINES = 200
#: The number of bytes that the agent returns of one line that passed a filter.
WHOLE_BYTES = 4096

Answer = TypeVar("Answer")
Seek = Literal["seek-line", "seek-time", "seek-clock"]

#: The text that stands before the rest of a line whose beginning is not held.
INSIDE = b"inside a longer line: it begins further up"


@dataclass(frozen=True)
class Back:
    """The place of an earlier line in a log (`cursor`), as the agent has found it. `cut` is True if
    the place is not as far back as requested, because there are more bytes between than one query
    may cover. `within` is True if the place is in the middle of a line.
    """

    cursor: str
    cut: bool
    within: bool


class LogReader(Protocol):
    """An object that reads the logs of a pod. It has those methods of PodSession that LogPages
    needs.
    """

    async def read_log(
        self,
        stream: str,
        cursor: str,
        limit: int = ...,
        wait: float = ...,
        *,
        seen: int = ...,
        ahead: bool = ...,
    ) -> Chunk:
        """Return the next chunk of `stream`, a name such as "log/RUN/trainer", from `cursor` on, at
        most `limit` bytes. If nothing has been written after `cursor`, wait at most `wait` seconds
        for new bytes. `seen` is the number of bytes that the caller already has of the unfinished
        last line; that line is sent again, from its start, only if it has grown. `ahead` is for a
        caller who reads on and on at the chunk's `next`: the following chunks are then requested
        before the caller asks for them.
        """

    async def query(self, stream: str, op: str, **parameters: Any) -> dict[str, Any]:
        """Send a query about `stream`, a name such as "log/RUN/trainer", to the pod's agent and
        return the agent's answer. `op` is the kind of the query, such as "search" or "seek-time",
        and `parameters` are its fields.
        """


class LogPages:
    """Reads pages of the logs of one pod. A `stream` is the name of a log, such as
    "log/RUN/trainer". A cursor is a place in it: GENERATION:OFFSET (the number of one of the log's
    files, and the byte in it), "start" or "end". An argument `source` is the number by which the
    LogStore, which holds the lines, knows the log; it is put into each line.

    `waiting` is a sentence that says why nothing arrives (for example that the connection is down),
    or "", and `changed` is called when it changes. `crowded` becomes True when the agent refuses a
    call because too many are under way.
    """

    def __init__(self, reader: LogReader, changed: Callable[[], None]) -> None:
        self.waiting = ""
        self.crowded = False
        self._reader = reader
        self._changed = changed
        self._asking = asyncio.Semaphore(QUERIES)

    async def before(
        self, stream: str, source: int, cursor: str, lines: int
    ) -> tuple[list[Row], str]:
        """Return two things: about `lines` lines of the log `stream` before `cursor`, and the
        cursor at which the first of them begins. `source` is the number of the log, which is put
        into each line. A line longer than 2 MiB (ROOM_BYTES) comes in parts, one for each call. A
        part that begins inside the line has an extra line before it that says so. Raises
        RemoteError if the agent refuses the read, and EndlessAnswer if it does not come to an end.
        """
        found = await self.back(stream, lines, cursor)
        rows = await self.between(stream, source, found.cursor, cursor)
        if found.within and rows:
            rows.insert(0, (MARK, 0, 0, INSIDE))
        return rows, found.cursor

    async def back(self, stream: str, lines: int, cursor: str | None = None) -> Back:
        """Find the place in the log `stream` where the last `lines` lines before `cursor` (None:
        before the end of the log) begin, and return it. If these lines have more than 2 MiB
        (ROOM_BYTES), the returned place is closer to `cursor`. Raises RemoteError if the agent
        refuses the query, and EndlessAnswer if it does not come to an end.
        """
        place = {} if cursor is None else {"cursor": cursor}
        answer = await self.ask(stream, "seek-line", line=-lines, room=ROOM_BYTES, **place)
        return Back(str(answer["cursor"]), answer.get("cut") is True, answer.get("within") is True)

    async def between(self, stream: str, source: int, begin: str, end: str) -> list[Row]:
        """Return the lines of the log `stream` between the cursors `begin` and `end`, as rows that
        a LogStore takes. `source` is the number of the log, which is put into each row. The two
        cursors may be in different files of the log. Raises RemoteError if the agent refuses the
        read.
        """
        rows: list[Row] = []
        cursor, stop = begin, split(end)
        held, held_at = b"", begin
        while split(cursor) < stop:
            generation, offset = split(cursor)
            limit = PAGE_BYTES
            if generation == stop[0]:
                limit = min(limit, stop[1] - offset)
            chunk = await self.read(stream, cursor, limit, 0.0)
            if chunk.next == cursor or split(chunk.start) >= stop:
                break
            start = split(chunk.start)
            if held and start[0] != split(held_at)[0]:
                rows += rows_of(held, source, held_at)
                held = b""
            data = chunk.data
            # A read that continued into the next file did not know where to stop there.
            if start[0] == stop[0]:
                data = data[: stop[1] - start[1]]
            held, held_at = held + data, held_at if held else chunk.start
            cut = held.rfind(b"\n") + 1
            if cut:
                rows += rows_of(held[:cut], source, held_at)
                held, held_at = held[cut:], f"{split(held_at)[0]}:{split(held_at)[1] + cut}"
            cursor = chunk.next
        return rows + rows_of(held, source, held_at)

    async def after(self, stream: str, source: int, cursor: str) -> tuple[list[Row], str, bool]:
        """Return three things: about one page of whole lines of the log `stream` from `cursor` on,
        the cursor at which the page ends, and True if the log has no further lines now. `source` is
        the number of the log, which is put into each line. Raises RemoteError if the agent refuses
        the read.
        """
        chunk = await self.read(stream, cursor, PAGE_BYTES, 0.0)
        if not chunk.data:
            return [], chunk.next, not chunk.more
        if chunk.partial and chunk.next == chunk.start:
            return [], chunk.start, True
        return rows_of(chunk.data, source, chunk.start), chunk.next, not chunk.more

    async def filter_lines(
        self, stream: str, source: int, cursor: str, wanted: LogFilter, *, backwards: bool
    ) -> tuple[list[Row], str, bool]:
        """Let the pod filter a part of a log by `wanted`: from `cursor` on or, with `backwards`,
        from `cursor` back. Return what one answer of the pod has: the lines that pass, in the order
        of the log; the cursor up to which the pod has filtered; and True if that is the end (with
        `backwards`: the start) of the log. `source` is the number of the log, which is put into
        each line. Raises RemoteError if the agent refuses the query, and EndlessAnswer if it does
        not come to an end.
        """
        answer = await self.ask(
            stream, "sift", cursor=cursor, backwards=backwards, limit=SIFTED_LINES, **wanted.query()
        )
        rows: list[Row] = []
        for place, text, size in answer["lines"]:
            generation, offset = split(place)
            line = text.encode("utf-8", "replace")
            if size > WHOLE_BYTES:
                line += f" … {size:,} bytes in all".encode()
            rows.append((source, generation, offset, line))
        if backwards:
            rows.reverse()
        further = answer["next"]
        return rows, further["cursor"] if further else answer["cursor"], further is None

    @overload
    async def ask(self, stream: str, op: Seek, **parameters: Any) -> Sought: ...

    @overload
    async def ask(self, stream: str, op: Literal["where"], **parameters: Any) -> LineNumber: ...

    @overload
    async def ask(self, stream: str, op: Literal["search"], **parameters: Any) -> Found: ...

    @overload
    async def ask(self, stream: str, op: Literal["count"], **parameters: Any) -> Counted: ...

    @overload
    async def ask(self, stream: str, op: Literal["sift"], **parameters: Any) -> Sifted: ...

    async def ask(self, stream: str, op: str, **parameters: Any) -> Any:
        """Send a query about `stream`, a name such as "log/RUN/trainer", to the agent and return
        the answer. `op` is the kind of the query, such as "search", and `parameters` are its
        fields. The query is sent again while the connection is down or the agent is busy. If the
        agent answers only with the next query to send, because it has not found the place yet, that
        one is sent too, and the last answer is returned.

        Raises RemoteError if the agent refuses the query, EndlessAnswer if it answers with a next
        query 1,000 times (ceilings.PAGES), and StandingAnswer if a search would go on where it has
        begun.
        """
        async with self._asking:
            for _ in range(ceilings.PAGES):
                query = functools.partial(self._reader.query, stream, op, **parameters)
                answer = await self._patiently(query)
                further = answer.get("next")
                if not isinstance(further, dict):
                    return answer
                if op in ("search", "count", "sift"):
                    begin = str(parameters.get("cursor", "start"))
                    back = bool(parameters.get("backwards"))
                    _check_advance(stream, op, begin, further["cursor"], backwards=back)
                    return answer
                parameters |= further
        raise EndlessAnswer(stream, op, ceilings.PAGES)

    async def place(self, stream: str, op: Seek, **parameters: Any) -> str:
        """Ask the agent for a place in the log `stream` and return its cursor. `op` says how the
        place is given: with "seek-line", the parameter `line` is a line number; with "seek-time",
        the parameter `t` is Unix time in seconds. Raises RemoteError if the agent refuses the
        query, and EndlessAnswer if it does not come to an end.
        """
        return str((await self.ask(stream, op, **parameters))["cursor"])

    async def read(
        self,
        stream: str,
        cursor: str,
        limit: int,
        wait: float,
        seen: int = 0,
        *,
        ahead: bool = False,
    ) -> Chunk:
        """Return the next chunk of `stream` from `cursor` on, at most `limit` bytes. If nothing has
        been written after `cursor`, wait at most `wait` seconds for new bytes. The read is repeated
        while the connection is down or the agent is busy. `seen` is the number of bytes that the
        caller already has of the unfinished last line; that line is sent again, from its start,
        only if it has grown. `ahead` is for a caller who reads on and on at the chunk's `next`: the
        following chunks are then requested before the caller asks for them. Raises RemoteError if
        the agent refuses the read.
        """
        read = self._reader.read_log
        chunk = await self._patiently(
            functools.partial(read, stream, cursor, limit, wait, seen=seen, ahead=ahead)
        )
        if self.waiting:
            self.waiting = ""
            self._changed()
        return chunk

    async def _patiently(self, call: Callable[[], Awaitable[Answer]]) -> Answer:
        """Return the answer to a call. Repeats it while the link is down or the agent is busy."""
        while True:
            try:
                return await call()
            except LinkError as error:
                await self._wait_for_link(error)
            except RemoteError as error:
                await self._later(error)

    async def _later(self, error: RemoteError) -> None:
        """Pause for BUSY_S seconds if the agent refused a call because too many of this connection
        are under way, and set `crowded`: from then on each reader pauses after a read. Raises every
        other error.
        """
        if error.type != "too-many-calls":
            raise error
        self.crowded = True
        await asyncio.sleep(BUSY_S)

    async def _wait_for_link(self, error: LinkError) -> None:
        """Note the link's error as the reason for waiting, and pause for RETRY_S seconds."""
        if self.waiting != error.message:
            self.waiting = error.message
            self._changed()
        await asyncio.sleep(RETRY_S)


def _check_advance(stream: str, op: str, begin: str, further: str, *, backwards: bool) -> None:
    """Raise StandingAnswer if `further`, at which a search goes on, is not beyond the place `begin`
    at which it was asked to begin, in its direction.
    """
    if backwards:
        advances = begin == "end" or split(further) < split(begin)
    else:
        advances = split(further) > split(begin)
    if not advances:
        raise StandingAnswer(stream, op, further)


def split(cursor: str) -> tuple[int, int]:
    """Return the two numbers of a cursor (GENERATION:OFFSET): the number of the log's file, and the
    byte offset in it. Return (-1, 0) for "start" and "end".
    """
    generation, colon, offset = cursor.partition(":")
    if colon:
        return (int(generation), int(offset))
    return (-1, 0)
