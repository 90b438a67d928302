"""Questions to one stream: stat, seek-line, seek-time, search. Pure, bounded in time and size, cancellable."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from bs4_agent.errors import BadRequest
from bs4_agent.streams import seek
from bs4_agent.streams.budget import Budget
from bs4_agent.streams.cursor import END, START, Cursor
from bs4_agent.streams.lines import LineIndex
from bs4_agent.streams.stream import Stream

#: Longest search text; a regular expression of this size compiles in milliseconds.
PATTERN_LIMIT = 1000


class Queries:
    """Answers for one stream. Holds its line indexes, so that seeking by line costs a read of what is new only.

    Every answer has `next`: None, or the arguments to ask again with because the time slice (50 ms) or the room ended first.
    """

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._indexes: dict[int, LineIndex] = {}
        self._lock = threading.Lock()

    def run(self, op: str, arguments: Mapping[str, Any], stop: threading.Event | None = None) -> dict[str, Any]:
        """
        * `stat`: see the stream.
        * `seek-line`: `line` (0-based; negative from the end, or from `cursor`) -> `cursor` where it begins, as far as it got.
        * `seek-time`: `t` (wall seconds) -> `cursor` of the first line not before it, its `t`, and whether that is `exact`.
        * `search`: `pattern`, `regex` (bool), `cursor`, `limit` -> `hits` [{"cursor", "text"}], one per line.
        """
        budget = Budget(stop)
        if op == "stat":
            return {**self._stream.stat(), "next": None}
        if op == "seek-line":
            return self._seek_line(arguments, budget)
        if op == "seek-time":
            return self._seek_time(arguments)
        if op == "search":
            return self._search(arguments, budget)
        raise BadRequest(f"{op[:40]!r} is no query; use list, stat, seek-line, seek-time or search.")

    def _seek_line(self, arguments: Mapping[str, Any], budget: Budget) -> dict[str, Any]:
        line = arguments.get("line")
        if type(line) is not int:
            raise BadRequest("seek-line needs `line`, an integer; 0 is the first line, -1 the last.")
        if line < 0:
            end = self._place(arguments.get("cursor", END))
            found = seek.line_from_end(self._stream.pieces(), end, -line, budget)
        else:
            # An index is extended by one query at a time; a second one waits for at most a slice.
            with self._lock:
                found = seek.line_from_start(self._stream.pieces(), self._index, line, budget)
        return {"cursor": str(found.place), "next": found.ask_again}

    def _seek_time(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        t = arguments.get("t")
        if isinstance(t, bool) or not isinstance(t, (int, float)):
            raise BadRequest("seek-time needs `t`, wall seconds since 1970.")
        timestamp = self._stream.timestamp
        found = seek.first_at(self._stream.pieces(), timestamp, float(t)) if timestamp else None
        if found is not None:
            return {"cursor": str(found[0]), "t": found[1], "exact": True, "next": None}
        place = self._stream.place_at(float(t)) or str(self._stream.stat()["end"])
        return {"cursor": place, "t": None, "exact": False, "next": None}

    def _search(self, arguments: Mapping[str, Any], budget: Budget) -> dict[str, Any]:
        from bs4_agent.streams import search

        pattern, limit = arguments.get("pattern"), arguments.get("limit", 100)
        if not isinstance(pattern, str) or not 0 < len(pattern) <= PATTERN_LIMIT:
            raise BadRequest(f"search needs `pattern`, a text of 1 to {PATTERN_LIMIT} characters.")
        if type(limit) is not int or limit < 1:
            raise BadRequest("search needs `limit` to be a positive integer.")
        pieces, limit = self._stream.pieces(), min(limit, search.MAX_HITS)
        start = self._place(arguments.get("cursor", START))
        if arguments.get("regex"):
            hits, place = search.regex(pieces, start, pattern, limit, budget)
        else:
            hits, place = search.literal(pieces, start, pattern.encode("utf-8", "surrogatepass"), limit, budget)
        return {
            "hits": [{"cursor": str(cursor), "text": text} for cursor, text in hits],
            "next": {"cursor": str(place)} if place is not None else None,
        }

    def _place(self, cursor: Any) -> Cursor:
        if not isinstance(cursor, str):
            raise BadRequest("`cursor` is a text; use 'start', 'end' or a cursor that a read gave.")
        if cursor == START:
            return Cursor(0, 0)
        return Cursor.parse(str(self._stream.stat()["end"]) if cursor == END else cursor)

    def _index(self, generation: int) -> LineIndex:
        return self._indexes.setdefault(generation, LineIndex())
