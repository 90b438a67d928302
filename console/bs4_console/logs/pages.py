"""Pages of one pod's log streams: raw lines or those that pass a filter, before or behind a place;
patient with links and busy agents.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from bs4_console.errors import LinkError, RemoteError
from bs4_console.logs.filter import LogFilter
from bs4_console.logs.merge import rows_of
from bs4_console.logs.store import MARK, Row

#: Queries at a time: an agent runs four of one connection, and the session needs one for itself.
QUERIES = 2
#: Pause after the agent said that too many calls are waiting.
BUSY_S = 0.2
#: Pause before asking again over a link that is down; the session itself does the reconnecting.
RETRY_S = 1.0
#: One read.
PAGE_BYTES = 262144
#: Lines may be long: further back than this no page reaches, be it inside a line. Two thousand
#: lines of a log take 0.3 MB.
ROOM_BYTES = 2 * 1024 * 1024
#: Lines that a filter gives in one answer; a frame has room for about 150 of 120 characters.
SIFTED_LINES = 200
#: What the agent gives of one line that passed a filter.
WHOLE_BYTES = 4096


#: Stands before a part of a line whose begin is not held.
INSIDE = b"inside a longer line: it begins further up"


@dataclass(frozen=True)
class Back:
    """A place further back. `cut`: fewer lines than were asked for have room; `within`: it is
    inside a line.
    """

    cursor: str
    cut: bool
    within: bool


class LogReader(Protocol):
    """What a PodSession offers of its logs."""

    async def read_log(
        self, stream: str, cursor: str, limit: int = ..., wait: float = ..., *, seen: int = ...
    ) -> Any: ...

    async def query(self, stream: str, op: str, **parameters: Any) -> dict[str, Any]: ...


class LogPages:
    """`waiting` says why nothing comes (the link is down); empty while all is well. `crowded`: the
    agent has refused a call for others.
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
        """(about `lines` lines before `cursor`, where they begin). Of a line that is longer than
        ROOM_BYTES a part at a time, and what stands before it says so.
        """
        found = await self.back(stream, lines, cursor)
        rows = await self.between(stream, source, found.cursor, cursor)
        return [(MARK, 0, 0, INSIDE), *rows] if found.within and rows else rows, found.cursor

    async def back(self, stream: str, lines: int, cursor: str | None = None) -> Back:
        """Where the last `lines` lines before `cursor` (None: the end) begin, or as many as have
        room.
        """
        place = {} if cursor is None else {"cursor": cursor}
        answer = await self.ask(stream, "seek-line", line=-lines, room=ROOM_BYTES, **place)
        return Back(str(answer["cursor"]), answer.get("cut") is True, answer.get("within") is True)

    async def between(self, stream: str, source: int, begin: str, end: str) -> list[Row]:
        """The lines from one cursor to another, over the ends of files."""
        rows: list[Row] = []
        cursor, stop = begin, split(end)
        held, held_at = b"", begin
        while split(cursor) < stop:
            generation, offset = split(cursor)
            if generation == stop[0]:
                limit = min(PAGE_BYTES, stop[1] - offset)
            else:
                limit = PAGE_BYTES
            chunk = await self.read(stream, cursor, limit, 0.0)
            if chunk.next == cursor or split(chunk.start) >= stop:
                break
            start = split(chunk.start)
            if held and start[0] != split(held_at)[0]:
                rows += rows_of(held, source, held_at)
                held = b""
            # A read that went on into the next file did not know where to stop there.
            if start[0] == stop[0]:
                data = chunk.data[: stop[1] - start[1]]
            else:
                data = chunk.data
            held, held_at = held + data, held_at if held else chunk.start
            cut = held.rfind(b"\n") + 1
            if cut:
                rows += rows_of(held[:cut], source, held_at)
                held, held_at = held[cut:], f"{split(held_at)[0]}:{split(held_at)[1] + cut}"
            cursor = chunk.next
        return rows + rows_of(held, source, held_at)

    async def after(self, stream: str, source: int, cursor: str) -> tuple[list[Row], str, bool]:
        """(about a page of whole lines from `cursor` on, where they end, whether there is no
        more).
        """
        chunk = await self.read(stream, cursor, PAGE_BYTES, 0.0)
        if not chunk.data:
            return [], chunk.next, not chunk.more
        if chunk.partial and chunk.next == chunk.start:
            return [], chunk.start, True
        return rows_of(chunk.data, source, chunk.start), chunk.next, not chunk.more

    async def sift(
        self, stream: str, source: int, cursor: str, wanted: LogFilter, *, backwards: bool
    ) -> tuple[list[Row], str, bool]:
        """One answer of the pod's filter: (lines in the order of the log, how far it came, whether
        that is the end).
        """
        answer = await self.ask(
            stream, "sift", cursor=cursor, backwards=backwards, limit=SIFTED_LINES, **wanted.query()
        )
        rows: list[Row] = []
        for place, text, size in answer["lines"]:
            generation, offset = split(str(place))
            line = str(text).encode("utf-8", "replace")
            rows.append(
                (
                    source,
                    generation,
                    offset,
                    line + f" … {size:,} bytes in all".encode() if size > WHOLE_BYTES else line,
                )
            )
        return rows[::-1] if backwards else rows, str(answer["cursor"]), answer["next"] is None

    async def ask(self, stream: str, op: str, **parameters: Any) -> dict[str, Any]:
        """A query's answer, asked on until the agent has it."""
        async with self._asking:
            while True:
                try:
                    answer = await self._reader.query(stream, op, **parameters)
                except LinkError as error:
                    await self._wait_for_link(error)
                    continue
                except RemoteError as error:
                    await self._later(error)
                    continue
                if not isinstance(further := answer.get("next"), dict) or op in (
                    "search",
                    "count",
                    "sift",
                ):
                    return answer
                parameters |= further

    async def read(self, stream: str, cursor: str, limit: int, wait: float, seen: int = 0) -> Any:
        while True:
            try:
                chunk = await self._reader.read_log(stream, cursor, limit, wait, seen=seen)
            except LinkError as error:
                await self._wait_for_link(error)
                continue
            except RemoteError as error:
                await self._later(error)
                continue
            if self.waiting:
                self.waiting = ""
                self._changed()
            return chunk

    async def _later(self, error: RemoteError) -> None:
        """The agent bounds the calls of a connection, and others make some too: a refusal for that
        is a pause, and from then on whoever has read leaves the place to others for a moment. Any
        other refusal is raised.
        """
        if error.type != "too-many-calls":
            raise error
        self.crowded = True
        await asyncio.sleep(BUSY_S)

    async def _wait_for_link(self, error: LinkError) -> None:
        if self.waiting != error.message:
            self.waiting = error.message
            self._changed()
        await asyncio.sleep(RETRY_S)


def split(cursor: str) -> tuple[int, int]:
    """(generation, byte offset); "start" and "end" are no place: (-1, 0)."""
    generation, colon, offset = cursor.partition(":")
    if colon:
        return (int(generation), int(offset))
    return (-1, 0)
