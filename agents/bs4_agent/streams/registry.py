"""Every stream of the pod by name: reads that can wait, queries, and the one thread that polls log
files.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypedDict

from bs4_common.errors import BadRequest, UnknownStream
from bs4_common.streams.cursor import Chunk, Cursor
from bs4_common.streams.logs import LogStream
from bs4_common.streams.query import Queries
from bs4_common.streams.segments import SegmentStream
from bs4_common.streams.whole import WholeFile
from bs4_common.wire import PAYLOAD_LIMIT

#: Seconds that a read waits at most before it returns an empty chunk.
WAIT_LIMIT_S = 30.0
#: Seconds before a waiting read gets an unfinished line that the reader may have already.
REPEAT_S = 1.0
#: Seconds between two polls of a log: while a read waits for it, while none does, and while none
#: does and it has long been quiet. 20 quiet logs with a reader each cost 0.3 % of a core
#: (measured).
WAITED_S, UNWAITED_S, QUIET_S = 0.1, 1.0, 2.0
QUIET_AFTER_S = 60.0
#: The most streams that one answer to `list` describes, about 150 bytes each.
LISTED = 200
#: The most streams that are opened on request at a time, and the seconds that each stays open after
#: its last use.
OPENED, OPENED_S = 16, 600.0


class StreamRow(TypedDict):
    """One stream in the answer to the query `list`: its name, its kind ("log", "records" or
    "file"), the cursors (places in the stream, as text) of its start and its end, and its size in
    bytes.
    """

    name: str
    kind: str
    start: str
    end: str
    bytes: int


if TYPE_CHECKING:
    # Only for the type checker: at run time, each would take 10 KiB of the agent.

    class NextStreams(TypedDict):
        """The arguments with which another `list` continues."""

        after: str

    class StreamsAnswer(TypedDict):
        """The answer to `list`."""

        streams: list[StreamRow]
        next: NextStreams | None


#: A function `ask(op, arguments, stop)` that answers a query about the pod and not about a stream.
Answer = Callable[[str, Mapping[str, Any], threading.Event | None], dict[str, Any]]


class _Entry:
    """A stream, how many reads wait for it, and when it is polled next."""

    def __init__(self, stream: LogStream | SegmentStream | WholeFile) -> None:
        self.stream = stream
        self.queries = Queries(stream)
        self.changed = threading.Condition()
        self.version = 0
        self.waiting = 0
        self.look_at = 0.0
        self.news_at = self.used_at = time.monotonic()
        self.opened = False
        """True if the stream was opened on request. It is not listed then."""

    def notify(self) -> None:
        """Wake the reads that wait for this stream."""
        with self.changed:
            self.version += 1
            self.changed.notify_all()


class Streams:
    """All streams of the pod (logs, records and other files), by name. This object may be used from
    several threads.

    `add` makes a stream readable by its name, and `read` can wait until a stream has something new.
    A thread of this object polls the files of logs.
    """

    def __init__(self) -> None:
        self._entries: dict[str, _Entry] = {}
        self._answers: dict[str, Answer] = {}
        self._openers: dict[str, Callable[[str], LogStream]] = {}
        self._lock = threading.Lock()
        self._hurry = threading.Event()
        self._closing = threading.Event()
        self._poller: threading.Thread | None = None

    def add(self, name: str, stream: LogStream | SegmentStream | WholeFile) -> None:
        """Make the stream readable by the name `name`, and let reads wait for what is new in it.
        Raises BadRequest if a stream with that name was added already.
        """
        entry = _Entry(stream)
        with self._lock:
            if name in self._entries:
                raise BadRequest(f"There is a stream {name} already; remove it first.")
            self._entries[name] = entry
            if isinstance(stream, SegmentStream):
                stream.on_append = entry.notify
            elif isinstance(stream, LogStream):
                self._start_poller()

    def opens(self, prefix: str, opener: Callable[[str], LogStream]) -> None:
        """Register the function `opener` for all names that begin with `prefix`. When somebody
        reads or queries one of these names and there is no stream with it yet, `opener(name)` is
        called. It must return the stream, or raise AgentError if the stream cannot be opened.

        A stream that was opened in this way is closed again ten minutes after its last use.
        """
        self._openers[prefix] = opener

    def answer(self, name: str, ask: Answer) -> None:
        """Register the function `ask` to answer queries that are sent to `name`, although there is
        no stream with that name. It is called with the query's name, its arguments and the event
        that cancels the query, and returns the answer as a dictionary.

        It must not take long or change anything. It must raise AgentError for a wrong query.
        """
        self._answers[name] = ask

    def remove(self, name: str) -> None:
        """Forget the stream with this name. Its files stay on the disk. Calls of `read` that wait
        for it at this moment raise UnknownStream. Do nothing if there is no such stream.
        """
        with self._lock:
            entry = self._entries.pop(name, None)
        if entry is not None:
            if isinstance(entry.stream, SegmentStream):
                entry.stream.on_append = None
            entry.notify()

    def get(self, name: str) -> LogStream | SegmentStream | WholeFile:
        """Return the stream with this name. Raises UnknownStream if there is none."""
        return self._entry(name).stream

    def names(self) -> list[str]:
        """Return the names of all streams, sorted."""
        with self._lock:
            return sorted(self._entries)

    def notify(self, name: str) -> None:
        """Wake the reads that wait for the stream `name`, because something new can be read there
        or because the event `stop` of such a read was set. Do nothing if there is no such stream.
        """
        with self._lock:
            entry = self._entries.get(name)
        if entry is not None:
            entry.notify()

    def read(
        self,
        name: str,
        cursor: str,
        limit: int = PAYLOAD_LIMIT,
        wait: float = 0.0,
        *,
        seen: int = 0,
        stop: threading.Event | None = None,
    ) -> Chunk:
        """Return the chunk of at most `limit` bytes of the stream `name` that begins at `cursor` (a
        place in the stream as text, or "start" or "end"). If there is nothing to read yet, wait for
        it up to `wait` seconds, at most 30; return an empty chunk if there is none by then. Another
        thread can end the wait by setting `stop` and calling `notify`. Raises UnknownStream if
        there is no stream with this name, and BadCursor if the stream has no such place.

        `seen` is how many bytes of the unfinished last line at `cursor` the reader has already.
        That line is then returned again only when it has grown. For a reader that always passes 0,
        the unfinished line is returned again once a second.
        """
        entry = self._entry(name)
        now = began = time.monotonic()
        deadline = began + min(max(wait, 0.0), WAIT_LIMIT_S)
        while True:
            version = entry.version
            chunk = entry.stream.read(cursor, limit)
            if now >= deadline or (stop is not None and stop.is_set()):
                if chunk.repeats and len(chunk.data) == seen:
                    return Chunk(chunk.start, chunk.next)
                return chunk
            if chunk.gap is not None or (
                chunk.data and not chunk.repeats and not self._too_new(entry, chunk)
            ):
                return chunk
            if chunk.repeats and len(chunk.data) != seen and (seen or now - began >= REPEAT_S):
                return chunk
            if not chunk.data:
                cursor = chunk.next
            self._wait(
                entry,
                version,
                min(deadline, began + REPEAT_S) if chunk.repeats and not seen else deadline,
            )
            self._entry(name)
            now = time.monotonic()

    def query(
        self, name: str, op: str, arguments: Mapping[str, Any], stop: threading.Event | None = None
    ) -> dict[str, Any]:
        """Answer the query with the name `op` of the stream `name` and return the answer as a
        dictionary. Queries.run describes the queries and their `arguments`. Another thread can
        cancel the query by setting `stop`. Raises UnknownStream if there is no such stream,
        BadRequest if the query is not known or its arguments are wrong, and BadCursor if the stream
        has no such place.

        The name "*" stands for all streams. Its only query is `list`, with the answer {"streams":
        [{"name", "kind", "start", "end", "bytes"}], "next"}. `next` is None, or the arguments with
        which another query `list` continues.
        """
        if name == "*":
            if op != "list":
                raise BadRequest(f"{op[:40]!r} needs one stream; only list takes '*'.")
            return dict(self._list(arguments.get("after", "")))
        if (ask := self._answers.get(name)) is not None:
            return ask(op, arguments, stop)
        return dict(self._entry(name).queries.run(op, arguments, stop))

    def close(self) -> None:
        """Stop the thread that polls logs, and close all streams. Nothing may be read from them
        afterwards.
        """
        self._closing.set()
        self._hurry.set()
        if self._poller is not None:
            self._poller.join()
        for entry in self._entries.values():
            entry.stream.close()

    def _entry(self, name: str) -> _Entry:
        """Return the entry of a stream, opening the stream if possible. Raises UnknownStream."""
        with self._lock:
            entry = self._entries.get(name)
        if entry is None:
            entry = self._open(name)
        if entry is not None:
            entry.used_at = time.monotonic()
            return entry
        with self._lock:
            import difflib  # half a megabyte for an error message

            near = difflib.get_close_matches(name[:200], self._entries, 1)
        hint = f"did you mean {near[0]}?" if near else "list the streams to see what there is."
        raise UnknownStream(f"There is no stream {name[:200]!r}; {hint}")

    def _open(self, name: str) -> _Entry | None:
        """Open the stream of a name with a known prefix. None if no prefix fits."""
        opener = next(
            (opener for prefix, opener in self._openers.items() if name.startswith(prefix)), None
        )
        if opener is None:
            return None
        entry = _Entry(opener(name))
        entry.opened = True
        with self._lock:
            if (other := self._entries.get(name)) is not None:
                entry.stream.close()
                return other
            self._entries[name] = entry
            self._start_poller()
        self._close_unused()
        return entry

    def _close_unused(self) -> None:
        """Close the opened streams that were not used for ten minutes, and the longest unused of
        too many. A stream for which a read waits is in use.
        """
        now = time.monotonic()
        with self._lock:
            opened = sorted(
                (e.used_at, name) for name, e in self._entries.items() if e.opened and not e.waiting
            )
            total = sum(entry.opened for entry in self._entries.values())
            gone = [
                name
                for i, (used, name) in enumerate(opened)
                if now - used > OPENED_S or i < total - OPENED
            ]
            entries = [self._entries.pop(name) for name in gone]
        for entry in entries:
            entry.stream.close()
            entry.notify()

    def _start_poller(self) -> None:
        """Start the thread that polls logs. The lock must be held."""
        if self._poller is None:
            self._poller = threading.Thread(target=self._poll, name="log-poller", daemon=True)
            self._poller.start()

    def _list(self, after: Any) -> StreamsAnswer:
        """Return the answer to `list`."""
        if not isinstance(after, str):
            raise BadRequest("list takes `after`, the name of a stream.")
        with self._lock:
            names = sorted(
                name for name, entry in self._entries.items() if name > after and not entry.opened
            )
            entries = [(name, self._entries[name]) for name in names[:LISTED]]
        return {
            "streams": [_described(name, entry) for name, entry in entries],
            "next": {"after": names[LISTED - 1]} if len(names) > LISTED else None,
        }

    def _too_new(self, entry: _Entry, chunk: Chunk) -> bool:
        """Return True if all of `chunk` was written after the last poll of its log. A waiting
        reader then gets it with the next poll. Otherwise a reader that asks again at once would be
        answered line by line, thousands of times a second.
        """
        return (
            isinstance(entry.stream, LogStream)
            and not chunk.more
            and Cursor.parse(chunk.start) >= entry.stream.noticed()
        )

    def _wait(self, entry: _Entry, version: int, deadline: float) -> None:
        """Wait until the entry has another version than the one that was read, or until the
        deadline.
        """
        with entry.changed:
            entry.waiting += 1
        try:
            if isinstance(entry.stream, LogStream):
                entry.look_at = min(entry.look_at, _tick(time.monotonic(), WAITED_S))
                self._hurry.set()
            with entry.changed:
                while entry.version == version:
                    left = deadline - time.monotonic()
                    if left <= 0 or not entry.changed.wait(left):
                        return
        finally:
            with entry.changed:
                entry.waiting -= 1

    def _poll(self) -> None:
        """Poll the logs that are due, until `close`."""
        while not self._closing.is_set():
            self._hurry.clear()
            with self._lock:
                entries = [
                    entry for entry in self._entries.values() if isinstance(entry.stream, LogStream)
                ]
            if any(entry.opened for entry in entries):
                self._close_unused()
            now = time.monotonic()
            for entry in entries:
                if now >= entry.look_at:
                    self._look(entry, now)
            pause = (
                min((entry.look_at for entry in entries), default=now + UNWAITED_S)
                - time.monotonic()
            )
            self._hurry.wait(max(pause, 0.0))

    def _look(self, entry: _Entry, now: float) -> None:
        """Poll one log and set the time of its next poll."""
        if isinstance(entry.stream, LogStream) and entry.stream.poll():
            entry.news_at = now
            entry.notify()
        quiet = now - entry.news_at > QUIET_AFTER_S
        entry.look_at = _tick(now, WAITED_S if entry.waiting else QUIET_S if quiet else UNWAITED_S)


def _described(name: str, entry: _Entry) -> StreamRow:
    """Return one stream in the form of `list`."""
    stat = entry.stream.stat()
    return {
        "name": name,
        "kind": stat["kind"],
        "start": stat["start"],
        "end": stat["end"],
        "bytes": stat["bytes"],
    }


def _tick(now: float, every: float) -> float:
    """Return the next whole multiple of `every` seconds. All logs then share the wake-ups of the
    thread, which cost more than the polls.
    """
    return (now // every + 1) * every
