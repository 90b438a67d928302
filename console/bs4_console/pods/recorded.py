"""Open a pod from its mirror as it once was, without a connection. Nothing can be done to it."""

from __future__ import annotations

import asyncio
import functools
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NoReturn

from bs4_common.errors import AgentError, BadCursor, UnknownStream
from bs4_common.streams.cursor import END, START, Chunk, Cursor
from bs4_common.streams.query import Queries
from bs4_common.streams.segments import record_time
from bs4_common.streams.stream import Piece, Stat
from bs4_console.errors import RefusedError, RemoteError
from bs4_console.pods.channel import Channel
from bs4_console.pods.mirror import Mirror
from bs4_console.pods.port import Transport
from bs4_console.pods.recorded_trail import Trail, midnight_of, place_at, span_of, trail_of
from bs4_console.pods.session import PodSession
from bs4_console.pods.state import PodState

#: The state of a recording's link.
RECORDED: Final = "recorded"

_FILE = re.compile(r"([0-9]{1,12})(?:\.0)?\.data")


class MirroredStream:
    """One stream, for example a log, of the data that was saved of a pod on this machine. It has
    the methods of an agent's own stream (bs4_common.streams.stream.Stream), so that the agent's
    code for queries works on it.

    The stream must have been saved whole, with each of its files (generations) in one file. No data
    is ever added.
    """

    def __init__(self, directory: Path, kind: str, trail: Callable[[], Trail] = list) -> None:
        """Open the files of a stream. `kind` is "log" or "records". `trail` returns when each line
        of a log was written.
        """
        found = (
            (match, path)
            for path in directory.iterdir()
            if (match := _FILE.fullmatch(path.name)) and path.is_file()
        )
        self._paths = {int(match[1]): path for match, path in found}
        self._kind, self._trail = kind, trail

    @property
    def timestamp(self) -> Callable[[bytes], float | None] | None:
        """Return a function that takes the line of a record and returns its Unix time in seconds,
        or None if the line has none. Return None in place of the function if the stream is a log.
        """
        if self._kind == "records":
            return record_time
        return None

    def read(self, cursor: str, limit: int) -> Chunk:
        """Return the bytes of the recording from `cursor` on, at most `limit` of them, in whole
        lines if possible. The chunk is empty at the end. Raises BadCursor if the cursor is
        malformed or lies beyond the end of the recording.
        """
        pieces = self.pieces()
        place = self._place(cursor, pieces)
        piece = None
        for p in pieces:
            if p.generation > place.generation or (p.generation, p.size) > (
                place.generation,
                place.offset,
            ):
                piece = p
                break
        if piece is None:
            return Chunk(str(place), str(place))
        if piece.generation == place.generation:
            begin = place
        else:
            begin = Cursor(piece.generation, 0)
        data = self._bytes(piece, begin.offset, limit)
        end = Cursor(piece.generation, begin.offset + len(data))
        return Chunk(
            str(begin),
            str(end),
            data,
            partial=not data.endswith(b"\n"),
            more=end < Cursor(pieces[-1].generation, pieces[-1].size),
        )

    def stat(self) -> Stat:
        """Return a dictionary with the stream's `kind` ("log" or "records"), its first cursor
        `start`, its last cursor `end`, and its size in `bytes`.
        """
        pieces = self.pieces()
        end = Cursor(pieces[-1].generation, pieces[-1].size)
        start, size = Cursor(pieces[0].generation, 0), sum(piece.size for piece in pieces)
        return {"kind": self._kind, "start": str(start), "end": str(end), "bytes": size}

    def pieces(self) -> list[Piece]:
        """Return the files (generations) of the stream in order, each with its size in bytes and a
        function that opens it.
        """
        found = []
        for number, path in sorted(self._paths.items()):
            found.append(
                Piece(
                    number,
                    path.stat().st_size,
                    functools.partial(os.open, path, os.O_RDONLY | os.O_CLOEXEC),
                )
            )
        return found

    def place_at(self, t: float) -> str | None:
        """Return the cursor of the first line that was written at or after `t` (Unix time in
        seconds), or None if all lines are older.
        """
        return place_at(self._trail(), t)

    @property
    def files(self) -> list[tuple[int, Path]]:
        """Return the generation and the path of each file of the stream, oldest first."""
        return sorted(self._paths.items())

    @staticmethod
    def _place(cursor: str, pieces: list[Piece]) -> Cursor:
        if cursor == START:
            return Cursor(pieces[0].generation, 0)
        if cursor == END:
            return Cursor(pieces[-1].generation, pieces[-1].size)
        place = Cursor.parse(cursor)
        if place > Cursor(pieces[-1].generation, pieces[-1].size):
            raise BadCursor(f"{cursor} lies behind what was recorded; read from 'start'.")
        return place

    @staticmethod
    def _bytes(piece: Piece, offset: int, limit: int) -> bytes:
        """Return whole lines of a piece. A part of a line is returned only if the line is longer
        than `limit` or the file ends in it.
        """
        fd = piece.open()
        try:
            data = os.pread(fd, min(limit, piece.size - offset), offset)
        finally:
            os.close(fd)
        whole = data.rfind(b"\n") + 1
        if whole and offset + len(data) < piece.size:
            return data[:whole]
        return data


class RecordedSession(PodSession):
    """A session that shows a recording in place of a pod: it reads what was saved of a pod in a
    directory on this machine, and connects to nothing. The age of each fact is the time since it
    was recorded.
    """

    def __init__(self, name: str, root: Path, why: str) -> None:
        """Open the mirror at `root`. `why` is a sentence that says what is shown and why it is no
        live pod.
        """
        super().__init__(
            PodState(name=name, address=RECORDED, read_only=True),
            _no_transport,
            Mirror(root, write=False),
            "",
            deploy=False,
        )
        self._why = why
        self._home = root / self.mirror.home
        self._streams = {stream: self._open(stream, kind) for stream, kind in _found(self._home)}
        self._trails: dict[str, Trail] = {}
        self._queries = {stream: Queries(opened) for stream, opened in self._streams.items()}

    async def run(self) -> None:
        """Fill the pod's state from the recording and then wait until cancelled."""
        self.replay()
        state = self.state
        state.streams = sorted(self._streams)
        state.link.set(
            RECORDED, self._why, "Connect to a real pod with `bs4-console pods add NAME HOST`."
        )
        state.changed()
        await asyncio.Event().wait()

    async def run_once(self, patience: float = 0.0) -> None:
        """Fill the pod's state from the recording and then wait until cancelled. `patience` is
        ignored, because there is no link.
        """
        await self.run()

    def retry_now(self) -> None:
        """Do nothing, because a recording has no link that could be retried."""

    async def connected(self, timeout: float) -> Channel:
        """Raise RefusedError always, because a recording has no connection to an agent."""
        self._refuse("is no live pod")

    async def synced(self, timeout: float = 30.0) -> None:
        """Fill the state from the recording of the pod, so that the state is complete at once.
        `timeout` is ignored, because nothing is waited for.
        """
        self.replay()

    async def read_log(
        self,
        stream: str,
        cursor: str,
        limit: int = 262144,
        wait: float = 0.0,
        *,
        seen: int = 0,
        ahead: bool = False,
    ) -> Chunk:
        """Return a chunk of at most `limit` bytes of a recorded log, from `cursor` on. At the end
        of the log, first wait `wait` seconds and then return an empty chunk. `seen` and `ahead` are
        ignored. Raises RemoteError if the stream or the cursor is not in the recording.
        """
        opened = self._stream(stream)
        try:
            chunk = await asyncio.to_thread(opened.read, cursor, limit)
        except AgentError as error:
            raise RemoteError(error.type, error.message) from None
        if not chunk.data and wait > 0:
            await asyncio.sleep(wait)
        return chunk

    async def query(self, stream: str, op: str, **parameters: Any) -> dict[str, Any]:
        """Answer a query about the recorded stream `stream` (such as "log/RUN/trainer"), and return
        the result. `op` is stat, seek-line, seek-time, search or list, and `parameters` are its
        fields. Raises RemoteError if the recording lacks the stream or the query is not valid.
        """
        if op == "list":
            return {
                "streams": [
                    {"name": name, **opened.stat()}
                    for name, opened in sorted(self._streams.items())
                ],
                "next": None,
            }
        self._stream(stream)
        try:
            run = self._queries[stream].run
            return dict(await asyncio.to_thread(run, op, parameters))
        except AgentError as error:
            raise RemoteError(error.type, error.message) from None

    async def streams(self) -> list[str]:
        """Return the names of the recorded streams, sorted."""
        return sorted(self._streams)

    async def submit(self, kind: str, **body: Any) -> str:
        """Raise RefusedError always, because an action needs a pod and this is only a recording."""
        self._refuse("is a recording: nothing can be done to it")

    def _refuse(self, what: str) -> NoReturn:
        raise RefusedError(
            f"{self.state.name} {what}.",
            "`bs4-console demo` on Linux has practice pods that can be mended.",
        )

    def _stream(self, name: str) -> MirroredStream:
        if name not in self._streams:
            error = UnknownStream(
                f"There is no stream {name} in this recording; it has "
                f"{', '.join(sorted(self._streams))}."
            )
            raise RemoteError(error.type, error.message)
        return self._streams[name]

    def _open(self, stream: str, kind: str) -> MirroredStream:
        return MirroredStream(self._home / stream, kind, functools.partial(self._trail, stream))

    def _trail(self, stream: str) -> Trail:
        """Return when each line of a log was written. It is computed once, because nothing is ever
        added to a recording. The answer is empty for a stream that is no log of a run.
        """
        if stream in self._trails:
            return self._trails[stream]
        words = stream.split("/")
        if len(words) != 3 or words[0] != "log":
            return []
        run = self.state.runs.get(words[1])
        made: Trail = []
        if run is not None:
            mine = {}
            for name, opened in self._streams.items():
                if name.startswith(f"log/{run.name}/"):
                    mine[name] = opened.files
            made = trail_of(mine[stream], midnight_of(run, mine), span_of(run, self.state.latest))
        self._trails[stream] = made
        return made


def _found(home: Path) -> list[tuple[str, str]]:
    """Return (stream, kind) of every directory that holds data under a name that is read."""
    names = set()
    for path in home.rglob("*.data"):
        if _FILE.fullmatch(path.name) and path.is_file():
            names.add(str(path.parent.relative_to(home)))
    found = []
    for name in sorted(names):
        found.append((name, "log" if name.startswith("log/") else "records"))
    return found


def _no_transport() -> Transport:
    raise RefusedError("A recording has no pod behind it.")
